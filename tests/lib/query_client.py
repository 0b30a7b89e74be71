#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""A program with queries that calls the functions of libfpisa-query through ctypes: query_client.py LIBRARY OPTIONS

OPTIONS is JSON with members of struct fpisa_query_options. The program opens three queries. It closes one when rows can be taken, closes
another at once, and polls the third to its end without other calls. It prints a line of JSON: columns, rows and counts of the third query,
and the outcome of the poll. Its numbers follow the locale of the environment.
"""
import ctypes
import json
import locale
import select
import sys

from fpisa_h import structure

text = ctypes.c_char_p


Options, Column, Counts = structure("fpisa_query_options"), structure("fpisa_query_column"), structure("fpisa_query_counts")


class Query:
    def __init__(self, lib, options):
        self.lib, self.q = lib, ctypes.c_void_p()
        o = Options(size=ctypes.sizeof(Options), **{k: v.encode() if isinstance(v, str) else v for k, v in options.items()})
        self.check(lib.fpisa_query_open(ctypes.byref(self.q), ctypes.byref(o)))

    def check(self, rc):
        if rc < 0:
            raise SystemExit(f"{rc}: {self.lib.fpisa_query_error().decode()}")
        return rc

    def work(self, timeout_ms):
        return self.check(self.lib.fpisa_query_work(self.q, timeout_ms))

    def columns(self):
        c = ctypes.POINTER(Column)()
        n = self.lib.fpisa_query_columns(self.q, ctypes.byref(c))
        return [c[i].name.decode() for i in range(n)]

    def rows(self):
        row, n = ctypes.POINTER(text)(), len(self.columns())
        while self.check(self.lib.fpisa_query_next(self.q, ctypes.byref(row))):
            yield [None if row[i] is None else row[i].decode() for i in range(n)]

    def counts(self):
        c = Counts()
        self.lib.fpisa_query_counts(self.q, ctypes.byref(c))
        return {n: getattr(c, n) for n, _ in Counts._fields_}

    def close(self):
        self.lib.fpisa_query_close(self.q)


def main():
    locale.setlocale(locale.LC_ALL, "")
    lib = ctypes.CDLL(sys.argv[1])
    lib.fpisa_query_error.restype = text
    for f in ("fd", "next", "columns", "counts", "close", "work"):
        getattr(lib, "fpisa_query_" + f).argtypes = {"next": [ctypes.c_void_p, ctypes.c_void_p], "columns": [ctypes.c_void_p] * 2,
                                                     "counts": [ctypes.c_void_p] * 2, "work": [ctypes.c_void_p, ctypes.c_int]}.get(
                                                         f, [ctypes.c_void_p])
    options = json.loads(sys.argv[2])
    Query(lib, options).close()
    q = Query(lib, options)
    q.work(-1)
    next(q.rows(), None)
    q.close()
    q, rows, turns = Query(lib, options), [], 0
    poll = select.poll()
    poll.register(lib.fpisa_query_fd(q.q), select.POLLIN)
    state = 0
    while state != 2:
        assert poll.poll(30000), "the descriptor of the query is silent"
        state, turns = q.work(0), turns + 1
        rows += q.rows() if state else ()
    print(json.dumps({"columns": q.columns(), "rows": rows, "counts": q.counts(), "turns": turns}))
    q.close()


if __name__ == "__main__":
    main()
