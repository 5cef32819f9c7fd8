"""Runs the examples against each other and checks what they print and how they end.

Usage: run_examples.py FOLDER_OF_THE_PROGRAMS CASE
Nothing here sleeps: each program waits for its peer by itself.
"""

import os
import subprocess
import sys
import tempfile

PROGRAMS = sys.argv[1] if len(sys.argv) > 1 else "."
SECONDS = 100
started = []


def start(name, *arguments):
    started.append(subprocess.Popen(
        [os.path.join(PROGRAMS, f"example_{name}"), *arguments], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    return started[-1]


def finish(program, code=0, typed=None):
    """What the program printed, on stderr if it is to fail; it must end with `code`."""
    output, complaints = program.communicate(typed, timeout=SECONDS)
    assert program.returncode == code, (program.args, program.returncode, output, complaints)
    return output if code == 0 else complaints


def batch():
    consumers = [start("batch_consumer", "batch", "20") for _ in range(5)]
    producer = start("batch_producer", "batch", "20", "5")
    assert finish(producer) == "produced 20 batches of float32 [32, 3, 64, 64]\n"
    for consumer in consumers:
        assert finish(consumer) == "verified 20 of 20 batches\n"


def camera():
    publisher = start("camera_publisher", "cam0", "40")
    lines = finish(start("camera_subscriber", "cam0", "1000")).splitlines()
    published = int(finish(publisher).split()[1])
    assert lines[0] == "watching cam0: GRAY8 640x480", lines[0]
    pictures = [int(line.split()[1].rstrip(",")) for line in lines[1:]]
    assert pictures == sorted(set(pictures)), pictures
    assert pictures[-1] == published <= 40, (pictures, published)


def event_loop_ends():
    publisher = start("camera_publisher", "cam0", "10")
    watcher = start("event_loop_subscriber", "cam0", "1000")
    finish(publisher)
    lines = []
    while not lines or not lines[-1].startswith("saw"):  # it ends although no key was pressed
        lines.append(watcher.stdout.readline())
        assert lines[-1] != "", lines
    assert lines[-1] == f"saw {len(lines) - 1} pictures\n" and len(lines) > 1, lines
    finish(watcher)


def event_loop_obeys():
    start("camera_publisher", "cam0", "1000000")
    watcher = start("event_loop_subscriber", "cam0", "1000000")
    assert watcher.stdout.readline().startswith("picture ")
    watcher.stdin.write("s\n")
    watcher.stdin.flush()
    while not watcher.stdout.readline().startswith("received "):
        assert watcher.poll() is None
    assert "saw " in finish(watcher, typed="q\n")


def upload():
    publisher = start("upload_publisher", "cam0", "40")
    assert finish(start("download_subscriber", "cam0")) == "saw 40 whole pictures\n"
    assert finish(publisher).startswith("published 40 on ")


def wrong_use():
    for name in ("batch_consumer", "batch_producer", "camera_publisher", "camera_subscriber",
                 "download_subscriber", "event_loop_subscriber", "upload_publisher"):
        assert "usage: " + name in finish(start(name), code=2)
    first = start("camera_publisher", "cam0", "100000")
    watcher = start("camera_subscriber", "cam0", "1")
    finish(watcher)
    assert f"process {first.pid} (example_camera_" in finish(
        start("camera_publisher", "cam0", "1"), code=1)
    assert "no leading dot" in finish(start("camera_subscriber", ".cam", "1"), code=1)


CASES = {case.__name__: case for case in (
    batch, camera, event_loop_ends, event_loop_obeys, upload, wrong_use)}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="vramlink-examples-") as folder:
        os.environ["VRAMLINK_RUNTIME_DIR"] = folder
        try:
            CASES[sys.argv[2]]()
            if all(program.poll() is not None for program in started):
                assert os.listdir(folder) == [], "names were left behind"
        finally:
            for program in started:
                program.kill()
                program.communicate()
