#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Check that each name has one meaning: tests/lint/names.py

In bpf/, include/ and user/ no two headers have the same include guard, and no two definitions of a struct, union or enum with the prefix
fpisa_ have the same tag. Otherwise a file that includes both headers would miss the second, or would not compile.
"""
import glob
import os
import re
import sys

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def named():
    """Yield (kind, name, file) of each guard and each definition."""
    for folder in "bpf", "include", "user":
        for path in glob.glob(f"{folder}/**/*.[ch]", recursive=True):
            with open(path, encoding="utf-8") as f:
                text = f.read()
            guard = re.search(r"^#ifndef (\w+)\n#define \1$", text, re.M)
            if guard and path.endswith(".h"):
                yield "guard", guard[1], path
            for kind, tag in re.findall(r"^(struct|union|enum) (fpisa_\w+) \{", text, re.M):
                yield kind, tag, path


def main():
    os.chdir(TOP)
    where = {}
    for what, name, path in named():
        where.setdefault((what, name), []).append(path)
    bad = [f"{what} {name} is defined in {' and in '.join(paths)}" for (what, name), paths in where.items() if len(paths) > 1]
    for line in sorted(bad):
        print("names:", line)
    return 1 if bad or not where else 0


if __name__ == "__main__":
    sys.exit(main())
