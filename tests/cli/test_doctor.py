#!/usr/bin/env python3
"""vramlink doctor: what it looks at, what it says, how it ends."""

import json
import os
import re
import signal
import time

from cli_case import WATCHDOG_SECONDS, CliCase, main

HOST_CHECKS = ["kernel", "memory", "processes", "pidfd", "futex", "files", "locked", "directory",
               "channels", "round-trip"]


class DoctorTest(CliCase):
    def checks(self, finished):
        """The object, and its checks of the host by id."""
        answer = json.loads(finished.out)
        self.assertEqual(answer["schema"], "vramlink.doctor/1")
        for check in answer["checks"]:
            # Each verdict but a pass says what to do, or why nothing was done.
            self.assertTrue(check["text"], check)
            if check["verdict"] in ("warn", "fail"):
                self.assertTrue(check["remedy"], check)
        host = {check["id"]: check for check in answer["checks"] if check["subject"] == "host"}
        return answer, host

    def examine(self, *arguments, code=0):
        finished = self.run_cli("doctor", "--json", *arguments)
        self.assert_code(finished, code)
        return self.checks(finished)

    def test_good_machine(self):
        answer, host = self.examine()
        self.assertEqual(list(host), HOST_CHECKS)
        self.assertEqual(answer["failed"], 0)
        self.assertEqual(answer["ready"], {"host": True, "gpus": 0, "gpus_seen": 0})
        self.assertEqual(answer["checks"][-1]["verdict"], "skip")
        self.assertIn("VRAMLINK_RUNTIME_DIR", host["directory"]["text"])
        self.assertEqual(host["round-trip"]["verdict"], "pass")
        self.assertRegex(host["round-trip"]["text"], r"^200 frames .*p50 \d")

    def test_lines_for_people(self):
        finished = self.run_cli("doctor")
        self.assert_code(finished, 0)
        self.assertEqual(finished.err, "")
        lines = finished.out.decode().splitlines()
        found = [re.match(r"  (PASS|WARN|FAIL|SKIP)  (\S+) +\S", line) for line in lines]
        self.assertEqual([match[2] for match in found if match][:len(HOST_CHECKS)], HOST_CHECKS)
        self.assertEqual(len({match.end() for match in found if match}), 1, "they are not aligned")
        self.assertTrue(lines[-1].startswith("ready: host yes, GPU no"), lines[-1])

    def test_folder_that_others_can_write_to(self):
        os.chmod(self.runtime, 0o777)
        answer, host = self.examine(code=1)
        self.assertEqual(host["directory"]["verdict"], "fail")
        self.assertEqual(host["directory"]["remedy"], "chmod 700 " + self.runtime)
        self.assertEqual(host["round-trip"]["verdict"], "skip")
        self.assertIs(answer["ready"]["host"], False)
        # The remedy is a command, and it helps.
        self.assertEqual(os.system(host["directory"]["remedy"]), 0)
        self.examine()

    def test_folder_that_is_a_file(self):
        self.environment["VRAMLINK_RUNTIME_DIR"] = self.write("file", b"")
        _, host = self.examine(code=1)
        self.assertIn("not a directory", host["directory"]["text"])
        self.assertIn("export VRAMLINK_RUNTIME_DIR=", host["directory"]["remedy"])

    def test_rule_that_chose_the_folder(self):
        del self.environment["VRAMLINK_RUNTIME_DIR"]
        self.environment["XDG_RUNTIME_DIR"] = self.folder
        _, host = self.examine()
        self.assertIn(self.path("vramlink") + ", made with mode 0700", host["directory"]["text"])
        self.assertIn("by XDG_RUNTIME_DIR", host["directory"]["text"])

    def test_few_descriptors_are_a_warning(self):
        finished = self.run_under('ulimit -Sn 100; "$@"', "doctor", "--json")
        self.assert_code(finished, 0)
        answer, host = self.checks(finished)
        self.assertEqual(host["files"]["verdict"], "warn")
        self.assertGreaterEqual(answer["warned"], 1)
        self.assertIn("ulimit -n ", host["files"]["remedy"])

    def test_a_warning_fails_when_asked_to(self):
        few = 'ulimit -Sn 100; "$@"'
        finished = self.run_under(few, "doctor", "--strict", "--json")
        self.assert_code(finished, 1)
        self.assertEqual(self.checks(finished)[0]["failed"], 0)
        self.assert_code(self.run_under(few, "doctor", "--strict"), 1)
        answer, _ = self.checks(self.run_cli("doctor", "--strict", "--json"))
        # Skips do not count, and this machine may have something to warn of.
        self.assert_code(self.run_cli("doctor", "--strict"), 1 if answer["warned"] else 0)

    def test_owner_that_does_not_answer(self):
        publisher = self.publish_picture("cam0", "GRAY8", 8, 8, bytes(64))
        publisher.send_signal(signal.SIGSTOP)
        try:
            _, host = self.examine()
        finally:
            publisher.send_signal(signal.SIGCONT)
        self.assertEqual(host["channels"]["verdict"], "warn")
        self.assertIn(f"'cam0' (pid {publisher.pid})", host["channels"]["text"])

    def test_interrupt(self):
        process = self.start("doctor")
        end = time.monotonic() + WATCHDOG_SECONDS
        while not any(name.startswith("doctor-") for name in os.listdir(self.runtime)):
            self.assertLess(time.monotonic(), end, "the round trip did not begin")
            self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(process), 130)

    def test_closed_pipe(self):
        finished = self.run_under('"$@" | true; exit ${PIPESTATUS[0]}', "doctor")
        self.assert_code(finished, 141)
        self.assertEqual(finished.err, "")


if __name__ == "__main__":
    main()
