#!/usr/bin/env python3
"""Names, ends, signals and full disks: what happens around the frames."""

import json
import os
import re
import signal
import subprocess

from cli_case import CLI, CliCase, interrupt, main, pattern, read_png, y4m


class NamesTest(CliCase):
    def test_unknown_channel(self):
        self.assert_refused(self.run_cli("sub", "cam1", "--timeout", 0), 3, "not found",
                            self.runtime)
        self.publish_picture("cam0", "GRAY8", 8, 8, pattern(64))
        finished = self.run_cli("grab", "cam1", "-o", self.path("a.png"), "--timeout", 0.1)
        self.assert_refused(finished, 3, "did you mean 'cam0'?")
        self.assertFalse(os.path.exists(self.path("a.png")))

    def test_second_publisher(self):
        first = self.publish_picture("cam0", "GRAY8", 8, 8, pattern(64))
        finished = self.run_cli("pub", "cam0", "--test-card")
        self.assert_refused(finished, 1, "already exists", str(first.pid))

    def test_no_permission_on_the_runtime_folder(self):
        os.chmod(self.runtime, 0o777)
        for command in (["ls"], ["sub", "a"], ["pub", "a", "--test-card"]):
            self.assert_refused(self.run_cli(*command), 7, self.runtime)
        finished = self.run_cli("demo", "--seconds", 1)
        self.assert_code(finished, 7)
        self.assertIn(". Try: ", finished.err)

    def test_a_runtime_folder_that_cannot_be_written_to(self):
        if os.geteuid() == 0:
            self.skipTest("root may write everywhere")
        os.chmod(self.runtime, 0o500)
        self.assert_refused(self.run_cli("pub", "a", "--test-card"), 7,
                            os.path.join(self.runtime, "a.lock"), "VRAMLINK_RUNTIME_DIR")

    def test_ls(self):
        finished = self.run_cli("ls")
        self.assert_refused(finished, 0, "no channel in", self.runtime)
        self.assertEqual(finished.out, b"")
        self.assertEqual(self.run_cli("ls", "--names").out, b"")
        self.assertEqual(json.loads(self.run_cli("ls", "--json").out),
                         {"schema": "vramlink.ls/1", "directory": self.runtime, "channels": []})
        processes = {name: self.publish_picture(name, "BGRA", 8, 4, pattern(128))
                     for name in ("cam0", "cam1")}
        self.assertEqual(self.run_cli("ls", "--names").out, b"cam0\ncam1\n")
        lines = self.run_cli("ls").out.decode().splitlines()
        self.assertEqual(lines[0].split(), ["NAME", "PID", "PROGRAM", "DEVICE", "FORMAT", "FPS",
                                            "SUBSCRIBERS"])
        self.assertEqual(lines[1].split()[:6], ["cam0", str(processes["cam0"].pid), "vramlink",
                                                "host", "BGRA", "8x4"])
        listed = json.loads(self.run_cli("ls", "--json").out)["channels"]
        self.assertEqual([each["name"] for each in listed], ["cam0", "cam1"])
        self.assertEqual(listed[1]["owner_pid"], processes["cam1"].pid)
        self.assertEqual((listed[0]["pixel_format"], listed[0]["width"], listed[0]["slots"],
                          listed[0]["device"], listed[0]["shape"]), ("BGRA", 8, 4, "host", [4, 8, 4]))

    def test_no_descriptors_are_not_no_channels(self):
        self.publish_picture("cam0", "GRAY8", 8, 8, pattern(64))
        for limit in range(4, 16):
            finished = self.run_under(f'ulimit -n {limit}; exec "$@"', "ls")
            if finished.code == 0:
                self.assertIn(b"cam0", finished.out)
            else:
                self.assert_refused(finished, 1, "Too many open files")

    def test_stopped_publishers_are_asked_side_by_side(self):
        names = [f"cam{number}" for number in range(8)]
        for name in names:
            self.publish_picture(name, "GRAY8", 8, 8, pattern(64)).send_signal(signal.SIGSTOP)
        # Every question is a connection; one after another there is never more than one.
        self.wait_until(lambda: self.connections_of_ls() == len(names))
        channels = json.loads(self.run_cli("ls", "--json").out)["channels"]
        self.assertEqual([each["name"] for each in channels], names)
        self.assertFalse(any(each["responsive"] for each in channels))

    def connections_of_ls(self):
        """The most that one run of it has at a time, as far as can be seen from outside."""
        process = self.start("ls", "--json")
        most = 0
        while process.poll() is None:
            try:
                folder = f"/proc/{process.pid}/fd"
                links = [os.readlink(os.path.join(folder, name)) for name in os.listdir(folder)]
            except FileNotFoundError:
                continue  # one was closed meanwhile
            most = max(most, sum(link.startswith("socket:") for link in links))
        self.finish(process)
        return most

    def test_publisher_of_another_pid_namespace(self):
        publisher = self.publish_in(self.namespaces(), "cam0")
        channel, = json.loads(self.run_cli("ls", "--json").out)["channels"]
        self.assertEqual((channel["owner_pid"], channel["program"]), (1, ""))
        publisher.kill()
        # Nothing but the lock tells that it is dead.
        self.wait_until(lambda: self.run_cli("ls", "--names").out == b"")
        self.assertTrue(os.path.exists(os.path.join(self.runtime, "cam0.lock")))
        self.assert_refused(self.run_cli("ls"), 0, "no channel in")

    def test_colour(self):
        self.publish_picture("cam0", "GRAY8", 8, 8, pattern(64))
        self.assertNotIn(b"\x1b", self.run_cli("ls").out)
        self.assertIn(b"\x1b", self.run_cli("ls", "--color", "always").out)
        self.environment["CLICOLOR_FORCE"] = "1"
        self.assertIn(b"\x1b", self.run_cli("ls").out)
        self.assertNotIn(b"\x1b", self.run_cli("ls", "--color", "never").out)
        self.environment["NO_COLOR"] = "1"
        self.assertNotIn(b"\x1b", self.run_cli("ls").out)


