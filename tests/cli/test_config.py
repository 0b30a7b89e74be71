# SPDX-License-Identifier: GPL-2.0-only
"""`fpisa config check` reports every error with its line, and nothing else. It accepts the values that job add accepts."""
import json
import os
import re
import subprocess

import pytest

from lab import FPISA

JOB = "[job 7]\nworkers = 10.0.0.11,10.0.0.12\n"

# Each row has a line and its expected error. A line without an error is valid.
WRONG = [
    ("# a comment", None),
    ("port = 1", "is outside a section"),
    ("[datapath]", None),
    ("port = 70000", "port: '70000' is not a number from 1 to 65535"),
    ("mode = native", "'mode' is not a key of this section; the keys are port, slots, group, cpus, cpu-queue, pin$"),
    ("group = no-such-group", "group: the Unix group 'no-such-group' does not exist"),
    ("  slots=1024   ; a comment", None),
    ("[interface eth0]", None),
    ("mode = hw", "mode: 'hw' is not native or skb"),
    ("mode = skb", "mode is given twice, first in line 9"),
    ("[interface eth0]", "interface eth0 is given twice, first in line 8"),
    ("anything = goes", None),	# in a refused section
    ("[interface " + "x" * 16 + "]", "is not an interface's name"),
    ("[datapath]", "is given twice, first in line 3"),
    ("[job 7]", None),
    ("nonsense", "'nonsense' is neither"),
    ("window = 3", "window: 3 is not a power of two"),
    ("ports = 5", "ports: 5 is not a power of two"),
    ("big-endian = perhaps", "big-endian: 'perhaps' is not yes or no"),
    ("json = yes", "'json' is not a key of this section; the keys are workers, "),
    ("workers = 10.0.0.11,10.0.0.999", "workers: '10.0.0.999' is not an IPv4 or IPv6 address"),
    ("[job 7]", "job 7 is given twice, first in line 15"),
    ("[job 64]", "job: '64' is not a number from 0 to 63"),
    ("[job 8]", "job 8: workers is missing"),
    ("[job 9]", "job 9: 160 elements per frame are not supported in this format and mode; give a multiple of 32 up to 128"),
    ("format = fp64", None),
    ("mode = exact", None),
    ("elements = 160", None),
    ("workers = 10.0.0.11@eth0", None),	# the interface does not have to exist
    ("[job 10]", None),
    ("window = 1024", None),
    ("workers = 10.0.0.11", None),
    ("[job 11]", "job 11: window 64 needs 128 of 2048 slot entries, but 2048 are taken"),
    ("workers = 10.0.0.11", None),
    ("[job 12", "the line is not a section"),
    ("[jobs 12]", r"\[jobs\] is not a section"),
    ("[job 13]", None),
    ("token =", "token has no value"),
    ("workers = 10.0.0.11", None),
    ("[job 14]", None),
    ("token = 0", "token: 0 means no token; leave this option out, or give another token$"),
    ("workers = 10.0.0.11", None),
]


def check(tmp_path, text):
    path = tmp_path / "f.conf"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    p = subprocess.run([FPISA, "config", "check", path], text=True, capture_output=True, timeout=60)
    # Ignore warnings, which a machine prints only if it lacks a part.
    return p.returncode, p.stdout, [x for x in p.stderr.splitlines() if not x.startswith("fpisa: warning: ")]


def test_every_error_has_its_line(tmp_path):
    status, out, lines = check(tmp_path, "\n".join(line for line, _ in WRONG))
    assert status == 1 and not out
    said = {}
    for line in lines:
        m = re.fullmatch(rf"fpisa: {tmp_path}/f\.conf:(\d+): (.*)", line)
        assert m, line
        assert int(m[1]) not in said, line
        said[int(m[1])] = m[2]
    for number, (line, wrong) in enumerate(WRONG, 1):
        assert (wrong is None) == (number not in said), (number, line, said.get(number))
        assert wrong is None or re.search(wrong, said[number]), (number, line, said[number])


def test_right(tmp_path):
    status, out, lines = check(tmp_path, "[datapath]\nport = 18001\n[ interface  eth0 ]\r\n\n" + JOB)
    assert status == 0 and not lines and "interfaces: 1, jobs: 1" in out
    assert check(tmp_path, "")[0] == 0


def test_what_takes_the_whole_file(tmp_path):
    lines = check(tmp_path, JOB + "ports = 16\n[interface eth0]\nmode = skb\n[datapath]\ncpus = 0\nport = 65521\n")[2]
    assert len(lines) == 2
    assert lines[0].endswith("f.conf:4: mode must be native, because [datapath] sets cpus")
    assert lines[1].endswith("f.conf:1: job 7: 16 ports from 65521 on would end above 65535; load with a lower --port, or give fewer --ports")


