# SPDX-License-Identifier: GPL-2.0-only
"""README.md against the tree and the program: its links, commands, tables and figures."""
import glob
import os
import re
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.abspath(os.path.join(HERE, "..", ".."))
FPISA = os.path.join(os.path.abspath(os.environ.get("FPISA_BUILD", os.path.join(TOP, "build"))), "fpisa")
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(TOP, "doc", "man"))

import table  # noqa: E402

PAGES = ["README.md", "DEVELOPING.md", "vm/README.md", "data/README.md"] + \
    sorted(os.path.relpath(p, TOP) for p in glob.glob(os.path.join(TOP, "doc", "*.md")))


def read(page):
    with open(os.path.join(TOP, page)) as f:
        return f.read()


@pytest.mark.parametrize("page", PAGES)
def test_links(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", read(page)):
        assert re.match(r"https?:", target) or os.path.exists(os.path.join(TOP, os.path.dirname(page), target)), target


@pytest.mark.parametrize("page", PAGES)
def test_tables_are_whole(page):
    """A table has its line of dashes second, and as many cells in every row."""
    for rows in re.findall(r"(?:^\|.*\n)+", re.sub(r"```.*?```", "", read(page), flags=re.S), re.M):
        cells = [len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", r))) for r in rows.splitlines()]
        assert re.fullmatch(r"\|[-:|]+\|", rows.splitlines()[1]) and len(set(cells)) == 1, rows


@pytest.mark.parametrize("page", PAGES)
def test_make_targets(page):
    makefile = read("Makefile")
    targets = set(" ".join(re.findall(r"^\.PHONY: (.*)$", makefile, re.M)).split())
    said = re.findall(r"(?:`|^    (?:sudo )?)make ([a-z][a-z-]+)(?=[\s`])", read(page), re.M)
    assert set(said) <= targets, set(said) - targets
    assert page != "README.md" or {"demo", "test", "deb", "bench", "resources"} <= set(said)


def commands(page):
    """Lines and spans of code that call fpisa, as words."""
    text = re.sub(r"`([^`\n]*)\n([^`\n]*)`", r"`\1 \2`", read(page))
    for line in re.findall(r"^(?:    )?((?:build/)?fpisa [a-z].*)$", text, re.M) + \
            re.findall(r"`((?:build/)?fpisa [^`]*)`", text):
        for part in re.split(r"&&|;", line.split(" #")[0]):
            words = part.split()
            if words and words[0].split("/")[-1] == "fpisa":
                yield words


@pytest.mark.parametrize("page", PAGES)
def test_commands(page):
    """Every verb is one, and has every option that is given to it."""
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
    assert page != "README.md" or found > 10


def test_privileges_of_every_verb():
    rows = re.findall(r"^\| (`.*?) \|", read("doc/privileges.md"), re.M)
    named = {n for r in rows for n in re.findall(r"`([^`]*)`", r)} - {"help", "--version"}
    verbs = {v.name for v in table.verbs(FPISA)[0]}
    assert {v for v in verbs if v not in named and v.split()[0] not in named} == set()
    assert named <= verbs


def test_program():
    """The worker of "Use it" compiles as it stands there."""
    lines = re.search(r"^    #include <fpisa\.h>\n(?:    .*\n)+", read("README.md"), re.M)[0].splitlines()
    text = "#include <err.h>\n" + lines[0].strip() + "\nvoid f(float *grad, size_t n);\nvoid f(float *grad, size_t n)\n{\n" + \
        "\n".join(lines[1:]) + "\n}\n"
    p = subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c", "-I" + os.path.join(TOP, "include"), "-"],
                       input=text, text=True, capture_output=True)
    assert p.returncode == 0, p.stderr


def rng(values, percent=True):
    low, high = min(values), max(values)
    return f"{low:.1f}% to {high:.1f}%" if percent else f"{low} to {high}"


def test_figures_of_analyze():
    """The table under "What a mode makes of your values", by the command above it."""
    text = read("README.md")
    command, = [w for w in commands("README.md") if w[1] == "analyze" and "data/gradients/*.f32" in w]
    files = sorted(glob.glob(os.path.join(TOP, "data", "gradients", "*.f32")))
    assert command[2:] == ["--workers", "8", "data/gradients/*.f32"] and len(files) == 3
    out = subprocess.run([FPISA, *command[1:-1], *files], text=True, capture_output=True, check=True).stdout
    rows = {}
    for mode, worst, right, order, overwritten, overflowed in re.findall(
            r"^\S+\.f32 +(\S+) +(?:down|nearest) +(\S+) +\S+ +([\d.]+)%? +([\d.]+)%? +(\d+) +(\d+)$", out, re.M):
        rows.setdefault(mode, []).append((worst, float(right), float(order), int(overwritten), int(overflowed)))
    assert {m: len(r) for m, r in rows.items()} == {m: 3 for m in ("fpisa", "fpisa-a", "fpisa64", "exact")}
    worst = {m: max((r[0] for r in v), key=float) for m, v in rows.items()}
    columns = {m: list(zip(*v)) for m, v in rows.items()}
    for m, tail in (("fpisa", "0 | 0"), ("fpisa-a", " | ".join(rng(columns["fpisa-a"][k], False) for k in (3, 4)))):
        assert f"\n| `{m}` | {worst[m]} | {rng(columns[m][1])} | {rng(columns[m][2])} | {tail} |\n" in text
    assert "\n| `fpisa64`, `exact` | 0 | 100% | 0 | 0 | 0 |\n" in text
    for m in ("fpisa64", "exact"):
        assert worst[m] == "0" and set(columns[m][1]) == {100} and set(columns[m][2]) == {0}
