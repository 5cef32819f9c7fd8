#!/usr/bin/env python3
"""Checks the documents: relative links lead to files and headings of the tree; none is too long; in
tables of measurements the numbers stand under their headings: p50 <= p99 <= p99.9 <= max, and what is
said of a floor is the ratio of the two.

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
TABLE = re.compile(r"^\|.*\|[ \t]*\n\|[-:| ]+\|[ \t]*\n(?:\|.*\|[ \t]*(?:\n|\Z))+", re.MULTILINE)
ASCENDING = ("p50", "p99", "p99.9", "max")
RATIO_TOLERANCE = 0.02  # both sides are rounded
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


def cells(line):
    return [cell.strip().strip("*") for cell in line.strip().strip("|").split("|")]


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


def check_row(row):
    """What is wrong with the numbers of a row, a dictionary by heading."""
    known = [(name, row[name]) for name in ASCENDING if row.get(name) is not None]
    for (low, small), (high, large) in zip(known, known[1:]):
        if small > large:
            yield f"{low} of {small:g} is more than {high} of {large:g}"
    p50, floor, ratio = (row.get(name) for name in ("p50", "floor", "x floor"))
    if None not in (p50, floor, ratio) and abs(p50 / floor - ratio) > RATIO_TOLERANCE * ratio:
        yield f"{p50:g} is not {ratio:g} times {floor:g}"


def check_tables(path, prose):
    for table in TABLE.finditer(prose):
        lines = table.group(0).splitlines()
        headings = cells(lines[0])
        if "p50" not in headings:
            continue
        first = prose.count("\n", 0, table.start()) + 1
        for offset, line in enumerate(lines[2:], 2):
            row = dict(zip(headings, map(number, cells(line))))
            for fault in check_row(row):
                yield f"{path}:{first + offset}: {fault}"


def check_file(root, path, known, folders):
    text = tree.read(root, path)
    count = text.count("\n")
    if count > LINES_MAX and os.path.basename(path) != "CHANGELOG.md":
        yield f"{path}: {count} lines; at most {LINES_MAX}"
    prose = CODE.sub(blanked, FENCE.sub(blanked, text))
    yield from check_tables(path, prose)
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
