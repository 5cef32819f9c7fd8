"""Runs the command vramlink as a user would: real processes, real files, a runtime folder a test."""

import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLI = os.environ.get("VRAMLINK_CLI", os.path.join(ROOT, "build", "dev", "cli", "vramlink"))
WATCHDOG_SECONDS = 60
NEED_A_REMEDY = (5, 7)  # no such device, and no permission


class Finished:
    def __init__(self, code, out, err):
        self.code = code
        self.out = out
        self.err = err.decode("utf-8", "replace")


class CliCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="vramlink-cli-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.runtime = self.path("run")
        os.mkdir(self.runtime, 0o700)
        self.environment = {name: value for name, value in os.environ.items()
                            if name not in ("NO_COLOR", "CLICOLOR_FORCE", "VRAMLINK_LOG",
                                            "VRAMLINK_GROUP")}
        self.environment["VRAMLINK_RUNTIME_DIR"] = self.runtime
        self.environment["VRAMLINK_CUDA"] = "off"  # test_devices.py has the GPUs

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def start(self, *arguments, **options):
        """A process; it is killed when the test ends and it did not."""
        if arguments and arguments[0] in ("sub", "grab") and "--timeout" not in arguments:
            arguments += ("--timeout", WATCHDOG_SECONDS)  # a busy machine starts publishers late
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        process = subprocess.Popen([CLI, *map(str, arguments)], env=self.environment,
                                   cwd=self.folder, **options)
        self.addCleanup(self._end, process)
        return process

    @staticmethod
    def _end(process):
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                stream.close()

    def finish(self, process, data=None):
        try:
            out, err = process.communicate(data, timeout=WATCHDOG_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            self.fail(f"it did not end: {process.args}\n{err}")
        return Finished(process.returncode, out, err or b"")

    def run_cli(self, *arguments, data=None, **options):
        if data is not None:
            options["stdin"] = subprocess.PIPE
        return self.finish(self.start(*arguments, **options), data)

    def run_under(self, shell, *arguments):
        """The command as `$@` of a line of shell: with limits, or without descriptors."""
        process = subprocess.Popen(["bash", "-c", shell, "bash", CLI, *map(str, arguments)],
                                   env=self.environment, cwd=self.folder, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self._end, process)
        return self.finish(process)

    def assert_code(self, finished, code):
        self.assertEqual(finished.code, code, finished.err)

    def assert_refused(self, finished, code, *words):
        """One line that says what and why, and what next where the environment is at fault."""
        self.assert_code(finished, code)
        self.assertEqual(finished.err.count("\n"), 1, finished.err)
        self.assertTrue(finished.err.startswith("vramlink: "), finished.err)
        for word in words:
            self.assertIn(word, finished.err)
        if code in NEED_A_REMEDY:
            self.assertIn(". Try: ", finished.err)

    def transfer(self, pub, sub, data=None):
        """Every frame of a publisher to one subscriber; returns both, ended."""
        subscriber = self.start("sub", "cam0", "--policy", "queue:6", *sub)
        options = {} if data is None else {"stdin": self.pipe_with(data)}
        publisher = self.start("pub", "cam0", *pub, "--wait-subscribers", 1, "--policy", "block",
                               "--slots", 8, "--fps", 0, **options)
        # The subscriber's output is read first: it is what can fill a pipe.
        received = self.finish(subscriber)
        return self.finish(publisher), received

    def pipe_with(self, data):
        """The reading end of a pipe that another process fills."""
        feeder = subprocess.Popen(["cat", self.write("piped", data)], stdout=subprocess.PIPE)
        self.addCleanup(feeder.wait)
        self.addCleanup(feeder.stdout.close)
        return feeder.stdout

    def publish_picture(self, name, pixel_format, width, height, frame):
        """Publishes one raw picture again and again, until the test ends."""
        raw = self.write(name + ".raw", frame)
        process = self.start("pub", name, raw, "--format", pixel_format, "--size",
                             f"{width}x{height}", "--loop")
        self.wait_for(name)
        return process

    def wait_until(self, done, *processes):
        """Until done() says so; fails when one of the processes ends before, or the watchdog does."""
        end = time.monotonic() + WATCHDOG_SECONDS
        while not done():
            self.assertLess(time.monotonic(), end, "it did not happen")
            for process in processes:
                self.assertIsNone(process.poll(), process.args)

    def namespaces(self, *kinds):
        """The words before a command that runs it in a pid namespace, and in those of `kinds`."""
        words = ["unshare", "--map-root-user", "--pid", *kinds, "--fork", "--kill-child",
                 "--mount-proc"]
        if shutil.which("unshare") is None or subprocess.run(
                [*words, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no namespaces can be made here")
        return words

    def publish_in(self, namespaces, name):
        """A publisher there of a channel that is there when this returns."""
        publisher = subprocess.Popen([*namespaces, CLI, "pub", name, "--test-card", "--size",
                                      "320x180"], env=self.environment, stdin=subprocess.DEVNULL,
                                     stderr=subprocess.PIPE)
        self.addCleanup(self._end, publisher)
        self.wait_until(lambda: self.run_cli("ls", "--names").out == f"{name}\n".encode(),
                        publisher)
        return publisher

    def wait_for(self, name):
        """Until the channel is there."""
        self.assert_code(self.run_cli("sub", name, "--count", 1, "--timeout", 30), 0)


def y4m(width, height, count, sampling="420jpeg", extra="", frame_extra=""):
    """A file whose bytes differ everywhere."""
    chroma_width, chroma_height = (width + 1) // 2, (height + 1) // 2
    size = width * height + {"4": 2 * chroma_width * chroma_height, "m": 0}[sampling[0]]
    if sampling == "422":
        size = width * height + 2 * chroma_width * height
    if sampling == "444":
        size = 3 * width * height
    content = f"YUV4MPEG2 W{width} H{height} F30000:1001 Ip A1:1 C{sampling}{extra}\n".encode()
    for number in range(count):
        content += f"FRAME{frame_extra}\n".encode() + pattern(size, number)
    return content


def pattern(size, seed=0):
    block = bytes((index * 31 + seed * 7) % 256 for index in range(257))
    return (block * (size // len(block) + 1))[:size]


def npy(descr, shape, data):
    """As numpy writes it."""
    inner = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({inner}), }}"
    if shape:
        text += " " * (21 - len(str(shape[0])))
    text += " " * (64 - (10 + len(text) + 1) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data


def png(width, height, color_type, rows, depth=8):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(
            ">I", zlib.crc32(kind + data))
    head = struct.pack(">IIBBBBB", width, height, depth, color_type, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head)
            + chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows)))
            + chunk(b"IEND", b""))


