# SPDX-License-Identifier: GPL-2.0-only
"""A change of an interface is in NEWS.md, and changes the versions that programs check."""
import re

import pytest

import interfaces
from interfaces import GONE, number, read, setting
from lab import BUILD


@pytest.fixture(scope="module")
def found():
    return interfaces.present(BUILD)


# -- the tree --------------------------------------------------------------------

def test_record(found):
    """doc/interfaces.txt records the current interfaces. After a change, name the change in NEWS.md, then run `make interfaces`."""
    items, soname = interfaces.recorded()
    assert interfaces.changes(found, items) == {}
    assert soname == f"libfpisa.so.{setting('SOVERSION')}"


def test_news():
    """Every change is named in the section of its version, and the newest section is that of the Makefile's version."""
    items, _ = interfaces.recorded()
    sections = interfaces.news()
    versions = list(sections)
    assert versions == sorted(versions, key=number, reverse=True) and versions[0] == setting("VERSION")
    assert {v for v, _ in items.values()} <= set(versions)
    assert list(interfaces.unsaid(items, sections, versions[-1])) == []
    for version, text in sections.items():
        areas = re.findall(r"^\*\*(\w+)\*\*$", text, re.M)
        assert version == versions[-1] or areas and set(areas) <= {"API", "wire", "output", "behaviour", "MPI", "PostgreSQL"}


def test_header_alone():
    """The header can be installed without the tree. It does not name a file of the tree, and its numbers equal those of the protocol."""
    header, numbers = read("include", "fpisa.h"), read("include", "fpisa", "format.h")
    assert re.findall(r"\b(?:bpf|doc|include|user)/\S+", header) == []
    for name in "mode", "pipeline", "clz", "fanout":
        found = re.findall(rf"FPISA_{name.upper()}_(\w+) = (\d+)", numbers)
        said = ", ".join(f"{n} {value.lower().replace('_', '-')}" for value, n in found)
        assert re.search(rf"^ \* {name}\t+{said}$", header, re.M), said


def symbols():
    """Return {function: (node, lowest version of the package)} of debian/lib*N.symbols."""
    found, n = {}, setting("SOVERSION")
    for name in interfaces.LIBRARIES:
        text = read("debian", f"lib{name}{n}.symbols")
        assert text.startswith(f"lib{name}.so.{n} lib{name}{n} #MINVER#\n")
        found.update({f: (node, version) for f, node, version in re.findall(r"^ (fpisa_\w+)@(\w+\.\w+) (\S+)$", text, re.M)})
    return found


def versions_of_structs(items, what):
    """Return the versions of the structs that the struct points to, directly or through others."""
    for name in re.findall(r"struct (\w+) \*", what):
        if ("struct", name) in items:
            version, inside = items["struct", name]
            yield from (version, *versions_of_structs(items, inside))


def test_symbols():
    """The node of each exported function names the version that added the function. The package that a program needs is not older than the
    function and its structs."""
    items, _ = interfaces.recorded()
    functions = {n: v for (kind, n), v in items.items() if kind == "function" and v[1] != GONE}
    listed = symbols()
    assert set(listed) == set(functions)
    for name, (since, what) in functions.items():
        node, least = listed[name]
        assert what.endswith(f" {node}") and node == ("LIBFPISA_QUERY_" if "_query_" in name else "LIBFPISA_") + ".".join(since.split(".")[:2]), name
        needs = [since, *versions_of_structs(items, what)]
        assert number(least) == max(map(number, needs)), name


def test_packages_have_the_news():
    for name in ("fpisa", "fpisa-query", "fpisa-lab", "libfpisa1", "libfpisa-query1", "libfpisa-dev", "postgresql-PGVERSION-fpisa", "libfpisa-mpi-openmpi", "libfpisa-mpi-mpich"):
        assert "NEWS.md" in read("debian", name + ".docs").split()
    assert "](NEWS.md)" in read("README.md")


# -- the rule, tested on invented changes ----------------------------------------

def change(found, **edits):
    """Return the interfaces with some of them changed. None removes an interface."""
    new = dict(found)
    for name, what in edits.items():
        key = next((k for k in found if k[1] == name), ("function", name))
        new.pop(key, None)
        if what is not None:
            new[key] = what
    return new


def recorded_now(found):
    return {k: ("0.1.0", what) for k, what in found.items()}


STRUCT, OPTIONS, MEM = "fpisa_chunk", "fpisa_options", "fpisa_mem_options"


@pytest.mark.parametrize("edits, broken", [
    ({"fpisa_close": None}, "function fpisa_close is gone"),
    ({"fpisa_close": "int fpisa_close(struct fpisa *f) LIBFPISA_0.1"}, "function fpisa_close changed"),
    ({"FPISA_AVG": "9"}, "constant FPISA_AVG changed"),
    ({OPTIONS: lambda s: s.replace("token 16+8", "token 24+8")}, "struct fpisa_options changed"),
    ({MEM: lambda s: s + ", more 32+8 uint64_t"}, "struct fpisa_mem_options changed"),
    ({STRUCT: lambda s: s + ", more 32+8 uint64_t"}, None),
    ({OPTIONS: lambda s: s.replace("112 ", "120 ") + ", more 112+8 uint64_t"}, None),
    ({"fpisa_new": "int fpisa_new(void) LIBFPISA_0.2"}, None),
    ({"fpisa_hdr": lambda s: s.replace("checksum 72+4", "checksum 72+2")}, "wire-struct fpisa_hdr changed"),
    ({"FPISA_F_PROBE": None}, "wire-constant FPISA_F_PROBE is gone"),
    ({"FPISA_F_PROBE": None, "FPISA_VERSION": "77"}, None),
    ({"v_stale": None, "job add --mode": None, "stats.drops": None}, None),
])
def test_breaks(found, edits, broken):
    """A change that breaks existing programs is refused, unless the version that reports the change changes too."""
    texts = {n: what for (_, n), what in found.items()}
    new = change(found, **{n: w(texts[n]) if callable(w) else w for n, w in edits.items()})
    assert new != found
    said = list(interfaces.breaks(new, recorded_now(found), True))
    assert [s.split(":")[0] for s in said] == ([broken] if broken else [])
    if not broken or broken.startswith(("function", "struct", "constant")):
        assert not list(interfaces.breaks(new, recorded_now(found), False))


@pytest.mark.parametrize("name, says", [
    ("fpisa_info", "struct `fpisa_info` has more"), ("v_stale", "the counter `stale` is `old` now"),
    ("job add --mode", "`job add --mode` is gone"), ("stats.drops", "`drops` is `dropped`"),
    ("fpisa_drops_total", "`fpisa_drops_total`"), ("FPISA_VERSION", "`FPISA_VERSION` is 2"), ("fpisa_close", "no `fpisa_close`")])
def test_unsaid(found, name, says):
    """A removed, changed or new interface must be named in the section of its version."""
    texts = {n: what for (_, n), what in found.items()}
    for new in (change(found, **{name: None}), change(found, **{name: texts[name] + " other"})):
        items = interfaces.updated(new, recorded_now(found), "0.2.0")
        assert {k[1] for k, v in items.items() if v[0] == "0.2.0"} == {name}
        assert len(list(interfaces.unsaid(items, {"0.2.0": "- **output** something else\n"}, "0.1.0"))) == 1
        assert list(interfaces.unsaid(items, {"0.2.0": f"- **output** {says}\n"}, "0.1.0")) == []
        # The record does not change until the interface changes again.
        assert interfaces.updated(new, items, "0.3.0") == items
