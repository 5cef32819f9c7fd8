"""tools/check_tidy passes on clean files and fails on findings, for all files or the changed ones."""

import json
import os
import shutil
import subprocess
import unittest

from gate_case import ROOT, TOOLS, GateCase, skip

PRESETS = """{"version": 6, "configurePresets": [{"name": "tidy", "generator": "Ninja",
"binaryDir": "${sourceDir}/build/tidy",
"cacheVariables": {"CMAKE_EXPORT_COMPILE_COMMANDS": "ON"}}]}
"""
PROJECT = """cmake_minimum_required(VERSION 3.22)
project(small LANGUAGES CXX)
add_library(small STATIC src/old.cpp src/changed.cpp)
"""
CLEAN = "namespace vramlink {\nint twice(int number) { return 2 * number; }\n}  // namespace vramlink\n"
FAULTY = "namespace vramlink {\nint Twice(int number) { return 2 * number; }\n}  // namespace vramlink\n"


class Tidy(GateCase):
    def setUp(self):
        super().setUp()
        self.write("CMakePresets.json", PRESETS)
        self.write("CMakeLists.txt", PROJECT)
        self.write("src/old.cpp", CLEAN)
        self.write("src/changed.cpp", CLEAN.replace("twice", "double_of"))
        self.write(".gitignore", "build/\n")
        shutil.copy(os.path.join(ROOT, ".clang-tidy"), self.tree)
        os.mkdir(os.path.join(self.tree, "tools"))
        for name in ("check_tidy", "lib.sh"):
            shutil.copy(os.path.join(TOOLS, name), os.path.join(self.tree, "tools"))
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "Begin")

    def git(self, *arguments):
        subprocess.run(["git", "-C", self.tree, *arguments], check=True)

    def run_tidy(self, *arguments):
        return subprocess.run(["bash", "tools/check_tidy", *arguments], cwd=self.tree,
                              capture_output=True, text=True, check=False)

    def assert_tidy(self, code, words, *arguments):
        result = self.run_tidy(*arguments)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertIn(words, result.stdout)

    def test_clean(self):
        self.assert_tidy(0, "2 files are clean", "--all")
        self.assert_tidy(0, "no file to check")

    def test_finding_in_a_changed_file(self):
        self.write("src/changed.cpp", FAULTY)
        self.assert_tidy(1, "src/changed.cpp:2")
        self.assert_tidy(1, "readability-identifier-naming", "src/changed.cpp")
        self.assert_tidy(0, "1 files are clean", "src/old.cpp")

    def test_the_preset_runs_it(self):
        with open(os.path.join(ROOT, "CMakePresets.json"), encoding="utf-8") as file:
            presets = json.load(file)
        workflow, = (each for each in presets["workflowPresets"] if each["name"] == "tidy")
        self.assertIn({"type": "build", "name": "tidy"}, workflow["steps"])
        build, = (each for each in presets["buildPresets"] if each["name"] == "tidy")
        self.assertEqual(build["targets"], ["tidy"])
        folder = os.path.join(self.tree, "build")
        subprocess.run(["cmake", "--preset", "tidy", "-B", folder], cwd=ROOT, check=True,
                       capture_output=True)
        commands = subprocess.run(["ninja", "-C", folder, "-t", "commands", "tidy"], check=True,
                                  capture_output=True, text=True).stdout
        self.assertIn(os.path.join(TOOLS, "check_tidy") + " --all", commands)

    def test_the_package_is_in_the_table(self):
        listed = subprocess.run(["bash", "-uc", f'source "{TOOLS}/lib.sh"; packages tidy'],
                                check=True, capture_output=True, text=True).stdout
        self.assertEqual(listed.split("|")[:2], ["clang-tidy-14", "tidy"])

    def test_a_build_of_nothing(self):
        self.write("CMakeLists.txt", "cmake_minimum_required(VERSION 3.22)\nproject(small NONE)\n")
        self.assert_tidy(1, "compiles no file", "--all")


if __name__ == "__main__":
    if not shutil.which("git"):
        skip("git is not installed")
    case = Tidy("test_clean")
    case.setUp()
    missing = case.run_tidy().returncode == 77
    case.doCleanups()
    if missing:
        skip("clang-tidy 14 is not installed")
    unittest.main()
