#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Check that rooms of user/ use only the rooms below them: tests/lint/rooms.py [BUILD]

ROOMS lists the rooms from the lowest layer up. A file may include headers, and its object may use symbols, of its own room and of rooms on
earlier lines. Files of one room do not use each other in circles. The check names each violation, with the symbols or the header.
"""
import glob
import os
import re
import subprocess
import sys

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

# List the rooms from the lowest layer up. Rooms on one line do not use each other.
ROOMS = [
    ["lib/base"],
    ["lib/soft", "lib/manager"],
    ["lib/transport"],
    ["lib", "cli"],
    ["values", "host", "plan"],
    ["datapath"],
    ["job", "manager"],
    ["config"],
    ["verbs", "serve", "doctor"],
    ["query/lib", "query/soft", "lab/oracle", "lab/testbed", "lab/values"],
    ["query/datapath", "lab/demo", "lab/soak", "lab/bench", "lab/analyze", "lab/tables"],
    ["query/worker"],
    ["query/verbs"],
    [".", "query", "lab"],  # the rooms of each program's main.c
]
LEVEL = {room: i for i, line in enumerate(ROOMS) for room in line}


def room_of(path):
    """Return the room of a file below user/. The room is the file's directory if ROOMS lists it, else the first component of its path."""
    directory = os.path.dirname(path)
    return directory if directory in LEVEL else path.split("/")[0] if directory else "."


def part(room):
    """Return the program of a room. All other programs use the core, and the core uses no other program."""
    first = room.split("/")[0]
    return first if first in ("query", "lab") else "core"


def allowed(a, b):
    return a == b or LEVEL[b] < LEVEL[a] and part(b) in ("core", part(a))


def includes():
    """Yield (file, included header), both below user/."""
    for path in glob.glob("**/*.[ch]", root_dir="user", recursive=True):
        with open(os.path.join("user", path), encoding="utf-8") as f:
            for name in re.findall(r'^#include "([^"]+)"', f.read(), re.M):
                for header in (os.path.join(os.path.dirname(path), name), name):
                    if os.path.exists(os.path.join("user", header)):
                        yield path, os.path.normpath(header)
                        break


def symbols(build):
    """Return {(file, file whose symbols it uses): the symbols}."""
    objects = os.path.join(build, "obj", "user")
    paths = [p for p in glob.glob("**/*.o", root_dir=objects, recursive=True)
             if os.path.exists(os.path.join("user", p[:-2] + ".c"))]  # skip objects whose source no longer exists
    out = subprocess.run(["nm", "-A", *paths], cwd=objects, check=True, capture_output=True, text=True).stdout
    defined, wanted = {}, {}
    for path, kind, name in re.findall(r"^([^:]+)\.o:[0-9a-f ]{16} (\w) (\S+)$", out, re.M):
        if kind == "U":
            wanted.setdefault(path + ".c", set()).add(name)
        elif kind in "TDBRVW":
            defined[name] = path + ".c"
    edges = {}
    for source, names in wanted.items():
        for name in names & defined.keys():
            edges.setdefault((source, defined[name]), set()).add(name)
    return edges


def circles(edges):
    """Return the sets of files that use each other in a circle. These are the strongly connected components, found by Tarjan's
    algorithm."""
    graph = {}
    for a, b in edges:
        graph.setdefault(a, []).append(b)
        graph.setdefault(b, [])
    index, low, stack, found = {}, {}, [], []

    def visit(a):
        index[a] = low[a] = len(index)
        stack.append(a)
        for b in graph[a]:
            if b not in index:
                visit(b)
            if b in stack:
                low[a] = min(low[a], low[b])
        if low[a] == index[a]:
            i = stack.index(a)
            if len(stack) - i > 1:
                found.append(sorted(stack[i:]))
            del stack[i:]

    for a in sorted(graph):
        if a not in index:
            visit(a)
    return found


def main():
    build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(TOP, "build"))
    os.chdir(TOP)
    bad = []
    for path in glob.glob("**/*.[ch]", root_dir="user", recursive=True):
        if room_of(path) not in LEVEL:
            bad.append(f"{path}: its room is not in tests/lint/rooms.py")
    if not bad:
        bad += [f"{a} includes {b}" for a, b in includes() if not allowed(room_of(a), room_of(b))]
        edges = symbols(build)
        bad += [f"{a} uses {', '.join(sorted(names))} of {b}" for (a, b), names in edges.items()
                if not allowed(room_of(a), room_of(b))]
        bad += [f"in a circle: {' '.join(files)}" for files in circles(edges)]
    for line in sorted(bad):
        print("rooms:", line)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