class GrabTest(CliCase):
    def grab(self, pixel_format, width, height, frame):
        self.publish_picture("cam0", pixel_format, width, height, frame)
        finished = self.run_cli("grab", "cam0", "-o", self.path("a.png"))
        self.assert_code(finished, 0)
        return read_png(self.read("a.png"))

    def test_rgb(self):
        frame = pattern(7 * 5 * 3)
        self.assertEqual(self.grab("RGB", 7, 5, frame), (7, 5, 3, frame))

    def test_bgra(self):
        frame = pattern(6 * 4 * 4)
        swapped = bytearray(frame)
        swapped[0::4], swapped[2::4] = frame[2::4], frame[0::4]
        self.assertEqual(self.grab("BGRA", 6, 4, frame), (6, 4, 4, bytes(swapped)))

    def test_gray(self):
        frame = pattern(12)
        expected = b"".join(bytes([value] * 3) for value in frame)
        self.assertEqual(self.grab("GRAY8", 4, 3, frame), (4, 3, 3, expected))

    def test_yuv(self):
        # Red, green: BT.601, limited range, because the picture is small.
        frame = bytes([81, 81, 145, 145] + [90, 54] + [240, 34])
        width, height, step, pixels = self.grab("I420", 4, 1, frame)
        self.assertEqual((width, height, step), (4, 1, 3))
        for actual, expected in zip(pixels, [255, 0, 0] * 2 + [0, 255, 0] * 2):
            self.assertAlmostEqual(actual, expected, delta=2)

    def test_npy_and_pipes(self):
        frame = pattern(6 * 4 * 3)
        self.publish_picture("cam0", "RGB", 6, 4, frame)
        self.assert_code(self.run_cli("grab", "cam0", "-o", self.path("a.npy")), 0)
        content = self.read("a.npy")
        self.assertIn(b"'shape': (4, 6, 3)", content)
        self.assertEqual(content[-len(frame):], frame)
        self.assertEqual(read_png(self.run_cli("grab", "cam0", "-o", "-").out)[3], frame)

    def test_the_test_card_shows_its_number(self):
        self.start("pub", "card", "--test-card", "--size", "320x180")
        self.assert_code(self.run_cli("grab", "card", "-o", self.path("a.png")), 0)
        width, height, step, pixels = read_png(self.read("a.png"))
        self.assertEqual((width, height, step), (320, 180, 4))
        self.assertGreater(int.from_bytes(pixels[:8], "little"), 0)
        self.assertLess(int.from_bytes(pixels[:8], "little"), 100000)
        self.assertGreater(pixels[320 * 4 * 140:].count(b"\xff\xff\xff\xff"), 100)

    def test_a_channel_without_frames_times_out(self):
        publisher = self.start("pub", "cam0", "--test-card", "--wait-subscribers", 9)
        self.wait_until(lambda: self.run_cli("ls", "--names").out == b"cam0\n", publisher)
        # Until then it has attached.
        finished = self.run_cli("grab", "cam0", "-o", self.path("a.png"), "--timeout", 3)
        self.assert_refused(finished, 4, "no frame was published within 3.0 s", "--timeout")
        self.assertFalse(os.path.exists(self.path("a.png")))


