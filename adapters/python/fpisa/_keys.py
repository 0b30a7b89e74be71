# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Find the groups of keys, in ascending order, and the group of each row."""
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

NEAR = 1 << 16  # integers within a smaller range, or within a range below twice their number, are numbered without a hash table


def numpy_or_none() -> Any:
    try:
        import numpy
        return numpy
    except ImportError:
        return None


def _of_integers(numpy: Any, keys: Any) -> Tuple[Any, Any]:
    """Number 64-bit integer keys."""
    codes, least, most = numpy.empty(len(keys), "int64"), int(keys.min()), int(keys.max())
    near = most - least < max(NEAR, 2 * len(keys)) and most - least < 1 << 31
    # the keys of the groups if the range is small, or else the first row of each group
    found = numpy.empty(most - least + 1 if near else len(keys), "int64")
    n = lib.sums_number_near(keys.ctypes.data, len(keys), ctypes.c_int64(least).value, len(found), codes.ctypes.data, found.ctypes.data) \
        if near else lib.sums_number(keys.ctypes.data, len(keys), codes.ctypes.data, found.ctypes.data)
    if n < 0:
        raise MemoryError("not enough memory for the keys; free some memory")
    if near:
        return found[:n].view(keys.dtype), keys.view("int64") if least == 0 and n == len(found) else codes
    found = keys[found[:n]]
    order = numpy.argsort(found, kind="stable")
    rank = numpy.empty(n, "int64")
    rank[order] = numpy.arange(n)
    return found[order], rank[codes]


def _by_numpy(numpy: Any, keys: Any) -> Tuple[Any, Any]:
    """Number integers with the compiled table and other keys with numpy. Masked keys and NaT do not belong to a group."""
    type_ = keys.dtype
    if keys.ndim != 1:
        raise ValueError(f"by has {keys.ndim} dimensions; it must have one")
    if isinstance(keys, numpy.ma.MaskedArray):
        masked = numpy.ma.getmaskarray(keys)
        if type_.names is not None:  # a key is masked if any field of the record is masked
            masked = numpy.array([any(map(numpy.any, row.item())) for row in masked], bool)
        return _by_some(numpy, keys.data, ~masked)
    if type_.kind in "mM" and numpy.isnat(keys).any():
        return _by_some(numpy, keys, ~numpy.isnat(keys))
    if type_.type.__module__ == "ml_dtypes":  # numpy does not recognise NaN of these types
        found, codes = _by_numpy(numpy, keys.astype("complex128" if "complex" in type_.name else "float64"))
        return found.astype(type_), codes
    if type_.kind in "iub" and type_.itemsize <= 8 and len(keys):
        if type_.kind == "b":
            keys = keys.view("uint8") != 0  # a byte may have other values than 0 and 1
        found, codes = _of_integers(numpy, numpy.require(keys, "uint64" if type_.kind == "u" and type_.itemsize == 8 else "int64", "CA"))
        return found.astype(type_), codes
    if type_.names is not None and len(keys):
        return _by_fields(numpy, keys)
    found, codes = numpy.unique(keys, return_inverse=True)
    return found, numpy.ascontiguousarray(codes.reshape(-1), "int64")


def _by_fields(numpy: Any, keys: Any) -> Tuple[Any, Any]:
    """Number records in the order of their fields. Unlike numpy, treat NaN and null as equal to themselves in every field."""
    columns = [column for name in keys.dtype.names for column in keys[name].reshape(len(keys), -1).T]
    codes = numpy.zeros((len(keys), max(1, len(columns))), "int64")
    for i, column in enumerate(columns):
        codes[:, i] = _numbered(column)[1]
    _, first, codes = numpy.unique(codes, axis=0, return_index=True, return_inverse=True)
    return keys[first], numpy.ascontiguousarray(codes.reshape(-1), "int64")


