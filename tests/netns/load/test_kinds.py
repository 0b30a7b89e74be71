# SPDX-License-Identifier: GPL-2.0-only
"""Test `fpisa load` with each kind of interface. A refusal says what to load instead, and its advice works. Kinds that this kernel lacks
are skipped. test_stacked.py tests interfaces above an interface with a datapath, and tests/unit/test_stack.c every sentence."""
import errno
import os
import socket
import struct

import pytest

from lab import PIN
from refusals import refused

NO_HEADERS = "has frames without Ethernet headers, which the datapath needs; load it on the interface through which workers' frames arrive with such headers"
IN_THE_STACK = "which has no native XDP; run fpisa load k0 --mode skb$"
BELOW = "which has no native XDP; load the datapath on p0 and name it in job add, ADDR@p0, or run fpisa load k0 --mode skb$"
TUNNEL = "local 10.99.1.1 remote 10.99.1.2"
# Each kind has the commands that create k0, and the refusal of native mode.
KINDS = {
    "bridge": (["link add k0 type bridge", "link set p0 master k0"],
               r"is a bridge, which has no native XDP; load the datapath on its ports that lead to workers \(ports: p0\), and name them in job add, ADDR@PORT, or run fpisa load k0 --mode skb$"),
    "vlan": (["link add br0 type bridge", "link set p0 master br0", "link set br0 up", "link add link br0 name k0 type vlan id 7"],
             f"is a VLAN device, {IN_THE_STACK}"),
    "bridge-empty": (["link add k0 type bridge"], f"is a bridge, {IN_THE_STACK}"),
    "team": (["link add k0 type team", "link set p0 down", "link set p0 master k0", "link set p0 up"], f"is a team, {IN_THE_STACK}"),
    "macvlan": (["link add link p0 name k0 type macvlan mode bridge"], f"is a macvlan device, {BELOW}"),
    "macvtap": (["link add link p0 name k0 type macvtap mode bridge"], f"is a macvtap device, {BELOW}"),
    "ipvlan": (["link add link p0 name k0 type ipvlan mode l2"], f"is an ipvlan device, {BELOW}"),
    "netkit": (["link add k0 type netkit"], f"is a netkit device, {IN_THE_STACK}"),
    "vxlan": ([f"link add k0 type vxlan id 7 {TUNNEL} dstport 4789"], f"is a VXLAN tunnel, {IN_THE_STACK}"),
    "geneve": (["link add k0 type geneve id 7 remote 10.99.1.2"], f"is a Geneve tunnel, {IN_THE_STACK}"),
    "gretap": ([f"link add k0 type gretap {TUNNEL}"], f"is a GRE tunnel, {IN_THE_STACK}"),
    "gre": ([f"link add k0 type gre {TUNNEL}"], NO_HEADERS),
    "ipip": ([f"link add k0 type ipip {TUNNEL}"], NO_HEADERS),
    "wireguard": (["link add k0 type wireguard"], NO_HEADERS),
    "tun": (["tuntap add k0 mode tun"], NO_HEADERS),
    "dummy": (["link add k0 type dummy"], "is a dummy, which receives no frames of other machines; load the datapath on the interface through which workers' frames arrive"),
    "vrf": (["link add k0 type vrf table 10"], "is a VRF, which receives no frames itself; load the datapath on its ports$"),
}
RTM_NEWLINK, NLM_F_REQUEST, NLM_F_ACK, NLM_F_EXCL, NLM_F_CREATE, NLMSG_ERROR, NLA_F_NESTED, NLA_STRING = 16, 1, 4, 0x200, 0x400, 2, 0x8000, 5
IFLA_IFNAME, IFLA_LINKINFO, IFLA_INFO_KIND, IFLA_INFO_DATA, IFLA_NETKIT_PEER_INFO, IFLA_NETKIT_MODE = 3, 18, 1, 2, 1, 5
NETLINK_GENERIC, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME = 16, 16, 3, 1, 2
TEAM_CMD_OPTIONS_SET, TEAM_IFINDEX, TEAM_LIST_OPTION, TEAM_ITEM_OPTION = 1, 1, 2, 1
TEAM_OPTION_NAME, TEAM_OPTION_TYPE, TEAM_OPTION_DATA = 1, 3, 4
NEVER = {"gre", "ipip", "wireguard", "tun", "dummy", "vrf"}


