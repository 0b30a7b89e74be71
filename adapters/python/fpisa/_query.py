# SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
"""Queries over tables at workers, through libfpisa-query. The answer comes as Arrow columns."""
from __future__ import annotations

import contextlib
import ctypes
import functools
import os
from ctypes import POINTER, c_char_p, c_double, c_int, c_size_t, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Optional, Union

from ._arrow import Stream
from ._errors import Error
from ._library import Sized, in_range, load, milliseconds, number_of, text

if TYPE_CHECKING:
    import pyarrow

PRUNINGS = {"network": 0, "none": 1, "workers": 2, "auto": 3}
LOOK_MS = 200  # time between two looks for a signal, such as that of Ctrl-C

List = Union[str, Iterable[str], None]


class QueryOptions(Sized):
    _fields_ = [("size", c_size_t), *((n, c_char_p) for n in "workers key_file table value by columns".split()),
                ("limit", c_uint64), *((n, c_uint8) for n in "ascending nulls_first pruning preaggregate".split()),
                ("query", c_uint32), ("aggregator", c_char_p), ("token", c_uint64), ("local_port", c_uint16),
                ("worker_port", c_uint16), ("timeout_ms", c_uint32),
                *((n, c_double) for n in "loss duplicate reorder delay corrupt".split()), ("seed", c_uint64),
                ("where", c_char_p), ("aggregates", c_uint32),
                *((n, c_char_p) for n in "join on join_where key".split()), ("memory", c_uint64),
                ("spill", c_void_p), ("spill_arg", c_void_p), ("total", c_uint8), ("values", c_char_p),
                ("distinct", c_char_p), ("double_sums", c_uint8)]


FUNCTIONS = {
    "fpisa_query_open": (c_int, c_void_p, POINTER(QueryOptions)),
    "fpisa_query_work": (c_int, c_void_p, c_int),
    "fpisa_query_stream": (c_int, c_void_p, POINTER(Stream)),
    "fpisa_query_close": (None, c_void_p),
    "fpisa_query_error": (c_char_p,),
}

capsule = ctypes.pythonapi.PyCapsule_New
capsule.restype, capsule.argtypes = ctypes.py_object, [c_void_p, c_char_p, c_void_p]


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """Return the library that FPISA_QUERY_LIBRARY names, or the library of the wheel, or the system's library."""
    return load("libfpisa-query.so.1", "FPISA_QUERY_LIBRARY", FUNCTIONS, "libfpisa-query1", "0.3.0")


def check(rc: int) -> int:
    """Raise Error for a negative return code of the library. Return other codes."""
    if rc < 0:
        raise Error(-rc, library().fpisa_query_error().decode(errors="replace"))
    return rc


def listed(names: List, what: str) -> Optional[bytes]:
    """Return names as the library takes them, separated by commas."""
    return text(names if names is None or isinstance(names, str) else ",".join(names), what)


class Answer:
    """The rest of an open query's answer, for any program that takes Arrow's streams."""

    def __init__(self, query: c_void_p) -> None:
        self.query, self.stream = query, Stream()
        check(library().fpisa_query_stream(query, ctypes.byref(self.stream)))

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return capsule(ctypes.addressof(self.stream), b"arrow_array_stream", None)

    def wait(self) -> None:
        """Wait until rows have arrived. Signals are handled while this waits."""
        while not check(library().fpisa_query_work(self.query, LOOK_MS)):
            pass

    def close(self) -> None:
        if self.stream.release:
            self.stream.release(ctypes.byref(self.stream))


@contextlib.contextmanager
def opened(options: QueryOptions) -> Iterator[c_void_p]:
    pointer = c_void_p()
    check(library().fpisa_query_open(ctypes.byref(pointer), ctypes.byref(options)))
    try:
        yield pointer
    finally:
        library().fpisa_query_close(pointer)


def collect(answer: Answer) -> pyarrow.Table:
    import pyarrow

    answer.wait()
    with pyarrow.RecordBatchReader.from_stream(answer) as reader:
        batches = []
        while True:
            answer.wait()
            try:
                batches.append(reader.read_next_batch())
            except StopIteration:
                return pyarrow.Table.from_batches(batches, reader.schema)
            except (OSError, ValueError):
                answer.wait()  # raises the query's error, if there is one
                raise


def query(table: str, workers: List, *, key_file: Union[str, os.PathLike[str], None] = None, by: List = None,
          value: List = None, distinct: List = None, double_sums: bool = False, total: bool = False, limit: int = 0,
          ascending: bool = False, nulls_first: bool = False, columns: List = None, where: Optional[str] = None,
          join: Optional[str] = None, on: List = None, join_where: Optional[str] = None, prune: Optional[str] = None,
          preaggregate: bool = False, aggregator: Optional[str] = None, query: int = 0, token: int = 0, local_port: int = 0,
          worker_port: int = 0, timeout: float = 10.0) -> pyarrow.Table:
    """Ask workers (`fpisa query worker`) for rows of a table, or for aggregates of its columns. Return a pyarrow.Table. The
    arguments are the options of `fpisa query run`. A list is a text "a,b", or an iterable of texts.

    key_file  the key file, whose last key is used. The default is the file that FPISA_KEY names
    value     the column to order by with `limit`, or the columns to aggregate with `by` or `total`
    distinct  the columns whose distinct values are counted with `by` or `total`
    prune     "auto", which is the default, "network", "workers" or "none"
    query     the number of the query at `aggregator`
    timeout   seconds without progress, after which the query fails

    An answer is exact and complete. Otherwise the call raises Error.
    """
    several = listed(value, "value")
    first = several if several is None or limit or not set(b",(*") & set(several) else None
    with opened(QueryOptions(
            table=text(table, "table"), workers=listed(workers, "workers"),
            key_file=text(None if key_file is None else os.fsencode(key_file), "key_file"), by=listed(by, "by"), value=first,
            values=None if first else several, distinct=listed(distinct, "distinct"), double_sums=bool(double_sums),
            total=bool(total), limit=in_range(limit, 64, "limit"),
            ascending=bool(ascending), nulls_first=bool(nulls_first), columns=listed(columns, "columns"),
            where=text(where, "where"), join=text(join, "join"), on=listed(on, "on"), join_where=text(join_where, "join_where"),
            pruning=number_of(PRUNINGS, "auto" if prune is None else prune, "prune"), preaggregate=bool(preaggregate),
            aggregator=text(aggregator, "aggregator"), query=in_range(query, 32, "query"), token=in_range(token, 64, "token"),
            local_port=in_range(local_port, 16, "local_port"), worker_port=in_range(worker_port, 16, "worker_port"),
            timeout_ms=milliseconds(timeout, "timeout", 0))) as pointer:
        answer = Answer(pointer)
        try:
            return collect(answer)
        finally:
            answer.close()
