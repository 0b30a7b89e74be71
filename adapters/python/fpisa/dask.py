# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Dask adapter. Collections are summed by a tree of merges. Each partition contributes a partial of 16 to 312 bytes."""
from __future__ import annotations

from typing import Any

import dask

from . import _sums

FAN_IN = 8


def _parts(collection: Any) -> Any:
    """Return the partitions of a DataFrame column, a bag or an array as delayed values."""
    parts = collection.to_delayed()
    return list(parts.ravel()) if hasattr(parts, "ravel") else list(parts)


def accumulator(collection: Any) -> Any:
    """Return a delayed Accumulator of all values."""
    level = [dask.delayed(_sums.Accumulator)(part) for part in _parts(collection)]
    while len(level) > 1:
        level = [dask.delayed(_sums.merged)(level[i:i + FAN_IN]) for i in range(0, len(level), FAN_IN)]
    return level[0] if level else dask.delayed(_sums.Accumulator)()


def sum(collection: Any, dtype: Any = None) -> Any:
    """Return a delayed exact sum, rounded once."""
    return accumulator(collection).value(dtype)
