#!/usr/bin/env python3
"""Checks the text of the tree: marks of unfinished work, blanks at line ends, over-long files.

A source file over 600 lines needs a comment line "long-file: REASON".
Usage: tools/check_text.py [ROOT]
"""

import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tree  # noqa: E402

TEXT = re.compile(r"(\.(c|cc|cpp|h|hpp|inc|def|py|pyi|md|txt|cmake|json|in|map|sh|yml|toml)|"
                  r"/CMakeLists\.txt|^CMakeLists\.txt|^tools/\w+|^\.ci/run|^\.clang-\w+)$")
SOURCE = re.compile(r"\.(c|cc|cpp|h|hpp|inc|py)$")
CXX = re.compile(r"\.(c|cc|cpp|h|hpp)$")
# Written in halves, so that this file passes its own check.
MARKS = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK")) + r")\b")
REASON = re.compile(r"long-file: \S+")
LINES_MAX = 600


def check_file(root, path):
    text = tree.read(root, path)
    lines = text.split("\n")
    if "\r" in text:
        yield f"{path}: carriage returns"
    if text and not text.endswith("\n"):
        yield f"{path}:{len(lines)}: no newline at the end"
    if text.endswith("\n\n"):
        yield f"{path}:{len(lines)}: blank lines at the end"
    for number, line in enumerate(lines, 1):
        if line.rstrip(" \t\r") != line.rstrip("\r"):
            yield f"{path}:{number}: blanks at the end of the line"
        if CXX.search(path) and "\t" in line:
            yield f"{path}:{number}: a tab"
        mark = MARKS.search(line)
        if mark:
            yield f"{path}:{number}: {mark.group(1)}; write an issue or finish it"
    if SOURCE.search(path) and len(lines) - 1 > LINES_MAX and not REASON.search(text):
        yield (f"{path}: {len(lines) - 1} lines; over {LINES_MAX} it needs a comment "
               '"long-file: REASON"')


def check(root):
    paths = [path for path in tree.files(root)
             if TEXT.search(path) and not path.startswith("tests/fuzz/corpus/")]
    faults = [fault for path in paths for fault in check_file(root, path)]
    return tree.report("text", faults, f"{len(paths)} files are clean")


if __name__ == "__main__":
    sys.exit(check(sys.argv[1] if len(sys.argv) > 1 else tree.root_of_this_tree()))
