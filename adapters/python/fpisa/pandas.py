# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""pandas: `import fpisa.pandas` gives every Series the accessor `fpisa`. As in pandas, NaN is a missing value here."""
from __future__ import annotations

from typing import Any

import pandas

from . import _sums


@pandas.api.extensions.register_series_accessor("fpisa")
class Exact:
    """series.fpisa.sum(), mean(), var(), and with by=, another Series or an array, a Series of groups."""

    def __init__(self, series: pandas.Series) -> None:
        self._series = series

    def _reduce(self, call: Any, by: Any, dtype: Any) -> Any:
        here = self._series.notna()
        values = self._series[here].to_numpy()
        if by is None:
            return call(values, dtype=dtype)
        keys = by[here.to_numpy()] if not isinstance(by, pandas.Series) else by.reindex(self._series.index)[here]
        groups = call(values, by=keys, dtype=dtype)
        return pandas.Series(groups.values, pandas.Index(groups.keys, name=getattr(by, "name", None)), name=self._series.name)

    def sum(self, by: Any = None, dtype: Any = None) -> Any:
        return self._reduce(_sums.sum, by, dtype)

    def mean(self, by: Any = None, dtype: Any = None) -> Any:
        return self._reduce(_sums.mean, by, dtype)

    def var(self, ddof: int = 1, dtype: Any = None) -> float:
        return _sums.var(self._series.dropna().to_numpy(), ddof=ddof, dtype=dtype)

    def partial(self) -> bytes:
        """The sum as bytes (doc/partial.md)."""
        return _sums.Accumulator(self._series.dropna().to_numpy()).to_bytes()
