# SPDX-License-Identifier: GPL-2.0-only
"""Print the table of the suite `distros`: the outcome of each step in each environment, with the counts from the step's own output."""
import os
import re

from lab import BUILD

COUNTS = r"^(\d+) passed, (\d+) failed, (\d+) skipped$"
STEPS = {}  # {environment: {step: (whether the step succeeded, its output)}}


def record(environment, step, status, out):
    """Add a row to the table. Write the whole output to build/distros/ENVIRONMENT-STEP.log."""
    STEPS.setdefault(environment, {})[step] = (status == 0, out)
    folder = os.path.join(BUILD, "distros")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, re.sub(r"\W+", "-", f"{environment} {step}") + ".log"), "w") as f:
        f.write(out)


def figure(step, ended_well, out):
    tests = re.findall(COUNTS, out, re.M)
    if tests:
        return "{} passed, {} failed, {} skipped".format(*tests[-1])
    if not ended_well:
        return "failed"
    if step == "packages":
        return "{} packages".format(len(set(re.findall(r"^build/deb/(\S+)\.deb$", out, re.M))))
    return (re.findall(r"^PASS: (\d+ elements)", out, re.M) or ["passed"])[-1]


def lines():
    """Return the table's lines. tests/run prints lines that begin with "table: "."""
    for environment, steps in STEPS.items():
        for step, (ended_well, out) in steps.items():
            yield f"table: {environment:32} {step:13} {figure(step, ended_well, out)}"
        counts = [tuple(map(int, m)) for _, out in steps.values() for m in re.findall(COUNTS, out, re.M)[-1:]]
        if counts:
            yield f"table: {environment:32} {'all suites':13} " + "{} passed, {} failed, {} skipped".format(*map(sum, zip(*counts)))
