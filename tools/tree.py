"""The files of the tree, for the gates: what git knows or would add, or a walk where git is not."""

import os
import subprocess

SKIPPED_FOLDERS = {".git", ".cache", "__pycache__", "build", ".venv", ".pytest_cache"}


def _walk(root):
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if name not in SKIPPED_FOLDERS)
        for name in files:
            yield os.path.relpath(os.path.join(folder, name), root)


def files(root):
    """Sorted paths relative to root, with / between parts; only files that exist."""
    try:
        listing = subprocess.run(
            ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            capture_output=True, check=True, text=True).stdout.split("\0")
    except (OSError, subprocess.CalledProcessError):
        listing = _walk(root)
    paths = {path for path in listing if path and os.path.isfile(os.path.join(root, path))}
    return sorted(path for path in paths if not os.path.islink(os.path.join(root, path)))


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace", newline="") as file:
        return file.read()


def root_of_this_tree():
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def report(gate, faults, good):
    """Prints the faults, or what is good; returns the exit status."""
    for fault in faults:
        print(f"{gate}: {fault}")
    if faults:
        print(f"{gate}: {len(faults)} fault(s)")
        return 1
    print(f"{gate}: {good}")
    return 0
