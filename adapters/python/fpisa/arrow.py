# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""PyArrow adapter. register() adds the aggregates fpisa_sum, fpisa_mean, fpisa_partial and fpisa_merge to pyarrow.compute. The
aggregates also work in group_by().
"""
from __future__ import annotations

import pyarrow
import pyarrow.compute

from . import _sums

AGGREGATES = {
    "fpisa_sum": (pyarrow.float64(), pyarrow.float64(), lambda x: float(_sums.sum(x))),
    "fpisa_mean": (pyarrow.float64(), pyarrow.float64(), _sums.mean),
    "fpisa_partial": (pyarrow.float64(), pyarrow.binary(), lambda x: _sums.Accumulator(x).to_bytes()),
    "fpisa_merge": (pyarrow.binary(), pyarrow.binary(), lambda x: _sums.merged(x.to_pylist()).to_bytes()),
}


def register() -> None:
    """Register the functions in this process. May be called again. Afterwards Table.group_by(k).aggregate([("x", "fpisa_sum")])
    works.
    """
    there = pyarrow.compute.list_functions()
    for name, (takes, gives, call) in AGGREGATES.items():
        if name in there:
            continue

        def aggregate(context: object, x: pyarrow.Array, call: object = call, gives: pyarrow.DataType = gives) -> pyarrow.Scalar:
            return pyarrow.scalar(call(x), gives)

        pyarrow.compute.register_aggregate_function(
            aggregate, name, {"summary": name, "description": "an exact sum: doc/sums.md"}, {"x": takes}, gives)
