#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Check whether this tree can be tagged as the Makefile's VERSION (`make release`).

The Makefile's VERSION is the single source. The library's file, `--version`, the changelog of the Debian packages and the RPM packages are
made from it. STATED lists the files that state the version themselves and must agree. NEWS.md has a section for each release, the newest
first. A section begins with "Tag `vX.Y.Z`, YYYY-MM-DD." and one to ten highlights of one line each. Only the first section may be
unreleased.
"""
import datetime
import re
import subprocess
import sys

from interfaces import TOP, news, number, read, setting

STATED = {
    "adapters/python/pyproject.toml": r'^version = "(.*)"$',
    "adapters/python/fpisa/__init__.py": r'^__version__ = "(.*)"$',
    "adapters/torch/pyproject.toml": r'^version = "(.*)"$',
    "adapters/torch/setup.py": r'"fpisa\[network\] == (.*?)"',
    "doc/deploy.md": r"\bfpisa-(?:aggregator|worker):(\d[\w.]*)",
    "deploy/kubernetes/aggregator.yaml": r"\bimage: .*:(.*)$",
    "deploy/kubernetes/manager.yaml": r"\bimage: .*:(.*)$",
    "deploy/kubernetes/train.yaml": r"\bimage: .*:(.*)$",
}
MOST = 10        # maximum number of highlights
WIDTH = 150      # maximum number of characters in a highlight
OPEN = "Not released yet."


def misstated(version, text_of):
    """Return sentences about the files that state another version, or none."""
    for name, pattern in STATED.items():
        found = {v for groups in re.finditer(pattern, text_of(name), re.M) for v in groups.groups() if v}
        if found != {version}:
            yield f"{name}: states {', '.join(sorted(found)) or 'no version'}, and the Makefile's VERSION is {version}"


def head(section):
    """Return (the first sentence, the highlights) of a section. These are the parts before its first bold line."""
    lines = [line for line in re.split(r"^\*\*", section, maxsplit=1, flags=re.M)[0].splitlines() if line]
    return lines[0] if lines else "", lines[1:]


def ill_begun(sections, releasing=False):
    """Return sentences about the sections of NEWS.md that lack the beginning of a release. The first section may be unreleased unless
    `releasing`."""
    days = []
    for i, (version, text) in enumerate(sections.items()):
        said, highlights = head(text)
        tag = re.fullmatch(rf"Tag `v{re.escape(version)}`, (\d{{4}}-\d\d-\d\d)\.", said)
        if tag:
            days.append(datetime.date.fromisoformat(tag[1]))
        elif i or releasing or said != OPEN:
            yield f"NEWS.md: {version} begins with '{said}', not with 'Tag `v{version}`, YYYY-MM-DD.'"
        if not 1 <= len(highlights) <= MOST or any(not h.startswith("- ") or len(h) > WIDTH for h in highlights):
            yield f"NEWS.md: {version} needs 1 to {MOST} highlights after that, each '- ' and one line of up to {WIDTH} characters"
    if days != sorted(days, reverse=True):
        yield "NEWS.md: a release has an earlier day than the one before it"
    if list(sections) != sorted(sections, key=number, reverse=True):
        yield "NEWS.md: sections are not in the order of their versions, the newest first"


def git(*words):
    return subprocess.run(["git", "-C", TOP, *words], capture_output=True, text=True).stdout.strip()


def main():
    version = setting("VERSION")
    wrong = [*misstated(version, read), *ill_begun(news(), releasing=True)]
    if git("status", "--porcelain"):
        wrong.append("git status: there are changes without a commit")
    if git("tag", "--list", f"v{version}"):
        wrong.append(f"git tag: v{version} exists; the first change after it raises VERSION")
    for line in wrong:
        print(line, file=sys.stderr)
    if not wrong:
        print(f'git tag -a v{version} -m "FPISA on XDP {version}"')
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
