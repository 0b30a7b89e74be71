#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Call every function of fpisa.h and fpisa-query.h with NULL for each pointer that it needs, one pointer at a time, and then for all
pointers. The functions are those of doc/interfaces.txt, so a new function is called too.

    nulls.py LIBRARY QUERY_LIBRARY HOST KEY_FILE

Join a group of one rank at HOST. Print a line for each call before the call, and "right" at the end.
"""
import ctypes
import errno
import os
import re
import sys

from fpisa_h import structure

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
RESULTS = {"int": ctypes.c_int, "uint64_t": ctypes.c_uint64, "uint32_t": ctypes.c_uint32, "void": None, "const char *": ctypes.c_char_p}
NUMBERS = {"job": 0, "rank": 0, "size": 1, "count": 1, "type": 1, "op": 1, "bytes": 4, "root": 0, "timeout_ms": 0, "room": 0, "joined": 0, "column": 0}
TEXTS = {"address": b"127.0.0.1", "name": b"other", "host": b"127.0.0.1"}
# Pointers that may be NULL, each with its function, or with "" for all functions
MAY_BE_NULL = {("", "flags"), ("", "columns"), ("", "filtered"), ("fpisa_query_counts", "counts"), ("fpisa_connect", "options"),
               ("fpisa_group_reduce_scatter", "counts"), ("fpisa_group_reduce_scatter_start", "counts"),
               ("fpisa_reduce_scatter", "counts"), ("fpisa_reduce_scatter_start", "counts"),
               ("fpisa_mem_connect", "options"), ("fpisa_group_join", "options"), ("fpisa_missing", "f"), ("fpisa_group_missing", "g"),
               ("fpisa_group_missing_ranks", "g"), ("fpisa_group_missing_ranks", "ranks"),
               ("fpisa_close", "f"), ("fpisa_group_leave", "g"), ("fpisa_mem_destroy", "m"), ("fpisa_query_close", "q")}


def functions():
    """Return (result, name, [(type, name) of each parameter]) of each public function."""
    with open(os.path.join(TOP, "doc", "interfaces.txt"), encoding="utf-8") as f:
        rows = [line.rstrip("\n").split("\t") for line in f]
    for text in (row[2].split(": ", 1)[1] for row in rows if len(row) == 3 and row[1] == "function" and not row[2].endswith("(gone)")):
        result, name, inside = re.match(r"(.*?)(fpisa_\w+)\((.*)\)", text).groups()
        parameters = [re.match(r"(.*?)(\w+)$", p.strip()).groups() for p in inside.split(",") if p.strip() != "void"]
        yield result.strip(), name, [(kind.strip(), what) for kind, what in parameters]


def sized(name, **values):
    made = structure(name)
    return made(size=ctypes.sizeof(made), **values)


class Objects:
    """A handle and an aggregator in this process, a group, a query, and valid arguments"""

    def __init__(self, library, query, host, key):
        self.lib, self.query_lib = library, query
        self.values = (ctypes.c_float * 4)(1, 1, 1, 1)
        self.keep = [sized("fpisa_mem_options", workers=1), sized("fpisa_query_options", workers=b"127.0.0.1", table=b"t", value=b"v", limit=1,
                                                                  pruning=1, key_file=key.encode())]
        at = ctypes.addressof(self.values)
        self.call = sized("fpisa_call", send=at, recv=at, count=1, type=1, op=1)
        options = sized("fpisa_group_options", key_file=key.encode(), join_timeout_ms=20000)
        self.made = {"mem": ctypes.c_void_p(), "f": ctypes.c_void_p(), "g": ctypes.c_void_p(), "q": ctypes.c_void_p()}
        f, g, q, m = (ctypes.byref(self.made[name]) for name in ("f", "g", "q", "mem"))
        assert not library.fpisa_mem_create(m, ctypes.byref(self.keep[0])), self.error()
        assert not library.fpisa_mem_connect(f, self.made["mem"], 0, None), self.error()
        assert not library.fpisa_group_join(g, host.encode(), b"nulls", 0, 1, ctypes.byref(options)), self.error()
        assert not query.fpisa_query_open(q, ctypes.byref(self.keep[1])), query.fpisa_query_error()

    def error(self):
        return self.lib.fpisa_error().decode()

    def argument(self, function, kind, name):
        """Return a valid argument for this parameter, and an object that must live until the call is made."""
        objects = {"struct fpisa *": "f", "struct fpisa_group *": "g", "struct fpisa_query *": "q", "struct fpisa_mem *": "mem"}
        plain = kind.removeprefix("const ")
        if "*" not in kind:
            return (ctypes.c_double(1) if kind == "double" else ctypes.c_size_t(NUMBERS[name])), None
        if plain in objects:
            return self.made[objects[plain]], None
        if plain == "char *":
            return ctypes.c_char_p(TEXTS[name]), None
        if plain == "struct fpisa_call *":
            return ctypes.byref(self.call), None
        if function in ("fpisa_test", "fpisa_wait") and name == "request":
            request = ctypes.c_void_p()
            assert not self.lib.fpisa_start(self.made["f"], ctypes.byref(self.call), ctypes.byref(request)), self.error()
            return ctypes.byref(request), request
        if function == "fpisa_query_open" and name == "options":
            return ctypes.byref(self.keep[1]), None
        if function == "fpisa_mem_create" and name == "options":
            return ctypes.byref(self.keep[0]), None
        room = ctypes.create_string_buffer(4096)
        if plain == "struct fpisa_info *":
            room = sized("fpisa_info")
        return ctypes.byref(room), room

    def call_it(self, function, result, parameters, null):
        """Call the function with NULL for the parameters of these names. Return its result."""
        print(f"{function} NULL for {', '.join(null)}", flush=True)
        pairs = [(None, None) if name in null else self.argument(function, kind, name) for kind, name in parameters]
        library = self.query_lib if "_query_" in function else self.lib
        f = getattr(library, function)
        f.restype = RESULTS[result]
        got = f(*(value for value, _ in pairs))
        for _, request in pairs:
            if isinstance(request, ctypes.c_void_p) and request:
                assert not self.lib.fpisa_wait(ctypes.byref(request), None), self.error()
        return got

    def check(self, result, function, parameters):
        pointers = [name for kind, name in parameters if "*" in kind]
        needed = [p for p in pointers if not MAY_BE_NULL & {("", p), (function, p)}]
        sets = [[p] for p in needed] + ([pointers] if len(pointers) > 1 or not needed else [])
        for null in sets if pointers else ():
            got = self.call_it(function, result, parameters, null)
            right = None if result == "void" or "*" in result else -errno.EINVAL if needed and result == "int" else 0
            assert got == right, (function, null, got)

    def still_work(self):
        at, n = ctypes.addressof(self.values), ctypes.c_size_t(4)
        assert not self.lib.fpisa_allreduce(self.made["f"], ctypes.c_void_p(at), ctypes.c_void_p(at), n, 1, None), self.error()
        assert not self.lib.fpisa_group_allreduce(self.made["g"], ctypes.c_void_p(at), ctypes.c_void_p(at), n, 1, 1, ctypes.c_double(1), None), \
            self.error()
        assert self.lib.fpisa_group_ended(self.made["g"]) == 0


def main():
    library, query, host, key = sys.argv[1:5]
    os.environ.pop("FPISA_MANAGER", None)
    lib, query_lib = ctypes.CDLL(library), ctypes.CDLL(query)
    lib.fpisa_error.restype = query_lib.fpisa_query_error.restype = ctypes.c_char_p
    objects, seen = Objects(lib, query_lib, host, key), 0
    for result, name, parameters in functions():
        objects.check(result, name, parameters)
        seen += 1
    objects.still_work()
    print("right", seen)


if __name__ == "__main__":
    main()
