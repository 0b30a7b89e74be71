#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Print the lines that test programs ran, by room, and the unit suite's share of all lines: tests/coverage.py BUILD PROGRAM...

BUILD is from `make coverage`, which builds with --coverage instead of sanitizers. A line that several programs contain counts once, and is
covered if any of them ran it. Lines of headers count for the header. The exit status is 1 if a program failed.
"""
import collections
import glob
import json
import os
import subprocess
import sys


def run(programs):
    """Run the programs. Return the names of those that failed."""
    failed = []
    for p in programs:
        done = subprocess.run([p], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            print(f"coverage: {p}: status {done.returncode}\n{done.stdout[-2000:]}", file=sys.stderr)
            failed.append(p)
    return failed


def lines(build):
    """Return {file of user/ or include/: {line: whether the line ran}}."""
    found = collections.defaultdict(dict)
    for data in glob.glob(os.path.join(build, "san", "**", "*.gcda"), recursive=True):
        out = subprocess.run(["gcov", "--json-format", "--stdout", data], text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, check=True).stdout
        for text in out.splitlines():
            for source in json.loads(text)["files"]:
                path = os.path.relpath(source["file"])
                if path.startswith(("user/", "include/")):
                    for line in source["lines"]:
                        at = line["line_number"]
                        found[path][at] = found[path].get(at, False) or line["count"] > 0
    return found


def main():
    build, programs = sys.argv[1], sys.argv[2:]
    failed = run(programs)
    rooms = collections.defaultdict(lambda: [0, 0])
    for path, of in lines(build).items():
        for room in os.path.dirname(path), "all":
            rooms[room][0] += sum(of.values())
            rooms[room][1] += len(of)
    for room, (ran, n) in sorted(rooms.items(), key=lambda r: (r[0] == "all", r[0])):
        print(f"{100 * ran / n:5.1f}%  {ran:6} of {n:6} lines  {room if room != 'all' else 'all rooms: the share of the unit suite'}")
    return 1 if failed or not rooms else 0


if __name__ == "__main__":
    sys.exit(main())
