# SPDX-License-Identifier: GPL-2.0-only
"""What README.md promises of bpftool, and what becomes of a load in a network namespace with a name."""
import contextlib
import os
import re
import struct
import subprocess
import tempfile

import pytest

from lab import ADDRESS, BPFFS, FPISA, IP_PIN, OBJECT, PIN, TOP
from shared import STORE, possible_cpus

README = os.path.join(TOP, "README.md")
JOB = 7


def counters_command():
    """The one command of the page that dumps maps: a block of its own, or a span."""
    with open(README) as f:
        text = f.read()
    found = re.findall(r"^    (?=.*bpftool map dump)(.*\n(?:    .*\n)*)", text, re.M) or \
        re.findall(r"`([^`]*bpftool map dump[^`]*)`", text)
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize("how", ["ip_link", "load"])
def test_counters_by_bpftool(lab, how):
    """As the page prints it, after either way to load: a line a counter, all CPUs added."""
    net = lab()
    getattr(net, how)()
    net.add_job(JOB)
    pin = f"{IP_PIN if how == 'ip_link' else PIN}/fpisa_counters"
    # What bpftool writes into a map of each CPU, all have: large, and different from counter to counter.
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


# -- a network namespace with a name --------------------------------------------

@pytest.fixture
def named(bpffs):
    """The name of one, with the interface e0 in it; /run is the tests' own (conftest.py)."""
    name = "pages0"
    for command in (f"netns add {name}", f"-n {name} link add e0 type veth peer name e1", f"-n {name} link set e0 up",
                    f"-n {name} link set e1 up", f"-n {name} addr add {ADDRESS}/24 dev e0"):
        subprocess.run(["ip", *command.split()], check=True)
    subprocess.run(["nsenter", f"--net=/run/netns/{name}", "ethtool", "-K", "e1", "gro", "on"], check=True)
    yield name
    subprocess.run(["ip", "netns", "del", name], check=True)


def there(name, command):
    """A shell's command in it, as the page says to enter one: (status, output)."""
    p = subprocess.run(["nsenter", f"--net=/run/netns/{name}", "sh", "-c", command], text=True, capture_output=True)
    return p.returncode, p.stdout + p.stderr


def attached(name):
    return "xdp" in there(name, "ip link show e0")[1]


@pytest.mark.parametrize("first", ["", "mount -t bpf bpf /sys/fs/bpf; "])
def test_load_by_ip_netns_exec(named, first):
    """Its /sys ends with it, and all pins: refused before it attaches, with the command that works."""
    p = subprocess.run(["ip", "netns", "exec", named, "sh", "-c", f"{first}exec {FPISA} load e0"], text=True,
                       capture_output=True)
    assert p.returncode == 1 and not attached(named), p.stderr
    assert p.stderr == f"fpisa: {PIN}: pins there end with ip netns exec; " \
                       f"nsenter --net=/run/netns/{named} fpisa load ..., or --pin DIR outside of /sys\n"
    fix = re.search(r"nsenter \S+", p.stderr)[0]
    assert there(named, f"{fix} {FPISA} load e0") == (0, "") and attached(named)
    assert there(named, f"{FPISA} unload") == (0, "") and not attached(named)


def test_load_elsewhere_by_ip_netns_exec(named):
    """A BPF filesystem that was there before stays."""
    with tempfile.TemporaryDirectory() as d:
        subprocess.run(["mount", "-t", "bpf", "bpf", d], check=True)
        try:
            subprocess.run(["ip", "netns", "exec", named, FPISA, "load", "e0", "--pin", d + "/f"], check=True)
            assert attached(named) and os.path.exists(d + "/f/fpisa_jobs")
            assert there(named, f"{FPISA} unload --pin {d}/f") == (0, "")
        finally:
            subprocess.run(["umount", d], check=True)


def test_verbs_by_ip_netns_exec(named):
    """They do not find what is loaded, and say why."""
    assert there(named, f"{FPISA} load e0")[0] == 0
    p = subprocess.run(["ip", "netns", "exec", named, FPISA, "status"], text=True, capture_output=True)
    assert p.returncode == 1
    assert p.stderr == "fpisa: no datapath is pinned in this /sys, which is ip netns exec's own; " \
                       f"nsenter --net=/run/netns/{named} fpisa ...\n"
    assert there(named, f"{FPISA} unload")[0] == 0


def test_pins_that_were_lost(named):
    """Plain ip -n attaches and loses its pins: said by whoever comes next, and the command works."""
    # In another BPF filesystem, as the tests' own, ip would pin for good.
    subprocess.run(["unshare", "-m", "sh", "-ec", 'umount -l "$0" || :; exec "$@"', STORE, "ip", "-n", named, "link", "set",
                    "dev", "e0", "xdp", "obj", OBJECT], check=True)
    assert attached(named) and not os.path.exists(IP_PIN)
    status, said = there(named, f"{FPISA} load e0")
    m = re.fullmatch(rf"fpisa: e0: another XDP program is attached \(fpisa, id \d+, not pinned in {PIN}: --pin says "
                     r"where, or ip -n or ip netns exec lost its pins\); (ip link set dev e0 xdp off)\n", said)
    assert status == 1 and m, said
    assert there(named, m[1])[0] == 0 and there(named, f"{FPISA} load e0")[0] == 0
    assert there(named, f"{FPISA} unload")[0] == 0


@pytest.mark.parametrize("way", ["read-only", "no directory", "no bpffs"])
def test_load_that_cannot_pin(lab, way):
    """Refused before anything is attached."""
    net = lab()
    with contextlib.ExitStack() as stack:
        pin = PIN
        if way == "read-only":
            subprocess.run(["mount", "-o", "remount,ro", BPFFS], check=True)
            stack.callback(subprocess.run, ["mount", "-o", "remount,rw", BPFFS], check=True)
        elif way == "no directory":
            pin = BPFFS + "/a/b"
        else:
            pin = stack.enter_context(tempfile.TemporaryDirectory())
        status, _, err = net.agg.try_run(FPISA, "load", "p0", "--pin", pin)
    assert status == 1 and re.fullmatch(r"fpisa: [^\n]+\n", err), err
    assert "xdp" not in net.agg.run("ip", "link", "show", "p0") and not os.path.exists(PIN)
