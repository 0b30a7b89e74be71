# SPDX-License-Identifier: GPL-2.0-only
"""Every verb refuses these arguments before it examines the machine. The program prints one line that says what is wrong, and after an
unknown word the verb's usage. It prints nothing else and creates nothing."""
import re
import subprocess

import pytest

from lab import FPISA

QUERY = "query add 7 --kind table --limit 10 --workers 10.0.0.11"
ADD = "job add 7 --workers 10.0.0.11,10.0.0.12"

# Each row has the words, the expected error and the exit status. {} is an empty word, such as an unset shell variable gives.
WRONG = [
    ("foo", "'foo' is not a verb; fpisa help lists the verbs", 2),
    ("foo bar", "'foo bar' is not a verb; fpisa help lists the verbs", 2),
    ("{}", "'' is not a verb; fpisa help lists the verbs", 2),
    ("-x", "'-x' is not a verb; fpisa help lists the verbs", 2),
    ("help foo", "'foo' is not a verb; fpisa help lists the verbs", 2),
    ("help load foo", "'load foo' is not a verb; fpisa help lists the verbs", 2),
    ("help job foo", "'job foo' is not a verb; the verbs are job add, job list, job show, job del and job shrink", 2),
    ("job foo", "'job foo' is not a verb; the verbs are job add, job list, job show, job del and job shrink", 2),
    ("config {}", "'config ' is not a verb; the verbs are config check and config apply", 2),
    ("load {}", "'': no such interface; see ip link", 1),
    ("load nosuch0 --port 0", "--port: '0' is not a number from 1 to 65535", 2),
    ("load lo --pin {}", "--pin: the name is empty; give a directory", 2),
    ("load lo --group {}", "--group: '' is neither the name nor the number of a Unix group", 2),
    ("load lo --group -1", "--group: '-1' is neither the name nor the number of a Unix group", 2),
    ("unload {}", "'': no such interface; see ip link", 1),
    ("status --pin {}", "--pin: the name is empty; give a directory", 2),
    ("config check {}", "config: the name is empty; give a configuration file", 2),
    ("config apply {}", "config: the name is empty; give a configuration file", 2),
    ("doctor {}", "'': no such interface; see ip link", 1),
    ("doctor lo lo", "lo is named twice", 1),
    ("doctor --worker 0.0.0.0", "--worker: 0.0.0.0 is not the address of a host", 2),
    ("doctor --worker 239.1.1.1", "--worker: 239.1.1.1 is not the address of a host", 2),
    ("doctor --worker 255.255.255.255", "--worker: 255.255.255.255 is not the address of a host", 2),
    ("analyze {}", "'': No such file or directory", 1),
    ("bench arith --gradients {}", "'': No such file or directory", 1),
    ("bench foo", "foo is neither arith, wire, worker nor an interface; see ip link and fpisa help bench", 1),
    ("bench wire nodev", "nodev: no such interface; see ip link", 1),
    ("bench wire nodev --workers 10.0.0.2", "nodev: no such interface; see ip link", 1),
    ("bench wire {} --workers 10.0.0.2", "'': no such interface; see ip link", 1),
    ("bench wire lo lo --workers 10.0.0.2", "lo is named twice", 1),
    ("bench wire lo", "bench: DEV requires --workers ADDR\\[@DEV\\],..., the addresses of the workers", 2),
    ("bench wire lo --workers 4", "--workers: '4' is not an IPv4 address", 2),
    ("bench wire lo --workers 10.0.0.2,239.1.1.1", "--workers: 239.1.1.1 is not the address of a host", 2),
    ("bench wire lo --workers 10.0.0.2@nosuch", "nosuch: no such interface; see ip link", 1),
    ("bench wire --workers 10.0.0.2", "--workers: '10.0.0.2' is not a number from 2 to 16", 2),
    ("bench wire --address 10.0.0.1", "--address requires DEV", 2),
    ("bench --address 10.0.0.1", "--address requires DEV", 2),
    ("bench wire lo --workers 10.0.0.2 --address 239.0.0.1", "--address: 239.0.0.1 is not the address of a host", 2),
    ("bench wire --threads 1,2,1", "--threads: 1 is given twice", 2),
    ("bench wire --pipeline fused,fused", "--pipeline: fused is given twice", 2),
    ("bench wire --elements 64,32,64", "--elements: 64 is given twice", 2),
    ("demo --xdp foo", "--xdp: 'foo' is not native or skb$", 2),
    ("demo --xdp offload", "--xdp: 'offload' is not native or skb$", 2),
    ("demo --cpus 0 --xdp skb", "--cpus requires native XDP; leave --xdp skb out", 2),
    ("demo --reciprocal --op avg --format int32", "avg of int32 .*is not supported", 1),
    ("demo --pin /sys/fs/bpf/x", "unrecognized option '--pin'", 2),
    (ADD + " --address 0.0.0.0", "--address: 0.0.0.0 is not the address of a host", 2),
    (ADD + " --address 255.255.255.255", "--address: 255.255.255.255 is not the address of a host", 2),
    (ADD + " --address 239.1.1.1", "--address: 239.1.1.1 is not the address of a host", 2),
    (ADD + " --address 127.0.0.1", "--address: 127.0.0.1 is not the address of a host", 2),
    (ADD + " --address 10.300.0.1", "--address: '10.300.0.1' is not an IPv4 or IPv6 address", 2),
    (ADD + " --window 4 --window 8", "--window is given twice", 2),
    (ADD + " --reciprocal --elements 64 --reciprocal", "--reciprocal is given twice", 2),
    (ADD + " --token 0", "--token: 0 means no token; leave this option out, or give another token", 2),
    (ADD + " --wind 4", "unrecognized option '--wind'; did you mean --window", 2),
    (ADD + " --wind=4", "unrecognized option '--wind'; did you mean --window", 2),
    ("status --pin /a --pin=/b", "--pin is given twice", 2),
    ("demo --seed 1 --op sum --seed 2", "--seed is given twice", 2),
    ("stats --js", "unrecognized option '--js'; did you mean --json", 2),
    (ADD + " --address 10.0.0.12", "job 7: rank 1 has the aggregator's address 10.0.0.12", 1),
    (ADD + " --group 224.0.0.1", "--group: 224.0.0.1 is in 224.0.0.0/24, which is reserved; try 239.x.x.x", 2),
    (ADD + " --group ff02::1", "--group: ff02::1 is in ff02::/16, which is reserved; try ff15::x", 2),
    (ADD + " --group 224.0.0.251", "--group: 224.0.0.251 is in 224.0.0.0/24, which is reserved", 2),
    (ADD + " --group 10.0.0.1", "--group: 10.0.0.1 is not a multicast address", 2),
    (ADD + " --reciprocal --format int32", "job 7: int32 does not support averages; leave --reciprocal out", 1),
    (ADD + " --rounding nearest --format int32", "job 7: sums of int32 are not rounded; leave --rounding out", 1),
    (ADD + " --mode fpisa64 --format int32", "job 7: int32 does not have modes; leave --mode out", 1),
    (ADD + " --ports 16 --window 8", "job 7: 16 ports are too many for a window of 8 slots; give at most --ports 8", 1),
    (ADD + ",10.0.0.11", "job 7: ranks 0 and 2 both have address 10.0.0.11:18000", 1),
    (ADD + ",10.0.0.13:5 --fanout multicast", "job 7: multicast needs the same UDP port at all ranks", 1),
    *((f"query run t --workers 10.0.0.11 --{option} {{}}", f"query run: --{option} is empty", 2)
      for option in "key aggregator token value by columns where join on join-where having prune limit".split()),
    (QUERY + " --master {}", "query add: --master: '' is not one address", 2),
    (QUERY + " --master 10.0.0.12,10.0.0.13", "query add: --master: '10.0.0.12,10.0.0.13' is not one address", 2),
    (QUERY + " --master 10.0.0.12,", "query add: --master: '10.0.0.12,' is not one address", 2),
    (ADD + ",127.0.0.1", "--workers: 127.0.0.1 is not the address of a host", 2),
    (ADD + ",10.0.0.13@", "--workers: '' is not an interface's name, in ADDR\\[:PORT\\]\\[@DEV\\]", 2),
    (ADD + ",10.0.0.13@p0:18001", "--workers: 'p0:18001' is not an interface's name, in ADDR", 2),
]


@pytest.mark.parametrize("words, says, status", WRONG, ids=[w for w, _, _ in WRONG])
def test_refused(words, says, status):
    argv = ["" if w == "{}" else w for w in words.split()]
    p = subprocess.run([FPISA, *argv], text=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
    assert p.returncode == status and not p.stdout, p
    lines = p.stderr.splitlines()
    assert re.match("fpisa: " + says, lines[0]) or lines[0].startswith("fpisa: ") and re.search(says, lines[0]), p.stderr
    assert all(line.startswith("usage: fpisa " + argv[0]) for line in lines[1:]) and len(lines) <= status, p.stderr


def test_usage_names_what_a_verb_takes():
    """Verbs that pin nothing do not offer --pin."""
    for verb, takes in (("demo", False), ("soak", False), ("analyze", True), ("load", True), ("upgrade", True)):
        text = subprocess.run([FPISA, "help", verb], text=True, capture_output=True, check=True).stdout
        usage, = re.findall("^usage: .*", text, re.M)
        assert ("[--pin DIR]" in usage) == takes and "  " not in usage, usage
