"""A small tree in a temporary folder, on which a gate is run with and without a planted fault."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOLS = os.path.join(ROOT, "tools")


class GateCase(unittest.TestCase):
    def setUp(self):
        self.tree = tempfile.mkdtemp(prefix="vramlink-gate-")
        self.addCleanup(shutil.rmtree, self.tree)

    def write(self, path, text):
        full = os.path.join(self.tree, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8", newline="") as file:
            file.write(text)

    def run_gate(self, gate, *arguments):
        path = os.path.join(TOOLS, gate)
        command = [sys.executable, "-B", path] if gate.endswith(".py") else ["bash", path]
        return subprocess.run([*command, *(arguments or [self.tree])], capture_output=True,
                              text=True, check=False)

    def assert_passes(self, gate, *arguments):
        result = self.run_gate(gate, *arguments)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def assert_fails(self, gate, words, *arguments):
        result = self.run_gate(gate, *arguments)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn(words, result.stdout)


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)
