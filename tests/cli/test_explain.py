#!/usr/bin/env python3
"""vramlink explain: which path frames would take, and why not a faster one. On the host, and on the
stand-in driver where VRAMLINK_CUDA_LIBRARY names it."""

import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import unittest

from cli_case import CLI, CliCase, main, pattern

STAND_IN = "simcuda" in os.environ.get("VRAMLINK_CUDA_LIBRARY", "")
WAYS = ["direct", "peer", "copy", "host"]


class ExplainCase(CliCase):
    def explain(self, *arguments, code=0):
        """The object, and its paths by name."""
        finished = self.run_cli("explain", *arguments, "--json")
        self.assert_code(finished, code)
        answer = json.loads(finished.out)
        self.assertEqual(answer["schema"], "vramlink.explain/1")
        return answer, self.paths_of(answer)

    def paths_of(self, channel):
        self.assertEqual([path["name"] for path in channel["paths"]], WAYS)
        for path in channel["paths"]:
            self.assertEqual(set(path), {"name", "state", "reason", "remedy"})
            self.assertIn(path["state"], ("taken", "possible", "refused"))
            self.assertTrue(path["reason"], path)
        return {path["name"]: path for path in channel["paths"]}

    def assert_states(self, paths, *states):
        self.assertEqual([paths[way]["state"] for way in WAYS], list(states))

    def subscribers_ever(self, publisher):
        publisher.send_signal(signal.SIGINT)
        return json.loads(self.finish(publisher).out)["subscribers"]

    def shape(self, pixel_format="GRAY8", size="8x8"):
        return ("--format", pixel_format, "--size", size, "--loop")


