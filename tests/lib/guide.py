# SPDX-License-Identifier: GPL-2.0-only
"""Parse doc/guide.md for the tests that run it: its blocks with their machines, and its table of faults."""
import os
import re

TOP = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PAGE = os.path.join(TOP, "doc", "guide.md")
EXAMPLE = os.path.join(TOP, "doc", "example", "allreduce.c")
GROUP = os.path.join(TOP, "doc", "example", "group.c")
PYTHON = [os.path.join(TOP, "adapters", *path) for path in (("python", "examples", "regression.py"), ("torch", "examples", "ddp.py"))]
NORM = os.path.join(TOP, "adapters", "mpi", "examples", "norm.c")
PLACES = ("the machine that builds", "the aggregator", "each worker", "the first worker", "each host", "the first host")


class Block:
    """A block of a page

    kind: "sh", "c" or "ini". section: the section's number, 0 before the first section. place: one of PLACES, or None for a program. user:
    True if an ordinary user runs the block. text: the text of the block. prints: lines that the page promises as output.
    """

    def __init__(self, kind, section, paragraph, text):
        self.kind, self.section, self.text, self.prints = kind, section, text, []
        self.place, self.user = announced(paragraph)


def blocks():
    """Return the blocks in the order of the page."""
    found, section, paragraph = [], 0, [""]
    with open(PAGE) as f:
        lines = iter(f.read().splitlines())
    for line in lines:
        fence = re.fullmatch(r"```(\w+)", line)
        if not fence:
            assert not line.startswith("```"), line
            section = int(line.split()[1].rstrip(".")) if re.match(r"## \d", line) else section
            # The last line before an empty line ends a paragraph. The text after the empty line begins another.
            paragraph = [line] if paragraph[-1] == "" and line else [*paragraph, line]
            continue
        text = "".join(f"{body}\n" for body in iter(lambda: next(lines), "```"))
        if fence[1] == "text":
            found[-1].prints += text.splitlines()
        else:
            found.append(Block(fence[1], section, " ".join(paragraph).strip(), text))
            assert fence[1] in ("sh", "c", "ini") and (found[-1].place or fence[1] == "c"), text
    return found


def announced(paragraph):
    """Return the place that the last sentence before a block names, and whether an ordinary user runs the block."""
    last = re.split(r"\. |\) ", paragraph)[-1]
    return next((p for p in PLACES if last.endswith(":") and p in last), None), bool(re.search("ordinary user|same user", last))


def faults(heading):
    """Return [(symptoms, (place, command))] for each row of the table with this heading, without code marks."""
    with open(PAGE) as f:
        table = f.read().split(f"| {heading} |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| (.*) \| .* \| (.*) \|$", table, re.M)
    found = []
    for seen, fix in rows:
        m = re.fullmatch(r"(?:.* )?on (the aggregator|each worker): `(.*)`", fix)
        assert m, fix
        found.append((re.findall(r"`([^`]*)`", seen), m.groups()))
    return found


def shape(line):
    """Return a line of output without the parts that differ between runs and between machines."""
    line = re.sub(r"\bixgbe\b", "veth", line)
    return " ".join(re.sub(r"\d+(\.\d+)?", "#", line).split())


def over_ipv6(text):
    """Return a text of the page with IPv6 addresses in place of IPv4 addresses, as section 3 says."""
    text = re.sub(r"\bip saddr\b", "ip6 saddr", text).replace("10.0.0.0/24", "2001:db8::/64").replace("239.70.80.7:", "[ff15::ff46:5007]:")
    text = re.sub(r"\b10\.0\.0\.(\d+):(\d+)", r"[2001:db8::\1]:\2", text)
    return re.sub(r"\b10\.0\.0\.(\d+)", r"2001:db8::\1", text)


ADDRESS = r"\d+\.\d+\.\d+\.\d+|2001:db8::\d+"


def missing(prints, output):
    """Return the lines that the page promises and the output lacks. Addresses must match exactly."""
    shapes = [shape(line) for line in output.splitlines()]
    addresses = set(re.findall(ADDRESS, output))
    return [p for p in prints if not any(shape(p) in s for s in shapes) or
            not set(re.findall(ADDRESS, p)) <= addresses]
