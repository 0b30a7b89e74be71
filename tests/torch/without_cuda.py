#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Make PyPI's torch for Linux usable without CUDA's libraries, which are several GB.

    without_cuda.py FOLDER      torch/lib of an installed wheel

Write a stand-in for each missing library of CUDA into FOLDER. The stand-in defines the functions that the wheel's libraries take from the
missing library. Each function returns 100, "no CUDA-capable device", so torch.cuda.is_available() is False.
"""
import collections
import glob
import os
import re
import subprocess
import sys

NO_DEVICE = 100
CUDA = re.compile(r"lib(cu|nv|nccl)")
FUNCTION = re.compile(r"(__)?(cu|nccl|nv)[A-Za-z]*[A-Z_]")


def readelf(*argv):
    return subprocess.run(["readelf", "-W", *argv], check=True, text=True, stdout=subprocess.PIPE).stdout


def wanted(folder):
    """Return {missing library: {version: symbols}} of the symbols that each missing library must define. Symbols without a version have the
    version None."""
    versions, names = {}, collections.defaultdict(set)
    for path in glob.glob(f"{folder}/*.so"):
        for library in re.findall(r"NEEDED.*\[(.*)\]", readelf("-d", path)):
            if CUDA.match(library) and not os.path.exists(os.path.join(folder, library)):
                versions.setdefault(library, set())
        for library, block in re.findall(r"File: (\S+) +Cnt: \d+\n((?:.* Name: .*\n)+)", readelf("-V", path)):
            if library in versions:
                versions[library] |= set(re.findall(r"Name: (\S+)", block))
        for name, version in re.findall(r" UND (\w+)(?:@(\S+))?", readelf("--dyn-syms", path)):
            if version or FUNCTION.match(name):
                names[version or None].add(name)
    return versions, names


def write(path, versions, names):
    """Compile the stand-in. It defines the functions of each symbol version or, if `versions` is empty, the unversioned functions."""
    script = "".join(f"{v} {{ global: {' '.join(n + ';' for n in sorted(names[v]))} }};\n" for v in sorted(versions))
    functions = set().union(*(names[v] for v in versions or [None]))
    with open(path + ".map", "w") as f:
        f.write(script)
    subprocess.run(["gcc", "-w", "-O1", "-fno-builtin", "-shared", "-fPIC", "-xc", "-", "-o", path, f"-Wl,-soname,{os.path.basename(path)}",
                    *([f"-Wl,--version-script={path}.map"] if versions else [])],
                   input="".join(f"long {n}(void) {{ return {NO_DEVICE}; }}\n" for n in sorted(functions)), text=True, check=True)
    os.remove(path + ".map")


def main():
    folder, = sys.argv[1:]
    versions, names = wanted(folder)
    for library in versions:
        write(os.path.join(folder, library), versions[library], names)


if __name__ == "__main__":
    main()
