#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Record the interfaces for other programs: the library's API, the wire, and the names in the CLI's output. doc/interfaces.txt records each
interface with the version that made or changed it.

    tests/tree/interfaces.py BUILD [--write]

Print the differences to the record, or write them (`make interfaces`). A change that breaks other programs without notice is not written.
If a function, struct or constant of include/fpisa.h is removed or changed, SOVERSION must change. For an interface of include/fpisa/wire.h,
FPISA_VERSION must change. NEWS.md must name every change, under the Makefile's VERSION. tests/tree/test_interfaces.py checks these rules.
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "doc", "man"))

import table  # noqa: E402

RECORD = os.path.join(TOP, "doc", "interfaces.txt")
HEAD = """\
# The interfaces that others build on, each with the version that made or last changed it: `make interfaces` writes this file,
# NEWS.md says what changed. API: function, struct, constant. Wire: wire-struct, wire-constant. Output: verb, option,
# counter (its number is the reason of an ERROR frame), json (file.key), metric. gone: was there, up to that version.
"""
LIBRARIES = ("fpisa", "fpisa-query")  # each with a header of the same name
API, WIRE = ("function", "struct", "constant"), ("wire-struct", "wire-constant")
GONE = "(gone)"
# These structs may grow at the end, because they begin with their size, which the library checks. A chunk may grow because only the library
# makes chunks.
GROW = ("fpisa_options", "fpisa_group_options", "fpisa_query_options", "fpisa_info", "fpisa_call", "fpisa_chunk")


def read(*path):
    with open(os.path.join(TOP, *path)) as f:
        return f.read()


def setting(name):
    """Return a variable of the Makefile."""
    return re.search(rf"^{name} := (\S+)$", read("Makefile"), re.M)[1]


def number(version):
    return tuple(map(int, version.split(".")))


# -- the current interfaces as {(kind, name): description} -----------------------

def members(body):
    """Return (name, type) of each member of a struct."""
    for line in filter(None, (" ".join(m.split()) for m in body.split(";"))):
        pointer = re.search(r"\(\*(\w+)\)", line)
        if pointer:
            yield pointer[1], line.replace(pointer[1], "")
            continue
        first, *more = line.split(",")
        kind = re.match(r"(.*?)\w+(?:\[.*\])?$", first)[1].strip()
        for declared in (first[len(kind):], *more):
            yield re.search(r"\w+", declared)[0], kind


def header(path, prefix=""):
    """Return a header's structs, enums and macros, as the compiler reads them."""
    text = re.sub(r"/\*.*?\*/", "", read("include", path), flags=re.S)
    packed = r" __attribute__\(\(packed" if prefix else ";"
    structs = {n: list(members(b)) for n, b in re.findall(rf"^struct (\w+) \{{([^{{}}]*)^\}}{packed}", text, re.M)}
    constants = [n for b in re.findall(r"^enum \w+ \{(.*?)^\}", text, re.M | re.S)
                 for n in re.findall(r"^\s*(FPISA_\w+)", b, re.M)]
    constants += re.findall(r"^#define (FPISA_\w+)[ \t]+\S", text, re.M)
    program = [f'#include <stddef.h>\n#include <stdio.h>\n#include "{path}"\nint main(void)\n{{']
    for name, fields in structs.items():
        program.append(f'printf("{prefix}struct {name}\\t%zu bytes", sizeof(struct {name}));')
        for field, kind in fields:
            at = f"offsetof(struct {name}, {field}), sizeof(((struct {name} *)0)->{field})"
            program.append(f'printf(", {field} %zu+%zu {kind}", {at});')
        program.append('puts("");')
    program += [f'printf("{prefix}constant {n}\\t%lld\\n", (long long)({n}));' for n in constants]
    with tempfile.TemporaryDirectory() as d:
        command = ["gcc", "-I" + os.path.join(TOP, "include"), "-x", "c", "-", "-o", d + "/p"]
        subprocess.run(command, input="\n".join(program) + "\nreturn 0;\n}\n", text=True, check=True)
        out = subprocess.run([d + "/p"], text=True, capture_output=True, check=True).stdout
    for line in out.splitlines():
        head, what = line.split("\t")
        yield tuple(head.split(" ")), what


def functions(build, name):
    """Return the prototypes, each with the version node under which the library exports the function."""
    text = re.sub(r"/\*.*?\*/", "", read("include", name + ".h"), flags=re.S)
    declared = {n: " ".join(p.split()) for p, n in re.findall(r"^((?:const )?\w+ \*?(fpisa_\w+)\([^{};]*\));", text, re.M)}
    exported = dict(line.split()[-1].split("@@") for line in subprocess.run(
        ["nm", "-D", "--defined-only", os.path.join(build, f"lib{name}.so")], text=True, capture_output=True,
        check=True).stdout.splitlines() if " T " in line)
    assert set(declared) == set(exported), set(declared) ^ set(exported)
    for function, prototype in declared.items():
        yield ("function", function), f"{prototype} {exported[function]}"


