# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""All-reduce of numpy arrays through an FPISA aggregator: libfpisa from Python.

    import fpisa

    with fpisa.Group("aggregator", "train", rank, size) as group:
        sums, flags = group.allreduce(gradient)
        group.allreduce(gradient, op="avg", out=gradient)

Group: ranks that find each other by a name, at the manager of the aggregator. Handle: a rank of a job made by `fpisa
job add`. Mem: an aggregator inside this process, for tests. Errors are subclasses of fpisa.Error, which is an OSError
and names the ranks that it is about. doc/python.md has the whole.
"""
from ._arrays import Flags, Result
from ._calls import Request
from ._errors import (CallsDiffer, Canceled, Error, InvalidCall, LibraryMissing, Overflow, RankLost, Stale,
                      TimedOut, Unclean)
from ._group import Group
from ._handle import Handle, Info, Mem

__all__ = ["CallsDiffer", "Canceled", "Error", "Flags", "Group", "Handle", "Info", "InvalidCall", "LibraryMissing",
           "Mem", "Overflow", "RankLost", "Request", "Result", "Stale", "TimedOut", "Unclean"]
__version__ = "0.3.0"
