"""tools/check_format passes on formatted files, fails on others, and --fix repairs them."""

import os
import unittest

from gate_case import ROOT, GateCase, skip

GATE = "check_format"


class Format(GateCase):
    def setUp(self):
        super().setUp()
        with open(os.path.join(ROOT, ".clang-format"), encoding="utf-8") as file:
            self.write(".clang-format", file.read())

    def test_good(self):
        self.write("src/a.cpp", "int a(int b) { return b; }\n")
        self.write("src/b.cpp", "namespace a::inline b {\nint c;\n}  // namespace a::inline b\n")
        self.assert_passes(GATE)

    def test_fault_and_repair(self):
        self.write("src/a.cpp", "int a( int b ) {return b;}\n")
        self.assert_fails(GATE, "src/a.cpp:1")
        self.assert_passes(GATE, "--fix", self.tree)
        self.assert_passes(GATE)

    def test_repair_leaves_good_files_alone(self):
        self.write("src/a.cpp", "int a(int b) { return b; }\n")
        path = os.path.join(self.tree, "src/a.cpp")
        os.utime(path, (1, 1))
        self.assert_passes(GATE, "--fix", self.tree)
        self.assertEqual(os.stat(path).st_mtime, 1)


if __name__ == "__main__":
    case = Format("test_good")
    case.setUp()
    missing = case.run_gate(GATE).returncode == 77
    case.doCleanups()
    if missing:
        skip("clang-format 14 is not installed")
    unittest.main()
