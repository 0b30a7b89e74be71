# SPDX-License-Identifier: GPL-2.0-only
"""Run each verb as an ordinary user, as a member of the pins' Unix group, and with single capabilities. The verb succeeds, or says in one
line what is missing (doc/privileges.md)."""
import os
import re
import stat

import pytest

from lab import ADDRESS, BPFFS, FPISA, PIN

USER = 65534
GROUP = 64321	# the number is sufficient, so this group is not in /etc/group
LOADING = "net_admin,bpf,perfmon"

READING = [["status"], ["stats"], ["stats", "3"], ["slots"], ["job", "list"], ["job", "show", "3"],
           ["histogram", "3"]]


def setpriv(*argv, uid=USER, groups=(), caps=""):
    """Return a command that runs as that user, with those groups and only those capabilities."""
    each = [f"{sign}{c}" for sign, c in [("-", "all"), *(("+", c) for c in caps.split(",") if c)]]
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}",
            f"--groups={','.join(map(str, groups))}" if groups else "--clear-groups",
            f"--inh-caps={','.join(each)}", *([f"--ambient-caps={','.join(each)}"] if caps else []),
            FPISA, *map(str, argv)]


def refused(net, argv, says):
    status, out, err = net.agg.try_run(*argv)
    assert status == 1 and out == "", (argv, status, out, err)
    assert len(err.splitlines()) == 1 and re.search(says, err), (argv, err)


@pytest.fixture(params=[(), ("--cpus", "0")])
def net(lab, request):
    net = lab()
    net.load("--group", GROUP, *request.param)
    net.add_job(3, "--token", "abc", "--mode", "fpisa64", "--histogram")
    return net


def test_modes_of_pins(net):
    assert stat.S_IMODE(os.stat(PIN).st_mode) == 0o750 and os.stat(PIN).st_gid == GROUP
    for name in os.listdir(PIN):
        st = os.stat(os.path.join(PIN, name))
        kind = "program" if re.fullmatch(r"fpisa|fpisa_mau\d|fpisa_steer|fpisa_cpu|fpisa_egress", name) else "map"
        assert stat.S_IMODE(st.st_mode) == (0o600 if kind == "program" else 0o640), name
        assert kind == "program" or st.st_gid == GROUP, name
    assert "fpisa_man64" in os.listdir(PIN)	# `job add` creates this map


def test_without_group(lab):
    net = lab()
    net.load()
    assert stat.S_IMODE(os.stat(PIN).st_mode) == 0o700
    for name in os.listdir(PIN):
        assert stat.S_IMODE(os.stat(os.path.join(PIN, name)).st_mode) == 0o600, name
    for verb in READING:
        refused(net, setpriv(*verb, groups=[GROUP]), "Permission denied; run as root, or as a member")


def test_group_reads(net):
    for verb in READING:
        assert net.agg.run(*setpriv(*verb, groups=[GROUP])), verb
    assert net.json("status")["interfaces"]
    out = net.agg.run(*setpriv("status", groups=[GROUP]))
    assert all(re.search(rf"\b{p}\b.*program fpisa", out) for p in net.ports), out


def test_group_changes_nothing(net):
    change = [["job", "del", 3], ["job", "shrink", 3, 0]]
    add = ["job", "add", 4, "--workers", ",".join(net.addresses), "--address", ADDRESS]
    for verb in change:
        refused(net, setpriv(*verb, groups=[GROUP]), "this user may read the datapath but not change it; run as the owner")
    refused(net, setpriv(*add, groups=[GROUP]),
            "job add: no privilege; .*CAP_NET_ADMIN, CAP_BPF, CAP_PERFMON")
    assert [j["job"] for j in net.json("job", "list")] == [3]


def test_others_do_nothing(net):
    for verb in READING + [["job", "del", 3], ["job", "shrink", 3, 0]]:
        refused(net, setpriv(*verb), "Permission denied; run as root, or as a member")
    refused(net, setpriv("load", "p0"), "load: no privilege; .*CAP_NET_ADMIN, CAP_BPF, CAP_PERFMON")
    refused(net, setpriv("load", "p0", caps="net_admin,bpf"), "load: no privilege; .* with CAP_PERFMON$")
    refused(net, setpriv("load", "p0", caps="sys_admin"), "load: no privilege; .* with CAP_NET_ADMIN$")
    refused(net, setpriv("unload"), "unload: no privilege; .*CAP_NET_ADMIN")
    refused(net, setpriv("upgrade"), "upgrade: no privilege; .*CAP_NET_ADMIN, CAP_SYS_ADMIN")
    refused(net, setpriv("resources"), "resources: no privilege; .*CAP_NET_ADMIN")
    assert net.agg.run(*setpriv("help")) and net.agg.run(*setpriv("--version"))


