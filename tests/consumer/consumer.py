"""Builds and runs main.cpp as another project would, in one of these ways:

find_package_shared, find_package_static, pkg_config_shared, pkg_config_static, add_subdirectory.

Usage: consumer.py WAY SHARED_BUILD STATIC_BUILD WORK_FOLDER. An install tree is moved before it
is used: nothing in it may know where it was made.
"""

import os
import re
import shutil
import subprocess
import sys

# What is built here is run once: quick to compile, and not for a debugger. File by file and without
# precompiled headers, as projects do: who misses an include is found nowhere else.
QUICK = ("-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0", "-DCMAKE_UNITY_BUILD=OFF",
         "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON")
HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
COMPILER = os.environ.get("CXX", "c++")


def run(*command, **more):
    print("+", " ".join(command), flush=True)
    return subprocess.run(command, check=True, **more)


def installed(build, work):
    first, moved = os.path.join(work, "first"), os.path.join(work, "moved")
    run("cmake", "--install", build, "--prefix", first)
    os.rename(first, moved)
    for folder, _, names in os.walk(moved):
        for name in names:
            if name.endswith((".cmake", ".pc")):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    text = file.read()
                if re.search(rf"(?:^|[\s\"'=;:])(?:{re.escape(SOURCE)}|{re.escape(first)})(?:/|\b)",
                             text, re.MULTILINE):
                    sys.exit(f"{name} holds a path of the machine that built it")
    return moved


def build_and_run(source, work, *options):
    build = os.path.join(work, "build")
    run("cmake", "-G", "Ninja", "-S", source, "-B", build, f"-DCMAKE_CXX_COMPILER={COMPILER}",
        *options)
    run("cmake", "--build", build)
    run(os.path.join(build, "consumer"))


def find_package(prefix, work):
    with open(os.path.join(SOURCE, "CMakeLists.txt"), encoding="utf-8") as file:
        version = file.read().split("VERSION", 2)[2].split()[0]
    wanted = ".".join(version.split(".")[:2])
    build_and_run(os.path.join(HERE, "find_package"), work, f"-DCMAKE_PREFIX_PATH={prefix}",
                  f"-DWANTED_VERSION={wanted}")


def pkg_config(prefix, work, *options):
    if not shutil.which("pkg-config"):
        print("skipped: pkg-config is not installed")
        sys.exit(77)
    [folder] = [os.path.join(place, "pkgconfig") for place, names, _ in os.walk(prefix)
                if "pkgconfig" in names]
    environment = dict(os.environ, PKG_CONFIG_PATH=folder)
    flags = run("pkg-config", *options, "--cflags", "--libs", "vramlink", env=environment,
                capture_output=True, text=True).stdout.split()
    program = os.path.join(work, "consumer")
    run(COMPILER, "-std=c++20", os.path.join(HERE, "main.cpp"), "-o", program, *flags)
    run(program, env=dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(folder)))


def main():
    way, shared_build, static_build, work = sys.argv[1:]
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    if way == "find_package_shared":
        find_package(installed(shared_build, work), work)
    elif way == "find_package_static":
        find_package(installed(static_build, work), work)
    elif way == "pkg_config_shared":
        pkg_config(installed(shared_build, work), work)
    elif way == "pkg_config_static":
        pkg_config(installed(static_build, work), work, "--static")
    elif way == "add_subdirectory":
        build_and_run(os.path.join(HERE, "add_subdirectory"), work, f"-DVRAMLINK_SOURCE={SOURCE}",
                      "-DBUILD_SHARED_LIBS=OFF", "-DVRAMLINK_INSTALL=ON", *QUICK)
    else:
        sys.exit(f"unknown way: {way}")


if __name__ == "__main__":
    main()
