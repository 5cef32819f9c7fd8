#!/usr/bin/env python3
"""Line coverage of what must be tested well, read from a build made with VRAMLINK_COVERAGE.

Prints a line for each folder and the files that lack most, and fails where a folder is below the
limit. --json reads what gcovr wrote before instead of asking it.
Usage: tools/coverage.py BUILD [ROOT] | --json FILE    Exit status: 0, 1, or 77 without gcovr.
"""

import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tree  # noqa: E402

FOLDERS = ("src/backend/cuda", "src/channel")
LIMIT_PERCENT = 90.0
WORST_FILES = 5


def ask_gcovr(build, root):
    """The summary as text."""
    filters = [f"--filter={os.path.join(root, folder)}/" for folder in FOLDERS]
    result = subprocess.run(
        ["gcovr", os.path.join(build, "src"), "--root", root, *filters,
         "-j", str(os.cpu_count() or 1), "--json-summary"],
        capture_output=True, text=True, check=False)
    if result.returncode != 0:
        print(result.stderr)
        sys.exit(f"coverage: gcovr ended with {result.returncode}")
    return result.stdout


def percent(covered, total):
    return 100.0 * covered / total


def judge(files):
    """Prints the table; returns the exit status."""
    faults = []
    for folder in FOLDERS:
        inside = [file for file in files if file["filename"].startswith(folder + "/")]
        total = sum(file["line_total"] for file in inside)
        covered = sum(file["line_covered"] for file in inside)
        if total == 0:
            faults.append(f"{folder}: nothing was counted; is the build one with VRAMLINK_COVERAGE?")
            continue
        print(f"  {folder:<44} {percent(covered, total):5.1f} %  {covered} of {total} lines")
        if percent(covered, total) < LIMIT_PERCENT:
            faults.append(f"{folder}: {percent(covered, total):.1f} % of the lines ran; "
                          f"{LIMIT_PERCENT:.0f} % must")
    print("  lowest:")
    counted = [file for file in files if file["line_total"] > 0]
    counted.sort(key=lambda file: percent(file["line_covered"], file["line_total"]))
    for file in counted[:WORST_FILES]:
        print(f"    {file['filename']:<42} "
              f"{percent(file['line_covered'], file['line_total']):5.1f} %  "
              f"{file['line_total'] - file['line_covered']} lines did not run")
    return tree.report("coverage", faults, f"at least {LIMIT_PERCENT:.0f} % of each folder ran")


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "--json":
        with open(arguments[1], encoding="utf-8") as file:
            text = file.read()
    elif len(arguments) in (1, 2) and not arguments[0].startswith("-"):
        if shutil.which("gcovr") is None:
            print("coverage: not run: gcovr is not installed (package gcovr)")
            return 77
        text = ask_gcovr(arguments[0], (*arguments, tree.root_of_this_tree())[1])
    else:
        print(__doc__)
        return 2
    return judge(json.loads(text)["files"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