def read_png(content):
    """Width, height, bytes a pixel and the pixels of an 8-bit RGB or RGBA file."""
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    position, data = 8, b""
    while position < len(content):
        size, kind = struct.unpack(">I4s", content[position:position + 8])
        body = content[position + 8:position + 8 + size]
        crc = struct.unpack(">I", content[position + 8 + size:position + 12 + size])[0]
        assert crc == zlib.crc32(kind + body)
        if kind == b"IHDR":
            width, height, depth, color, _, _, interlaced = struct.unpack(">IIBBBBB", body)
            assert depth == 8 and color in (2, 6) and not interlaced
        if kind == b"IDAT":
            data += body
        position += 12 + size
    step = 3 if color == 2 else 4
    pitch = width * step
    raw, above, pixels = zlib.decompress(data), bytearray(pitch), b""
    for row in range(height):
        kind = raw[row * (pitch + 1)]
        line = bytearray(raw[row * (pitch + 1) + 1:(row + 1) * (pitch + 1)])
        for index in range(pitch):
            left = line[index - step] if index >= step else 0
            corner = above[index - step] if index >= step else 0
            line[index] = (line[index] + predicted(kind, left, above[index], corner)) % 256
        pixels += bytes(line)
        above = line
    return width, height, step, pixels


def predicted(kind, left, above, corner):
    if kind == 4:
        guess = left + above - corner
        distances = (abs(guess - left), abs(guess - above), abs(guess - corner))
        return (left, above, corner)[distances.index(min(distances))]
    return (0, left, above, (left + above) // 2)[kind]


def header_of(content):
    return re.match(rb"[^\n]*", content).group(0).decode()


def interrupt(process):
    process.send_signal(signal.SIGINT)


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def main():
    if not os.access(CLI, os.X_OK):
        print(f"there is no {CLI}")
        sys.exit(1)
    unittest.main()