@pytest.mark.parametrize("line", ["networks = 192.168.100.1000", "networks = 10.0.0.0/8,192.168.100.1000/24", "networks = 10.0.0.1" + "0" * 80,
                                  "networks = 0.0.0.0/" + "0" * 60 + "33", "udp-ports = 00018100-18999", "udp-ports = 18100-" + "0" * 60 + "99999"])
def test_what_is_too_long_is_not_cut(tmp_path, line):
    """An overlong value is refused, not truncated, because its beginning would be a valid network or port."""
    status, out, lines = check(tmp_path, f"[manager]\nwithout-key = yes\n{line}\n")
    assert status == 1 and not out and f"f.conf:3: {line.split()[0]}: '" in lines[0], (status, lines)


RACKS = "[manager]\nwithout-key = yes\nleaves = yes\n"


def test_racks(tmp_path):
    """A host is in one rack. IPv4 and IPv6 networks do not overlap each other."""
    assert check(tmp_path, RACKS + "[rack A]\nhosts = 10.0.1.0/24,10.0.9.7,2001:db8:1::/64\n[rack B]\nhosts = 10.0.2.0/24,fd00::/8\n")[0] == 0
    for text, line, says in (("[rack A]\n[rack B]\nhosts = 10.0.2.0/24", 4, "rack A has no hosts; add hosts = "),
                             ("[rack A]\nhosts = ", 5, "hosts has no value"),
                             ("[rack A B]\nhosts = 10.0.1.1", 4, "'A B' is not the name of a rack; use 1 to 31 letters"),
                             ("[rack]\nhosts = 10.0.1.1", 4, "'' is not the name of a rack"),
                             ("[rack A]\nhosts = 10.0.1.1\n[rack A]\nhosts = 10.0.1.2", 6, "rack A is given twice"),
                             ("[rack A]\nhosts = 10.0.1.1/24", 5, "10.0.1.1/24 has bits set after its prefix length"),
                             ("[rack A]\nhosts = 10.0.1.1,rack2", 5, "'rack2' is not an IPv4 or IPv6 address"),
                             ("[rack A]\nhosts = 10.0.1.0/24\n[rack B]\nhosts = 10.0.1.7", 7, "10.0.1.7 is in rack A already"),
                             ("[rack A]\nhosts = 10.0.1.7\n[rack B]\nhosts = 10.0.0.0/16", 7, "10.0.0.0/16 is in rack A already, at least in part"),
                             ("[rack A]\nhosts = 2001:db8::/32,2001:db8:1::/64", 5, "2001:db8:1::/64 is in rack A already"),
                             ("[rack A]\nsize = 4", 5, "'size' is not a key of this section; the keys are hosts$")):
        status, _, lines = check(tmp_path, RACKS + text + "\n")
        assert status == 1, text
        assert re.search(rf"f\.conf:{line}: .*{says}", lines[0]), (text, lines)
    status, _, lines = check(tmp_path, RACKS.replace("leaves = yes\n", "") + "[rack A]\nhosts = 10.0.1.1\n")
    assert status == 1 and lines[0].endswith("f.conf:3: racks need leaves = yes in [manager]; add the line, or remove the racks")


def test_roots(tmp_path):
    """A tree has 1 to 16 roots, and roots need trees."""
    assert check(tmp_path, RACKS + "roots = 16\n")[0] == 0
    for number in 0, 17:
        status, _, lines = check(tmp_path, RACKS + f"roots = {number}\n")
        assert status == 1 and "f.conf:4: roots: " in lines[0], lines
    status, _, lines = check(tmp_path, RACKS.replace("leaves = yes", "roots = 2"))
    assert status == 1 and lines[0].endswith("roots = 2 needs leaves = yes; add the line, or remove roots"), lines


def test_no_file(tmp_path):
    """If the file is a pipe, it is refused at once, without waiting for a writer."""
    os.mkfifo(tmp_path / "pipe")
    for path, says in ((tmp_path / "pipe", " is a pipe; the configuration must be a regular file"), (tmp_path, ": cannot read: Is a directory"),
                       ("/dev/zero", " is not a text file of less than 1048576 bytes")):
        p = subprocess.run([FPISA, "config", "check", path], text=True, capture_output=True, timeout=60)
        assert p.returncode == 1 and f"fpisa: {path}{says}" in p.stderr, p


def test_not_there_now(tmp_path):
    """An interface that this machine lacks gives a warning with its line, because the interface may appear later."""
    path = tmp_path / "f.conf"
    path.write_text("\n[interface nosuch0]\n[job 7]\nworkers = 10.0.0.11@nosuch1\naddress = 10.0.0.1\n")
    p = subprocess.run([FPISA, "config", "check", path], text=True, capture_output=True, timeout=60)
    assert p.returncode == 0 and "no errors" in p.stdout, p
    said = p.stderr.splitlines()
    assert f"fpisa: warning: {path}:2: nosuch0: no such interface on this machine now" in said
    assert f"fpisa: warning: {path}:3: nosuch1: no such interface; see ip link" in said