@pytest.mark.parametrize("options", [(), ("--cpus", "0")])
def test_user_with_capabilities(lab, options):
    """Only shrink needs root. For all other verbs, the capabilities in the table are sufficient for a user who owns the pins."""
    net = lab()
    os.chmod(BPFFS, 0o1777)
    os.mkdir(PIN, 0o700)
    os.chown(PIN, USER, USER)
    net.agg.run(*setpriv("load", *net.ports, *options, caps=LOADING))
    add = ["job", "add", 3, "--workers", ",".join(net.addresses), "--address", ADDRESS, "--histogram"]
    net.agg.run(*setpriv(*add, caps=LOADING))
    assert os.stat(PIN + "/fpisa_jobs").st_uid == USER
    net.check_sum(3)
    for verb in READING:
        assert net.agg.run(*setpriv(*verb)), verb
    refused(net, setpriv("job", "shrink", 3, 0), "shrink: no privilege; .* with CAP_SYS_ADMIN$")
    net.agg.run(*setpriv("job", "shrink", 3, 0, caps="sys_admin"))
    net.agg.run(*setpriv("job", "del", 3))
    net.agg.run(*setpriv("unload", caps="net_admin"))
    assert not os.path.exists(PIN)
    assert "xdp" not in net.agg.run("ip", "-o", "link")


EVERY = READING + [["load", "p0"], ["unload"], ["upgrade"], ["job", "del", 3], ["job", "shrink", 3, 0],
                   ["job", "add", 4, "--workers", "10.99.1.2"]]


def test_directory_of_another_user(lab):
    """On a BPF filesystem to which all users may write, as `mount -t bpf` makes it, the first user could own the directory."""
    net = lab()
    os.chmod(BPFFS, 0o1777)
    os.mkdir(PIN, 0o750)
    os.chown(PIN, USER, GROUP)
    for verb in EVERY:
        refused(net, [FPISA, *map(str, verb)], rf"{PIN} belongs to user {USER}, .*; rm -r {PIN}")
    out = net.agg.try_run(FPISA, "doctor")[1]
    assert f"fault  datapath: pins: {PIN} belongs to user {USER}" in out and f"; fix: rm -r {PIN}\n" in out
    assert not os.listdir(PIN) and "xdp" not in net.agg.run("ip", "-o", "link")
    # Run every verb with objects in the directory that look like another user's datapath.
    os.rmdir(PIN)
    net.load()
    net.add_job(3)
    os.chown(PIN, USER, GROUP)
    for verb in EVERY:
        refused(net, [FPISA, *map(str, verb)], f"{PIN} belongs to user {USER}, ")
    out = net.agg.try_run(FPISA, "doctor")[1]
    assert f"fault  datapath: pins: {PIN} belongs to user {USER}" in out
    os.chown(PIN, 0, 0)
    said = net.fpisa("unload")
    assert not os.path.exists(PIN), said
    # The symbolic link belongs to that user, so it may lead anywhere.
    os.mkdir(BPFFS + "/mine", 0o700)
    os.symlink(BPFFS + "/mine", PIN)
    os.chown(PIN, USER, USER, follow_symlinks=False)
    for verb in ["load", "p0"], ["status"]:
        refused(net, [FPISA, *verb], f"{PIN} belongs to user {USER}, " if verb[0] == "load" else "belongs to user|no datapath")
    os.unlink(PIN)
    # Use a directory of root inside a directory in which the user may rename it, then a directory that the user may write to.
    os.chmod(BPFFS + "/mine", 0o777)
    refused(net, [FPISA, "load", "p0", "--pin", BPFFS + "/mine/fpisa"], f"{BPFFS}/mine: other users may write .*chmod go-w {BPFFS}/mine$")
    refused(net, [FPISA, "load", "p0", "--pin", BPFFS + "/mine"], f"{BPFFS}/mine: other users may write .*chmod go-w {BPFFS}/mine$")
    assert os.listdir(BPFFS + "/mine") == []
    # The filesystem's root has the sticky bit, so a directory that belongs to root is accepted.
    os.chmod(BPFFS + "/mine", 0o700)
    net.load("--pin", BPFFS + "/mine")
    net.fpisa("unload", "--pin", BPFFS + "/mine")
    net.load()


def test_remains_where_others_may_write(lab):
    """Objects that seem to be left from a killed load are not trusted in a directory where others may write."""
    net, pin = lab(workers=1), BPFFS + "/fpisa_counters"
    net.bpftool("map", "create", pin, "type", "array", "key", 4, "value", 8, "entries", 1, "name", "fpisa_counters")
    os.chmod(BPFFS, 0o1777)
    refused(net, [FPISA, "unload"], f"{BPFFS}: other users may write .*chmod go-w {BPFFS}$")
    assert os.path.exists(pin)
    os.chmod(BPFFS, 0o755)
    net.fpisa("unload")
    assert not os.path.exists(pin)


def test_directory_of_no_bpf_filesystem(lab, tmp_path):
    """Write permission on a directory outside a BPF filesystem does not matter, because the directory holds no datapath and no objects of
    others."""
    net = lab(workers=1)
    os.chmod(tmp_path, 0o777)
    refused(net, [FPISA, "status", "--pin", tmp_path], f"{tmp_path}: no datapath is pinned there; run fpisa load --pin {tmp_path} DEV")


def test_unknown_group(lab):
    net = lab()
    refused(net, [FPISA, "load", "p0", "--group", "no such"], "--group: the Unix group 'no such' does not exist; run groupadd")
    assert not os.path.exists(PIN)
