"""tools/test refuses what does not go together, passes on what does, and names what is missing."""

import os
import re
import shutil
import subprocess
import unittest

from gate_case import ROOT, TOOLS, GateCase

SAY_ARGUMENTS = "#!/usr/bin/env bash\nprintf 'fresh:%s\\n' \"$*\"\n"


def text_of(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


class TestCommand(GateCase):
    def setUp(self):
        super().setUp()
        os.mkdir(os.path.join(self.tree, "tools"))
        for name in ("test", "lib.sh"):
            shutil.copy(os.path.join(TOOLS, name), os.path.join(self.tree, "tools"))
        self.write("tools/test_fresh", SAY_ARGUMENTS)
        os.chmod(os.path.join(self.tree, "tools", "test_fresh"), 0o755)

    def run_test(self, *arguments, **environment):
        return subprocess.run(["bash", os.path.join(self.tree, "tools", "test"), *arguments],
                              capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL, env={**os.environ, **environment})

    def test_fresh_passes_on_what_it_was_given(self):
        for options in ([], ["--quick"], ["--long"], ["--quick", "--long"]):
            result = self.run_test("--fresh", *options)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(result.stdout, f"fresh:{' '.join(options)}\n")

    def test_fresh_needs_to_install(self):
        result = self.run_test("--no-install", "--fresh")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--fresh", result.stderr)
        self.assertIn("--no-install", result.stderr)
        self.assertEqual(result.stdout, "")

    def test_unknown_option(self):
        result = self.run_test("--quik")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--quik", result.stderr)

    def test_missing_packages_are_named_before_the_build(self):
        self.write("bin/dpkg-query", "#!/bin/bash\nexit 1\n")
        os.chmod(os.path.join(self.tree, "bin", "dpkg-query"), 0o755)
        result = self.run_test("--no-install", "--quick",
                               PATH=os.path.join(self.tree, "bin") + ":" + os.environ["PATH"])
        self.assertEqual(result.returncode, 5, result.stdout + result.stderr)
        self.assertIn("libgtest-dev", result.stderr)
        self.assertIn("libcli11-dev", result.stderr)
        self.assertNotIn("ffmpeg", result.stderr)
        self.assertFalse(os.path.exists(os.path.join(self.tree, "build")))

    def program(self, name, text):
        self.write(f"bin/{name}", "#!/bin/bash\n" + text)
        os.chmod(os.path.join(self.tree, "bin", name), 0o755)

    def configured(self, *options, ci=""):
        """What cmake is asked to configure, by a run in which nothing is built or tested."""
        self.program("dpkg-query", "printf installed\n")
        self.program("ctest", "exit 0\n")
        self.program("clang++", "exit 1\n")
        self.program("cmake", f'[[ $1 == --preset ]] || exit 0\nmkdir -p "build/$2"\n'
                              f'printf "%s\\n" "$*" >>"{self.tree}/configured"\n')
        result = self.run_test("--no-install", *options, CI=ci,
                               PATH=os.path.join(self.tree, "bin") + ":" + os.environ["PATH"])
        with open(os.path.join(self.tree, "configured"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        os.remove(os.path.join(self.tree, "configured"))
        shutil.rmtree(os.path.join(self.tree, "build"))
        self.assertTrue(lines, result.stdout + result.stderr)
        return lines

    def test_the_long_run_is_longer(self):
        for options, long in ((["--long"], "ON"), ([], "OFF")):
            lines = self.configured(*options)
            for line in (f"--preset dev -DVRAMLINK_LONG_TESTS={long}",
                         f"--preset asan -DVRAMLINK_BUILD_CLI={long}"):
                self.assertIn(line + " -DCMAKE_UNITY_BUILD=OFF", lines)

    def test_the_quick_run_has_no_sanitizers(self):
        self.assertEqual(self.configured("--quick"), [
            "--preset dev -DVRAMLINK_LONG_TESTS=OFF -DCMAKE_UNITY_BUILD=OFF"])

    def test_many_files_are_compiled_as_one_in_ci(self):
        for line in self.configured(ci="true"):
            self.assertTrue(line.endswith(" -DCMAKE_UNITY_BUILD=ON"), line)

    def test_every_gate_is_a_stage(self):
        """But for the exported symbols, which a test of the dev build compares."""
        checked = set(re.search(r"gates=\((.*?)\)", text_of("tools", "check")).group(1).split())
        staged = set(re.search(r"for name in (check_.*?); do", text_of("tools", "test")).group(1)
                     .split())
        self.assertEqual(checked - staged, {"check_exports.py"})
        self.assertEqual(staged - checked, set())
        self.assertIn("gates.exports_of_this_build", text_of("tests", "gates", "CMakeLists.txt"))


if __name__ == "__main__":
    unittest.main()
