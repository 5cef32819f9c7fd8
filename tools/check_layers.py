#!/usr/bin/env python3
"""Checks who includes whom (tools/layers.txt), and that every file has an owner and a target.

Usage: tools/check_layers.py [ROOT]
"""

import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tree  # noqa: E402

SOURCE = re.compile(r"\.(c|cc|cpp|cxx|cu|h|hpp|hh|inc)$")
UNIT = re.compile(r"\.(c|cc|cpp|cxx|cu)$")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
PRAGMA_ONCE = re.compile(r"^#pragma once", re.MULTILINE)
CUDA_SWITCH = re.compile(r"^[ \t]*#[ \t]*(?:if|ifdef|ifndef|elif)\b.*CUDA", re.MULTILINE)
STANDARD_C = {"stddef.h", "stdint.h", "stdbool.h"}
CMAKE_FILE = re.compile(r"[\w./${}+-]+\.(?:cpp|cc|cxx|cu|c|py)\b")
CMAKE_LOOP = re.compile(r"foreach\(\s*(\w+)\s+IN\s+ITEMS\s+([^()]*)\)")
CMAKE_COMMENT = re.compile(r"#.*$", re.MULTILINE)


class Rules:
    def __init__(self, text):
        self.layers = {}   # name -> (folder, set of layers seen)
        self.grants = {}   # file -> set of layers
        self.headers = {}  # system header -> folders
        self.once = []     # (prefix, folder)
        for number, line in enumerate(text.splitlines(), 1):
            line = line.split("#", 1)[0].strip()
            if not line:
                continue
            try:
                self._add(line)
            except (ValueError, IndexError):
                raise SystemExit(f"layers.txt:{number}: cannot read: {line}") from None
        known = set(self.layers) | {"*"}
        for name, (_, sees) in self.layers.items():
            for unknown in sees - known:
                raise SystemExit(f"layers.txt: layer {name} sees unknown layer {unknown}")

    def _add(self, line):
        kind, rest = line.split(None, 1)
        if kind == "once":
            prefix, folder = rest.split()
            self.once.append((prefix, folder))
            return
        head, _, tail = rest.partition(":")
        if kind == "layer":
            name, folder = head.split()
            self.layers[name] = (folder, set(tail.split()))
        elif kind == "grant":
            self.grants[head.strip()] = set(tail.split())
        elif kind == "header":
            self.headers[head.strip()] = tail.split()
        else:
            raise ValueError(kind)

    def owner(self, path):
        """The layer with the longest folder that holds path, or None."""
        best = None
        for name, (folder, _) in self.layers.items():
            if path.startswith(folder + "/") and (
                    best is None or len(folder) > len(self.layers[best][0])):
                best = name
        return best

    def may_include(self, path, layer, target):
        sees = self.layers[layer][1]
        return target == layer or "*" in sees or target in sees or target in self.grants.get(
            path, ())


def resolve(path, name, known):
    """The file of the tree that an include names, or None."""
    top = path.split("/", 1)[0]
    for base in (os.path.dirname(path), "src", "include", top):
        candidate = os.path.normpath(os.path.join(base, name)).replace(os.sep, "/")
        if candidate in known:
            return candidate
    return None


def is_standard(name):
    return "/" not in name and ("." not in name or name in STANDARD_C)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def check_includes(path, layer, text, rules, known, once_users):
    faults = []
    for match in INCLUDE.finditer(text):
        quoted, angled = match.groups()
        name = quoted or angled
        where = f"{path}:{line_of(text, match.start())}"
        target = resolve(path, name, known)
        if target is None:
            if quoted:
                faults.append(f'{where}: "{name}" is no file of this tree')
            elif name.startswith("vramlink/"):
                faults.append(f"{where}: <{name}> is no public header")
            elif layer == "public" and not is_standard(name):
                faults.append(f"{where}: a public header includes <{name}>; only the standard "
                              "library and its neighbours are allowed")
            folders = rules.headers.get(name)
            if folders is not None:
                inside = any(path.startswith(folder + "/") for folder in folders)
                if not inside or not (UNIT.search(path) or path.startswith("tests/")):
                    faults.append(f"{where}: <{name}> belongs in .cpp files of "
                                  f"{', '.join(folders)} only")
            for prefix, folder in rules.once:
                if name.startswith(prefix) and path.startswith(folder + "/"):
                    once_users.setdefault((prefix, folder), set()).add(path)
            continue
        owner = rules.owner(target)
        if owner is not None and not rules.may_include(path, layer, owner):
            faults.append(f"{where}: layer {layer} must not include {target} of layer {owner}")
    return faults


def named_by_cmake(root, paths):
    """Every source and Python file that a CMakeLists.txt names, as paths of the tree."""
    named = set()
    for path in paths:
        if os.path.basename(path) != "CMakeLists.txt":
            continue
        folder = os.path.dirname(path)
        text = CMAKE_COMMENT.sub("", tree.read(root, path))
        tokens = CMAKE_FILE.findall(text)
        for variable, items in CMAKE_LOOP.findall(text):
            tokens += [token.replace("${%s}" % variable, item)
                       for token in tokens if "${%s}" % variable in token for item in items.split()]
        for token in tokens:
            base = folder
            for variable, place in (("CMAKE_CURRENT_SOURCE_DIR", folder), ("PROJECT_SOURCE_DIR", ""),
                                    ("CMAKE_SOURCE_DIR", "")):
                prefix = "${%s}/" % variable
                if token.startswith(prefix):
                    token, base = token[len(prefix):], place
            named.add(os.path.normpath(os.path.join(base, token)).replace(os.sep, "/"))
    return named


def check(root):
    paths = tree.files(root)
    known = set(paths)
    rules = Rules(tree.read(root, "tools/layers.txt"))
    named = named_by_cmake(root, paths)
    faults = []
    once_users = {}
    count = 0
    for path in paths:
        is_test_program = path.startswith("tests/") and re.fullmatch(
            r"test_\w+\.py", os.path.basename(path))
        if is_test_program and path not in named:
            faults.append(f"{path}: no CMakeLists.txt names this test")
        if not SOURCE.search(path):
            continue
        count += 1
        layer = rules.owner(path)
        if layer is None:
            faults.append(f"{path}: no layer owns this file (tools/layers.txt)")
            continue
        if UNIT.search(path) and path not in named:
            faults.append(f"{path}: no CMakeLists.txt names this file")
        text = tree.read(root, path)
        faults += check_includes(path, layer, text, rules, known, once_users)
        if not path.startswith(("src/backend/", "tests/")):
            for match in CUDA_SWITCH.finditer(text):
                faults.append(f"{path}:{line_of(text, match.start())}: a preprocessor switch on "
                              "CUDA outside src/backend")
        if layer == "public" and PRAGMA_ONCE.search(text):
            faults.append(f"{path}: a public header needs an include guard: it is precompiled, and "
                          "#pragma once goes by the times that it had then")
    for (prefix, folder), users in sorted(once_users.items()):
        if len(users) > 1 or not all(UNIT.search(user) for user in users):
            faults.append(f"{folder}: headers of {prefix} may be included by one .cpp only, not by "
                          f"{', '.join(sorted(users))}")
    return tree.report("layers", faults, f"{count} files keep the include rule")


if __name__ == "__main__":
    sys.exit(check(sys.argv[1] if len(sys.argv) > 1 else tree.root_of_this_tree()))