def make(net, kind):
    for command in KINDS[kind][0]:
        status, _, err = net.agg.try_run("ip", *command.split())
        if status and command.split()[1] == "add":
            pytest.skip(f"this kernel has no {kind} devices: {err.strip()}")
        assert status == 0, err
    net.agg.ip("link set k0 up")


@pytest.mark.parametrize("kind", KINDS)
def test_refused(lab, kind):
    net = lab(workers=1, bridge=True)
    make(net, kind)
    for mode in ["native", "skb"] if kind in NEVER else ["native"]:
        refused(net, ["load", "k0", "--mode", mode], f"^fpisa: k0 {KINDS[kind][1]}")
    assert not os.path.exists(PIN)


@pytest.mark.parametrize("kind", ["bond", "team"])
def test_port_of(lab, kind):
    """The bond or team chooses the port through which a frame leaves, so its ports are refused."""
    net = lab(workers=1, bridge=True)
    status, _, err = net.agg.try_run("ip", "link", "add", "k0", "type", kind)
    if status:
        pytest.skip(f"this kernel has no {kind} devices: {err.strip()}")
    net.agg.ip("link set p0 down", "link set p0 master k0", "link set p0 up", "link set k0 up")
    for mode in "native", "skb":
        refused(net, ["load", "p0", "--mode", mode], f"p0 is a port of {kind} k0, which chooses the port of each frame; load the datapath on k0, ")


@pytest.mark.parametrize("kind", ["bridge", "macvlan", "ipvlan"])
def test_sum_in_the_stack(lab, kind):
    """With --mode skb, sums work through the interface that has the aggregator's address."""
    net = lab(bridge=True)
    make(net, kind)
    net.agg.ip("addr del 10.99.1.1/24 dev p0", "addr add 10.99.1.1/24 dev k0")
    net.fpisa("load", "k0", "--mode", "skb")
    # An ipvlan device receives only frames for its own addresses.
    net.fpisa("job", "add", 1, "--workers", ",".join(net.addresses))
    net.check_sum(1, address="10.99.1.1")


@pytest.mark.parametrize("kind", ["vxlan", "geneve", "gretap"])
def test_sum_through_a_tunnel(lab, kind):
    """A tunnel that carries Ethernet frames can sum in the stack."""
    net = lab(workers=1, bridge=True)
    make(net, kind)
    worker = net.worker[0]
    for command in KINDS[kind][0]:
        worker.ip(command.replace("10.99.1.2", "X").replace("10.99.1.1", "10.99.1.2").replace("X", "10.99.1.1"))
    worker.ip("link set k0 up", "addr add 10.70.0.2/24 dev k0")
    net.agg.ip("addr add 10.70.0.1/24 dev k0")
    net.fpisa("load", "k0", "--mode", "skb")
    net.fpisa("job", "add", 1, "--workers", "10.70.0.2")
    net.check_sum(1, address="10.70.0.1")


def attribute(kind, data):
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def attributes(data):
    """Return the data of each attribute by its kind."""
    found = {}
    while len(data) >= 4:
        size, kind = struct.unpack_from("=HH", data)
        found[kind], data = data[4:size], data[(size + 3) & ~3:]
    return found


def ask(ns, protocol, kind, flags, body):
    """Send a netlink message in the namespace. Return the body of the answer, or 0 or a negative errno if it has none."""
    with ns.entered(), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as s:
        s.send(struct.pack("=IHHII", 16 + len(body), kind, NLM_F_REQUEST | NLM_F_ACK | flags, 1, 0) + body)
        answer = s.recv(8192)
    return struct.unpack_from("=i", answer, 16)[0] if struct.unpack_from("=H", answer, 4)[0] == NLMSG_ERROR else answer[16:]