def _by_some(numpy: Any, keys: Any, seen: Any) -> Tuple[Any, Any]:
    """Number the keys that `seen` selects. The other keys do not belong to a group."""
    codes = numpy.full(len(keys), -1, "int64")
    found, codes[seen] = _by_numpy(numpy, keys[seen])
    return found, codes


def _check_types(types: Set[type]) -> None:
    """Raise TypeError for keys that are compared by their address in memory, because equal keys would be in different groups."""
    numpy = sys.modules.get("numpy")
    for t in types:
        if (t.__hash__ is object.__hash__ and t.__eq__ is object.__eq__) or \
                (hasattr(t, "__array__") and not (numpy and issubclass(t, numpy.generic))):
            raise TypeError(f"a key has type {t.__name__}, whose equal values can have different hashes; pass numbers, strings or the like")


def _one(key: Any, missing: Any) -> Any:
    """Return the key, but None for a null, and the same NaN object for every NaN."""
    if key is None or key is missing or type(key).__name__ == "MaskedConstant":
        return None
    if key == key:
        return key
    if getattr(getattr(key, "dtype", None), "kind", None) in ("m", "M") or type(key).__name__ == "NaTType":
        return None
    if isinstance(key, numbers.Number) or type(key).__module__ == "ml_dtypes":
        return math.nan
    raise TypeError(f"the key {key!r} has type {type(key).__name__} and does not equal itself; pass numbers, strings or the like")


def _of_times(numpy: Any, keys: Sequence[Any], types: Set[type]) -> Tuple[Any, Any]:
    """Number numpy times of one type in their common unit, because equal times in different units have different hashes."""
    if len(types) > 1:
        raise TypeError(f"keys have types {', '.join(sorted(t.__name__ for t in types))}; pass keys of one type, because numpy's times do not mix with other keys")
    here = [i for i, k in enumerate(keys) if k is not None]
    times = numpy.array([keys[i] for i in here])
    for unit in {keys[i].dtype for i in here}:
        same = [n for n, i in enumerate(here) if keys[i].dtype == unit]
        if (times[same].astype(unit) != numpy.array([keys[here[n]] for n in same])).any():
            raise OverflowError(f"keys of type {unit} do not fit {times.dtype}, the finest of the list's types; pass keys of one unit")
    found, numbers_ = _by_numpy(numpy, times)
    codes = numpy.full(len(keys), -1, "int64")
    codes[here] = numbers_
    first = dict(zip(reversed(numbers_.tolist()), reversed(here)))
    return [keys[first[i]] for i in range(len(found))], codes


def _by_table(keys: Sequence[Any]) -> Tuple[Any, Any]:
    """Number keys by their hash, and sort them if possible. A null does not belong to a group. As in numpy, NaN comes last."""
    pandas, pyarrow = sys.modules.get("pandas"), sys.modules.get("pyarrow")
    missing = pandas.NA if pandas else None  # the result of pandas.NA != pandas.NA is neither true nor false
    types = {t for t in set(map(type, keys)) - {type(missing), type(None)} if t.__name__ != "MaskedConstant"}
    if pyarrow and any(issubclass(t, pyarrow.Scalar) for t in types):
        return _of_column(pyarrow, pyarrow.array(keys))
    _check_types(types)
    keys = [_one(k, missing) for k in keys]
    numpy = sys.modules.get("numpy")
    if numpy and any(issubclass(t, (numpy.datetime64, numpy.timedelta64)) for t in types):
        return _of_times(numpy, keys, {type(k) for k in keys if k is not None})
    found = list(dict.fromkeys(k for k in keys if k is not None and k is not math.nan))
    try:
        found.sort()
    except TypeError:
        pass  # keep the order of first appearance
    if any(k is math.nan for k in keys):
        found.append(math.nan)
    number = {k: i for i, k in enumerate(found)}
    return found, array.array("q", (-1 if k is None else number[k] for k in keys))


