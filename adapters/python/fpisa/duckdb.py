# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""DuckDB adapter. register(connection) adds the aggregates fpisa_sum(x), fpisa_mean(x), fpisa_partial(x) and
fpisa_merge(partials).

DuckDB does not support aggregates in Python. So each aggregate is a macro over list(), which calls an Arrow function of the
resulting lists.
"""
from __future__ import annotations

from typing import Any

import pyarrow

from . import _sums

DOUBLES, BLOBS = "DOUBLE[]", "BLOB[]"
AGGREGATES = {
    "fpisa_sum": (DOUBLES, "DOUBLE", pyarrow.float64(), lambda x: float(_sums.sum(x))),
    "fpisa_mean": (DOUBLES, "DOUBLE", pyarrow.float64(), _sums.mean),
    "fpisa_partial": (DOUBLES, "BLOB", pyarrow.binary(), lambda x: _sums.Accumulator(x).to_bytes()),
    "fpisa_merge": (BLOBS, "BLOB", pyarrow.binary(), lambda x: _sums.merged(x.to_pylist()).to_bytes()),
    "fpisa_value": ("BLOB", "DOUBLE", pyarrow.float64(), lambda b: _sums.Accumulator.from_bytes(b.as_py()).value()),
}


def _over(call: Any, type_: pyarrow.DataType) -> Any:
    """Return a function of a column whose rows are lists or single values."""
    def rows(column: Any) -> pyarrow.Array:
        parts = (getattr(row, "values", row) for row in column)
        return pyarrow.array([None if part is None or getattr(part, "is_valid", True) is False else call(part) for part in parts],
                             type_)

    return rows


def register(connection: Any) -> Any:
    """Register the functions, unless the connection has them. Return the connection. fpisa_value(partial) returns the number
    that a partial represents.
    """
    if connection.execute("SELECT 1 FROM duckdb_functions() WHERE function_name = 'fpisa_sum_list'").fetchone():
        return connection
    for name, (takes, gives, type_, call) in AGGREGATES.items():
        function = name if name == "fpisa_value" else name + "_list"
        connection.create_function(function, _over(call, type_), [takes], gives, type="arrow")
        if function != name:
            cast = "DOUBLE" if takes == DOUBLES else "BLOB"
            connection.execute(f"CREATE OR REPLACE TEMP MACRO {name}(x) AS {function}(list(x::{cast}))")
    return connection
