# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Pandas adapter. `import fpisa.pandas` adds the accessor `fpisa` to every Series and to every column of a groupby(). As in
pandas, NaN is a missing value.
"""
from __future__ import annotations

from typing import Any

import pandas

from . import _sums


@pandas.api.extensions.register_series_accessor("fpisa")
class Exact:
    """The exact methods series.fpisa.sum(), mean() and var().

    sum() and mean() accept `by`, a Series, an array or a list of keys, and then return a Series with one value for each key.
    """

    def __init__(self, series: pandas.Series) -> None:
        self._series = series

    def _reduce(self, call: Any, by: Any, dtype: Any) -> Any:
        here = self._series.notna()
        values = self._series[here].to_numpy()
        if by is None:
            return call(values, dtype=dtype)
        if isinstance(by, (list, tuple)):
            by = pandas.Index(by)
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
        """Return the sum as bytes (doc/partial.md)."""
        return _sums.Accumulator(self._series.dropna().to_numpy()).to_bytes()


class Grouped:
    """The methods frame.groupby(keys).column.fpisa.sum(), mean(), var() and partial(). They return a Series with the groups
    that pandas has, in the same order.
    """

    def __init__(self, groups: Any) -> None:
        self._groups, self._series = groups, groups.obj
        numbers = groups.ngroup().astype("float64")  # numbers of the groups that have rows, not in the order of the result
        grouper = groups._grouper if hasattr(groups, "_grouper") else groups.grouper  # before pandas 2.2
        results = numbers.groupby(grouper, sort=groups.sort, observed=groups.observed, dropna=groups.dropna).max()
        self._numbers, self._results, self._index = numbers.to_numpy(), results.to_numpy(), groups.size().index

    def _reduce(self, call: Any, empty: Any) -> pandas.Series:
        here = self._series.notna().to_numpy() & (self._numbers >= 0)
        groups = call(self._series[here].to_numpy(), self._numbers[here].astype("int64"))
        found = dict(zip(groups.keys.tolist(), groups.values))
        return pandas.Series([found.get(n, empty) for n in self._results], self._index, name=self._series.name)

    def sum(self, dtype: Any = None) -> pandas.Series:
        return self._reduce(lambda x, by: _sums.sum(x, by=by, dtype=dtype), 0.0)

    def mean(self, dtype: Any = None) -> pandas.Series:
        return self._reduce(lambda x, by: _sums.mean(x, by=by, dtype=dtype), float("nan"))

    def var(self, ddof: int = 1, dtype: Any = None) -> pandas.Series:
        return self._reduce(lambda x, by: _sums.var(x, by=by, ddof=ddof, dtype=dtype), float("nan"))

    def partial(self) -> pandas.Series:
        """Return each group's sum as bytes (doc/partial.md)."""
        return self._groups.agg(lambda x: Exact(x).partial())


pandas.core.groupby.SeriesGroupBy.fpisa = property(Grouped)  # pandas registers accessors only for Series and DataFrame
