# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Keys of rows: which groups there are, in ascending order, and which of them each row belongs to."""
from __future__ import annotations

import array
import ctypes
import importlib
import math
import numbers
import sys
from typing import Any, Sequence, Set, Tuple

from ._core import exactly, lib
from ._scalars import of_host

NEAR = 1 << 16  # integers that lie so close together, or as close as there are many, are numbered without a hash table


def numpy_or_none() -> Any:
    try:
        import numpy
        return numpy
    except ImportError:
        return None


def _of_integers(numpy: Any, keys: Any) -> Tuple[Any, Any]:
    """Number the groups of 64-bit integer keys."""
    codes, least, most = numpy.empty(len(keys), "int64"), int(keys.min()), int(keys.max())
    near = most - least < max(NEAR, 2 * len(keys)) and most - least < 1 << 31
    found = numpy.empty(most - least + 1 if near else len(keys), "int64")  # where each begins, if they are not near
    n = lib.sums_number_near(keys.ctypes.data, len(keys), ctypes.c_int64(least).value, len(found), codes.ctypes.data, found.ctypes.data) \
        if near else lib.sums_number(keys.ctypes.data, len(keys), codes.ctypes.data, found.ctypes.data)
    if n < 0:
        raise MemoryError("no memory for the keys")
    if near:
        return found[:n].view(keys.dtype), keys.view("int64") if least == 0 and n == len(found) else codes
    found = keys[found[:n]]
    order = numpy.argsort(found, kind="stable")
    rank = numpy.empty(n, "int64")
    rank[order] = numpy.arange(n)
    return found[order], rank[codes]


def _by_numpy(numpy: Any, keys: Any) -> Tuple[Any, Any]:
    """Integers by the compiled table, others by numpy. A masked key and NaT are of no group."""
    type_ = keys.dtype
    if keys.ndim != 1:
        raise ValueError(f"by has {keys.ndim} dimensions; it must have one")
    if isinstance(keys, numpy.ma.MaskedArray):
        return _by_some(numpy, keys.data, ~numpy.ma.getmaskarray(keys))
    if type_.kind in "mM" and numpy.isnat(keys).any():
        return _by_some(numpy, keys, ~numpy.isnat(keys))
    if type_.type.__module__ == "ml_dtypes":  # numpy does not know their NaN
        found, codes = _by_numpy(numpy, keys.astype("complex128" if "complex" in type_.name else "float64"))
        return found.astype(type_), codes
    if type_.kind in "iub" and type_.itemsize <= 8 and len(keys):
        if type_.kind == "b":
            keys = keys.view("uint8") != 0  # a byte may be neither 0 nor 1
        found, codes = _of_integers(numpy, numpy.require(keys, "uint64" if type_.kind == "u" and type_.itemsize == 8 else "int64", "CA"))
        return found.astype(type_), codes
    found, codes = numpy.unique(keys, return_inverse=True)
    return found, numpy.ascontiguousarray(codes.reshape(-1), "int64")


def _by_some(numpy: Any, keys: Any, seen: Any) -> Tuple[Any, Any]:
    """The others are of no group."""
    codes = numpy.full(len(keys), -1, "int64")
    found, codes[seen] = _by_numpy(numpy, keys[seen])
    return found, codes


def _check_types(types: Set[type]) -> None:
    """TypeError for keys that are told apart by where they lie in memory: equal ones would not be of one group."""
    numpy = sys.modules.get("numpy")
    for t in types:
        if (t.__hash__ is object.__hash__ and t.__eq__ is object.__eq__) or \
                (hasattr(t, "__array__") and not (numpy and issubclass(t, numpy.generic))):
            raise TypeError(f"a key is of {t.__name__}, whose equal ones do not have one hash; pass numbers, strings or the like")


def _one(key: Any, missing: Any) -> Any:
    """The key itself; None for a null, and the same NaN for each."""
    if key is None or key is missing or type(key).__name__ == "MaskedConstant":
        return None
    if key == key:
        return key
    is_number = isinstance(key, numbers.Number) and getattr(getattr(key, "dtype", None), "kind", "") != "m"  # numpy's NaT would be one
    return math.nan if is_number or type(key).__module__ == "ml_dtypes" else None


def _by_table(keys: Sequence[Any]) -> Tuple[Any, Any]:
    """Any that are hashed by value, sorted where they can be; a null is of no group, and NaN the last one, as numpy has it."""
    pandas, pyarrow = sys.modules.get("pandas"), sys.modules.get("pyarrow")
    missing = pandas.NA if pandas else None  # which is not even unequal to itself
    types = {t for t in set(map(type, keys)) - {type(missing), type(None)} if t.__name__ != "MaskedConstant"}
    if pyarrow and any(issubclass(t, pyarrow.Scalar) for t in types):
        return _of_column(pyarrow, pyarrow.array(keys))
    _check_types(types)
    keys = [_one(k, missing) for k in keys]
    found = list(dict.fromkeys(k for k in keys if k is not None and k is not math.nan))
    try:
        found.sort()
    except TypeError:
        pass  # in the order of their appearance
    if any(k is math.nan for k in keys):
        found.append(math.nan)
    number = {k: i for i, k in enumerate(found)}
    return found, array.array("q", (-1 if k is None else number[k] for k in keys))


