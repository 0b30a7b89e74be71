# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Polars adapter. `import fpisa.polars` adds the namespace `fpisa` to expressions, also in group_by().agg()."""
from __future__ import annotations

from typing import Any

import polars

from . import _sums


@polars.api.register_expr_namespace("fpisa")
class Exact:
    """The methods pl.col("x").fpisa.sum(), mean() and partial(), and merge() for a column of partials."""

    def __init__(self, expr: polars.Expr) -> None:
        self._expr = expr

    def _apply(self, call: Any, type_: Any) -> polars.Expr:
        return self._expr.map_batches(lambda s: polars.Series([call(s)], dtype=type_), return_dtype=type_, returns_scalar=True)

    def sum(self, dtype: Any = None) -> polars.Expr:
        return self._apply(lambda s: float(_sums.sum(s, dtype=dtype)), polars.Float64)

    def mean(self, dtype: Any = None) -> polars.Expr:
        return self._apply(lambda s: _sums.mean(s, dtype=dtype), polars.Float64)

    def partial(self) -> polars.Expr:
        return self._apply(lambda s: _sums.Accumulator(s).to_bytes(), polars.Binary)

    def merge(self) -> polars.Expr:
        return self._apply(lambda s: _sums.merged(s).to_bytes(), polars.Binary)

    def value(self) -> polars.Expr:
        """Return the value of each partial."""
        return self._expr.map_elements(lambda b: _sums.Accumulator.from_bytes(b).value(), return_dtype=polars.Float64)
