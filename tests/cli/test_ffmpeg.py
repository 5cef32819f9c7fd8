#!/usr/bin/env python3
"""Real programs at both ends: ffmpeg | pub, sub | ffmpeg."""

import shutil
import subprocess

from cli_case import CliCase, header_of, main, skip

FFMPEG = shutil.which("ffmpeg")
SOURCE = "testsrc=size=160x120:rate=25:duration=1"


class FfmpegTest(CliCase):
    def ffmpeg(self, *arguments, **options):
        options.setdefault("stdout", subprocess.PIPE)
        process = subprocess.Popen([FFMPEG, "-v", "error", "-nostdin", *arguments],
                                   cwd=self.folder, **options)
        self.addCleanup(self._end, process)
        return process

    def frame_hashes(self, path):
        lines = self.ffmpeg("-i", path, "-f", "framemd5", "-").communicate(timeout=60)[0]
        return [line.split(b",")[-1].strip() for line in lines.splitlines()
                if line and not line.startswith(b"#")]

    def pipe(self, pixel_format, copy):
        """ffmpeg encodes into pub, sub feeds a second ffmpeg that decodes and writes `copy`."""
        encoder = self.ffmpeg("-f", "lavfi", "-i", SOURCE, "-pix_fmt", pixel_format, "-strict", "-1",
                              "-f", "yuv4mpegpipe", "-")
        publisher = self.start("pub", "cam0", "-", "--wait-subscribers", 1, "--policy", "block",
                               "--slots", 8, stdin=encoder.stdout)
        encoder.stdout.close()
        subscriber = self.start("sub", "cam0", "--policy", "queue:6", "--y4m", "-")
        decoder = self.ffmpeg("-i", "-", "-f", "yuv4mpegpipe", "-strict", "-1", copy,
                              stdin=subscriber.stdout, stdout=subprocess.DEVNULL)
        subscriber.stdout.close()
        self.assertEqual(decoder.wait(60), 0)
        self.assert_code(self.finish(publisher), 0)
        self.assertEqual(subscriber.wait(60), 0, subscriber.stderr.read())

    def test_frames_are_identical(self):
        for pixel_format in ("yuv420p", "yuv422p", "yuv444p", "gray"):
            with self.subTest(pixel_format=pixel_format):
                direct = self.path("direct.y4m")
                encoder = self.ffmpeg("-y", "-f", "lavfi", "-i", SOURCE, "-pix_fmt", pixel_format,
                                      "-strict", "-1", "-f", "yuv4mpegpipe", direct)
                self.assertEqual(encoder.wait(60), 0)
                copy = self.path(f"copy-{pixel_format}.y4m")
                self.pipe(pixel_format, copy)
                hashes = self.frame_hashes(copy)
                self.assertEqual(len(hashes), 25)
                self.assertEqual(hashes, self.frame_hashes(direct))

    def test_files_are_identical(self):
        source = self.path("in.y4m")
        self.assertEqual(self.ffmpeg("-f", "lavfi", "-i", SOURCE, "-pix_fmt", "yuv420p", "-f",
                                     "yuv4mpegpipe", source).wait(60), 0)
        published, received = self.transfer([source], ["--y4m", self.path("out.y4m")])
        self.assert_code(published, 0)
        self.assert_code(received, 0)
        self.assertEqual(self.read("out.y4m"), self.read("in.y4m"))
        self.assertIn("XYSCSS", header_of(self.read("out.y4m")))

    def test_ten_bits_are_refused(self):
        encoder = self.ffmpeg("-f", "lavfi", "-i", SOURCE, "-pix_fmt", "yuv420p10le", "-strict",
                              "-1", "-f", "yuv4mpegpipe", "-", stderr=subprocess.DEVNULL)
        publisher = self.start("pub", "cam0", "-", stdin=encoder.stdout)
        encoder.stdout.close()
        finished = self.finish(publisher)
        self.assert_refused(finished, 5, "C420p10", "-pix_fmt yuv420p")


if __name__ == "__main__":
    if not FFMPEG:
        skip("ffmpeg is not installed")
    main()
