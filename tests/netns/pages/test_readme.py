# SPDX-License-Identifier: GPL-2.0-only
"""Check the statements about bpftool in doc/guide.md, section 12."""
import os
import re
import struct

import pytest

from lab import IP_PIN, PIN, TOP
from shared import possible_cpus

GUIDE = os.path.join(TOP, "doc", "guide.md")
JOB = 7


def counters_command():
    """Return the only command of the page that dumps maps. It is a block of its own, or a span."""
    with open(GUIDE) as f:
        text = f.read()
    found = re.findall(r"^    (?=.*bpftool map dump)(.*\n(?:    .*\n)*)", text, re.M)
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize("how", ["ip_link", "load"])
def test_counters_by_bpftool(lab, how):
    """After either way to load, the command prints the output of the page, which has a line for each counter, summed over CPUs."""
    net = lab()
    getattr(net, how)()
    net.add_job(JOB)
    pin = f"{IP_PIN if how == 'ip_link' else PIN}/fpisa_counters"
    # bpftool writes into all CPUs' entries of such a map, so use large values that differ from counter to counter.
    size = net.bpftool("map", "show", "pinned", pin)["bytes_value"]
    each = [2 ** 33 + n for n in range(size // 8)]
    net.bpftool("map", "update", "pinned", pin, "key", *struct.pack("<I", JOB), "value",
                *b"".join(struct.pack("<Q", n) for n in each))
    stats = net.json("stats", JOB)
    assert stats["packets"] == possible_cpus() * 2 ** 33
    out = net.agg.run("sh", "-c", counters_command())
    ours = dict(re.findall(rf"^{JOB} (\w+) (\d+)$", out, re.M))
    assert {k: int(v) for k, v in ours.items()} == {k: v for k, v in stats.items() if k in ours}
    assert len(ours) == len(each) and re.fullmatch(r"(\d+ \w+ \d+\n)+", out), out[:200]