def output(build):
    """Return verbs and options as the program prints them, and counters, keys and metrics as the sources name them."""
    for v in table.verbs(os.path.join(build, "fpisa"))[0]:
        yield ("verb", v.name), v.operand()
        for o in v.options.values():
            yield ("option", f"{v.name} --{o.name}"), o.metavar
    verdicts, counters = read("include", "fpisa", "verdict.h").split("define FPISA_COUNTERS")
    for i, (name, kind) in enumerate(re.findall(r"\bX\((\w+), ([A-Z]+),", verdicts)):
        yield ("counter", "v_" + name), f"{i} {kind.lower()}"
    for name in re.findall(r"\bX\((\w+), \"", counters):
        yield ("counter", name), ""
    parameters = {n.replace("-", "_"): row for n, row in re.findall(
        r'^\t\{\s*"([a-z-]+)",(.*?)\},$', read("user", "job", "options.c"), re.M | re.S) if "FOREIGN" not in row and not row.endswith(" RATE")}
    for path in sorted(glob.glob(os.path.join(TOP, "user", "**", "*.c"), recursive=True)):
        text, room = read(path), os.path.basename(os.path.dirname(path))
        room = "query" if os.sep + "query" + os.sep in path else room
        name = re.split("[_.]", os.path.basename(path))[0] if room == "verbs" or "histogram" in path else room
        if "json" in text:
            for key in re.findall(r"\b\w*add\w*\(\s*[^,;()]+(?:\(\))?,\s*\"([a-z]\w*)\"", text):
                yield ("json", f"{name}.{key}"), ""
            for where in re.findall(r"\bjob_parameters_json\([^;]*, (0|JOB_IN_\w+)\);", text):
                for key in (k for k, row in parameters.items() if where == "0" or where in row):
                    yield ("json", f"{name}.{key}"), ""
    for name in re.findall(r"\"(fpisa_[a-z_]+[a-z])\"", read("user", "verbs", "prometheus.c")):
        yield ("metric", name), ""


def present(build):
    found = {}
    for name in LIBRARIES:
        found.update(functions(build, name))
        found.update(header(name + ".h"))
    found.update(header("fpisa/wire.h", "wire-"))
    found.update(output(build))
    return found


# -- the record ------------------------------------------------------------------

def recorded():
    """Return ({(kind, name): (version, description)}, SONAME)."""
    items, soname = {}, None
    if not os.path.exists(RECORD):
        return items, soname
    for line in read(RECORD).splitlines():
        if line.startswith("soname "):
            soname = line.split()[1]
        elif line and not line.startswith("#"):
            version, kind, rest = line.split("\t")
            name, what = rest.split(": ", 1) if ": " in rest else (rest, "")
            items[kind, name] = version, what
    return items, soname


def write(items, soname):
    kinds = list(dict.fromkeys(kind for kind, _ in items))
    order = sorted(items, key=lambda key: kinds.index(key[0]))
    lines = [f"{items[key][0]}\t{key[0]}\t{key[1]}" + (f": {items[key][1]}" if items[key][1] else "") for key in order]
    with open(RECORD, "w") as f:
        f.write(HEAD + f"soname {soname}\n" + "\n".join(lines) + "\n")


def news():
    """Return {version: its section of NEWS.md}, the newest first."""
    sections = re.split(r"^## (\d+\.\d+\.\d+)\b.*\n", read("NEWS.md"), flags=re.M)[1:]
    return dict(zip(sections[::2], sections[1::2]))


def says(section, key):
    """Return whether NEWS names the interface, marked as code. An option must have its dashes. A counter, key or metric must stand
    alone."""
    kind, name = key
    name = name.rsplit(" ", 1)[-1] if kind == "option" else name.rsplit(".", 1)[-1] if kind == "json" else name
    return re.search(rf"(?<![\w-]){re.escape(name.removeprefix('v_') if kind == 'counter' else name)}(?![\w-])",
                     "\n".join(re.findall(r"`([^`]*)`", section)))


def grown(name, was, now):
    """Return whether a struct that may grow has only new members at its end."""
    old, new = was.split(", ")[1:], now.split(", ")[1:]
    return name in GROW and new[:len(old)] == old


def changes(found, items):
    """Return {key: (old, new)}. A missing interface is None."""
    old = {k: what for k, (_, what) in items.items() if what != GONE}
    return {k: (old.get(k), found.get(k)) for k in {**old, **found} if old.get(k) != found.get(k)}


def breaks(found, items, same_soname):
    """Return sentences that say why the changes may not be recorded."""
    differ = changes(found, items)
    version = ("wire-constant", "FPISA_VERSION")
    for (kind, name), (was, now) in differ.items():
        if was is None or (kind == "struct" and now and grown(name, was, now)):
            continue
        what = f"{kind} {name} " + ("is gone" if now is None else "changed")
        if kind in API and same_soname:
            yield f"{what}: programs that are linked against the library break; another SOVERSION, or leave it as it was"
        if kind in WIRE and version not in differ:
            yield f"{what}: workers in use break; another FPISA_VERSION, or leave it as it was"


def unsaid(items, sections, first):
    """Return sentences about the changes that the section of their version in NEWS.md does not name. The first version is not checked."""
    for key, (version, what) in items.items():
        if version != first and not says(sections.get(version, ""), key):
            yield f"{' '.join(key)} {'is gone' if what == GONE else 'changed'} in {version}: NEWS.md does not say so there"


def updated(found, items, version):
    new = {k: (items[k][0] if items.get(k, ("", None))[1] == what else version, what) for k, what in found.items()}
    for k, (since, what) in items.items():
        if k not in found:
            new[k] = (since, GONE) if what == GONE else (version, GONE)
    return new


def main():
    build, writes = sys.argv[1], sys.argv[2:] == ["--write"]
    found, (items, soname) = present(build), recorded()
    now = f"libfpisa.so.{setting('SOVERSION')}"
    if not writes:
        for (kind, name), (was, is_now) in changes(found, items).items():
            print(f"{kind} {name}: {was if was is not None else 'not there'} -> {is_now if is_now is not None else GONE}")
        return 1 if changes(found, items) or now != soname else 0
    new, sections = updated(found, items, setting("VERSION")), news()
    wrong = [*breaks(found, items, now == soname), *(unsaid(new, sections, list(sections)[-1]) if items else [])]
    for sentence in wrong:
        print(f"make interfaces: {sentence}", file=sys.stderr)
    if not wrong:
        write(new, now)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