def set_team_mode(ns, team, mode):
    """Set the mode of a team without ports, as `teamnl` does."""
    family = ask(ns, NETLINK_GENERIC, GENL_ID_CTRL, 0,
                 struct.pack("=BBH", CTRL_CMD_GETFAMILY, 1, 0) + attribute(CTRL_ATTR_FAMILY_NAME, b"team\0"))
    number, = struct.unpack("=H", attributes(family[4:])[CTRL_ATTR_FAMILY_ID])
    option = attribute(TEAM_OPTION_NAME, b"mode\0") + attribute(TEAM_OPTION_TYPE, struct.pack("=B", NLA_STRING)) + \
        attribute(TEAM_OPTION_DATA, mode.encode() + b"\0")
    with ns.entered():
        index = socket.if_nametoindex(team)
    body = attribute(TEAM_IFINDEX, struct.pack("=I", index)) + \
        attribute(NLA_F_NESTED | TEAM_LIST_OPTION, attribute(NLA_F_NESTED | TEAM_ITEM_OPTION, option))
    status = ask(ns, NETLINK_GENERIC, number, 0, struct.pack("=BBH", TEAM_CMD_OPTIONS_SET, 1, 0) + body)
    assert status in (0, -errno.ESRCH), os.strerror(-status)  # ESRCH: the mode is set, and no process listens to changes


def test_sum_through_a_team(lab):
    """A team of one port can sum in the stack."""
    net = lab(bridge=True)
    status, _, err = net.agg.try_run("ip", "link", "add", "k0", "type", "team")
    if status:
        pytest.skip(f"this kernel has no team devices: {err.strip()}")
    set_team_mode(net.agg, "k0", "roundrobin")
    net.agg.ip("addr del 10.99.1.1/24 dev p0", *KINDS["team"][0][1:], "addr add 10.99.1.1/24 dev k0", "link set k0 up")
    net.fpisa("load", "k0", "--mode", "skb")
    net.add_job(1)
    net.check_sum(1)


def add_netkit(ns, mode):
    """Add the pair k0 and k1 of netkit devices in that mode. Older versions of ip have no option for it. Return 0 or a negative errno."""
    info = bytes(16)  # struct ifinfomsg
    peer = attribute(IFLA_NETKIT_PEER_INFO, info + attribute(IFLA_IFNAME, b"k1\0"))
    link = attribute(IFLA_INFO_KIND, b"netkit\0") + attribute(IFLA_INFO_DATA, attribute(IFLA_NETKIT_MODE, struct.pack("=I", mode)) + peer)
    body = info + attribute(IFLA_IFNAME, b"k0\0") + attribute(IFLA_LINKINFO, link)
    return ask(ns, socket.NETLINK_ROUTE, RTM_NEWLINK, NLM_F_EXCL | NLM_F_CREATE, body)


@pytest.mark.parametrize("mode", [0, 1], ids=["l2", "l3"])
def test_sum_through_netkit(lab, mode):
    """A pair of netkit devices, as containers have, can sum in the stack."""
    net = lab(workers=1)
    status = add_netkit(net.agg, mode)
    if status == -errno.EOPNOTSUPP:
        pytest.skip("this kernel has no netkit devices")
    assert status == 0, os.strerror(-status)
    net.agg.ip(f"link set k1 netns {net.worker[0].path}", "addr add 10.70.0.1/24 dev k0", "link set k0 up")
    net.worker[0].ip("addr add 10.70.0.2/24 dev k1", "link set k1 up")
    net.fpisa("load", "k0", "--mode", "skb")
    net.fpisa("job", "add", 1, "--workers", "10.70.0.2")
    net.check_sum(1, address="10.70.0.1")
