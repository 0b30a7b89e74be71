# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""DataFusion adapter with the aggregates `sum`, `mean` and `partial` for expressions. register(context) also adds them to SQL."""
from __future__ import annotations

from typing import Any, List

import datafusion
import pyarrow

from . import _sums


class Sum(datafusion.Accumulator):
    """An aggregate whose state between partitions is a partial (doc/partial.md)."""

    def __init__(self) -> None:
        self._sum = _sums.Accumulator()

    def update(self, *values: pyarrow.Array) -> None:
        self._sum.add(values[0])

    def merge(self, states: List[pyarrow.Array]) -> None:
        for state in states[0].to_pylist():
            self._sum.merge(state)

    def state(self) -> List[pyarrow.Scalar]:
        return [pyarrow.scalar(self._sum.to_bytes(), pyarrow.binary())]

    def evaluate(self) -> pyarrow.Scalar:
        return pyarrow.scalar(self._sum.value())


class Mean(Sum):
    def evaluate(self) -> pyarrow.Scalar:
        return pyarrow.scalar(self._sum.mean())


class Partial(Sum):
    def evaluate(self) -> pyarrow.Scalar:
        return pyarrow.scalar(self._sum.to_bytes(), pyarrow.binary())


def _aggregate(of: Any, gives: pyarrow.DataType, name: str) -> Any:
    return datafusion.udaf(of, [pyarrow.float64()], gives, [pyarrow.binary()], "immutable", name)


sum = _aggregate(Sum, pyarrow.float64(), "fpisa_sum")
mean = _aggregate(Mean, pyarrow.float64(), "fpisa_mean")
partial = _aggregate(Partial, pyarrow.binary(), "fpisa_partial")


def register(context: Any) -> Any:
    """Add fpisa_sum(x), fpisa_mean(x) and fpisa_partial(x) to the SQL of this context. Return the context."""
    for function in sum, mean, partial:
        context.register_udaf(function)
    return context
