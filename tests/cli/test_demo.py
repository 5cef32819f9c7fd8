#!/usr/bin/env python3
"""The demo: whole frames, recovery, nothing left behind."""

import json
import os
import pty
import re
import signal

from cli_case import CliCase, interrupt, main, read_png


class DemoTest(CliCase):
    def run_demo(self, *options):
        finished = self.run_cli("demo", "--json", *options)
        self.assert_code(finished, 0)
        self.assertEqual(finished.out.count(b"\n"), 1)
        self.assertEqual(os.listdir(self.runtime), [])
        summary = json.loads(finished.out)
        self.assertEqual(summary["schema"], "vramlink.demo/1")
        self.assertEqual((summary["backend"], summary["torn"]), ("host", 0))
        self.assertEqual(len(summary["received"]), 2)
        return summary

    def test_one_second(self):
        summary = self.run_demo("--host", "--seconds", 1, "--size", "320x180", "--out",
                                self.path("a.png"))
        self.assertGreater(summary["published"], 0)
        self.assertGreater(min(summary["received"]), 0)
        self.assertEqual((summary["killed"], summary["recovered"]), (0, 0))
        self.assertGreater(summary["publish_us_p50"], 0)
        self.assertGreater(summary["age_us_p50"], 0)
        width, height, _, pixels = read_png(self.read("a.png"))
        self.assertEqual((width, height), (320, 180))
        self.assertGreater(int.from_bytes(pixels[:8], "little"), 0)

    def test_picture_in_the_working_folder(self):
        self.run_demo("--seconds", 0.2, "--size", "64x64")
        self.assertTrue(os.path.exists(self.path("vramlink-demo.png")))

    def test_as_fast_as_possible(self):
        summary = self.run_demo("--seconds", 0.5, "--size", "64x64", "--fps", 0)
        self.assertGreater(summary["published"], 100)

    def test_crash(self):
        summary = self.run_demo("--crash", "--seconds", 5, "--size", "320x180")
        self.assertEqual((summary["killed"], summary["recovered"]), (2, 2))
        self.assertGreater(min(summary["received"]), 0)

    def test_summary_for_people(self):
        finished = self.run_cli("demo", "--seconds", 0.2, "--size", "64x64")
        self.assert_code(finished, 0)
        self.assertEqual(finished.out, b"")
        self.assertIn("torn 0", finished.err)
        self.assertIn("vramlink-demo.png", finished.err)
        self.assertNotIn("\x1b", finished.err)

    def run_in_terminal(self, term, *options):
        """What the demo wrote to a terminal, which is its stderr, and the summary on its stdout."""
        self.environment["TERM"] = term
        shown, end = pty.openpty()
        process = self.start("demo", "--host", "--json", "--size", "64x64", *options, stderr=end)
        os.close(end)
        screen = b""
        with open(shown, "rb", buffering=0) as terminal:
            while True:
                try:
                    part = terminal.read(65536)
                except OSError:  # nobody has the other end any more
                    break
                if not part:
                    break
                screen += part
        finished = self.finish(process)
        self.assert_code(finished, 0)
        return screen.decode(), json.loads(finished.out)

    def test_live_table(self):
        text, summary = self.run_in_terminal("xterm", "--seconds", 1.5, "--fps", 0)
        # Title, headings, three processes, what happened last: always as many lines.
        drawings = re.split("\x1b\\[6A", text)
        self.assertGreaterEqual(len(drawings), 3, text)
        self.assertEqual(text.count("\x1b[6A"), len(re.findall("\x1b\\[\\d+A", text)))
        for drawing in drawings:
            lines = drawing.split("\x1b[K\r\n")
            self.assertEqual(len(lines), 7, drawing)
            rows = [re.sub("\x1b\\[[0-9]*m", "", line) for line in lines[:6]]
            self.assertRegex(rows[0], r"demo-\d+  RGBA 64x64, host memory, \d+\.\d s, frame \d+$")
            headings = ["PROCESS", "PID", "FRAMES", "FPS", "DROPPED", "TORN", "LOST", "SKIPPED",
                        "AGE", "P50"]
            self.assertEqual(rows[1].split(), headings)
            for row, title in zip(rows[2:5], ("publisher", "subscriber 1 (queue)",
                                              "subscriber 2 (latest)")):
                self.assertTrue(row.startswith(title), row)
            self.assertLess(max(map(len, rows)), 80)
        def cell(row, heading):
            right = rows[1].index(heading) + len(heading)
            left = max(rows[1].rindex(each, 0, rows[1].index(heading)) + len(each)
                       for each in headings if each in rows[1][:rows[1].index(heading)])
            return row[left:right].strip()
        self.assertEqual(cell(rows[2], "DROPPED"), str(summary["dropped"]))
        self.assertEqual(cell(rows[2], "FRAMES"), str(summary["published"]))
        for heading in ("TORN", "LOST", "SKIPPED", "AGE P50"):
            self.assertEqual(cell(rows[2], heading), "")
        for row, received in zip(rows[3:5], summary["received"]):
            self.assertEqual(cell(row, "DROPPED"), "")
            self.assertEqual(cell(row, "FRAMES"), str(received))
            self.assertEqual(cell(row, "TORN"), "0")

    def test_no_table_in_a_dumb_terminal(self):
        text, _ = self.run_in_terminal("dumb", "--seconds", 0.5)
        self.assertNotIn("\x1b", text)
        self.assertNotIn("PROCESS", text)

    def test_no_control_bytes_without_a_terminal(self):
        self.environment["TERM"] = "xterm"
        finished = self.run_cli("demo", "--host", "--seconds", 0.5, "--size", "64x64")
        self.assert_code(finished, 0)
        self.assertEqual(finished.out, b"")
        self.assertNotRegex(finished.err, "[\x00-\x09\x0b-\x1f\x7f]")
        self.assertNotIn("PROCESS", finished.err)

    def test_interrupted(self):
        process = self.start("demo", "--seconds", 60, "--size", "64x64")
        self.wait_until(lambda: self.run_cli("ls", "--names").out, process)
        interrupt(process)
        finished = self.finish(process)
        self.assert_code(finished, 130)
        self.assertIn("torn 0", finished.err)
        self.assertEqual(os.listdir(self.runtime), [])

    def test_killed_parent_takes_its_children_along(self):
        process = self.start("demo", "--seconds", 60, "--size", "64x64")
        self.wait_until(lambda: self.run_cli("ls", "--names").out, process)
        process.kill()
        # The children hold the pipe of stderr: it ends when they have.
        self.finish(process)
        self.assertEqual(os.listdir(self.runtime), [])

    def signal_publisher(self, process, number):
        """Sends it to the publisher of a demo that both subscribers have joined; returns the pid."""
        def joined():
            channels = json.loads(self.run_cli("ls", "--json").out)["channels"]
            return [c for c in channels if c.get("subscribers") == 2]
        self.wait_until(joined, process)
        channel, = joined()
        os.kill(channel["owner_pid"], number)
        return channel["owner_pid"]

    def test_killed_child(self):
        process = self.start("demo", "--seconds", 60, "--size", "64x64")
        pid = self.signal_publisher(process, signal.SIGKILL)
        finished = self.finish(process)
        self.assert_code(finished, 1)
        self.assertIn(f"vramlink: demo: publisher (pid {pid}) was ended by signal 9, Killed\n",
                      finished.err)
        self.assertEqual(os.listdir(self.runtime), [])

    def test_stopped_child(self):
        process = self.start("demo", "--seconds", 2, "--size", "64x64")
        pid = self.signal_publisher(process, signal.SIGSTOP)
        finished = self.finish(process)
        self.assert_code(finished, 1)
        self.assertIn(f"vramlink: demo: publisher (pid {pid}) did not end when asked to\n",
                      finished.err)
        self.assertEqual(os.listdir(self.runtime), [])

    def test_a_picture_that_cannot_be_saved(self):
        finished = self.run_cli("demo", "--seconds", 0.2, "--size", "64x64", "--out",
                                self.path("none/a.png"))
        self.assert_code(finished, 1)
        self.assertIn("none/a.png", finished.err)

    def test_sizes_that_do_not_fit(self):
        finished = self.run_cli("demo", "--size", "4x4", "--seconds", 1)
        self.assert_code(finished, 2)
        self.assertIn("--size", finished.err)


if __name__ == "__main__":
    main()
