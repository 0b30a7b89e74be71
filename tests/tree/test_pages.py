# SPDX-License-Identifier: GPL-2.0-only
"""Compare README.md and every other page with the tree and the program: links, commands, tables and figures."""
import glob
import os
import re
import subprocess

import pytest

import table
from lab import FPISA, TOP

PAGES = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "NEWS.md", "DEVELOPING.md", "vm/README.md", "data/README.md", "bench/README.md"] + \
    sorted(os.path.relpath(p, TOP) for p in glob.glob(os.path.join(TOP, "doc", "*.md")))


def read(page):
    with open(os.path.join(TOP, page)) as f:
        return f.read()


@pytest.mark.parametrize("page", PAGES)
def test_links(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", read(page)):
        assert re.match(r"https?:", target) or os.path.exists(os.path.join(TOP, os.path.dirname(page), target)), target


@pytest.mark.parametrize("language", ["c", "c++"])
@pytest.mark.parametrize("page", ["README.md", "include/fpisa.h"])
def test_first_program(page, language):
    """The page's program compiles unchanged, between the usual lines of a program."""
    lines, = re.findall(r"(^(?: {4}| \*\t)struct fpisa \*f;\n.*?fpisa_close\(f\);\n)", read(page), re.M | re.S)
    program = f"""#include <err.h>
#include <fpisa.h>
void sum(float *grad, size_t n)
{{
{re.sub("^(    | [*])", "", lines, flags=re.M)}}}
"""
    subprocess.run(["gcc", "-x", language, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", os.path.join(TOP, "include"), "-"],
                   input=program, text=True, check=True)


@pytest.mark.parametrize("page", PAGES)
def test_tables_are_whole(page):
    """The second line of a table has dashes, and all rows have equally many cells."""
    for rows in re.findall(r"(?:^\|.*\n)+", re.sub(r"```.*?```", "", read(page), flags=re.S), re.M):
        cells = [len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", r))) for r in rows.splitlines()]
        assert re.fullmatch(r"\|[-:|]+\|", rows.splitlines()[1]) and len(set(cells)) == 1, rows


def test_map():
    """DEVELOPING.md names only existing programs, and every file of the directories that it lists."""
    there = {f for path, _, files in os.walk(TOP) if not {".git", "build"} & set(path.split(os.sep)) for f in files}
    named = set(re.findall(r"[\w-][\w.-]*\.(?:py|sh|c|h|hpp|cpp|mk)\b", read("DEVELOPING.md")))
    assert named - there <= {"fpisa_abi.h"}, named - there  # this header is generated
    for room in "tests/lib", "paper/training", "adapters/python/fpisa":
        files = {f for f in os.listdir(os.path.join(TOP, room)) if re.fullmatch(r"[^_]\w*\.\w+|_[^_]\w*\.py", f)} - {"py.typed"}
        unnamed = {f for f in files if not re.search(rf"(?<![\w.]){re.escape(f)}", read("DEVELOPING.md"))}
        assert not unnamed, room


@pytest.mark.parametrize("page", PAGES)
def test_make_targets(page):
    makefile = read("Makefile")
    makefile += "".join(read(rules) for line in re.findall(r"^include (.*)$", makefile, re.M) for rules in line.split())
    targets = set(" ".join(re.findall(r"^\.PHONY: (.*)$", makefile, re.M)).split())
    said = re.findall(r"(?:`|^    (?:sudo )?)make ([a-z][a-z-]+)(?=[\s`])", read(page), re.M)
    assert set(said) <= targets, set(said) - targets
    assert page != "README.md" or {"demo", "test", "bench"} <= set(said)


@pytest.mark.parametrize("page", PAGES)
def test_network_namespaces(page):
    """No page loads the datapath with `ip netns exec` or `ip -n`, because the pins would disappear."""
    assert not re.search(r"ip (netns exec|-n) \S+ .*(fpisa|xdp)", read(page))


def commands(page):
    """Yield the lines and spans of code that call fpisa, as words."""
    text = re.sub(r"`([^`\n]*)\n([^`\n]*)`", r"`\1 \2`", read(page))
    for line in re.findall(r"^(?:    )?((?:build/)?fpisa [a-z].*)$", text, re.M) + \
            re.findall(r"`((?:build/)?fpisa [^`]*)`", text):
        for part in re.split(r"&&|;", line.split(" #")[0]):
            words = part.split()
            if words and words[0].split("/")[-1] == "fpisa":
                yield words


@pytest.mark.parametrize("page", PAGES)
def test_commands(page):
    """Every verb on a page exists, and has every option that the page uses."""
    names = {v.name for v in table.verbs(FPISA)[0]}
    found = 0
    for words in commands(page):
        name = next((n for n in (" ".join(words[1:3]), words[1]) if n in names), None)
        assert name or words[1] == "help" or not re.match(r"[a-z]", words[1]), words
        if not name:
            continue
        told = table.ask(FPISA, "help", *name.split()) + "--help"
        for option in re.findall(r" (--[a-z][a-z-]*)", " ".join(words)):
            assert re.search(rf"{option}(?![a-z-])", told), words
        found += 1
    assert page != "README.md" or found > 5


def test_faults_are_shown():
    """Each test that doc/faults.md names exists, and each row names one."""
    source, rows = {}, 0
    for path in glob.glob(os.path.join(TOP, "tests", "**", "test_*.*"), recursive=True):
        name = os.path.basename(path).split(".")[0]
        source[name] = source.get(name, "") + read(os.path.relpath(path, TOP))
    for table_ in re.split(r"\| shown by \|\n(?:\|---)+\|\n", read("doc/faults.md"))[1:]:
        for row in re.match(r"(?:\|.*\n)+", table_)[0].splitlines():
            last, rows = None, rows + 1
            for shown in row.strip("| ").rsplit("|", 1)[1].strip().split(", "):
                m = re.fullmatch(r"(?:(test_\w+|soak|`fpisa soak`|model|fuzz/packets) ?)?(?:`(\w+)(?:\[(\w+)\])?`)?", shown)
                assert m and (m[1] or last), shown
                last = m[1] or last
                if last.startswith("test_"):
                    assert all(part in source[last] for part in m.groups()[1:] if part), shown
    assert rows > 70


def test_privileges_of_every_verb():
    rows = re.findall(r"^\| (`.*?) \|", read("doc/privileges.md"), re.M)
    named = {n for r in rows for n in re.findall(r"`([^`]*)`", r)} - {"help", "--version"}
    verbs = {v.name for v in table.verbs(FPISA)[0]}
    assert {v for v in verbs if v not in named and v.split()[0] not in named} == set()
    assert named <= verbs


def test_program():
    """The worker of "Use it" compiles unchanged."""
    lines = re.search(r"^    #include <fpisa\.h>\n(?:    .*\n)+", read("README.md"), re.M)[0].splitlines()
    text = "#include <err.h>\n" + lines[0].strip() + "\nvoid f(float *grad, size_t n);\nvoid f(float *grad, size_t n)\n{\n" + \
        "\n".join(lines[1:]) + "\n}\n"
    p = subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c", "-I" + os.path.join(TOP, "include"), "-"],
                       input=text, text=True, capture_output=True)
    assert p.returncode == 0, p.stderr


MODES = ("fpisa", "fpisa-a", "fpisa64", "exact")


def rng(values, percent=True):
    low, high = min(values), max(values)
    return f"{low:.1f}% to {high:.1f}%" if percent else f"{low} to {high}"


def test_figures_of_analyze():
    """The table under "What was measured" is the output of the first command in that section."""
    text = read("doc/numbers.md")
    command, = [w for w in commands("doc/numbers.md") if w[1] == "analyze" and "data/gradients/*.f32" in w]
    files = sorted(glob.glob(os.path.join(TOP, "data", "gradients", "*.f32")))
    assert command[2:] == ["--workers", "8", "data/gradients/*.f32", "data/heavy_tailed.f32"] and len(files) == 3
    out = subprocess.run([FPISA, *command[1:-2], *files, os.path.join(TOP, command[-1])], text=True, capture_output=True,
                         check=True).stdout
    rows = {}
    for name, mode, *figures in re.findall(
            r"^(\S+)\.f32 +(\S+) +(?:down|nearest) +(\S+) +\S+ +(\S+) +(\S+) +(\d+) +(\d+)$", out, re.M):
        rows.setdefault((mode, "heavy" in name), []).append(figures)
    assert {k: len(r) for k, r in rows.items()} == {(m, h): 1 if h else 3 for m in MODES for h in (False, True)}
    for m in MODES:
        worst, right, order, overwritten, overflowed = zip(*rows[m, False])
        shares = ["100%", "0"] if set(right) == {"100%"} and set(order) == {"0"} else \
            [rng([float(x.rstrip("%")) for x in share]) for share in (right, order)]
        adds = [rng(list(map(int, n)), False) if any(map(int, n)) else "0" for n in (overwritten, overflowed)]
        line = " | ".join([f"| `{m}`", "gradients", max(worst, key=float), *shares, *adds])
        assert f"\n{line} |\n| | heavy-tailed | " + " | ".join(rows[m, True][0]) + " |\n" in text
    assert rows["exact", True][0][1] == "100%" != rows["fpisa64", True][0][1]
