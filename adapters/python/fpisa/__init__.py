# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Sum arrays and columns exactly, and all-reduce numpy arrays through an FPISA aggregator.

    import fpisa

    fpisa.sum(x), fpisa.mean(x, by=keys), fpisa.dot(x, y)      # the same bits in every order: doc/sums.md

    with fpisa.Group("aggregator", "train", rank, size) as group:
        sums, flags = group.allreduce(gradient)                # doc/python.md

    table = fpisa.query("sales", "10.0.0.11,10.0.0.12", by="shop", value="price", prune="workers")

The sums need neither numpy nor a network. Group: ranks that find each other by a name, at the manager of the aggregator.
Handle: a rank of a job that `fpisa job add` created. Mem: an aggregator inside this process, for tests. These need numpy and
libfpisa, which is loaded on first use. query() needs pyarrow and libfpisa-query. Errors are subclasses of fpisa.Error, which
is an OSError and names the ranks that it is about.
"""
import importlib
from typing import Any

_HOMES = {
    "_sums": ["Accumulator", "dot", "mean", "merged", "norm2", "sum", "var"],
    "_groups": ["Groups"],
    "_core": ["vectors"],
    "_arrays": ["Flags", "Result"],
    "_calls": ["Request"],
    "_errors": ["CallsDiffer", "Canceled", "Error", "InvalidCall", "LibraryMissing", "Overflow", "RankLost", "Stale", "TimedOut",
                "Unclean"],
    "_group": ["Group"],
    "_handle": ["Handle", "Info", "Mem"],
    "_query": ["query"],
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME)
__version__ = "0.3.0"


def __getattr__(name: str) -> Any:
    """Import the module of a name on first use. So sums work without numpy, and the rest works without the compiled sums."""
    if name not in _HOME:
        raise AttributeError(f"module 'fpisa' has no attribute {name!r}")
    return getattr(importlib.import_module("." + _HOME[name], __name__), name)


def __dir__() -> Any:
    return __all__
