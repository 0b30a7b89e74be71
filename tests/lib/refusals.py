# SPDX-License-Identifier: GPL-2.0-only
"""Check the output and effect of a refused command: one line with the reason and advice, a nonzero exit status, and no change."""
import os
import re

from lab import ADDRESS, BPFFS, FPISA

CHANGED_BY_JOBS = ("fpisa_jobs", "fpisa_sessions", "fpisa_stages", "fpisa_control")


def state(net):
    """Return all objects that a command could leave behind: pins, links, and the pinned programs and maps."""
    pins = sorted(os.path.join(d, f) for d, dirs, files in os.walk(BPFFS) for f in files + dirs)
    links = re.sub(r"(state|qdisc) \w+|NO-CARRIER,", "", net.agg.run("ip", "-o", "link"))
    maps = [p for p in pins if p.rsplit("/", 1)[1] in CHANGED_BY_JOBS]
    contents = [net.agg.run("bpftool", "map", "dump", "pinned", p) for p in maps]
    return pins, links, contents


def refused(net, argv, says, status=1, usage=False, **options):
    """Check that `fpisa argv` fails, prints one line that contains `says`, and changes nothing."""
    before = state(net)
    got, out, err = net.agg.try_run(FPISA, *argv, **options)
    assert got == status and out == "", (got, out, err)
    lines = err.splitlines()
    assert len(lines) == 1 + usage, err
    assert lines[0].startswith("fpisa: ") and re.search(says, lines[0]), err
    assert not usage or lines[1].startswith("usage: fpisa " + argv[0]), err
    assert state(net) == before


def add(net, *options, job=1, workers=None):
    workers = workers or ",".join(net.addresses)
    return ["job", "add", job, "--workers", workers, "--address", ADDRESS, *options]