def _of_decoded(pyarrow: Any, by: Any) -> Any:
    """Return a pyarrow array in one piece, with its encoding removed and with booleans as bits."""
    import pyarrow.compute
    if isinstance(by, pyarrow.ChunkedArray):
        pieces = [_of_decoded(pyarrow, piece) for piece in by.chunks] or [_of_decoded(pyarrow, pyarrow.nulls(0, by.type))]
        return pyarrow.chunked_array(pieces).combine_chunks()  # several chunks remain if strings exceed 2 GiB
    if pyarrow.types.is_dictionary(by.type):
        return _of_decoded(pyarrow, by.dictionary_decode())
    if "run_end_encoded" in str(by.type)[:15]:
        return _of_decoded(pyarrow, pyarrow.compute.run_end_decode(by))
    if getattr(by.type, "extension_name", "") == "arrow.bool8":
        return pyarrow.compute.not_equal(by.storage, 0)
    return by


def _of_column(pyarrow: Any, by: Any) -> Tuple[Any, Any]:
    """Number a pyarrow column by its stored values, because Python's types cannot represent all times. The keys keep their
    Arrow type.
    """
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
        raise TypeError(f"keys have type {type_}; pass a column of numbers, strings or times")
    if not numpy or not (types.is_integer(type_) or types.is_floating(type_) or types.is_boolean(type_)):
        return _by_table(by.to_pylist())
    codes = numpy.full(len(by), -1, "int64")
    found, codes[by.is_valid().to_numpy(zero_copy_only=False)] = _by_numpy(numpy, by.drop_null().to_numpy(zero_copy_only=False))
    return found, codes


def _by_arrow(by: Any) -> Tuple[Any, Any]:
    """Number a column of pyarrow, or a column of another library that has to_pylist()."""
    stream, array_ = hasattr(by, "__arrow_c_stream__"), hasattr(by, "__arrow_c_array__")
    try:
        pyarrow = sys.modules.get("pyarrow") or (importlib.import_module("pyarrow") if stream or array_ else None)
    except ImportError:
        pyarrow = None
    if pyarrow and not isinstance(by, (pyarrow.Array, pyarrow.ChunkedArray)):
        by = pyarrow.chunked_array(by) if stream else pyarrow.array(by) if array_ else by
    return _of_column(pyarrow, by) if pyarrow and (stream or array_) else _by_table(by.to_pylist())


def _by_tensor(by: Any) -> Tuple[Any, Any]:
    """Number a torch tensor. If numpy does not support the type of the keys, convert them to float32, which can represent all
    of them.
    """
    by = of_host(by)
    if str(by.dtype) == "torch.bfloat16" or str(by.dtype).startswith("torch.float8"):
        by = by.float()
    return _by_numpy(numpy_or_none(), by.numpy())


def _by_pandas(pandas: Any, by: Any) -> Tuple[Any, Any]:
    """Number pandas keys with factorize(). Handle booleans separately, because a byte may have any value. Handle Arrow's floats
    separately, because factorize() distinguishes -0 from 0.
    """
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
    if numpy and isinstance(by, numpy.ndarray) and by.dtype.kind not in "OT":  # kind T is strings that may be null
        return _by_numpy(numpy, by)
    if numpy and isinstance(by, numpy.ma.MaskedArray):
        by = numpy.where(numpy.ma.getmaskarray(by), None, by.data)
    if hasattr(by, "to_pylist"):
        return _by_arrow(by)
    if hasattr(by, "to_arrow"):  # Polars
        return _by_arrow(by.to_arrow())
    numpy = numpy_or_none()
    if numpy and not isinstance(by, numpy.ndarray) and (hasattr(by, "__array_interface__") or hasattr(by, "__array__")):
        return _numbered(numpy.asarray(by))  # arrays of other libraries
    return _by_table(by.tolist() if hasattr(by, "tolist") else list(by))


def numbered(by: Any) -> Tuple[Any, Any]:
    """Return the keys, and the number of each row's key."""
    if hasattr(by, "__next__"):
        by = list(by)  # outside of exactly(), because list() runs the caller's code
    with exactly():
        return _numbered(by)
