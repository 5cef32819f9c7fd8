#!/usr/bin/env python3
"""--group: one user publishes, another one reads."""

import json
import os
import stat
import subprocess

from cli_case import CLI, CliCase, main

# Numbers need no names.
GROUP = 54300
OWNER = {"user": 54301, "group": 54301, "extra_groups": [GROUP]}
MEMBER = {"user": 54302, "group": 54302, "extra_groups": [GROUP, 54310]}
STRANGER = {"user": 54303, "group": 54303, "extra_groups": [54310]}


class GroupTest(CliCase):
    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest("only root can become another user")
        probe = subprocess.run([CLI, "version"], capture_output=True, check=False, **MEMBER) \
            if self.can_reach(CLI) else None
        if probe is None or probe.returncode != 0:
            self.skipTest("other users cannot run what was built here")
        os.chmod(self.folder, 0o777)
        os.rmdir(self.runtime)

    @staticmethod
    def can_reach(path):
        return subprocess.run(["test", "-x", path], check=False, **MEMBER).returncode == 0

    def publish(self, *arguments, **user):
        """A moving picture, once it can be seen by a member."""
        publisher = self.start("pub", "cam0", "--test-card", "--size", "64x64", *arguments, **user)
        self.wait_until(lambda: self.run_cli("ls", "--names", "--group", GROUP, **MEMBER).out ==
                        b"cam0\n", publisher)
        return publisher

    def test_members_read_and_look(self):
        publisher = self.publish("--group", GROUP, **OWNER)
        folder = os.stat(self.runtime)
        self.assertEqual(stat.S_IMODE(folder.st_mode), 0o2750)
        self.assertEqual((folder.st_uid, folder.st_gid), (OWNER["user"], GROUP))
        self.environment["VRAMLINK_GROUP"] = str(GROUP)  # says the same
        received = json.loads(self.run_cli("sub", "cam0", "--count", 3, "--json", **MEMBER).out)
        self.assertEqual(received["received"], 3)
        self.assert_code(self.run_cli("grab", "cam0", "-o", "frame.png", **MEMBER), 0)
        self.assertTrue(self.read("frame.png").startswith(b"\x89PNG"))
        channel, = json.loads(self.run_cli("ls", "--json", **MEMBER).out)["channels"]
        self.assertEqual((channel["owner_pid"], channel["responsive"]), (publisher.pid, True))
        finished = self.run_cli("explain", "cam0", "--try", "--json", **MEMBER)
        self.assert_code(finished, 0)
        self.assertEqual(json.loads(finished.out)["trial"]["path"], "host")

    def test_everybody_else_is_told_why_not(self):
        self.publish("--group", GROUP, **OWNER)
        for arguments in (["sub", "cam0"], ["ls"], ["grab", "cam0", "-o", "x.png"],
                          ["explain", "cam0"], ["pub", "cam1", "--test-card"]):
            with self.subTest(arguments=arguments):
                self.assert_refused(self.run_cli(*arguments, "--group", GROUP, **STRANGER), 7,
                                    "is not in group 54300", "usermod")
                self.assert_refused(self.run_cli(*arguments, **MEMBER), 7, "belongs to uid 54301")
        self.assert_refused(
            self.run_cli("pub", "cam1", "--test-card", "--group", GROUP, **MEMBER), 7,
            "only the owner publishes")

    def test_subscriber_that_is_there_first(self):
        subscriber = self.start("sub", "cam0", "--count", 1, "--group", GROUP, **MEMBER)
        self.start("pub", "cam0", "--test-card", "--size", "64x64", "--wait-subscribers", 1,
                   "--group", GROUP, **OWNER)
        self.assert_code(self.finish(subscriber), 0)
        self.assertEqual(os.stat(self.runtime).st_uid, OWNER["user"])

    def test_demo(self):
        finished = self.run_cli("demo", "--host", "--seconds", 1, "--size", "64x64", "--json",
                                "--group", GROUP)
        self.assert_code(finished, 0)
        self.assertEqual(json.loads(finished.out)["torn"], 0)
        self.assertEqual(os.stat(self.runtime).st_gid, GROUP)

    def doctor(self, user, code=0):
        finished = self.run_cli("doctor", "--json", "--group", GROUP, **user)
        self.assert_code(finished, code)
        checks = json.loads(finished.out)["checks"]
        return {check["id"]: check for check in checks if check["subject"] == "host"}

    def test_doctor(self):
        checks = self.doctor(OWNER)
        self.assertIn("made by its first publisher", checks["directory"]["text"])
        self.assertEqual(checks["round-trip"]["verdict"], "pass")
        self.assertIn("mode 2750", self.doctor(OWNER)["directory"]["text"])
        # Who only reads there sends frames in a folder of its own.
        session = self.path("session")
        os.mkdir(session, 0o700)
        os.chown(session, MEMBER["user"], MEMBER["group"])
        self.environment["XDG_RUNTIME_DIR"] = session
        checks = self.doctor(MEMBER)
        self.assertIn("its owner alone publishes", checks["directory"]["text"])
        self.assertEqual(checks["round-trip"]["verdict"], "pass")
        self.assertEqual(os.listdir(session), ["vramlink"])
        os.chmod(self.runtime, 0o755)
        checks = self.doctor(MEMBER, 1)
        self.assertEqual(checks["directory"]["verdict"], "fail")
        self.assertIn("chmod 2750", checks["directory"]["remedy"])


if __name__ == "__main__":
    main()
