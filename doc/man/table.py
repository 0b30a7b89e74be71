# SPDX-License-Identifier: GPL-2.0-only
"""Read the CLI's table of verbs from its help: for its manual page (render.py), its completion (completion.py) and their tests."""
import re
import subprocess

METAVAR = r"--([a-z][a-z-]*)(?:\[?[ =]([A-Za-z][A-Za-z|]*))?"


class Option:
    def __init__(self, name, metavar, values):
        self.name, self.metavar, self.values = name, metavar, values


class Verb:
    """name, help (one line), args (of its usage line), more (lines), options (by name), common (options of most verbs),
    of_the_tree (an installed fpisa does not have it)."""

    def __init__(self, fpisa, name):
        self.name = name
        lines = ask(fpisa, "help", *name.split()).splitlines()
        self.help = lines[0].removeprefix(name + ": ")
        usage = lines[1].removeprefix(f"usage: fpisa {name}").removesuffix("[--verbose]").strip()
        self.common = ["pin", "verbose"] if usage.endswith("[--pin DIR]") else ["verbose"]
        self.args = usage.removesuffix("[--pin DIR]").strip()
        self.more = lines[2:]
        self.of_the_tree = any(line.startswith("The verb needs the source tree") for line in self.more)
        heads = [self.args] + [re.split(r"\s{3,}|$", line[2:])[0] for line in self.more if line.startswith("  --")]
        self.options = {n: Option(n, meta, values(fpisa, name, n) if meta else [])
                        for head in heads for n, meta in re.findall(METAVAR, head)}

    def operand(self):
        """Return the first operand: "DEV", "JOB", "FILE", or "" for none."""
        m = re.match(r"\[?([A-Z]+)", self.args)
        return m[1] if m and m[1] != "OPTION" else ""


def ask(fpisa, *argv):
    return subprocess.run([fpisa, *argv], text=True, capture_output=True, check=True).stdout


def values(fpisa, verb, option):
    """Return the words that an option takes, from the error for a wrong word. An unknown option ends the verb before it acts."""
    p = subprocess.run([fpisa, *verb.split(), "--" + option, "?", "--no-such-option"], text=True, capture_output=True)
    m = re.match(rf"fpisa: --{option}: '\?' is not (.*)", p.stderr)
    words = m[1].split(" or ") if m else []
    return words if all(re.fullmatch(r"[a-z0-9-]+", w) for w in words) else []


def verbs(fpisa):
    """Return (verbs, lines): all verbs in the order of `fpisa help`, and its lines that apply to every verb."""
    lines = ask(fpisa, "help").splitlines()[1:]
    end = lines.index("Options of every verb:")
    return [Verb(fpisa, re.split(r"\s{2,}", line.strip(), maxsplit=1)[0]) for line in lines[:end]], lines[end + 1:]
