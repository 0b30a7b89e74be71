# SPDX-License-Identifier: GPL-2.0-only
"""`fpisa help`, getopt, the manual page and the completion in a real bash all agree with the table of verbs."""
import glob
import os
import pty
import re
import shutil
import subprocess

import pytest

import table
from lab import BUILD, FPISA, TOP

COMMON = {"pin", "verbose"}


@pytest.fixture(scope="module")
def verbs():
    found, _ = table.verbs(FPISA)
    assert len(found) > 15
    return {v.name: v for v in found}


def names_of_options(*path):
    with open(os.path.join(TOP, "user", *path)) as f:
        text = f.read()
    return set(re.findall(r'\{\s*"([a-z][a-z-]*)",\s*(?:\w+_argument|"[A-Z]+"|NULL),', text)), text


def sources():
    """Yield the verbs, the names of the options and the names of the job's options, for each source file of the CLI with its file of
    options."""
    for path in glob.glob(os.path.join(TOP, "user", "**", "*.c"), recursive=True):
        options, text = names_of_options(path)
        room = os.path.relpath(os.path.dirname(path), os.path.join(TOP, "user"))
        for file in ("config/load.c" if "load_options" in text else "", f"{room}/options.c"):
            if os.path.isfile(os.path.join(TOP, "user", file)):
                more, told = names_of_options(file)
                options, text = options | more, text + told
        names = re.findall(r"^int verb_(\w+)\(", text, re.M)
        if re.search(r"\bJSON_OPTION\b|\b(?:common_options|resources_verb)\(", text):
            options.add("json")
        if names:
            yield path, names, options, names_of_options("job", "options.c")[0] if "job_options(" in text else set()


def test_help_names_what_getopt_takes(verbs):
    """Each option has a line in the help, and each line describes an option."""
    seen = set()
    for path, names, options, job in sources():
        ours = [verbs[n.replace("_", " ")] for n in names]
        seen |= {v.name for v in ours}
        said = {o for v in ours for o in v.options}
        told = " ".join(table.ask(FPISA, "help", *v.name.split()) for v in ours)
        assert not said - options - job, (path, said - options - job)
        missing = [o for o in options - COMMON if not re.search(rf"--{o}(?![a-z-])", told)]
        assert not missing, (path, missing)
    assert seen == set(verbs)


def test_each_option_is_taken(verbs):
    """The program itself accepts each option of its help."""
    for v in verbs.values():
        for o in v.options.values():
            p = subprocess.run([FPISA, *v.name.split(), "--" + o.name, *(["?"] if o.metavar else []), "--no-such-option"],
                               text=True, capture_output=True)
            assert p.returncode and f"unrecognized option '--{o.name}'" not in p.stderr, (v.name, o.name, p.stderr)


def test_each_verb_takes_an_option_once_and_whole(verbs):
    """Each verb accepts --help and prints its whole help once. An unknown option stops a verb before it acts."""
    for v in verbs.values():
        for words, says in (("--verbose --verbose", "--verbose is given twice"),
                            ("--verbo", "unrecognized option '--verbo'; did you mean --verbose?")):
            p = subprocess.run([FPISA, *v.name.split(), *words.split(), "--no-such-option"], text=True, capture_output=True)
            assert p.returncode == 2 and not p.stdout and p.stderr.splitlines()[0] == "fpisa: " + says, (v.name, p)


def shown(page):
    """Return a page as man shows it, unwrapped."""
    env = {**os.environ, "MANWIDTH": "1000", "MANROFFOPT": "-rHY=0", "LC_ALL": "C.UTF-8", "MAN_KEEP_FORMATTING": ""}
    p = subprocess.run(["man", "--warnings", "-l", os.path.join(BUILD, "man", page)], text=True, capture_output=True,
                       env=env)
    assert p.returncode == 0 and not p.stderr, p.stderr
    return re.sub(r".\x08", "", p.stdout)


