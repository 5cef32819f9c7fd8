"""docs/channel.md names tests for the invariants of the protocol: all of them exist."""

import os
import re
import sys
import unittest

from gate_case import ROOT, TOOLS

sys.path.insert(0, TOOLS)
import tree  # noqa: E402

ROW = re.compile(r"^\| (\d+) \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)
NAME = re.compile(r"`([\w.]+)`")
GTEST = re.compile(r"^(?:TYPED_)?TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\s*\)", re.MULTILINE)
RUN_TEST = re.compile(r"vramlink_add_run_test\((\w+) ([\w${}]+)|add_test\(NAME ([\w.]+)")
INVARIANTS = 11


def tests_of_this_tree():
    names = set()
    for path in tree.files(ROOT):
        text = tree.read(ROOT, path)
        if path.startswith("tests/") and path.endswith(".cpp"):
            names.update(".".join(found) for found in GTEST.findall(text))
        elif os.path.basename(path) == "CMakeLists.txt":
            for label, run, name in RUN_TEST.findall(text):
                names.add(name or f"{label}.{run}")
            for cases in re.findall(r"foreach\(case IN ITEMS ([^)]*)\)", text):
                names.update(f"process.example_{case}" for case in cases.split())
    return names


class Invariants(unittest.TestCase):
    def setUp(self):
        text = tree.read(ROOT, "docs/channel.md")
        self.rows = dict(ROW.findall(text[text.index("## 13."):]))

    def test_each_has_a_row(self):
        self.assertEqual([int(number) for number in self.rows], list(range(1, INVARIANTS + 1)))

    def test_named_tests_exist(self):
        known = tests_of_this_tree()
        for number, tests in self.rows.items():
            names = NAME.findall(tests)
            self.assertTrue(names, f"invariant {number} has no test")
            for name in names:
                self.assertIn(name, known, f"invariant {number}")


if __name__ == "__main__":
    unittest.main()