def test_long_list(tmp_path):
    """A line of more than a thousand bytes with 64 workers is accepted. 65 workers are refused."""
    workers = [f"10.100.200.{100 + i}:18000@interface-{i:02}" for i in range(64)]
    assert check(tmp_path, "[job 1]\nworkers = " + ",".join(workers))[0] == 0
    status, _, lines = check(tmp_path, "[job 1]\nworkers = " + ",".join(workers + ["10.0.0.1"]))
    assert status == 1 and "f.conf:2: workers: more than 64" in lines[0]


def test_each_option_of_job_add_is_a_key(tmp_path):
    """Each option that `fpisa help job add` names is a key. A value that job add refuses is refused with the same message."""
    text = subprocess.run([FPISA, "help", "job", "add"], text=True, capture_output=True, check=True).stdout
    options = re.findall(r"^  --([a-z-]+)( [A-Z]+)?", text, re.M)
    assert len(options) > 10
    for option, argument in options:
        mode = "mode = exact\n" if option == "leaves" else ""
        lines = check(tmp_path, f"[job 7]\nworkers = 10.0.0.11\n{option} = ?")[2]
        if option == "workers":
            assert "given twice" in lines[0]
        elif not argument:
            assert lines[0].endswith(f"f.conf:3: {option}: '?' is not yes or no")
            assert check(tmp_path, f"[job 7]\nworkers = 10.0.0.11\nformat = fp16\n{mode}{option} = yes")[0] == 0
        else:
            p = subprocess.run([FPISA, "job", "add", "7", f"--{option}", "?"], text=True, capture_output=True)
            refusal = p.stderr.splitlines()[0].removeprefix("fpisa: --")
            assert refusal.startswith(option) and lines[0].endswith(f"f.conf:3: {refusal}"), (refusal, lines)


@pytest.mark.parametrize("text", [b"[job 1]\nworkers = 10.0.0.1\0", b"x" * (1 << 20)], ids=["zero byte", "a megabyte"])
def test_no_text(tmp_path, text):
    status, _, lines = check(tmp_path, text)
    assert status == 1 and len(lines) == 1 and "is not a text file" in lines[0]


def test_unreadable(tmp_path):
    p = subprocess.run([FPISA, "config", "check", tmp_path / "none"], text=True, capture_output=True)
    assert p.returncode == 1 and "No such file or directory" in p.stderr
    p = subprocess.run([FPISA, "config", "check", "a", "b"], text=True, capture_output=True)
    assert p.returncode == 2


def test_keys_as_serve_wants_them(tmp_path):
    keys, text = tmp_path / "keys", f"[manager]\nkey-file = {tmp_path / 'keys'}\n"
    status, out, lines = check(tmp_path, text)
    assert status == 0 and "no errors" in out and not lines  # a warning: the interfaces may appear later
    subprocess.run([FPISA, "key", "new", "train", keys], check=True, capture_output=True)
    assert check(tmp_path, text)[0] == 0
    keys.chmod(0o644)
    status, out, lines = check(tmp_path, text)
    assert status == 1 and not out and re.search("f.conf:1: .*keys: users other than its owner may use it", lines[0])
    keys.chmod(0o600)
    keys.write_text("nonsense\n")
    status, _, lines = check(tmp_path, text)
    assert status == 1 and "f.conf:1: " in lines[0]


def test_json(tmp_path):
    """The output is one object that lists the changes. After an error, the output is empty."""
    def told(*argv, status=0):
        p = subprocess.run([FPISA, *map(str, argv), "--json"], text=True, capture_output=True)
        assert p.returncode == status, p
        return json.loads(p.stdout) if p.stdout else None

    (tmp_path / "c").write_text(JOB)
    (tmp_path / "bad").write_text("nonsense\n")
    assert told("config", "check", tmp_path / "c") == {"done": "config check", "file": str(tmp_path / "c"), "interfaces": 0, "jobs": 1}
    assert told("config", "check", tmp_path / "bad", status=1) is None
    key = told("key", "new", "train", tmp_path / "keys")
    assert key == {"done": "key new", "key": (tmp_path / "keys").read_text().rsplit(":", 1)[0], "file": str(tmp_path / "keys")}
    assert told("key", "new", "train", tmp_path, status=1) is None
    assert told("query", "data", tmp_path / "tables", "--pages", 10, "--visits", 5, "--seed", 3) == {
        "done": "query data", "directory": str(tmp_path / "tables"), "pages": 10, "visits": 5, "workers": 2, "seed": 3}


def test_user_as_serve_wants_one(tmp_path):
    for user, why in ("nosuchuser", "does not exist"), ("root", "is root"):
        status, out, lines = check(tmp_path, f"[manager]\nwithout-key = yes\nuser = {user}\n")
        assert status == 1 and not out and f"user '{user}' {why}; name another" in lines[0], lines
    assert check(tmp_path, "[manager]\nwithout-key = yes\nuser = daemon\n")[0] == 0