needs_man = pytest.mark.skipif(not shutil.which("man"), reason="man is not installed")


@needs_man
def test_manual_page(verbs):
    """The page has a section for each verb, with all its options and no others."""
    sections = re.split(r"^   (?=\S)", shown("fpisa.8"), flags=re.M)
    found = {}
    for s in sections:
        head, _, body = s.partition("\n")
        name = next((n for n in verbs if re.match(rf"fpisa {n}(?! ?[a-z])", head)), None)
        if name:
            found[name] = set(re.findall(r"(?<![\w.-])--([a-z][a-z-]*[a-z])", head + re.sub(r"^ {6,}", "", body)))
    assert set(found) == set(verbs)
    for name, v in verbs.items():
        assert set(v.options) <= found[name], (name, set(v.options) - found[name])
        others = found[name] - set(v.options) - COMMON
        known = {o for w in verbs.values() for o in w.options} | {"loss", "collector"}
        assert others <= known, (name, others)


@needs_man
def test_lists_of_the_manual(verbs):
    """Each entry of the lists in help and header starts a list item, not a paragraph. A term of 6 letters has its text on the same line."""
    page, api = shown("fpisa.8"), shown("libfpisa.3")
    keys = [m[1] for v in verbs.values() for m in (re.match(r"  ([a-z]\w*(?:, \w+)*)\s{2,}\S", x) for x in v.more) if m]
    assert {"error", "ulp", "touch_ns", "empty_ns"} <= set(keys)
    with open(os.path.join(TOP, "include", "fpisa.h")) as f:
        listed = re.findall(r"^ \* (-E[A-Z]+(?:, -E[A-Z]+)*|\w+)\t+\S", f.read(), re.M)
    assert {"-EINVAL", "-EPERM, -EBUSY, -ENOENT, -EOPNOTSUPP, -ENOBUFS", "mode", "0x08"} <= set(listed)
    two = [" ".join(m) for v in verbs.values()
           for m in re.findall(r"^  (--\S.*,)\n  (--\S.*?)(?: {2,}|$)", "\n".join(v.more), re.M)]
    assert two
    for text, words in ((page, keys + two), (api, listed)):
        lines = {line.strip() for line in text.splitlines()}
        short = {re.split(r" {2,}", line)[0] for line in lines}
        assert not [w for w in words if w not in (short if len(w) <= 6 else lines)]


@needs_man
def test_other_pages():
    with open(os.path.join(BUILD, "man", "functions")) as f:
        functions = [line.split() for line in f]
    for library, name in ("libfpisa", "fpisa.h"), ("libfpisa-query", "fpisa-query.h"):
        page = shown(f"{library}.3")
        with open(os.path.join(TOP, "include", name)) as f:
            header = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
        declared = sorted(re.findall(r"\b(fpisa_\w+)\(", header))
        assert declared and declared == sorted(function for function, of in functions if of == library)
        for function in declared:
            assert re.search(rf"^   .*\b{function}\b", page, re.M), function
        for word in re.findall(r"\bFPISA_\w+", header):
            assert word in page or word in ("FPISA_H", "FPISA_QUERY_API_H"), word
    wire = shown("fpisa-wire.7")
    with open(os.path.join(TOP, "doc", "wire.md")) as f:
        text = f.read()
    words = set(re.findall(r"\b[\w']+\b", re.sub(r"\]\([^)]*\)", "", text)))
    plain = wire.replace("\u2019", "'").lower()
    assert not [w for w in words if w.lower() not in plain]


# -- completion -----------------------------------------------------------------

SHELL = r"""
. "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_fpisa
printf '%s\n' "${COMPREPLY[@]}"
"""


def complete(*words, cwd=None):
    p = subprocess.run(["bash", "--norc", "-c", SHELL, "bash", os.path.join(BUILD, "completion", "fpisa"),
                        "fpisa", *words], text=True, capture_output=True, cwd=cwd, check=True,
                       env={**os.environ, "PATH": BUILD + ":" + os.environ["PATH"]})
    assert not p.stderr, p.stderr
    return p.stdout.split()


