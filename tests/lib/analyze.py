# SPDX-License-Identifier: GPL-2.0-only
"""Run `fpisa analyze` for its tests."""
import json
import os
import struct
import subprocess

from lab import FPISA, TOP

DATA = os.path.join(TOP, "data", "gradients")


def run(*argv, **options):
    return subprocess.run([FPISA, "analyze", *map(str, argv)], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=300, **options)


def analyze(*argv):
    p = run("--json", *argv)
    assert p.returncode == 0 and p.stderr == "", p
    return json.loads(p.stdout)


def refused(says, *argv, status=1, **options):
    p = run(*argv, **options)
    assert p.returncode == status and p.stdout == "", p
    lines = p.stderr.splitlines()
    assert len(lines) == (2 if status == 2 else 1) and lines[0].startswith("fpisa: ") and says in lines[0], p.stderr


def raw(values, code="f"):
    return struct.pack(f"<{len(values)}{code}", *values)
