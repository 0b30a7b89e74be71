# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Spark adapter with pandas UDFs for groupBy().agg() and windows. register(session) adds them to SQL as fpisa_sum, fpisa_mean,
fpisa_partial and fpisa_merge. adapters/spark implements the sum as an Aggregator in the JVM, which does not need Python."""
from __future__ import annotations

from typing import Any

import pandas
from pyspark.sql.functions import pandas_udf
from pyspark.sql.types import BinaryType, DoubleType

from . import _sums


@pandas_udf(DoubleType())  # type: ignore[call-overload]
def sum(x: pandas.Series) -> float:
    return float(_sums.sum(x.dropna().to_numpy("float64")))


@pandas_udf(DoubleType())  # type: ignore[call-overload]
def mean(x: pandas.Series) -> float:
    return _sums.mean(x.dropna().to_numpy("float64"))


@pandas_udf(BinaryType())  # type: ignore[call-overload]
def partial(x: pandas.Series) -> bytes:
    return _sums.Accumulator(x.dropna().to_numpy("float64")).to_bytes()


@pandas_udf(BinaryType())  # type: ignore[call-overload]
def merge(x: pandas.Series) -> bytes:
    return _sums.merged(x.dropna()).to_bytes()


def register(session: Any) -> Any:
    for name, function in ("fpisa_sum", sum), ("fpisa_mean", mean), ("fpisa_partial", partial), ("fpisa_merge", merge):
        session.udf.register(name, function)
    return session
