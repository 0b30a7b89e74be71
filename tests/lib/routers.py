# SPDX-License-Identifier: GPL-2.0-only
"""Routers in the networks of tests"""


def router(ns):
    """Let the namespace forward packets between all its interfaces, without reverse-path filters."""
    ns.sysctl("ip_forward", 1)
    ns.sysctl("conf/all/forwarding", 1, family="ipv6")
    ns.sysctl("conf/all/rp_filter", 0)
    return ns


def reach(net, ns, to, via, *more):
    """Add or replace the route to `to` via the next hop `via`, in the lab's address family."""
    ns.run("ip", "-6" if net.ipv6 else "-4", "route", "replace", to, "via", via, *more)
