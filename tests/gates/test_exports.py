"""tools/check_exports.py reports a symbol too many and a symbol too few, in a library built here."""

import os
import shutil
import subprocess
import sys
import unittest

from gate_case import GateCase, skip

GATE = "check_exports.py"
COMPILER = os.environ.get("CXX", "c++")
SOURCE = """
#define API __attribute__((visibility("default")))
namespace vramlink { API int one(int) { return 1; } int hidden() { return 2; } }
extern "C" API int vramlink_two() { return vramlink::hidden(); }
"""


class Exports(GateCase):
    def setUp(self):
        super().setUp()
        self.write("x.cpp", SOURCE)
        self.library = os.path.join(self.tree, "libx.so")
        self.list = os.path.join(self.tree, "exports.txt")
        subprocess.run([COMPILER, "-shared", "-fPIC", "-fvisibility=hidden", "-o", self.library,
                        os.path.join(self.tree, "x.cpp")], check=True)

    def arguments(self, *more):
        return ["--list", self.list, *more, self.library]

    def test_equal(self):
        self.write("exports.txt", "vramlink::one(int)\nvramlink_two\n")
        self.assert_passes(GATE, *self.arguments())

    def test_one_too_many(self):
        self.write("exports.txt", "vramlink_two\n")
        self.assert_fails(GATE, "not in the list: vramlink::one(int)", *self.arguments())

    def test_one_too_few(self):
        self.write("exports.txt", "vramlink::one(int)\nvramlink_three\nvramlink_two\n")
        self.assert_fails(GATE, "not exported: vramlink_three", *self.arguments())

    def test_unsorted(self):
        self.write("exports.txt", "vramlink_two\nvramlink::one(int)\n")
        self.assert_fails(GATE, "is not sorted", *self.arguments())

    def test_no_list(self):
        self.assert_fails(GATE, "there is no", *self.arguments())

    def test_broken_library(self):
        self.write("exports.txt", "vramlink_two\n")
        self.write("libx.so", "no library\n")
        self.assert_fails(GATE, "nm cannot read", *self.arguments())

    def test_update(self):
        self.assert_passes(GATE, *self.arguments("--update"))
        self.assert_passes(GATE, *self.arguments())


if __name__ == "__main__":
    if not shutil.which("nm") or not shutil.which(COMPILER):
        skip("nm and a compiler are needed")
    sys.exit(unittest.main())