def test_completion(verbs, tmp_path):
    first = {n.split()[0] for n in verbs}
    assert set(complete("")) == first | {"help", "--version"}
    assert complete("unl") == ["unload"] and complete("help", "unl") == ["unload"]
    assert set(complete("job", "")) == {n.split()[1] for n in verbs if n.startswith("job ")}
    assert complete("config", "ch") == ["check"]
    # An installed fpisa lacks `query demo`, but the completion file that is tested here is installed with it.
    assert set(complete("query", "")) == {n.split()[1] for n in verbs if n.startswith("query ")} - {"demo"}
    for name, v in verbs.items():
        assert name == "query demo" or set(complete(*name.split(), "--")) == {"--" + o for o in {*v.options, *v.common, "help"}}
    assert set(complete("job", "add", "7", "--mode", "")) == {"fpisa", "fpisa-a", "fpisa64", "exact"}
    assert complete("job", "add", "7", "--format", "bf") == ["bf16"]
    assert complete("load", "--mode", "=", "n") == ["native"]
    assert "lo" in complete("load", "") and "lo" in complete("load", "lo", "--mode", "skb", "")
    (tmp_path / "one.conf").write_text("")
    assert complete("config", "check", "on", cwd=tmp_path) == ["one.conf"]
    assert complete("job", "add", "7", "--workers", "") == [] and complete("nosuch", "") == []


def test_completion_as_typed(tmp_path):
    """An interactive bash completes the line when a user presses the keys."""
    rc = tmp_path / "rc"
    rc.write_text(f"PS1='$ '\nbind 'set bell-style none'\nPATH={BUILD}:$PATH\n. {BUILD}/completion/fpisa\n")
    pid, fd = pty.fork()
    if not pid:
        os.environ["TERM"] = "dumb"
        os.execvp("bash", ["bash", "--noprofile", "--rcfile", str(rc), "-i"])
    try:
        os.write(fd, b"echo fpi; fpisa conf\tch\t/dev/nu\t; exit\n")
        out = b""
        while True:
            try:
                got = os.read(fd, 4096)
            except OSError:
                break
            if not got:
                break
            out += got
    finally:
        os.close(fd)
        os.waitpid(pid, 0)
    assert b"/dev/null: no errors; interfaces: 0, jobs: 0" in out, out


def told(*argv):
    return subprocess.run([FPISA, *argv], text=True, capture_output=True, check=True).stdout


def test_usage():
    for wrong in ([], ["frobnicate"], ["job"], ["status", "--frob"]):
        assert subprocess.run([FPISA, *wrong], capture_output=True).returncode == 2
    assert re.match(r"fpisa \d+\.\d+\.\d+\n$", told("--version"))
    text = told("help")
    for verb in "load, unload, status, job add, job list, job show, job del, stats, slots, demo".split(", "):
        assert re.search(rf"^  {verb} +\w", text, re.M)
        assert f"usage: fpisa {verb}" in told("help", *verb.split())


def test_short_options(verbs):
    """-h and -V mean --help and --version for fpisa, for a prefix such as `fpisa job` and for every verb, whatever options precede them."""
    version = told("--version")
    for words in ([], *([w] for w in sorted({v.split()[0] for v in verbs if " " in v and v.split()[0] not in verbs})), *map(str.split, verbs)):
        assert told(*words, "-h") == told(*words, "--help") == told("help", *words), words
        assert told(*words, "-V") == told(*words, "--version") == version, words
    assert told("load", "p0", "--frob", "-h") == told("help", "load")
    p = subprocess.run([FPISA, "key", "new", "--", "-h"], text=True, capture_output=True)
    assert p.returncode == 2 and "key new requires a name and a file" in p.stderr
