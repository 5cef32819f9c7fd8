"""tools/coverage.py passes at the limit and fails below it, on what gcovr writes."""

import json
import os
import shutil
import subprocess
import unittest

from gate_case import GateCase

GATE = "coverage.py"
# As gcovr --json-summary writes it, less what is not read.
GOOD = {"src/backend/cuda/driver.cpp": (90, 100), "src/channel/generation.cpp": (10, 10),
        "src/channel/attacher.cpp": (8, 10), "src/channel/readiness.hpp": (0, 0)}
CHANNEL = """int two(int argument);
int main(int count, char**) {
  int sum = two(1);
  if (count > 1) {
    sum += two(2);
  }
  return sum % 4 == 2 ? 0 : 1;
}
"""
BACK_END = """int two(int argument) {
  return 2 * argument;
}
"""


class Coverage(GateCase):
    def recorded(self, files):
        self.write("summary.json", json.dumps({"files": [
            {"filename": name, "line_covered": covered, "line_total": total}
            for name, (covered, total) in files.items()]}))
        return "--json", os.path.join(self.tree, "summary.json")

    def test_at_the_limit(self):
        result = self.run_gate(GATE, *self.recorded(GOOD))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertRegex(result.stdout, r"src/backend/cuda +90\.0 %  90 of 100 lines")
        self.assertRegex(result.stdout, r"src/channel +90\.0 %  18 of 20 lines")
        self.assertRegex(result.stdout, r"lowest:\n +src/channel/attacher.cpp +80\.0 %  2 lines")

    def test_below_the_limit(self):
        for name, counts, words in (
                ("src/backend/cuda/driver.cpp", (89, 100), "src/backend/cuda: 89.0 %"),
                ("src/channel/attacher.cpp", (7, 10), "src/channel: 85.0 %")):
            with self.subTest(name=name):
                self.assert_fails(GATE, words, *self.recorded({**GOOD, name: counts}))

    def test_nothing_was_counted(self):
        files = {name: counts for name, counts in GOOD.items() if "cuda" not in name}
        self.assert_fails(GATE, "nothing was counted", *self.recorded(files))

    def test_lines_of_a_program(self):
        """gcovr itself, on a program of two files."""
        if not (shutil.which("gcovr") and shutil.which("gcov") and shutil.which("g++")):
            self.skipTest("gcovr or g++ is not installed")
        self.write("src/channel/a.cpp", CHANNEL)
        self.write("src/backend/cuda/b.cpp", BACK_END)
        self.assertEqual(self.build_and_run("all"), 0)
        self.assert_passes(GATE, os.path.join(self.tree, "build"), self.tree)
        self.assertEqual(self.build_and_run(), 0)
        self.assert_fails(GATE, "src/channel: 80.0 %", os.path.join(self.tree, "build"), self.tree)

    def build_and_run(self, *arguments):
        folder = os.path.join(self.tree, "build", "src")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        subprocess.run(["g++", "--coverage", "-O0", "-o", "program",
                        os.path.join(self.tree, "src/channel/a.cpp"),
                        os.path.join(self.tree, "src/backend/cuda/b.cpp")], cwd=folder, check=True)
        return subprocess.run(["./program", *arguments], cwd=folder, check=False).returncode

    def test_without_gcovr(self):
        os.environ["PATH"], before = self.tree, os.environ["PATH"]
        self.addCleanup(os.environ.update, PATH=before)
        result = self.run_gate(GATE, self.tree)
        self.assertEqual(result.returncode, 77)
        self.assertIn("gcovr is not installed", result.stdout.splitlines()[-1])


if __name__ == "__main__":
    unittest.main()
