#!/usr/bin/env python3
"""The device process runs where no thread of libc does: its object files may call nothing else.

Reads OBJECTS, object files separated by colons.
"""

import os
import re
import shutil
import subprocess
import sys

FILES = ("device_loop.cpp", "device_process.cpp", "ipc_server.cpp", "kernels.cpp")
# Our own functions; what the linker needs; calls that g++ leaves open for itself on aarch64.
ALLOWED = re.compile(r"(_ZN8vramlink7simcuda\w+|_ZNK8vramlink7simcuda\w+|_GLOBAL_OFFSET_TABLE_|"
                     r"__gxx_personality_v0|__aarch64_\w+|__gcov\w*|__llvm\w*)$")


def undefined(path):
    text = subprocess.run(["nm", "-u", path], check=True, capture_output=True, text=True).stdout
    return [line.split()[-1] for line in text.splitlines() if line.strip()]


def main():
    if shutil.which("nm") is None:
        print("skipped: nm is not installed")
        return 77
    found = [path for path in os.environ["OBJECTS"].split(":")
             if os.path.basename(path).startswith(FILES)]
    if len(found) != len(FILES):
        print(f"expected the objects of {FILES}, got {found}")
        return 1
    faults = [f"{os.path.basename(path)} calls {symbol}" for path in found
              for symbol in undefined(path) if not ALLOWED.match(symbol)]
    # The gate must be able to fail: other files of the library do call libc.
    others = [path for path in os.environ["OBJECTS"].split(":") if path not in found]
    if not any(not ALLOWED.match(symbol) for path in others for symbol in undefined(path)):
        faults.append("the others seem to call nothing outside either: the check sees nothing")
    print("\n".join(faults) or f"{len(found)} object files call nothing outside")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