@unittest.skipIf(STAND_IN, "of the host")
class HostTest(ExplainCase):
    def test_channel_in_host_memory(self):
        publisher = self.publish_picture("cam0", "GRAY8", 8, 8, pattern(64))
        answer, paths = self.explain("cam0")
        self.assertEqual((answer["channel"], answer["owner_pid"], answer["program"],
                          answer["device"]), ("cam0", publisher.pid, "vramlink", "host"))
        self.assert_states(paths, "refused", "refused", "refused", "taken")
        self.assertIn("host memory", paths["direct"]["reason"])
        self.assertIn("VRAMLINK_CUDA", paths["direct"]["reason"])
        self.assertIn("the same host memory", paths["host"]["reason"])
        self.assertIsNone(paths["host"]["remedy"])
        self.assertIsNone(answer["trial"])
        self.assertEqual(answer["notes"], [])

    def test_lines_for_people(self):
        publisher = self.publish_picture("cam0", "GRAY8", 8, 8, pattern(64))
        finished = self.run_cli("explain", "cam0")
        self.assert_code(finished, 0)
        self.assertEqual(finished.err, "")
        lines = finished.out.decode().splitlines()
        self.assertEqual(lines[0], f"cam0, of process {publisher.pid} (vramlink), on host")
        ways = [line.split()[:2] for line in lines[1:] if not line.startswith("    ")]
        self.assertEqual(ways, [["refused", "direct"], ["refused", "peer"], ["refused", "copy"],
                                ["taken", "host"]])
        self.assertIn("\x1b[", self.run_cli("explain", "cam0", "--color", "always").out.decode())

    def test_looking_is_not_subscribing(self):
        raw = self.write("a.raw", pattern(64))
        publisher = self.start("pub", "cam0", raw, *self.shape(), "--json")
        self.wait_until(lambda: self.run_cli("ls", "--names").out == b"cam0\n", publisher)
        self.explain("cam0")
        self.explain("cam0", "--device", "host")
        self.assertEqual(self.subscribers_ever(publisher), 0)

    def test_trial_takes_one_frame(self):
        raw = self.write("a.raw", pattern(64))
        publisher = self.start("pub", "cam0", raw, *self.shape(), "--json")
        self.wait_until(lambda: self.run_cli("ls", "--names").out == b"cam0\n", publisher)
        answer, paths = self.explain("cam0", "--try")
        self.assert_states(paths, "refused", "refused", "refused", "taken")
        self.assertEqual((answer["trial"]["path"], answer["trial"]["device"]), ("host", "host"))
        self.assertGreater(answer["trial"]["sequence"], 0)
        self.assertIn(f"frame {answer['trial']['sequence']} ", paths["host"]["reason"])
        self.assertEqual(self.subscribers_ever(publisher), 1)

    def test_trial_without_a_frame_ends_in_time(self):
        # It waits for two subscribers, and the trial is one.
        publisher = self.start("pub", "cam0", self.write("a.raw", pattern(64)), *self.shape(),
                               "--wait-subscribers", 2)
        self.wait_until(lambda: self.run_cli("ls", "--names").out == b"cam0\n", publisher)
        answer, paths = self.explain("cam0", "--try", "--timeout", 0.3, code=4)
        self.assertEqual(answer["trial"]["error"], "timed_out")
        self.assertEqual(paths["host"]["state"], "taken")

    def test_unknown_channel(self):
        self.assert_refused(self.run_cli("explain", "cam1"), 3, "not found", self.runtime)
        self.publish_picture("cam0", "GRAY8", 8, 8, pattern(64))
        self.assert_refused(self.run_cli("explain", "cam1"), 3, "did you mean 'cam0'?")
        finished = self.run_cli("explain", "cam1", "--json")
        self.assert_refused(finished, 3)
        answer = json.loads(finished.out)
        self.assertEqual((answer["channel"], answer["error"]), ("cam1", "not_found"))
        self.assert_refused(self.run_cli("explain", "a b"), 2, "a name has")

    def test_dead_publisher(self):
        publisher = self.publish_picture("cam0", "GRAY8", 8, 8, pattern(64))
        publisher.kill()
        publisher.wait()
        self.assert_refused(self.run_cli("explain", "cam0"), 3,
                            f"process {publisher.pid}, which did, has ended")

    def test_stopped_publisher(self):
        publisher = self.publish_picture("cam0", "GRAY8", 8, 8, pattern(64))
        publisher.send_signal(signal.SIGSTOP)
        os.waitpid(publisher.pid, os.WUNTRACED)
        # Whatever the time it may take: it is not asked.
        for what in ("cam0", publisher.pid):
            self.assert_refused(self.run_cli("explain", what, "--timeout", "inf"), 4,
                                f"process {publisher.pid} (vramlink), is stopped",
                                f"kill -CONT {publisher.pid}")
        publisher.send_signal(signal.SIGCONT)
        self.explain("cam0")

    def test_every_channel_of_a_process(self):
        publisher = self.publish_picture("cam0", "GRAY8", 8, 8, pattern(64))
        self.publish_picture("cam1", "GRAY8", 8, 8, pattern(64))
        finished = self.run_cli("explain", publisher.pid, "--json")
        self.assert_code(finished, 0)
        answer = json.loads(finished.out)
        self.assertEqual(answer["pid"], publisher.pid)
        self.assertEqual([each["channel"] for each in answer["channels"]], ["cam0"])
        self.assert_states(self.paths_of(answer["channels"][0]), "refused", "refused", "refused",
                           "taken")
        self.assertIn(b"cam0, of process", self.run_cli("explain", publisher.pid).out)

    def test_process_without_a_channel(self):
        self.assert_refused(self.run_cli("explain", os.getpid()), 3, f"process {os.getpid()} (",
                            f"owns no channel in {self.runtime}", "VRAMLINK_RUNTIME_DIR")
        finished = self.run_cli("explain", 2**31 - 1, "--json")
        self.assert_refused(finished, 3, "there is no such process here")
        self.assertEqual(json.loads(finished.out)["pid"], 2**31 - 1)

    def test_a_name_goes_before_a_number(self):
        self.publish_picture(str(os.getpid()), "GRAY8", 8, 8, pattern(64))
        answer, _ = self.explain(os.getpid())
        self.assertEqual(answer["channel"], str(os.getpid()))

    def test_gpu_is_asked_for_and_there_is_no_driver(self):
        self.publish_picture("cam0", "GRAY8", 8, 8, pattern(64))
        del self.environment["VRAMLINK_CUDA"]
        self.environment["VRAMLINK_CUDA_LIBRARY"] = self.path("libcuda.so.1")
        _, paths = self.explain("cam0", "--gpu", 0, code=5)
        self.assert_states(paths, *["refused"] * 4)
        self.assertIn(self.path("libcuda.so.1"), paths["host"]["reason"])
        _, paths = self.explain("cam0")
        self.assertIn(self.path("libcuda.so.1"), paths["direct"]["reason"])
        self.assertEqual(paths["host"]["state"], "taken")

    def test_no_permission_on_the_runtime_folder(self):
        os.chmod(self.runtime, 0o777)
        self.assert_refused(self.run_cli("explain", "cam0"), 7, self.runtime)

    def in_the_place_of(self, name, answer, uid=None):
        """A listener at the channel's socket, which answers every first message so."""
        path = os.path.join(self.runtime, name + ".sock")
        os.unlink(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(self.close, listener)
        listener.bind(path)
        if uid is not None:
            os.seteuid(uid)
        try:
            listener.listen()
        finally:
            if uid is not None:
                os.seteuid(0)
        threading.Thread(target=self.serve, args=(listener, answer), daemon=True).start()

    @staticmethod
    def close(listener):
        listener.shutdown(socket.SHUT_RDWR)  # ends accept()
        listener.close()

    @staticmethod
    def serve(listener, answer):
        connections = []
        while True:
            try:
                connections.append(listener.accept()[0])
                if answer and connections[-1].recv(4096):
                    connections[-1].send(answer)
            except OSError:
                if listener.fileno() < 0:
                    break
        for each in connections:
            each.close()

    def test_other_wire_version(self):
        self.publish_picture("cam0", "GRAY8", 8, 8, pattern(64))
        self.in_the_place_of("cam0", struct.pack("<IHHII", 0x4d4c4d56, 2, 2, 16, 0))
        answer, paths = self.explain("cam0", code=1)
        self.assertIsNone(answer["device"])
        self.assert_states(paths, *["refused"] * 4)
        self.assertIn("wire version 2, this process 1", paths["host"]["reason"])
        self.assertIn("one version of vramlink", paths["host"]["remedy"])

    def test_publisher_that_says_nothing(self):
        publisher = self.publish_picture("cam0", "GRAY8", 8, 8, pattern(64))
        self.in_the_place_of("cam0", None)
        self.assert_refused(self.run_cli("explain", "cam0", "--timeout", 0.2), 4,
                            f"process {publisher.pid} (vramlink), did not answer within",
                            "--timeout")

    def test_signal_ends_the_wait(self):
        self.publish_picture("cam0", "GRAY8", 8, 8, pattern(64))
        self.in_the_place_of("cam0", None)
        process = self.start("explain", "cam0", "--timeout", "inf")
        self.wait_until(lambda: self.socket_count(process) > 0, process)
        process.send_signal(signal.SIGINT)
        self.assert_code(self.finish(process), 130)

    @staticmethod
    def socket_count(process):
        folder = f"/proc/{process.pid}/fd"
        try:
            links = [os.readlink(os.path.join(folder, name)) for name in os.listdir(folder)]
        except FileNotFoundError:
            return 0
        return sum(link.startswith("socket:") for link in links)

    def test_publisher_of_other_namespaces(self):
        namespaces = self.namespaces("--ipc", "--mount")
        publisher = self.publish_in(namespaces, "cam0")
        answer, paths = self.explain("cam0", "--try")
        self.assert_states(paths, "refused", "refused", "refused", "taken")
        self.assertEqual(answer["trial"]["path"], "host")
        self.assertEqual((answer["owner_pid"], answer["program"]), (1, "vramlink"))
        notes = {note["id"]: note["text"] for note in answer["notes"]}
        self.assertLessEqual({"pid-namespace", "ipc-namespace", "mnt-namespace", "user-namespace"},
                             set(notes))
        self.assertIn("descriptors travel all the same", notes["pid-namespace"])
        self.assertIn("note: ", self.run_cli("explain", "cam0").out.decode())
        # Its pid is the one that it has here.
        pid = re.search(r"it is process (\d+) here", notes["pid-namespace"])[1]
        channel, = json.loads(self.run_cli("explain", pid, "--json").out)["channels"]
        self.assertEqual((channel["channel"], channel["owner_pid"]), ("cam0", 1))
        # The other way round it has none.
        finished = subprocess.run([*namespaces, CLI, "explain", "cam0", "--try", "--json"],
                                  env=self.environment, capture_output=True, check=False)
        self.assertEqual(finished.returncode, 0, finished.stderr)
        notes = {note["id"]: note["text"] for note in json.loads(finished.stdout)["notes"]}
        self.assertIn("it is not visible here", notes["pid-namespace"])

    def test_process_whose_channels_are_elsewhere(self):
        if os.geteuid() != 0:
            self.skipTest("only root can take another uid")
        user = subprocess.Popen(["sleep", "60"], user=12345)
        self.addCleanup(self._end, user)
        self.assert_refused(self.run_cli("explain", user.pid), 3, "(sleep) owns no channel",
                            "it runs as uid 12345, this process as uid 0", "one user")
        away = subprocess.Popen(["unshare", "--mount", "sleep", "60"], stderr=subprocess.DEVNULL)
        self.addCleanup(self._end, away)
        link = f"/proc/{away.pid}/ns/mnt"
        program = pathlib.Path(f"/proc/{away.pid}/comm")
        try:
            self.wait_until(lambda: program.read_text() == "sleep\n" and
                            os.readlink(link) != os.readlink("/proc/self/ns/mnt"), away)
        except AssertionError:
            self.skipTest("no mount namespace can be made here")
        self.assert_refused(self.run_cli("explain", away.pid), 3,
                            "it is in another mount namespace", "mount one folder into both")

    def test_publisher_of_another_user(self):
        if os.geteuid() != 0:
            self.skipTest("only root can take another uid")
        self.publish_picture("cam0", "GRAY8", 8, 8, pattern(64))
        os.chmod(self.folder, 0o755)
        self.in_the_place_of("cam0", None, uid=12345)
        # The lock names the real publisher, whose uid is this one's; who listens is another user.
        finished = self.run_cli("explain", "cam0", "--json", "--timeout", 1)
        self.assert_code(finished, 7)
        paths = self.paths_of(json.loads(finished.out))
        self.assertIn("uid 12345, this process as uid 0", paths["host"]["reason"])
        self.assertEqual(paths["host"]["remedy"], "run both as one user, or share the channel "
                         "with a group of users (--group)")


@unittest.skipUnless(STAND_IN, "needs the stand-in driver")
class StandInTest(ExplainCase):
    def setUp(self):
        super().setUp()
        del self.environment["VRAMLINK_CUDA"]
        self.environment["VRAMLINK_SIMCUDA_DEVICES"] = "2"
        checks = json.loads(self.run_cli("doctor", "--json").out)["checks"]
        self.gpus = [check["subject"] for check in checks if check["id"] == "device"]
        self.assertEqual(len(self.gpus), 2)

    def publish_on(self, gpu):
        raw = self.write("cam0.raw", pattern(64))
        process = self.start("pub", "cam0", raw, *self.shape(), "--gpu", gpu)
        self.wait_until(lambda: self.run_cli("ls", "--names").out == b"cam0\n", process)
        return process

    def test_same_gpu(self):
        self.publish_on(0)
        for arguments in ((), ("--gpu", 0), ("--device", self.gpus[0])):
            answer, paths = self.explain("cam0", *arguments)
            self.assertEqual(answer["device"], self.gpus[0])
            self.assert_states(paths, "taken", "possible", "possible", "refused")
            self.assertEqual(paths["peer"]["remedy"], "--gpu 1")
            self.assertIn("not needed", paths["copy"]["reason"])
            self.assertIn("pub --device host", paths["host"]["remedy"])
        answer, paths = self.explain("cam0", "--try")
        self.assertEqual((answer["trial"]["path"], answer["trial"]["device"]),
                         ("direct", self.gpus[0]))

    def test_another_gpu_by_peer_access(self):
        self.publish_on(0)
        for attempt in ((), ("--try",)):
            answer, paths = self.explain("cam0", "--gpu", 1, *attempt)
            self.assert_states(paths, "possible", "taken", "possible", "refused")
            self.assertEqual(paths["direct"]["remedy"], "leave --device and --gpu out")
        self.assertEqual((answer["trial"]["path"], answer["trial"]["device"]),
                         ("peer", self.gpus[1]))

    def test_no_peer_access(self):
        self.environment["VRAMLINK_SIMCUDA_PEER_ACCESS"] = "0"
        self.publish_on(0)
        _, paths = self.explain("cam0")
        self.assert_states(paths, "taken", "refused", "possible", "refused")
        self.assertIn("the driver offers no peer access", paths["peer"]["reason"])
        for attempt in ((), ("--try",)):
            _, paths = self.explain("cam0", "--gpu", 1, *attempt, code=5)
            self.assert_states(paths, "possible", "refused", "possible", "refused")
            self.assertIn("the driver offers no peer access", paths["peer"]["reason"])
            self.assertIn("--gpu 1 --copy-frames", paths["copy"]["remedy"])
            answer, paths = self.explain("cam0", "--gpu", 1, "--copy-frames", *attempt)
            self.assert_states(paths, "possible", "refused", "taken", "refused")
        self.assertEqual((answer["trial"]["path"], answer["trial"]["device"]),
                         ("copy", self.gpus[1]))

    def test_hidden_gpu(self):
        self.publish_on(1)
        self.environment["CUDA_VISIBLE_DEVICES"] = "0"
        _, paths = self.explain("cam0", code=5)
        self.assert_states(paths, "refused", "possible", "refused", "refused")
        for words in (self.gpus[1], 'CUDA_VISIBLE_DEVICES is "0"'):
            self.assertIn(words, paths["direct"]["reason"])
        self.assertEqual(paths["direct"]["remedy"],
                         f"add {self.gpus[1]} to CUDA_VISIBLE_DEVICES")
        self.assertEqual(paths["peer"]["remedy"], "--gpu 0 --try")
        # Nobody can be asked but the driver, with the channel's own memory.
        _, paths = self.explain("cam0", "--gpu", 0)
        self.assert_states(paths, "refused", "possible", "refused", "refused")
        answer, paths = self.explain("cam0", "--gpu", 0, "--try")
        self.assert_states(paths, "refused", "taken", "refused", "refused")
        self.assertEqual(answer["trial"]["device"], self.gpus[0])
        _, paths = self.explain("cam0", "--try", code=5)
        self.assertIn(self.gpus[1], paths["direct"]["reason"])

    def test_every_gpu_is_hidden(self):
        self.publish_on(0)
        self.environment["CUDA_VISIBLE_DEVICES"] = ""
        _, paths = self.explain("cam0", code=5)
        self.assert_states(paths, *["refused"] * 4)
        self.assertIn(self.gpus[0], paths["direct"]["reason"])
        self.assertIn('CUDA_VISIBLE_DEVICES is ""', paths["peer"]["reason"])

    def test_no_driver_or_an_old_one(self):
        self.publish_on(0)
        library = self.environment.pop("VRAMLINK_CUDA_LIBRARY")
        self.environment["VRAMLINK_CUDA_LIBRARY"] = self.path("libcuda.so.1")
        _, paths = self.explain("cam0", code=5)
        self.assert_states(paths, *["refused"] * 4)
        for way in WAYS[:3]:
            self.assertIn(self.path("libcuda.so.1"), paths[way]["reason"])
        self.environment["VRAMLINK_CUDA_LIBRARY"] = library
        self.environment["VRAMLINK_SIMCUDA_DRIVER_VERSION"] = "11080"
        _, paths = self.explain("cam0", code=5)
        self.assertIn("11.8", paths["direct"]["reason"])
        self.assertIn("525", paths["direct"]["remedy"])

    def test_host_is_asked_for(self):
        self.publish_on(0)
        for attempt in ((), ("--try",)):
            _, paths = self.explain("cam0", "--device", "host", *attempt, code=5)
            self.assert_states(paths, "possible", "possible", "possible", "refused")
            self.assertIn("cannot map", paths["host"]["reason"])

    def test_gpu_for_a_channel_of_the_host(self):
        self.publish_picture("cam1", "GRAY8", 8, 8, pattern(64))
        _, paths = self.explain("cam1")
        self.assert_states(paths, "refused", "refused", "refused", "taken")
        self.assertIn("pub --gpu", paths["direct"]["remedy"])
        for attempt in ((), ("--try",)):
            _, paths = self.explain("cam1", "--gpu", 0, *attempt, code=5)
            self.assert_states(paths, *["refused"] * 4)
            self.assertIn("cannot map", paths["host"]["reason"])
        self.assert_states(self.explain("cam1", "--gpu", 9, code=5)[1], *["refused"] * 4)


if __name__ == "__main__":
    if not os.access(CLI, os.X_OK) and STAND_IN:
        sys.exit(f"there is no {CLI}")
    main()