class EndTest(CliCase):
    def test_interrupted_publisher(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            publisher = self.publish_picture("cam0", "GRAY8", 8, 8, pattern(64))
            subscriber = self.start("sub", "cam0", "--json")
            self.wait_until_subscribed("cam0", subscriber)
            publisher.send_signal(number)
            self.assert_code(self.finish(publisher), code)
            finished = self.finish(subscriber)
            self.assert_code(finished, 0)
            self.assertEqual(json.loads(finished.out)["end"], "end of stream")
        self.assertEqual(os.listdir(self.runtime), [])

    def wait_until_subscribed(self, name, *processes):
        pids = {process.pid for process in processes}
        def subscribed():
            channels = json.loads(self.run_cli("ls", "--json").out)["channels"]
            listed = [each for channel in channels if channel["name"] == name
                      for each in channel.get("subscriber_list", [])]
            for each in listed:
                self.assertEqual(set(each), {"pid", "queue_depth", "held", "lag", "blocked_claims",
                                             "received", "skipped", "lost", "evicted"})
            return any(each["pid"] in pids for each in listed)
        self.wait_until(subscribed, *processes)

    def test_interrupted_while_waiting(self):
        waiting = [["sub", "none"], ["grab", "none", "-o", self.path("a.png")],
                   ["pub", "a", "--test-card", "--wait-subscribers", 1]]
        for arguments in waiting:
            process = self.start(*arguments)
            self.wait_for_signal_thread(process)
            interrupt(process)
            self.assert_code(self.finish(process), 130)
        publisher = self.start("pub", "b", "-", "--format", "RGB", "--size", "4x4",
                               stdin=subprocess.PIPE)
        self.wait_for_signal_thread(publisher)
        interrupt(publisher)
        self.assertEqual(publisher.wait(60), 130)

    def test_interrupted_before_anybody_reads_the_output(self):
        self.publish_picture("cam0", "GRAY8", 8, 8, pattern(64))
        os.mkfifo(self.path("fifo.npy"))
        for arguments in (["sub", "cam0", "--raw"], ["grab", "cam0", "-o"]):
            process = self.start(*arguments, self.path("fifo.npy"))
            self.wait_until_subscribed("cam0", process)
            interrupt(process)
            finished = self.finish(process)
            self.assert_code(finished, 130)
            self.assertEqual(finished.err, "")

    def test_no_descriptors_for_signals(self):
        # The leak check and the line counts of a build with a sanitizer need descriptors.
        self.environment["ASAN_OPTIONS"] = "detect_leaks=0"
        finished = self.run_under('ulimit -n 4; exec "$@"', "sub", "none", "--timeout", 0)
        finished.err = re.sub("^profiling:.*\n", "", finished.err, flags=re.MULTILINE)
        self.assert_refused(finished, 1, "Too many open files")

    def wait_for_signal_thread(self, process):
        """Until SIGINT is blocked in the process, which it is before it waits for anything."""
        def blocked():
            with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
                lines = dict(line.split(":", 1) for line in status if ":" in line)
            return int(lines.get("SigBlk", "0"), 16) & 1 << (signal.SIGINT - 1)
        self.wait_until(blocked, process)

    def test_interrupted_subscriber_completes_its_file(self):
        self.publish_picture("cam0", "GRAY8", 8, 8, pattern(64))
        subscriber = self.start("sub", "cam0", "--npy", self.path("a.npy"))
        self.wait_until(lambda: os.path.exists(self.path("a.npy")) and len(self.read("a.npy")) > 500,
                        subscriber)
        interrupt(subscriber)
        self.assert_code(self.finish(subscriber), 130)
        content = self.read("a.npy")
        frames = (len(content) - 128) // 64
        self.assertEqual((len(content) - 128) % 64, 0)
        self.assertIn(f"'shape': ({frames}, 8, 8, 1)".encode(), content)

    def test_killed_publisher_leaves_whole_files(self):
        publisher = self.publish_picture("cam0", "GRAY8", 8, 8, pattern(64))
        subscriber = self.start("sub", "cam0", "--npy", self.path("a.npy"))
        self.wait_until(lambda: os.path.exists(self.path("a.npy")) and len(self.read("a.npy")) > 500,
                        subscriber)
        publisher.kill()
        self.assert_code(self.finish(subscriber), 6)
        content = self.read("a.npy")
        frames = (len(content) - 128) // 64
        self.assertIn(f"'shape': ({frames}, 8, 8, 1)".encode(), content)

    def test_killed_publisher(self):
        publisher = self.publish_picture("cam0", "GRAY8", 8, 8, pattern(64))
        subscriber = self.start("sub", "cam0")
        self.wait_until_subscribed("cam0", subscriber)
        publisher.kill()
        finished = self.finish(subscriber)
        self.assert_code(finished, 6)
        self.assertIn("--keep", finished.err)

    def test_keep_waits_for_the_next_publisher(self):
        frame = pattern(64)
        first = self.publish_picture("cam0", "GRAY8", 8, 8, frame)
        subscriber = self.start("sub", "cam0", "--keep", "--raw", self.path("out"))
        self.wait_until_subscribed("cam0", subscriber)
        first.kill()
        self.finish(first)
        raw = self.write("in.raw", frame)
        second = self.start("pub", "cam0", raw, "--format", "GRAY8", "--size", "8x8",
                            "--wait-subscribers", 1)
        self.assert_code(self.finish(second), 0)
        third = self.start("pub", "cam0", raw, "--format", "GRAY8", "--size", "4x16",
                           "--wait-subscribers", 1)
        self.finish(third)
        finished = self.finish(subscriber)
        self.assert_code(finished, 1)
        self.assertIn("the format changed from GRAY8 8x8 to GRAY8 4x16", finished.err)
        self.assertEqual(self.read("out").replace(frame, b""), b"")

    def test_too_few_subscribers(self):
        finished = self.run_cli("pub", "a", "--test-card", "--wait-subscribers", 2, "--timeout", 0.1)
        self.assert_refused(finished, 4, "vramlink sub a")

    def test_a_smaller_queue_is_said(self):
        path = self.write("in.y4m", y4m(16, 8, 3))
        subscriber = self.start("sub", "a", "--policy", "queue:6", "--raw", self.path("out"))
        publisher = self.start("pub", "a", path, "--slots", 4, "--wait-subscribers", 1, "--policy",
                               "block")
        self.assert_code(self.finish(publisher), 0)
        finished = self.finish(subscriber)
        self.assert_code(finished, 0)
        self.assertIn("queue:6 is granted 3", finished.err)

    def test_who_is_too_slow_makes_a_publisher_drop(self):
        # Nobody reads the pipe, so the subscriber holds its frame while it writes it.
        frame = self.write("in.raw", pattern(512 * 512))
        subscriber = self.start("sub", "a", "--raw", "-")
        publisher = self.start("pub", "a", frame, "--format", "GRAY8", "--size", "512x512", "--loop",
                               "--fps", 200, "--slots", 2, "--policy", "drop",
                               "--wait-subscribers", 1, "--json")
        def stood_in_the_way():
            channels = json.loads(self.run_cli("ls", "--json").out)["channels"]
            return any(each["blocked_claims"] > 0 for channel in channels
                       for each in channel.get("subscriber_list", []))
        self.wait_until(stood_in_the_way, publisher, subscriber)
        interrupt(publisher)
        finished = self.finish(publisher)
        self.assert_code(finished, 130)
        self.assertGreater(json.loads(finished.out)["dropped"], 0)

    def test_a_stopped_subscriber_is_evicted(self):
        frame = self.write("in.raw", pattern(512 * 512))
        # It stands still while it writes: nobody reads the pipe.
        subscriber = self.start("sub", "a", "--raw", "-")
        publisher = self.start("pub", "a", frame, "--format", "GRAY8", "--size", "512x512", "--loop",
                               "--fps", 200, "--slots", 2, "--policy", "evict:0.05",
                               "--wait-subscribers", 1, "--json")
        def channel():
            return json.loads(self.run_cli("ls", "--json").out)["channels"][0]
        self.wait_for("a")
        self.wait_until(lambda: channel()["replacements"] == 1, publisher, subscriber)
        listed = channel()
        self.assertEqual((listed["subscribers_evicted"], listed["subscribers_revoked"]), (1, 0))
        self.assertEqual((listed["slots"], listed["slots_max"], listed["slots_lost"],
                          listed["resizes"], listed["growths"]), (2, 2, 0, 1, 0))
        self.assertEqual([each["evicted"] for each in listed["subscriber_list"]], [True])
        interrupt(publisher)
        finished = self.finish(publisher)
        self.assert_code(finished, 130)
        counted = json.loads(finished.out)
        self.assertEqual((counted["subscribers_evicted"], counted["replacements"],
                          counted["slots"]), (1, 1, 2))
        finished = self.finish(subscriber)
        self.assert_code(finished, 1)
        self.assertIn("lease", finished.err)

    def test_more_slots_come_where_subscribers_hold_them(self):
        frame = self.write("in.raw", pattern(512 * 512))
        subscriber = self.start("sub", "a", "--raw", "-")
        publisher = self.start("pub", "a", frame, "--format", "GRAY8", "--size", "512x512", "--loop",
                               "--fps", 200, "--slots", "2:8", "--wait-subscribers", 1)
        def channel():
            return json.loads(self.run_cli("ls", "--json").out)["channels"][0]
        self.wait_for("a")
        self.wait_until(lambda: channel()["growths"] == 1, publisher, subscriber)
        listed = channel()
        self.assertEqual((listed["slots"], listed["slots_max"]), (4, 8))

    def test_stopped_subscriber_costs_linger(self):
        content = y4m(16, 8, 3)
        subscriber = self.start("sub", "a", "--policy", "queue:3", "--raw", self.path("out"))
        publisher = self.start("pub", "a", "-", "--wait-subscribers", 1, "--policy", "block",
                               "--linger", 0.2, stdin=subprocess.PIPE)
        # The header tells the format, without which there is no channel.
        publisher.stdin.write(content[:60])
        publisher.stdin.flush()
        self.wait_until_subscribed("a", subscriber, publisher)
        subscriber.send_signal(signal.SIGSTOP)
        finished = self.finish(publisher, content[60:])
        subscriber.send_signal(signal.SIGCONT)
        self.assert_code(finished, 4)
        self.assertIn("--linger", finished.err)
        self.finish(subscriber)


class OutputTest(CliCase):
    def test_full_disk(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("there is no /dev/full")
        self.publish_picture("cam0", "GRAY8", 64, 64, pattern(4096))
        for option in ("--y4m", "--raw"):
            finished = self.run_cli("sub", "cam0", option, "/dev/full")
            self.assert_code(finished, 1)
            self.assertIn("write '/dev/full'", finished.err)
            self.assertIn("No space left on device", finished.err)

    def test_partial_files_are_named(self):
        self.publish_picture("cam0", "GRAY8", 64, 64, pattern(4096))
        finished = self.run_under('ulimit -f 16; exec "$@"', "sub", "cam0", "--raw",
                                  self.path("out"))
        self.assert_code(finished, 1)
        self.assertIn("File too large", finished.err)
        self.assertIn(f"{self.path('out')} is not complete: it holds 4 whole frames", finished.err)

    def test_closed_pipe_is_quiet(self):
        self.publish_picture("cam0", "GRAY8", 64, 64, pattern(4096))
        subscriber = self.start("sub", "cam0", "--raw", "-")
        self.assertEqual(len(subscriber.stdout.read(5000)), 5000)
        subscriber.stdout.close()
        self.assertEqual(subscriber.wait(60), 141)
        self.assertEqual(subscriber.stderr.read(), b"")

    def test_a_folder_that_is_not_there(self):
        self.publish_picture("cam0", "GRAY8", 8, 8, pattern(64))
        finished = self.run_cli("sub", "cam0", "--raw", self.path("none/out"))
        self.assert_refused(finished, 1, "No such file or directory")

    def test_a_file_in_place_of_a_folder(self):
        path = self.write("file", b"") + "/x"
        self.assert_refused(self.run_cli("pub", "a", path), 1, "Not a directory")
        self.publish_picture("cam0", "GRAY8", 8, 8, pattern(64))
        self.assert_refused(self.run_cli("sub", "cam0", "--raw", path), 1, "Not a directory")

    def test_closed_standard_descriptors(self):
        finished = self.run_under('exec "$@" <&-', "pub", "a", "-", "--size", "4x4", "--format",
                                  "RGBA")
        self.assert_code(finished, 1)
        self.assertIn("read 'standard input': system call failed: Bad file descriptor",
                      finished.err)
        self.publish_picture("cam0", "GRAY8", 8, 8, pattern(64))
        for arguments in (["sub", "cam0", "--count", 1, "--json"],
                          ["sub", "cam0", "--count", 1, "--raw", "-"], ["ls"], ["version"]):
            finished = self.run_under('exec "$@" >&-', *arguments)
            self.assert_code(finished, 1)
            self.assertIn("write 'standard output': system call failed: Bad file descriptor",
                          finished.err)
        finished = self.run_under('exec "$@" <&- 2>&-', "sub", "cam0", "--count", 1, "--raw", "-")
        self.assert_code(finished, 0)
        self.assertEqual(finished.out, pattern(64))

    def test_errors_as_json(self):
        finished = self.run_cli("sub", "none", "--json", "--timeout", 0)
        self.assert_refused(finished, 3, "not found")
        said = json.loads(finished.out)
        self.assertEqual((said["schema"], said["channel"], said["error"]),
                         ("vramlink.sub/1", "none", "not_found"))
        self.assertEqual(finished.err, f"vramlink: {said['error_text']}\n")
        said = json.loads(self.run_cli("pub", "a", self.path("none"), "--json").out)
        self.assertEqual((said["schema"], said["channel"], said["error"]),
                         ("vramlink.pub/1", "a", "os"))
        # With what was counted until then.
        cut = self.write("cut.raw", pattern(100))
        finished = self.run_cli("pub", "a", cut, "--size", "8x8", "--format", "GRAY8", "--json")
        self.assert_code(finished, 1)
        said = json.loads(finished.out)
        self.assertEqual((said["published"], said["error"]), (1, "corrupt"))


if __name__ == "__main__":
    main()