def _of_decoded(pyarrow: Any, by: Any) -> Any:
    """An array of pyarrow in one piece and without an encoding; booleans that are bytes as bits."""
    import pyarrow.compute
    if isinstance(by, pyarrow.ChunkedArray):
        pieces = [_of_decoded(pyarrow, piece) for piece in by.chunks] or [_of_decoded(pyarrow, pyarrow.nulls(0, by.type))]
        return pyarrow.chunked_array(pieces).combine_chunks()  # still in chunks if strings exceed 2 GiB
    if pyarrow.types.is_dictionary(by.type):
        return _of_decoded(pyarrow, by.dictionary_decode())
    if "run_end_encoded" in str(by.type)[:15]:
        return _of_decoded(pyarrow, pyarrow.compute.run_end_decode(by))
    if getattr(by.type, "extension_name", "") == "arrow.bool8":
        return pyarrow.compute.not_equal(by.storage, 0)
    return by


def _of_column(pyarrow: Any, by: Any) -> Tuple[Any, Any]:
    """A column of pyarrow, by what it stores: Python's types do not tell all times apart. Keys of such types stay Arrow's."""
    by = _of_decoded(pyarrow, by)
    numpy, types, type_ = numpy_or_none(), pyarrow.types, by.type
    if isinstance(type_, pyarrow.BaseExtensionType):
        found, codes = _of_column(pyarrow, by.storage)
        return pyarrow.ExtensionArray.from_storage(type_, pyarrow.array(found, type_.storage_type)), codes
    if types.is_timestamp(type_) or types.is_date(type_) or types.is_time(type_) or types.is_duration(type_):
        integer = pyarrow.int32() if type_.bit_width == 32 else pyarrow.int64()
        found, codes = _of_column(pyarrow, by.view(integer))
        return pyarrow.array(found, integer).view(type_), codes
    if types.is_nested(type_):
        raise TypeError(f"keys are of {type_}; pass a column of numbers, strings or times")
    if not numpy or not (types.is_integer(type_) or types.is_floating(type_) or types.is_boolean(type_)):
        return _by_table(by.to_pylist())
    codes = numpy.full(len(by), -1, "int64")
    found, codes[by.is_valid().to_numpy(zero_copy_only=False)] = _by_numpy(numpy, by.drop_null().to_numpy(zero_copy_only=False))
    return found, codes


def _by_arrow(by: Any) -> Tuple[Any, Any]:
    """A column of pyarrow, or of another library that has its to_pylist()."""
    stream, array_ = hasattr(by, "__arrow_c_stream__"), hasattr(by, "__arrow_c_array__")
    try:
        pyarrow = sys.modules.get("pyarrow") or (importlib.import_module("pyarrow") if stream or array_ else None)
    except ImportError:
        pyarrow = None
    if pyarrow and not isinstance(by, (pyarrow.Array, pyarrow.ChunkedArray)):
        by = pyarrow.chunked_array(by) if stream else pyarrow.array(by) if array_ else by
    return _of_column(pyarrow, by) if pyarrow and (stream or array_) else _by_table(by.to_pylist())


def _by_tensor(by: Any) -> Tuple[Any, Any]:
    """A tensor of torch. Keys of types that numpy does not have are float32, which has all of their values."""
    by = of_host(by)
    if str(by.dtype) == "torch.bfloat16" or str(by.dtype).startswith("torch.float8"):
        by = by.float()
    return _by_numpy(numpy_or_none(), by.numpy())


def _by_pandas(pandas: Any, by: Any) -> Tuple[Any, Any]:
    """By factorize(), which takes bytes of booleans as they are, and in Arrow's floats -0 for another key than 0."""
    numpy, name = numpy_or_none(), str(by.dtype)
    is_array = isinstance(by, pandas.api.extensions.ExtensionArray)
    if name in ("bool", "boolean"):
        null = numpy.asarray(by.isna())
        truth = by.to_numpy(dtype=bool, na_value=False).view("uint8") != 0
        by = pandas.arrays.BooleanArray(truth, null) if name == "boolean" else truth
    if name in ("halffloat[pyarrow]", "float[pyarrow]", "double[pyarrow]"):
        import pyarrow
        found, codes = _of_column(pyarrow, pyarrow.array(by))
        keys = pandas.arrays.ArrowExtensionArray(pyarrow.chunked_array([pyarrow.array(found)]))
    else:
        codes, keys = pandas.factorize(by, sort=True)
    return keys if is_array else pandas.Index(keys), codes.astype("int64")


def _numbered(by: Any) -> Tuple[Any, Any]:
    numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
    if pandas and isinstance(by, (pandas.Series, pandas.Index, pandas.api.extensions.ExtensionArray)):
        return _by_pandas(pandas, by)
    if str(getattr(by, "dtype", "")).startswith("torch."):
        return _by_tensor(by)
    if numpy and isinstance(by, numpy.ndarray) and by.dtype.kind not in "OT":  # T: strings that may be null
        return _by_numpy(numpy, by)
    if numpy and isinstance(by, numpy.ma.MaskedArray):
        by = numpy.where(numpy.ma.getmaskarray(by), None, by.data)
    if hasattr(by, "to_pylist"):
        return _by_arrow(by)
    if hasattr(by, "to_arrow"):  # Polars
        return _by_arrow(by.to_arrow())
    numpy = numpy_or_none()
    if numpy and not isinstance(by, numpy.ndarray) and (hasattr(by, "__array_interface__") or hasattr(by, "__array__")):
        return _numbered(numpy.asarray(by))  # others' arrays
    return _by_table(by.tolist() if hasattr(by, "tolist") else list(by))


def numbered(by: Any) -> Tuple[Any, Any]:
    """(keys, which of them each row has)."""
    if hasattr(by, "__next__"):
        by = list(by)  # in the floating-point environment of the thread: this is the caller's code
    with exactly():
        return _numbered(by)
