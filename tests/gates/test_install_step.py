"""The install step of tools/demo and tools/test, on a machine made of stand-in programs."""

import os
import re
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
SUDO = """#!/bin/bash
printf '%s\\n' "$*" >>"$STATE/sudo_calls"
[[ $1 == -n ]] && shift
exec "$@"
"""
REFUSING_SUDO = "#!/bin/bash\necho 'sudo: a password is required' >&2\nexit 1\n"
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

    def as_somebody_with_sudo(self, sudo):
        """Runs the step as a user without rights, who has this program for sudo."""
        shutil.copy(os.path.join(TOOLS, "lib.sh"), self.tree)
        os.chmod(os.path.join(self.tree, "lib.sh"), 0o644)
        for name, text in (("dpkg-query", DPKG_QUERY), ("apt-get", APT_GET), ("sudo", sudo)):
            self.program(name, text)
        for name in ("installed", "calls", "sudo_calls"):
            self.write(name, "")
            os.chmod(os.path.join(self.tree, name), 0o666)
        return self.step("run", user=65534 if os.geteuid() == 0 else None, tools=self.tree)

    def test_sudo(self):
        result = self.as_somebody_with_sudo(SUDO)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sorted(self.lines("installed")), sorted(RUN))
        calls = self.lines("sudo_calls")
        self.assertGreaterEqual(len(calls), 2)
        # Nothing waits for a password where nobody can give one.
        self.assertTrue(all(call.startswith("-n ") for call in calls), calls)
        self.assertIn("apt-get", calls[-1])
        self.assertIn("DEBIAN_FRONTEND=noninteractive", calls[-1])

    def test_sudo_that_wants_a_password(self):
        result = self.as_somebody_with_sudo(REFUSING_SUDO)
        self.assertEqual(result.returncode, 5, result.stderr)
        self.assertIn("Installing needs root or sudo.", result.stderr)
        self.assertNotIn("--no-install", result.stderr)
        self.assertEqual(self.lines("calls"), [])

    def packages_of(self, release, *groups):
        self.write("os-release", release)
        script = 'source "$TOOLS/lib.sh"; os_release=$STATE/os-release; packages "$@"'
        listed = subprocess.run(
            [shutil.which("bash"), "-uc", script, "step", *groups], check=True, text=True,
            capture_output=True, env={"PATH": self.programs, "STATE": self.tree, "TOOLS": TOOLS})
        return [line.split("|") for line in listed.stdout.splitlines()]

    def test_every_need_has_a_name_in_both_distributions(self):
        with open(os.path.join(TOOLS, "lib.sh"), encoding="utf-8") as file:
            table = re.search(r"package_table='\n(.*?)'", file.read(), re.DOTALL).group(1)
        rows = [[cell.strip() for cell in line.split("|")] for line in table.splitlines()]
        groups = ("run", "test", "more", "fresh", "tidy")
        for row in rows:
            self.assertEqual(len(row), 4, row)
            self.assertTrue(all(row), row)
            self.assertIn(row[0], groups)
            for name in row[1:3]:
                self.assertRegex(name, r"^[a-z0-9][a-z0-9.+-]+$")
        for release, column in (("ID=debian\nVERSION_ID=12\n", 1),
                                ("NAME=Ubuntu\nID=ubuntu\nVERSION_ID=24.04\n", 2)):
            self.assertEqual(self.packages_of(release, *groups),
                             [[row[column], row[0], row[3]] for row in rows])

    def test_the_sanitizer_runtime_of_ubuntu_is_that_of_its_clang(self):
        names = [row[0] for row in self.packages_of("ID=ubuntu\n", "more")]
        self.assertIn("libclang-rt-18-dev", names)
        self.assertNotIn("libclang-rt-14-dev", names)

    def required(self, *groups):
        script = 'source "$TOOLS/lib.sh"; require_packages "$@"; echo went on'
        return subprocess.run(
            [shutil.which("bash"), "-uc", script, "step", *groups], capture_output=True, text=True,
            check=False, env={"PATH": self.programs, "STATE": self.tree, "TOOLS": TOOLS})

    def test_required_packages(self):
        self.program("dpkg-query", DPKG_QUERY)
        self.write("installed", "\n".join(RUN[2:-1]) + "\n")
        self.program("cmake", "#!/bin/bash\n")  # of another origin
        result = self.required("run")
        self.assertEqual(result.returncode, 5, result.stdout)
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.stderr,
                         "Missing, and --no-install was given: g++ libpng-dev\n")
        self.write("installed", "\n".join(RUN) + "\n")
        self.assertEqual(self.required("run").stdout, "went on\n")

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
