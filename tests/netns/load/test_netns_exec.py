# SPDX-License-Identifier: GPL-2.0-only
"""Test loads in a named network namespace with `ip netns exec` and `ip -n`, whose private /sys disappears when they end."""
import os
import re
import subprocess
import tempfile

import pytest

from lab import ADDRESS, FPISA, IP_PIN, OBJECT, PIN
from shared import STORE


@pytest.fixture
def named(bpffs):
    """Create a named namespace with the interface e0, and yield its name. /run belongs to the tests (fixtures.py)."""
    name = "named0"
    for command in (f"netns add {name}", f"-n {name} link add e0 type veth peer name e1", f"-n {name} link set e0 up",
                    f"-n {name} link set e1 up", f"-n {name} addr add {ADDRESS}/24 dev e0"):
        subprocess.run(["ip", *command.split()], check=True)
    subprocess.run(["nsenter", f"--net=/run/netns/{name}", "ethtool", "-K", "e1", "gro", "on"], check=True)
    yield name
    subprocess.run(["ip", "netns", "del", name], check=True)


def there(name, command):
    """Run a shell command in the namespace, which is entered as the page says. Return (status, output)."""
    p = subprocess.run(["nsenter", f"--net=/run/netns/{name}", "sh", "-c", command], text=True, capture_output=True)
    return p.returncode, p.stdout + p.stderr


def attached(name):
    return "xdp" in there(name, "ip link show e0")[1]


@pytest.mark.parametrize("first", ["", "mount -t bpf bpf /sys/fs/bpf; "])
def test_load_by_ip_netns_exec(named, first):
    """The /sys of ip netns exec disappears with all pins when the command ends. So the load is refused before it attaches, and the error
    prints the command that works."""
    p = subprocess.run(["ip", "netns", "exec", named, "sh", "-c", f"{first}exec {FPISA} load e0"], text=True,
                       capture_output=True)
    assert p.returncode == 1 and not attached(named), p.stderr
    assert p.stderr == f"fpisa: {PIN}: pins there disappear when ip netns exec ends; " \
                       f"run nsenter --net=/run/netns/{named} fpisa load ..., or give --pin DIR outside /sys\n"
    fix = re.search(r"nsenter \S+", p.stderr)[0]
    assert there(named, f"{fix} {FPISA} load e0") == (0, "") and attached(named)
    assert there(named, f"{FPISA} unload") == (0, "") and not attached(named)


def test_load_elsewhere_by_ip_netns_exec(named):
    """A BPF filesystem that was mounted earlier stays."""
    with tempfile.TemporaryDirectory() as d:
        subprocess.run(["mount", "-t", "bpf", "bpf", d], check=True)
        try:
            subprocess.run(["ip", "netns", "exec", named, FPISA, "load", "e0", "--pin", d + "/f"], check=True)
            assert attached(named) and os.path.exists(d + "/f/fpisa_jobs")
            assert there(named, f"{FPISA} unload --pin {d}/f") == (0, "")
        finally:
            subprocess.run(["umount", d], check=True)


def test_verbs_by_ip_netns_exec(named):
    """Verbs do not find the loaded datapath, and say why."""
    assert there(named, f"{FPISA} load e0")[0] == 0
    p = subprocess.run(["ip", "netns", "exec", named, FPISA, "status"], text=True, capture_output=True)
    assert p.returncode == 1
    assert p.stderr == "fpisa: no datapath is pinned in this /sys, which ip netns exec has mounted; " \
                       f"run nsenter --net=/run/netns/{named} fpisa ...\n"
    assert there(named, f"{FPISA} unload")[0] == 0


def test_pins_that_were_lost(named):
    """Plain ip -n attaches the program but loses its pins. The next verb says so, and its command works."""
    # In another BPF filesystem, such as the tests' own, ip would make pins that stay.
    subprocess.run(["unshare", "-m", "sh", "-ec", 'umount -l "$0" || :; exec "$@"', STORE, "ip", "-n", named, "link", "set",
                    "dev", "e0", "xdp", "obj", OBJECT], check=True)
    assert attached(named) and not os.path.exists(IP_PIN)
    status, said = there(named, f"{FPISA} load e0")
    m = re.fullmatch(rf"fpisa: e0: another XDP program is attached \(fpisa, id \d+, not pinned in {PIN}\); give "
                     r"the --pin of its datapath, or, if ip -n or ip netns exec lost its pins, run (ip link set dev e0 xdp off)\n", said)
    assert status == 1 and m, said
    assert there(named, m[1])[0] == 0 and there(named, f"{FPISA} load e0")[0] == 0
    assert there(named, f"{FPISA} unload")[0] == 0
