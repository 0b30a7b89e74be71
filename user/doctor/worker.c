// SPDX-License-Identifier: GPL-2.0-only
/*
 * doctor --worker ADDR: check whether this machine receives results. Results come from the aggregator's address, by
 * multicast or unicast, through the stack. IPv4's reverse path filter must accept that source, and the interface must
 * receive multicast.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/print.h"
#include "doctor.h"
#include "host/ethtool.h"
#include "host/link.h"
#include "host/route.h"
#include "host/veth.h"

/* Return net.ipv4.conf.DEV.rp_filter, or -1 if it cannot be read. */
static int rp_filter(const char *dev)
{
	char path[128];
	int value = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/sys/net/ipv4/conf/%s/rp_filter", dev);
	f = fopen(path, "re");
	if (f && fscanf(f, "%d", &value) != 1)
		value = -1;
	if (f)
		fclose(f);
	return value;
}

static void check_filter(struct doctor *d, const char *dev, const char *way, const char *to)
{
	int all = rp_filter("all"), own = rp_filter(dev), filter = all > own ? all : own;
	char fix[128];

	if (filter != 1 || !strcmp(dev, way)) {
		finding(d, LEVEL_OK, dev, "rp_filter", NULL, "%d accepts results from %s", filter < 0 ? 0 : filter, to);
		return;
	}
	snprintf(fix, sizeof(fix), "sysctl -w net.ipv4.conf.%s.rp_filter=2", dev);
	finding(d, LEVEL_FAULT, dev, "rp_filter", fix,
		"rp_filter is strict, and the route to %s goes through %s: results that arrive here are dropped", to,
		way);
}

/*
 * Check a veth at a bridge. The veth polls, and so coalesces results, only if the bridge's port does not send it large
 * segments. Otherwise the port by which results enter the bridge has to coalesce them, which doctor on the aggregator
 * checks.
 */
static void check_bridge(struct doctor *d, const char *dev, const struct veth_peer *p)
{
	if (!p->seen || !p->link.master)
		return;
	if (p->tso)
		finding(d, LEVEL_OK, dev, "udp-gro", NULL,
			"results arrive one by one unless rx-udp-gro-forwarding is on at the bridge port towards the "
			"aggregator (there, run fpisa doctor), or TSO is off at the bridge port of this veth, which slows TCP: %sethtool "
			"-K %s tso off",
			p->enter, p->link.name);
	else
		finding(d, LEVEL_OK, dev, "udp-gro", NULL, "results are merged");
}

/*
 * Check GRO as on the aggregator's ports: a veth polls only with GRO on. Redirected frames need that; frames from a
 * bridge do not.
 */
static void check_worker_gro(struct doctor *d, const char *dev, const struct link *l)
{
	struct veth_peer peer;
	char fix[64];

	snprintf(fix, sizeof(fix), "ethtool -K %s gro on", dev);
	veth_look(l, &peer);
	if (ethtool_gro(dev)) {
		finding(d, LEVEL_OK, dev, "gro", NULL, "GRO is on: redirected frames arrive");
		check_bridge(d, dev, &peer);
	} else if (strcmp(l->kind, "veth"))
		finding(d, LEVEL_WARN, dev, "gro", fix,
			"GRO is off: results arrive one by one, which costs more CPU time");
	else if (peer.seen && peer.link.master && !peer.xdp) /* a native program redirects past the bridge */
		finding(d, LEVEL_OK, dev, "gro", NULL,
			"GRO is off, but the peer %s is a bridge port, which forwards frames through the stack",
			peer.link.name);
	else if (peer.seen)
		finding(d, LEVEL_FAULT, dev, "gro", fix, "GRO is off on this veth: redirected frames vanish");
	else
		finding(d, LEVEL_WARN, dev, "gro", fix,
			"GRO is off on this veth, whose other end cannot be seen from here: unless that is a bridge "
			"port without a datapath, results redirected to this veth vanish");
}

/* An ordinary user can see that lo has a program, but not its name. */
static bool lo_has_datapath(void)
{
	struct datapath_interface i = {.name = ""};

	return !datapath_program_on(if_nametoindex("lo"), &i) && i.program.id &&
	       (!strcmp(i.program.name, "?") || datapath_is_entry(i.program.name));
}

void doctor_worker(struct doctor *d, const char *dev, struct fpisa_address aggregator)
{
	char to[ADDRESS_LEN], fix[256], name[IF_NAMESIZE], way[IF_NAMESIZE] = "";
	struct route r = {0};
	struct link l;
	int err = route_get(aggregator, FPISA_NO_ADDRESS, 0, &r);

	address_text(aggregator, to);
	if (err || !if_indextoname(r.ifindex, way)) {
		snprintf(fix, sizeof(fix), "ip route add %s dev %s", to, dev ?: "DEV");
		finding(d, LEVEL_FAULT, dev ?: "worker", "route", dev ? fix : NULL, "no route to %s: %s%s", to,
			strerror(-err), dev ? "" : "; name the interface towards it to see the command that adds one");
		return;
	}
	if (!dev) {
		strcpy(name, way);
		dev = name;
	}
	if (r.local && lo_has_datapath())
		finding(d, LEVEL_OK, dev, "route", NULL,
			"%s is this machine, an aggregator for its own rank too: the datapath is on lo", to);
	else if (r.local)
		finding(d, LEVEL_FAULT, dev, "route", NULL,
			"%s is an address of this machine: give the aggregator's, or leave --worker out if this is "
			"the aggregator",
			to);
	else
		finding(d, LEVEL_OK, dev, "route", NULL, "the route to %s goes through %s", to, way);
	if (link_get(if_nametoindex(dev), &l))
		return;
	snprintf(fix, sizeof(fix), "ip link set dev %s up", dev);
	if (!(l.flags & IFF_UP))
		finding(d, LEVEL_FAULT, dev, "link", fix, "the interface is down");
	else if (!l.carrier)
		finding(d, LEVEL_FAULT, dev, "link", NULL,
			"the interface has no carrier; check the cable and the other end");
	else
		finding(d, LEVEL_OK, dev, "link", NULL, "the interface is up, MTU %u", l.mtu);
	snprintf(fix, sizeof(fix), "ip link set dev %s multicast on", dev);
	if (l.flags & (IFF_MULTICAST | IFF_LOOPBACK))
		finding(d, LEVEL_OK, dev, "multicast", NULL, "multicast addresses can be joined");
	else
		finding(d, LEVEL_FAULT, dev, "multicast", fix,
			"multicast is off: results sent to the job's multicast address "
			"are not received");
	if (fpisa_is_ipv4(&aggregator))
		check_filter(d, dev, way, to);
	check_worker_gro(d, dev, &l);
}
