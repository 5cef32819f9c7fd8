"""The install step of tools/demo and tools/test, on a machine made of stand-in programs."""

import os
import shutil
import subprocess
import unittest

from gate_case import TOOLS, GateCase

# What the step may use, beyond bash itself: these exist on every Debian.
REAL_PROGRAMS = ("bash", "cat", "cut", "env", "grep", "true")
DPKG_QUERY = """#!/bin/bash
grep -qx "${@: -1}" "$STATE/installed" && printf installed
"""
# Installs what is named, all or nothing, unless the name stands in $STATE/refused.
APT_GET = """#!/bin/bash
printf '%s\\n' "$*" >>"$STATE/calls"
names=()
for argument in "$@"; do
  case $argument in -* | *::* | update | install) ;; *) names+=("$argument") ;; esac
done
for name in "${names[@]}"; do
  if grep -qx "$name" "$STATE/refused"; then exit 100; fi
done
if ((${#names[@]})); then printf '%s\\n' "${names[@]}" >>"$STATE/installed"; fi
"""
SCRIPT = 'source "$TOOLS/lib.sh"; install_packages "$@"; printf "%s\\n" "${missing_packages[@]}"'
RUN = ["g++", "cmake", "ninja-build", "libcli11-dev", "nlohmann-json3-dev", "libpng-dev"]


class InstallStep(GateCase):
    def setUp(self):
        super().setUp()
        os.chmod(self.tree, 0o755)
        self.programs = os.path.join(self.tree, "bin")
        self.write("bin/keep", "")
        for name in REAL_PROGRAMS:
            os.symlink(shutil.which(name), os.path.join(self.programs, name))
        for name in ("installed", "refused", "calls"):
            self.write(name, "")

    def program(self, name, text):
        self.write(f"bin/{name}", text)
        os.chmod(os.path.join(self.programs, name), 0o755)

    def step(self, *groups, user=None, tools=TOOLS):
        return subprocess.run(
            [shutil.which("bash"), "-uc", SCRIPT, "step", *groups], capture_output=True, text=True,
            stdin=subprocess.DEVNULL, check=False, user=user,
            env={"PATH": self.programs, "STATE": self.tree, "TOOLS": tools})

    def lines(self, name):
        with open(os.path.join(self.tree, name), encoding="utf-8") as file:
            return file.read().split("\n")[:-1]

    def test_nothing_missing_calls_nothing(self):
        self.program("dpkg-query", DPKG_QUERY)
        self.write("installed", "\n".join(RUN) + "\n")
        result = self.step("run")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "")
        self.assertEqual(self.lines("calls"), [])

    def test_no_package_manager(self):
        result = self.step("run")
        self.assertEqual(result.returncode, 5, result.stderr)
        for name in RUN:
            self.assertIn(name, result.stderr.split("There is no apt-get")[1])

    def needs_root(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")

    def test_no_rights(self):
        self.needs_root()
        # Another user may not see this tree, so it gets a copy.
        shutil.copy(os.path.join(TOOLS, "lib.sh"), self.tree)
        os.chmod(os.path.join(self.tree, "lib.sh"), 0o644)
        self.program("dpkg-query", DPKG_QUERY)
        self.program("apt-get", APT_GET)
        self.write("installed", "g++\n")
        result = self.step("run", user=65534, tools=self.tree)
        self.assertEqual(result.returncode, 5, result.stderr)
        words = result.stderr.split("Installing needs root or sudo.")[1]
        self.assertIn("cmake", words)
        self.assertNotIn("g++", words)
        self.assertEqual(self.lines("calls"), [])

    def test_installs_and_says_why(self):
        self.needs_root()
        self.program("dpkg-query", DPKG_QUERY)
        self.program("apt-get", APT_GET)
        result = self.step("run")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("describes the build", result.stderr)
        self.assertEqual(sorted(self.lines("installed")), sorted(RUN))

    def test_needed_package_that_cannot_be_had(self):
        self.needs_root()
        self.program("dpkg-query", DPKG_QUERY)
        self.program("apt-get", APT_GET)
        self.write("refused", "cmake\n")
        result = self.step("run")
        self.assertEqual(result.returncode, 5, result.stderr)
        self.assertIn("could not install what is needed", result.stderr)

    def test_package_that_a_part_needs(self):
        self.needs_root()
        self.program("dpkg-query", DPKG_QUERY)
        self.program("apt-get", APT_GET)
        self.write("refused", "ffmpeg\n")
        result = self.step("run", "test", "more")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, "ffmpeg\n")
        self.assertIn("shellcheck", self.lines("installed"))


if __name__ == "__main__":
    unittest.main()
