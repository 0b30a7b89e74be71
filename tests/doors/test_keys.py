# SPDX-License-Identifier: GPL-2.0-only
"""Two keys of pyarrow, Polars, pandas or ml_dtypes belong to one group if they are stored as one value. The oracle is a dict of
integers."""
import math
import uuid

import numpy as np
import pytest

import fpisa

X = [1.0, 2.0, 4.0, 8.0, 16.0]
CHANGE = 1603585800  # 02:30 in Berlin before the clock went back; an hour later it was 02:30 again


def want(stored):
    """Return the keys in ascending order with their sums. The values are powers of two, so a sum shows which rows it contains."""
    sums = {}
    for k, x in zip(stored, X):
        if k is not None:
            sums[k] = sums.get(k, 0) + x
    return sorted(sums), [sums[k] for k in sorted(sums)]


def times(pa):
    yield pa.timestamp("s", "Europe/Berlin"), [CHANGE + 3600, CHANGE, None, CHANGE + 3600, CHANGE]
    for unit in "s", "ms", "us", "ns":
        yield pa.timestamp(unit), [2, 1, None, 2, -1]
        yield pa.timestamp(unit, "UTC"), [2, 1, None, 2, -1]
        yield pa.duration(unit), [2, 1, None, 2, -1]
    for type_ in pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"):
        yield type_, [2, 1, None, 2, 0]
    yield pa.date32(), [2, 1, None, 2, -1]
    yield pa.date64(), [86400001, 86400000, None, 86400001, -1]


def forms(pa, column):
    """Yield one column in every form in which a caller can pass it."""
    yield column
    yield pa.concat_arrays([column[:2], column])[2:]
    yield pa.chunked_array([column[:2], column[2:]])
    yield column.dictionary_encode()
    yield pa.chunked_array([column[:2].dictionary_encode(), column[2:].dictionary_encode()])
    if column.type != pa.date64():  # a date64 of these values is refused, because they are not whole days
        yield pa.RunEndEncodedArray.from_arrays(pa.array(range(1, 6), pa.int32()), column)
    yield list(column)


def test_times_of_arrow():
    """Keys keep the column's type, whatever type Python would give them."""
    pa = pytest.importorskip("pyarrow")
    for type_, stored in times(pa):
        integer = pa.int32() if type_.bit_width == 32 else pa.int64()
        keys, sums = want(stored)
        for by in forms(pa, pa.array(stored, integer).view(type_)):
            got = fpisa.sum(X, by=by)
            assert got.keys.type == type_ and got.keys.view(integer).to_pylist() == keys and got.values.tolist() == sums, (type_, by)
            assert fpisa.norm2(X, by=by).keys == got.keys
    assert len(fpisa.sum([], by=pa.chunked_array([], pa.time64("ns"))).keys) == 0


def test_other_columns_of_arrow():
    """Keys may be floats (compared by value), strings, decimals, booleans stored as bytes, and values of an extension type."""
    pa = pytest.importorskip("pyarrow")
    nan = math.nan
    for dtype in pa.float16(), pa.float32(), pa.float64():
        for by in forms(pa, pa.array(np.array([0.0, nan, -0.0, 2.0, nan], dtype.to_pandas_dtype()))):
            got = fpisa.sum(X, by=by)
            assert list(got.keys)[:2] == [0, 2] and math.isnan(got.keys[2]) and got.values.tolist() == [5, 8, 18], by
    for type_, stored in (pa.int8(), [2, -1, None, 2, 7]), (pa.uint64(), [2 ** 64 - 1, 1, None, 1, 2]), (pa.bool_(), [True, False, None, False, True]), \
            (pa.string(), ["b", "a", None, "b", ""]), (pa.binary(), [b"b", b"a", None, b"b", b""]):
        for by in forms(pa, pa.array(stored, type_)):
            got = fpisa.sum(X, by=by)
            assert (list(got.keys), got.values.tolist()) == want(stored), by
    got = fpisa.sum(X, by=pa.array([uuid.UUID(int=n).bytes for n in (5, 1, 5, 5, 1)], pa.uuid()))
    assert got.keys.to_pylist() == [uuid.UUID(int=1), uuid.UUID(int=5)] and got.values.tolist() == [18, 13]
    with pytest.raises(TypeError, match="keys have type list"):
        fpisa.sum([1.0], by=pa.array([[1]]))


def test_booleans_that_are_bytes():
    """In Arrow's bool8 any byte except 0 is true, as a value and as a key."""
    pa = pytest.importorskip("pyarrow")
    x = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([2, 0, None, -1, 1], pa.int8()))
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2, 3], pa.int8()), x.drop_null())
    for column in x, pa.chunked_array([x[:2], x[2:]]), coded:
        assert fpisa.sum(column) == 3 and fpisa.mean(column) == 0.75
        got = fpisa.sum(X, by=column)
        assert list(got.keys) == [False, True] and got.values.tolist() == [2, 25]


def test_times_of_polars():
    pl = pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    for stored, type_ in ([CHANGE * 10 ** 6, CHANGE * 10 ** 6 + 3600 * 10 ** 6], pl.Datetime("us", "Europe/Berlin")), ([1, 2], pl.Time):
        low, high = stored
        by = pl.Series([high, low, None, high, low], dtype=pl.Int64)
        by = by.cast(pl.Datetime("us", "UTC")).dt.convert_time_zone("Europe/Berlin") if type_ != pl.Time else by.cast(type_)
        got = fpisa.sum(X, by=by)
        assert pl.from_arrow(got.keys).to_physical().to_list() == [low, high] and got.values.tolist() == [18, 9]


def test_pandas():
    """Booleans that are stored as neither 0 nor 1 are equal to true, and -0 equals 0 among Arrow's floats."""
    pandas = pytest.importorskip("pandas")
    truth = np.frombuffer(bytes([2, 0, 255, 1, 0]), "?")
    for by in pandas.Series(truth), pandas.Series(pandas.arrays.BooleanArray(truth, np.zeros(5, bool))):
        got = fpisa.sum(X, by=by)
        assert list(got.keys) == [False, True] and got.values.tolist() == [18, 13] and fpisa.sum(by) == 3
    pa = pytest.importorskip("pyarrow")
    for type_ in pa.float32(), pa.float64():
        got = fpisa.sum(X, by=pandas.Series([0.0, 2.0, None, -0.0, 2.0], dtype=pandas.ArrowDtype(type_)))
        assert list(got.keys) == [0, 2] and got.values.tolist() == [9, 18] and got.keys.dtype == pandas.ArrowDtype(type_)


def test_ml_dtypes():
    """In arrays and in lists, all NaN keys form one group, which comes last. The other keys ascend."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for name in "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e8m0fnu":
        by = np.array([math.nan, 4, 2, math.nan, 4]).astype(getattr(ml_dtypes, name))
        for keys in by, by[::-1][::-1], list(by), by.astype(object), np.ma.array(by, mask=[0] * 5):
            got = fpisa.sum(X, by=keys)
            assert [float(k) for k in got.keys[:2]] == [2, 4] and math.isnan(got.keys[2]) and got.values.tolist() == [4, 18, 9], (name, keys)
            assert not isinstance(keys, np.ndarray) or keys.dtype == object or got.keys.dtype == by.dtype
    got = fpisa.sum(X, by=np.array([-2, 3, -2, 3, 0]).astype(ml_dtypes.int4))
    assert [int(k) for k in got.keys] == [-2, 0, 3] and got.values.tolist() == [5, 16, 10]
