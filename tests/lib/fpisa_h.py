# SPDX-License-Identifier: GPL-2.0-only
"""The structs of fpisa.h and fpisa-query.h as ctypes. The layouts come from doc/interfaces.txt, which test_interfaces checks against the
headers."""
import ctypes
import os
import re

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
NUMBERS = {"size_t": ctypes.c_size_t, "double": ctypes.c_double, "int": ctypes.c_int, "unsigned int": ctypes.c_uint,
           **{f"uint{n}_t": getattr(ctypes, f"c_uint{n}") for n in (8, 16, 32, 64)}}
MEMBER = re.compile(r"(\w+) (\d+)\+(\d+) (.*?)(?=, \w+ \d+\+\d+ |$)")


def layouts():
    """Return {struct: (size in bytes, members)} of both APIs."""
    with open(os.path.join(TOP, "doc", "interfaces.txt"), encoding="utf-8") as f:
        rows = [line.rstrip("\n").split("\t") for line in f]
    found = (re.fullmatch(r"(\w+): (\d+) bytes, (.*)", row[2]) for row in rows if len(row) == 3 and row[1] == "struct")
    return {m[1]: (int(m[2]), m[3]) for m in found}


def structure(name, **callbacks):
    """Return a ctypes.Structure for `name`. Pointers to functions have the types in `callbacks`, or void *."""
    size, members = layouts()[name]
    wanted = {m[1]: (int(m[2]), int(m[3]), m[4]) for m in MEMBER.finditer(members)}
    fields = [(member, callbacks.get(member) or NUMBERS.get(c_type) or
               (ctypes.c_char_p if c_type == "const char *" else ctypes.c_void_p)) for member, (_, _, c_type) in wanted.items()]
    made = type(name, (ctypes.Structure,), {"_fields_": fields})
    assert ctypes.sizeof(made) == size, name
    for member, (offset, length, _) in wanted.items():
        assert (getattr(made, member).offset, getattr(made, member).size) == (offset, length), (name, member)
    return made
