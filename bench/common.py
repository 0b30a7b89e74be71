# SPDX-License-Identifier: GPL-2.0-only
"""Functions for measurements with the networks of tests/lib."""
import os
import signal
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "lib"))

import lab as labs  # noqa: E402

HEADERS = 14 + 20 + 8 + 76  # Ethernet, IP, UDP, ours: bytes that tbf counts in addition to the values


def own_mounts():
    """Enter private mounts with a BPF filesystem, so that pins end with this process."""
    labs.own_mounts()
    labs.mount(b"bpf", labs.BPFFS, b"bpf")


def exit_on_signals():
    """Clean up on a signal as at any other end."""
    for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(s, lambda number, frame: sys.exit(128 + number))


def runnable(tool, only, missing):
    """Return the names in `only`, a list with commas, of the contenders that can run here. missing() says what one lacks, or None."""
    names = []
    for name in only.split(","):
        lacks = missing(name)
        if lacks:
            print(f"{tool}: {name}: left out, {lacks} is not installed", file=sys.stderr)
        else:
            names.append(name)
    return names


def numbers(text):
    return [int(x) for x in text.split(",")]


def quartiles(values):
    """Return (lower, upper), or a single value twice."""
    if len(values) < 2:
        return values[0], values[0]
    q = statistics.quantiles(values, n=4, method="inclusive")
    return q[0], q[2]
