#!/usr/bin/env python3
"""Checks the documents: relative links lead to files and headings of the tree; none is too long.

Usage: tools/check_docs.py [ROOT]
"""

import os
import re
import sys
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tree  # noqa: E402

LINES_MAX = 300
FENCE = re.compile(r"^(```|~~~).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]:\s*<?(\S+?)>?\s*$", re.MULTILINE)
HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t]*#*$", re.MULTILINE)
ELSEWHERE = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def blanked(match):
    return re.sub(r"[^\n]", " ", match.group(0))


def anchors(text):
    """The anchors that a reader's page makes of the headings."""
    found = {}
    for heading in HEADING.findall(FENCE.sub(blanked, text)):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        count = found.get(name, 0)
        found[name] = count + 1
        if count:
            found[f"{name}-{count}"] = 1
    return set(found)


def check_file(root, path, known, folders):
    text = tree.read(root, path)
    count = text.count("\n")
    if count > LINES_MAX and os.path.basename(path) != "CHANGELOG.md":
        yield f"{path}: {count} lines; at most {LINES_MAX}"
    prose = CODE.sub(blanked, FENCE.sub(blanked, text))
    for match in [*LINK.finditer(prose), *REFERENCE.finditer(prose)]:
        link = urllib.parse.unquote(match.group(1))
        if ELSEWHERE.match(link):
            continue
        where = f"{path}:{prose.count(chr(10), 0, match.start()) + 1}"
        name, _, anchor = link.partition("#")
        target = path
        if name:
            target = os.path.normpath(os.path.join(os.path.dirname(path), name))
            target = target.replace(os.sep, "/")
            if target not in known and target not in folders:
                yield f"{where}: {link} leads nowhere"
                continue
        if anchor and target.endswith(".md") and anchor not in anchors(tree.read(root, target)):
            yield f"{where}: {target} has no heading for #{anchor}"


def check(root):
    paths = tree.files(root)
    known = set(paths)
    folders = {"."}
    for path in paths:
        while path := os.path.dirname(path):
            folders.add(path)
    documents = [path for path in paths if path.endswith(".md")]
    faults = [fault for path in documents for fault in check_file(root, path, known, folders)]
    return tree.report("docs", faults, f"{len(documents)} documents: every link leads somewhere")


if __name__ == "__main__":
    sys.exit(check(sys.argv[1] if len(sys.argv) > 1 else tree.root_of_this_tree()))
