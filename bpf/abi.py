#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Print the stamp of the types that BPF programs and user space share, as a header.

    bpftool -j btf dump file abi.o | bpf/abi.py

The stamp covers maps, their sizes and the layout of their entries, by name and offset. Two
builds with the same stamp can use each other's maps, whatever compiled them.
"""
import hashlib
import json
import sys

types = {}


def describe(number, seen=()):
    """Return a type as text. Where a type points back to itself, return only its name."""
    t = types.get(number)
    if t is None:
        return "void"
    kind, name = t["kind"], t["name"]
    if kind in ("TYPEDEF", "CONST", "VOLATILE", "RESTRICT", "TYPE_TAG"):
        return describe(t["type_id"], seen)
    if kind == "INT":
        return f"{name}:{t['size']}"
    if kind == "PTR":
        return "*" + describe(t["type_id"], seen)
    if kind == "ARRAY":
        return f"{describe(t['type_id'], seen)}[{t['nr_elems']}]"
    if kind in ("STRUCT", "UNION") and number not in seen:
        members = (f"{m['name']}@{m['bits_offset']}={describe(m['type_id'], (*seen, number))}" for m in t["members"])
        return f"{kind} {name}:{t['size']}{{{' '.join(members)}}}"
    if kind in ("ENUM", "ENUM64"):
        return f"{kind}:{t['size']}"
    return f"{kind} {name}"


def main():
    types.update((t["id"], t) for t in json.load(sys.stdin)["types"])
    lines = sorted(f"{t['name']} {describe(t['type_id'])}" for t in types.values()
                   if t["kind"] == "VAR" and t["name"] != "fpisa_abi")
    if not any(line.startswith("fpisa_jobs ") for line in lines):
        sys.exit("abi.py: standard input has no BTF of maps")
    stamp = int.from_bytes(hashlib.sha256("\n".join(lines).encode()).digest()[:4], "little") % (1 << 20) + 1
    print(f"#define FPISA_ABI {stamp} /* by bpf/abi.py */")


if __name__ == "__main__":
    main()
