# SPDX-License-Identifier: GPL-2.0-only
"""Test debian/deps with a stand-in for apt, on random words and archives: the packages that the script chooses and installs, and its
output."""
import json
import os
import random
import re
import subprocess
import sys

import pytest

from lab import TOP

PACKAGES = [f"{name}-{n}" for name in ("gcc", "clang", "rt") for n in (1, 2, 3)] + ["plain", "other"]
APT = f"#!{sys.executable}" + """
import json, sys
with open({state!r}) as f:
    s = json.load(f)
args = [a for a in sys.argv[1:] if not a.startswith("-")]
s["calls"].append(args)
if args[0] == "policy":
    for name in args[1:]:
        if name in s["has"] or name in s["offers"]:
            print(f"{{name}}:\\n  Installed: {{s['has'].get(name, '(none)')}}\\n  Candidate: {{s['offers'].get(name, '(none)')}}")
broken = args[0] == "install" and bool(set(args[1:]) & set(s["broken"]))
if args[0] == "install" and not broken:
    s["has"] = {{**{{name: s["offers"].get(name) for name in args[1:]}}, **s["has"]}}
with open({state!r}, "w") as f:
    json.dump(s, f)
sys.exit(broken)
"""


@pytest.fixture
def apt(tmp_path):
    """Return a function that runs debian/deps on an archive and returns (exit status, stdout, stderr, packages that apt was asked to
    install)."""
    state = tmp_path / "state"
    programs = {"apt-cache": APT.format(state=str(state)), "apt-get": APT.format(state=str(state)), "id": "#!/bin/sh\ncat \"$APT_USER\"\n"}
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)

    def run(*argv, has=(), offers=(), broken=(), user=0):
        state.write_text(json.dumps({"has": dict(has), "offers": dict(offers), "broken": list(broken), "calls": []}))
        (tmp_path / "user").write_text(f"{user}\n")
        env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "APT_USER": str(tmp_path / "user")}
        p = subprocess.run([os.path.join(TOP, "debian", "deps"), *argv], env=env, text=True, capture_output=True)
        asked = [set(c[1:]) for c in json.loads(state.read_text())["calls"] if c[0] == "install"]
        return p.returncode, p.stdout, p.stderr, asked
    return run


def rows(table):
    """Parse a table. Return [(package, version)], [words of the packages that are left out]."""
    lines = table.splitlines()
    left = [line for line in lines if "left out: " in line]
    return [tuple(line.split()) for line in lines if line not in left], [line.split()[0] for line in left]


def alternatives(word):
    """Return the packages that a word asks for, best first."""
    word = word.removeprefix("?")
    if "@" not in word:
        return [a.split("+") for a in word.split("|")]
    what, numbers = word.split("@")
    return [what.replace("-N", "-" + n).split("+") for n in numbers.split(",")]


def random_word(r):
    numbers = ",".join(r.sample("123", r.randint(1, 3)))
    return r.choice(["", "?"]) + r.choice([f"clang-N+rt-N@{numbers}", f"gcc-N@{numbers}", "plain|other", "plain", "other+gcc-1", "gcc-2|clang-1|rt-1"])


def test_random_archives(apt):
    """The script takes the first alternative for which apt has all packages, and installs the missing packages. The table has all packages,
    or says which are left out."""
    seed = int(os.environ.get("FPISA_SEED", random.randrange(2**32)))
    print(f"FPISA_SEED={seed}")
    r, refused = random.Random(seed), 0
    for _ in range(20):
        words = [random_word(r) for _ in range(r.randint(1, 5))]
        offers = {p: f"{r.randint(1, 9)}.0" for p in r.sample(PACKAGES, r.randint(0, len(PACKAGES)))}
        has = {p: "0.9" for p in r.sample(PACKAGES, r.randint(0, 4))}
        known = {**offers, **has}
        chosen = [next((a for a in alternatives(w) if set(a) <= set(known)), None) for w in words]
        rc, out, err, asked = apt("--table", *words, has=has, offers=offers)
        if any(c is None and not w.startswith("?") for w, c in zip(words, chosen)):
            refused += 1
            assert rc == 1 and "apt does not offer these packages, which the build needs" in err and not asked, (words, known, err)
            continue
        taken = [p for c in chosen if c for p in c]
        assert rc == 0 and set(taken) - set(has) <= set().union(*asked) <= set(taken), (words, known, asked)
        there, left = rows(out)
        assert there == [(p, known[p]) for p in taken], (words, known, out)
        assert left == ["+".join(alternatives(w)[0]).split("+")[0] for w, c in zip(words, chosen) if c is None], (words, known, out)
    assert 0 < refused < 20


def test_optional_package_that_cannot_be_installed(apt):
    """A missing optional package is left out, with the reason, and the others are installed."""
    offers = {"plain": "1", "gcc-1": "2", "gcc-2": "3"}
    rc, out, _, _ = apt("plain", "?gcc-1", "?gcc-2", offers=offers, broken=["gcc-1"])
    assert rc == 0 and rows(out) == ([("plain", "1"), ("gcc-2", "3")], ["gcc-1"])
    assert re.search(r"^  gcc-1 +left out: apt does not install it$", out, re.M)
    rc, out, err, _ = apt("plain", "?gcc-2", offers=offers, broken=["plain"])
    assert rc == 1 and "apt-get could not install plain" in err


def test_user_who_may_not_install(apt):
    rc, _, err, asked = apt("plain", "?gcc-N@3,1", offers={"plain": "1", "gcc-1": "2"}, user=1000)
    assert rc == 1 and err == "make deps: run as root to install: plain gcc-1\n" and not asked
    rc, out, err, asked = apt("plain", "?gcc-N@3,2", has={"plain": "1"}, user=1000)
    assert rc == 0 and not asked and out == "  gcc-3 to gcc-2               left out: apt does not offer it\n"


def test_no_release_by_name():
    """Tests and lists of packages ask only for packages that a release has, so they work on the next release as well."""
    with open(os.path.join(TOP, "vm", "kernels")) as f:
        suites = re.findall(r"^\S+\t(\w+)", f.read(), re.M)
    assert suites
    p = subprocess.run(["git", "grep", "-inwE", "|".join([*suites, "debian 1[0-9]", "ubuntu 2[0-9]"]), "--", "tests", "Makefile", "debian"],
                       cwd=TOP, text=True, capture_output=True)
    assert (p.returncode, p.stdout) == (1, "")
