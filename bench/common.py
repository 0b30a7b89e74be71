# SPDX-License-Identifier: GPL-2.0-only
"""Functions for measurements with the networks of tests/lib."""
import os
import signal
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "lib"))

import lab as labs  # noqa: E402

HEADERS = 14 + 20 + 8 + 76  # bytes of Ethernet, IP, UDP and FPISA headers, which tbf counts in addition to the values


def own_mounts():
    """Enter a private mount namespace with a BPF filesystem, so that pins end with this process."""
    labs.own_mounts()
    labs.mount(b"bpf", labs.BPFFS, b"bpf")


def exit_on_signals():
    """Make a signal end the process by an exception, so that clean-up happens as usual. If a destructor loses the exception,
    raise another one.
    """
    def lost(what):
        if isinstance(what.exc_value, SystemExit):
            signal.setitimer(signal.ITIMER_REAL, 0.01)
        else:
            sys.__unraisablehook__(what)

    for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM):
        signal.signal(s, lambda number, frame: sys.exit(128 + number))
    sys.unraisablehook = lost


def runnable(tool, only, missing):
    """Return the contenders that can run here. If `only`, a comma-separated list, is set, return only those that it names.
    missing() says what a contender lacks, or returns None.
    """
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
    """Return the lower and upper quartile, or a single value twice."""
    if len(values) < 2:
        return values[0], values[0]
    q = statistics.quantiles(values, n=4, method="inclusive")
    return q[0], q[2]
