#!/usr/bin/env python3
"""Each kind of file through a channel: what comes out is what went in."""

import json
import os
import signal
import struct

from cli_case import CliCase, header_of, main, npy, pattern, png, y4m


class MediaTest(CliCase):
    def assert_same(self, name, content, options, output, pub_options=()):
        published, received = self.transfer([self.write(name, content), *pub_options],
                                            [options, self.path(output)])
        self.assert_code(published, 0)
        self.assert_code(received, 0)
        self.assertEqual(self.read(output), content)

    def test_y4m_of_every_sampling(self):
        for sampling in ("420jpeg", "420mpeg2", "420paldv", "420", "422", "444", "mono"):
            with self.subTest(sampling=sampling):
                self.assert_same("in.y4m", y4m(33, 17, 9, sampling), "--y4m", "out.y4m")

    def test_y4m_keeps_what_the_format_cannot_say(self):
        content = y4m(16, 8, 20, extra=" XYSCSS=420JPEG XCOLORRANGE=LIMITED XA=b", frame_extra=" Xc")
        self.assert_same("in.y4m", content, "--y4m", "out.y4m")

    def test_y4m_through_pipes(self):
        content = y4m(64, 48, 25)
        published, received = self.transfer(["-"], ["--y4m", "-"], content)
        self.assert_code(published, 0)
        self.assert_code(received, 0)
        self.assertEqual(received.out, content)

    def test_y4m_of_raw_frames_has_a_canonical_header(self):
        raw = self.write("in.raw", pattern(8 * 4 * 3 // 2))
        self.transfer([raw, "--format", "NV12", "--size", "8x4"], ["--y4m", self.path("out")])
        self.assertEqual(header_of(self.read("out")), "YUV4MPEG2 W8 H4 F0:0 Ip A0:0 C420jpeg")

    def test_a_given_rate_is_written(self):
        path = self.write("in.y4m", y4m(16, 8, 2))
        subscriber = self.start("sub", "a", "--policy", "queue:3", "--y4m", self.path("out"))
        publisher = self.start("pub", "a", path, "--fps", "500/3", "--wait-subscribers", 1,
                               "--policy", "block")
        self.assert_code(self.finish(publisher), 0)
        self.assert_code(self.finish(subscriber), 0)
        self.assertEqual(header_of(self.read("out")), "YUV4MPEG2 W16 H8 F500:3 Ip A1:1 C420jpeg")

    def test_raw(self):
        for name, size, frame in (("RGBA", "33x17", 33 * 17 * 4), ("RGBA64_LE", "5x3", 5 * 3 * 8),
                                  ("I420", "5x3", 15 + 12), ("P010_10LE", "4x4", 4 * 4 * 3),
                                  ("RGBA_F32LE", "3x3", 9 * 16)):
            with self.subTest(name=name):
                self.assert_same("in.raw", pattern(frame * 7), "--raw", "out.raw",
                                 ["--format", name, "--size", size])

    def test_npy(self):
        for descr, size in (("|u1", 1), ("<f2", 2), ("<f4", 4), ("<i8", 8), ("<c16", 16)):
            with self.subTest(descr=descr):
                content = npy(descr, (11, 3, 5), pattern(11 * 15 * size))
                self.assert_same("in.npy", content, "--npy", "out.npy")

    def test_npy_of_one_frame(self):
        data = pattern(15 * 4)
        path = self.write("in.npy", npy("<f4", (3, 5), data))
        self.transfer([path, "--one-frame"], ["--npy", self.path("out.npy")])
        self.assertEqual(self.read("out.npy"), npy("<f4", (1, 3, 5), data))

    def test_npy_elements_that_numpy_cannot_name(self):
        content = npy("|V2", (4, 6), pattern(48))
        self.assert_refused(self.run_cli("pub", "a", self.write("in.npy", content)), 2, "--dtype")
        self.assert_same("in.npy", content, "--npy", "out.npy", ["--dtype", "bfloat16"])

    def test_npy_pictures(self):
        content = npy("|u1", (3, 4, 6, 4), pattern(3 * 96))
        self.assert_same("in.npy", content, "--npy", "out.npy", ["--format", "BGRA"])

    def test_npy_to_a_pipe(self):
        content = npy("<u2", (5, 4), pattern(40))
        path = self.write("in.npy", content)
        _, received = self.transfer([path], ["--npy", "-", "--count", 5])
        self.assert_code(received, 0)
        self.assertEqual(received.out, content)
        _, received = self.transfer([path], ["--npy", "-", "--count", 6])
        self.assert_code(received, 1)
        self.assertIn("ended after 5", received.err)

    def test_a_stream_without_frames_has_its_header(self):
        head = b"YUV4MPEG2 W16 H8 F30000:1001 Ip A0:0 C420jpeg\n"
        self.assert_same("in.y4m", head, "--y4m", "out.y4m")
        self.assert_same("in.npy", npy("<f4", (0, 3, 5), b""), "--npy", "out.npy")
        path = self.write("in.y4m", head)
        for options in (["--y4m", "-"], ["--raw", "-"]):
            published, received = self.transfer([path], options)
            self.assert_code(published, 0)
            self.assert_code(received, 0)
            self.assertEqual(received.out, head if "--y4m" in options else b"")
        published, received = self.transfer([path], ["--npy", "-", "--count", 3])
        self.assert_code(published, 0)
        self.assert_code(received, 1)
        self.assertEqual(received.out, b"")
        self.assertIn("--count promised 3 frames, the stream ended after 0", received.err)

    def test_a_format_that_the_file_cannot_hold_also_without_frames(self):
        path = self.write("in.npy", npy("|u1", (0, 4, 4, 3), b""))
        _, received = self.transfer([path], ["--y4m", self.path("out")])
        self.assert_code(received, 2)
        self.assertIn("--npy FILE", received.err)

    def test_png_sequence(self):
        pictures = [pattern(6 * 4 * 3, seed) for seed in range(1, 4)]
        for number, pixels in enumerate(pictures):
            rows = [pixels[row * 18:row * 18 + 18] for row in range(4)]
            self.write(f"f{number:03}.png", png(6, 4, 2, rows))
        for files in ([self.path("f%03d.png")], [self.path(f"f00{i}.png") for i in range(3)]):
            published, received = self.transfer(files, ["--raw", "-"])
            self.assert_code(published, 0)
            self.assertEqual(received.out, b"".join(pictures))

    def test_wide_and_gray_png(self):
        samples = [0, 1, 256, 65535]
        rows = [struct.pack(">4H", *samples)]
        _, received = self.transfer([self.write("g.png", png(4, 1, 0, rows, 16))], ["--raw", "-"])
        self.assertEqual(received.out, struct.pack("<4H", *samples))
        _, received = self.transfer([self.write("h.png", png(4, 1, 0, [b"\0\1\2\3"]))],
                                    ["--raw", "-"])
        self.assertEqual(received.out, b"\0\1\2\3")

    def test_loop_and_count(self):
        content = y4m(16, 8, 3)
        head, *frames = content.split(b"FRAME\n")
        path = self.write("in.y4m", content)
        published, received = self.transfer([path, "--loop", "--count", 7, "--json"],
                                            ["--y4m", "-"])
        self.assertEqual(received.out, b"FRAME\n".join([head, *frames, *frames, frames[0]]))
        report = json.loads(published.out)
        self.assertEqual(report["schema"], "vramlink.pub/1")
        self.assertEqual((report["published"], report["dropped"]), (7, 0))

    def test_statistics_of_sub(self):
        path = self.write("in.y4m", y4m(16, 8, 5))
        _, received = self.transfer([path], ["--raw", self.path("out"), "--json"])
        report = json.loads(received.out)
        self.assertEqual(report["schema"], "vramlink.sub/1")
        self.assertEqual((report["received"], report["bytes"], report["lost"], report["end"]),
                         (5, 5 * 192, 0, "end of stream"))
        self.assertEqual(report["queue_depth"], 6)
        _, received = self.transfer([path], ["--raw", "-", "--json"])
        self.assertEqual(len(received.out), 5 * 192)
        self.assertEqual(json.loads(received.err)["received"], 5)


class BadInputTest(CliCase):
    def refuse(self, code, words, content, *options):
        path = self.write("in", content)
        self.assert_refused(self.run_cli("pub", "a", path, *options), code, *words)

    def test_inputs_that_do_not_fit_name_what_helps(self):
        head = "YUV4MPEG2 W4 H4 F1:1 "
        self.refuse(5, ["C420p10", "-pix_fmt yuv420p"], f"{head}C420p10\n".encode())
        self.refuse(5, ["interlaced", "yadif"], f"{head}It C420\n".encode())
        self.refuse(2, ["--format and --size"], b"some bytes")
        self.refuse(2, ["--format"], b"some bytes", "--size", "2x2")
        self.refuse(2, ["without --format"], y4m(4, 4, 1), "--format", "RGB")
        self.refuse(5, ["big-endian", "newbyteorder"], npy(">f4", (1, 4), pattern(16)))

    def test_broken_inputs_say_why(self):
        self.refuse(1, ["it is empty"], b"")
        self.refuse(1, ["it is empty"], b"", "--format", "RGB", "--size", "4x4")
        finished = self.run_cli("pub", "a", "-", "--format", "RGB", "--size", "4x4", data=b"")
        self.assert_code(finished, 1)
        self.assertIn("open 'standard input': corrupt: it is empty", finished.err)
        self.refuse(1, ["W"], b"YUV4MPEG2 W0 H4\n")
        self.refuse(1, ["NPY"], b"\x93NUMPY\x01\x00\xff\xff{")
        self.refuse(1, ["PNG"], b"\x89PNG\r\n\x1a\nxxxx")
        self.assert_refused(self.run_cli("pub", "a", self.path("none")), 1, "No such file")
        self.refuse(1, [""], b"YUV4MPEG2 W100000000 H100000000\nFRAME\n")

    def test_a_signal_that_comes_twice_at_once_is_one(self):
        self.start("pub", "cam0", "--test-card", "--size", "16x16")
        subscriber = self.start("sub", "cam0", "--policy", "queue:2", "--npy", self.path("o.npy"))
        self.wait_until(lambda: os.path.exists(self.path("o.npy")) and
                        os.path.getsize(self.path("o.npy")) > 0, subscriber)
        subscriber.send_signal(signal.SIGTERM)
        # While the first is pending, a second one would be the same.
        self.wait_until(lambda: not self.is_pending(subscriber, signal.SIGTERM))
        subscriber.send_signal(signal.SIGTERM)  # as GNU timeout does: the process, then its group
        finished = self.finish(subscriber)
        self.assert_code(finished, 143)
        self.assertIn("received", finished.err)

    def is_pending(self, process, number):
        try:
            with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
                lines = dict(line.split(":", 1) for line in status if ":" in line)
        except FileNotFoundError:
            return False
        return bool(int(lines.get("ShdPnd", "0"), 16) & 1 << (number - 1))

    def test_words_of_a_file_do_not_steer_the_terminal(self):
        for data in (b"YUV4MPEG2 W\x1b[2JX H4 F25:1 C444\nFRAME\n",
                     b"\x93NUMPY\x01\x00\x40\x00{'\x1b]0;X\x07': 1}".ljust(74) + b"\n"):
            finished = self.run_cli("pub", "a", "-", data=data)
            self.assertNotEqual(finished.code, 0)
            self.assertNotRegex(finished.err, "[\x00-\x09\x0b-\x1f\x7f]")
            self.assertIn("\\x1b", finished.err)

    def test_short_input_says_how_many_bytes_are_missing(self):
        content = y4m(16, 8, 2)
        for data, name in ((content[:-50], "standard input"), (content[:-192], "standard input")):
            finished = self.run_cli("pub", "a", "-", data=data)
            self.assert_code(finished, 1)
            self.assertIn(name, finished.err)
            missing = 192 - (len(data) - data.rindex(b"FRAME\n") - 6)
            self.assertIn(f"{missing} are missing", finished.err)
        finished = self.run_cli("pub", "a", "-", "--format", "RGB", "--size", "4x4",
                                data=pattern(100))
        self.assert_code(finished, 1)
        self.assertIn("44 are missing", finished.err)
        self.assertIn("--size", finished.err)

    def test_the_stream_ends_for_subscribers_too(self):
        content = y4m(16, 8, 5)
        published, received = self.transfer(["-"], ["--raw", "-"], content[:-1])
        self.assert_code(published, 1)
        self.assert_code(received, 0)
        self.assertEqual(len(received.out), 4 * 192)

    def test_a_file_that_cannot_hold_the_format(self):
        raw = self.write("in.raw", pattern(48))
        _, received = self.transfer([raw, "--format", "RGB", "--size", "4x4"],
                                    ["--y4m", self.path("out")])
        self.assert_code(received, 2)
        self.assertIn("--raw FILE", received.err)


if __name__ == "__main__":
    main()
