#!/usr/bin/env python3
"""Checks that the C++ in the documents is code that the tests compile.

Before each ```cpp block stands a line <!-- from PATH -->; the block is a run of lines of that file,
with its indentation removed. The file lies where tests build everything: examples/ or tests/.
Usage: tools/check_quotes.py [ROOT]
"""

import os
import re
import sys
import textwrap

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tree  # noqa: E402

BLOCK = re.compile(r"(?:^<!-- from (\S+) -->\n+)?^```(?:cpp|c\+\+)[ \t]*\n(.*?)^```[ \t]*$",
                   re.MULTILINE | re.DOTALL)
COMPILED = ("examples/", "tests/")


def outdented(lines):
    return textwrap.dedent("\n".join(lines)).split("\n")


def is_quote(block, text):
    wanted = block.rstrip("\n").split("\n")
    lines = text.split("\n")
    return any(outdented(lines[i:i + len(wanted)]) == wanted
               for i in range(len(lines) - len(wanted) + 1))


def check_file(root, path, known):
    text = tree.read(root, path)
    for match in BLOCK.finditer(text):
        where = f"{path}:{text.count(chr(10), 0, match.start(2))}"
        source = match.group(1)
        if source is None:
            yield f"{where}: C++ without a line <!-- from PATH --> before it"
        elif source not in known:
            yield f"{where}: {source} does not exist"
        elif not source.startswith(COMPILED):
            yield f"{where}: {source} is not compiled by a test; quote from {' or '.join(COMPILED)}"
        elif not is_quote(match.group(2), tree.read(root, source)):
            yield f"{where}: differs from {source}"


def check(root):
    paths = tree.files(root)
    known = set(paths)
    documents = [path for path in paths if path.endswith(".md")]
    faults = [fault for path in documents for fault in check_file(root, path, known)]
    return tree.report("quotes", faults, f"the C++ in {len(documents)} documents is compiled")


if __name__ == "__main__":
    sys.exit(check(sys.argv[1] if len(sys.argv) > 1 else tree.root_of_this_tree()))
