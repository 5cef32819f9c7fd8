#!/usr/bin/env python3
"""Compares the symbols that the shared library exports with abi/exports.txt, both ways.

Usage: tools/check_exports.py [--update] [--list FILE] [LIBRARY]
Without LIBRARY it takes the newest of the builds without sanitizers under build/.
Exit status: 0 equal, 1 different, 77 no library was built.
"""

import argparse
import glob
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tree  # noqa: E402

SKIPPED = 77
SYMBOL = re.compile(r"^[0-9a-f]+ ([A-Za-z]) (.+)$")


def exported(library):
    """The demangled names that a library defines for others, sorted, each once."""
    output = subprocess.run(["nm", "--dynamic", "--defined-only", "--demangle", library],
                            stdout=subprocess.PIPE, text=True, check=True).stdout
    names = set()
    for line in output.splitlines():
        match = SYMBOL.match(line)
        if match:
            # The compiler names its own inline namespace in some places only.
            names.add(match.group(2).replace("std::__cxx11::", "std::").replace("[abi:cxx11]", ""))
    return sorted(names)


def newest_library(root):
    found = [path for preset in ("dev", "release", "demo")
             for path in glob.glob(os.path.join(root, "build", preset, "src", "libvramlink.so"))]
    return max(found, key=os.path.getmtime, default=None)


def main():
    root = tree.root_of_this_tree()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="write the list")
    parser.add_argument("--list", default=os.path.join(root, "abi", "exports.txt"))
    parser.add_argument("library", nargs="?")
    arguments = parser.parse_args()
    library = arguments.library or newest_library(root)
    if library is None:
        print("exports: not run: no shared library was built under build/")
        return SKIPPED
    try:
        actual = exported(library)
    except (OSError, subprocess.CalledProcessError) as error:
        return tree.report("exports", [f"nm cannot read {library}: {error}"], "")
    if arguments.update:
        with open(arguments.list, "w", encoding="utf-8") as file:
            file.writelines(f"{name}\n" for name in actual)
        print(f"exports: wrote {len(actual)} names")
        return 0
    expected = []
    faults = []
    try:
        with open(arguments.list, encoding="utf-8") as file:
            expected = [line.rstrip("\n") for line in file if line.strip()]
    except FileNotFoundError:
        faults.append(f"there is no {arguments.list}")
    if expected != sorted(set(expected)):
        faults.append(f"{arguments.list} is not sorted, or names something twice")
    faults += [f"exported, but not in the list: {name}" for name in actual if name not in expected]
    faults += [f"in the list, but not exported: {name}" for name in expected if name not in actual]
    if faults:
        faults.append("if this is meant: tools/check_exports.py --update, and a line in CHANGELOG.md")
    return tree.report("exports", faults, f"{len(actual)} exported names are the listed ones")


if __name__ == "__main__":
    sys.exit(main())
