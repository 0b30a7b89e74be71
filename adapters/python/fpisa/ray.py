# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Ray adapter. A tree of tasks merges the partials of arrays, or of references to arrays."""
from __future__ import annotations

from typing import Any, List

import ray

from . import _sums

FAN_IN = 8


@ray.remote
def _one(x: Any) -> Any:
    return _sums.Accumulator(x)


@ray.remote
def _merge(*parts: Any) -> Any:
    return _sums.merged(parts)


def accumulator(blocks: List[Any]) -> Any:
    """Return a reference to the Accumulator of all values. The arguments are arrays or references to arrays."""
    level = [_one.remote(block) for block in blocks]
    while len(level) > 1:
        level = [_merge.remote(*level[i:i + FAN_IN]) for i in range(0, len(level), FAN_IN)]
    return level[0] if level else _one.remote([])
