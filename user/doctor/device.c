// SPDX-License-Identifier: GPL-2.0-only
/*
 * doctor: an interface of the aggregator. Frames arrive by XDP in the driver, and results leave by redirect, past qdisc
 * and stack. So driver, MTU, queues and, on a veth, the peer's settings all matter.
 */
#include <errno.h>
#include <linux/ethtool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/names.h"
#include "cli/print.h"
#include "doctor.h"
#include "host/ethtool.h"
#include "host/stack.h"
#include "host/veth.h"

/* The largest MTU that veth allows a peer: a page, less headroom, frame overhead and Ethernet header */
#define VETH_MAX_MTU 3506

struct device {
	const char *name;
	struct link link;
	char driver[32];
	bool named;
	bool native; /* as far as it is visible */
	bool know_features;
	__u64 features; /* NETDEV_XDP_ */
	struct datapath_interface xdp;
	bool ours; /* xdp is this datapath's program */
	struct veth_peer peer;
};

/* -- findings ------------------------------------------------------------- */

static void check_link(struct doctor *d, const struct device *v)
{
	char fix[512];

	if (!(v->link.flags & IFF_UP)) {
		snprintf(fix, sizeof(fix), "ip link set dev %s up", v->name);
		finding(d, LEVEL_FAULT, v->name, "link", fix, "the interface is down");
	} else if (v->peer.seen && !(v->peer.link.flags & IFF_UP)) {
		snprintf(fix, sizeof(fix), "%sip link set dev %s up", v->peer.enter, v->peer.link.name);
		finding(d, LEVEL_FAULT, v->name, "link", fix, "the peer %s is down", v->peer.link.name);
	} else if (!v->link.carrier) {
		finding(d, LEVEL_FAULT, v->name, "link", NULL,
			"the interface has no carrier; check the cable and the other end");
	} else {
		finding(d, LEVEL_OK, v->name, "link", NULL, "the interface is up, driver %s, MTU %u", v->driver,
			v->link.mtu);
	}
}

static void mtu_finding(struct doctor *d, const struct device *v, const char *why)
{
	unsigned int mtu = !strcmp(v->driver, "veth") && sysconf(_SC_PAGESIZE) == 4096 ? VETH_MAX_MTU : 1500;
	char fix[1024];
	int n = snprintf(fix, sizeof(fix), "ip link set dev %s mtu %u", v->name, mtu);

	if (v->peer.seen && v->peer.link.mtu > mtu)
		snprintf(fix + n, sizeof(fix) - n, " && %sip link set dev %s mtu %u", v->peer.enter, v->peer.link.name,
			 mtu);
	finding(d, LEVEL_FAULT, v->name, "mtu", fix, "the MTU of %u is more than one XDP buffer holds%s%s", v->link.mtu,
		*why ? ": " : "", why);
}

/* Return whether the peer has more transmit queues than this end has receive queues: veth then refuses native XDP. */
static bool short_of_queues(const struct device *v)
{
	struct channels c;

	return v->peer.seen && !ethtool_channels(v->name, &c) && v->peer.tx > c.rx;
}

/* Attach a program that passes everything, and detach it again. */
static void try_native(struct doctor *d, struct device *v)
{
	char why[512], fix[PATH_MAX + 64];
	int err;

	err = datapath_trial_attach(v->link.index, why, sizeof(why));
	v->native = !err;
	if (!err) {
		finding(d, LEVEL_OK, v->name, "xdp", NULL, "%s has native XDP (tested)", v->driver);
		return;
	}
	if (strstr(why, "MTU") || strstr(why, "mtu")) {
		mtu_finding(d, v, why);
		return;
	}
	if (short_of_queues(v)) /* this is reported separately */
		return;
	snprintf(fix, sizeof(fix), "fpisa load %s --mode skb%s", v->name, pin_option(d));
	finding(d, LEVEL_WARN, v->name, "xdp", fix, "no native XDP: %s; generic XDP, in the stack, is slower", why);
}

/*
 * Report a datapath in generic mode on a device that has native XDP. The fix turns GRO of a veth's peer on, which
 * native mode needs.
 */
static void in_stack(struct doctor *d, const struct device *v)
{
	int takes = veth_takes(&v->link, &v->peer, &v->features);
	char gro[NETNS_PREFIX_LEN + 64] = "", off[DETACH_LEN], fix[PATH_MAX + sizeof(gro) + 128];
	struct datapath_interface lo;

	if (datapath_attached(d->dp, if_nametoindex("lo"), &lo) > 0) {
		finding(d, LEVEL_OK, v->name, "xdp", NULL,
			"in the stack, as needed on a host whose own ranks send "
			"through lo");
		return;
	}
	if (!takes && !v->peer.seen) {
		finding(d, LEVEL_OK, v->name, "xdp", NULL,
			"in the stack; native mode, which is faster, needs GRO on at its peer, whose namespace cannot be seen "
			"from here");
		return;
	}
	if (!takes)
		snprintf(gro, sizeof(gro), "%sethtool -K %s gro on && ", v->peer.enter, v->peer.link.name);
	snprintf(fix, sizeof(fix), "%s%s && fpisa load %s%s", gro, datapath_detach_text(v->name, DATAPATH_SKB, off),
		 v->name, pin_option(d));
	finding(d, LEVEL_WARN, v->name, "xdp", fix, "the datapath is attached in the stack, but %s has native XDP",
		v->driver);
}

static void check_xdp(struct doctor *d, struct device *v)
{
	const char *dir = *d->dir ? d->dir : d->pin ?: DATAPATH_PIN;
	char fix[DETACH_LEN], home[PATH_MAX];
	bool native = v->features & NETDEV_XDP_BASIC && v->features & NETDEV_XDP_REDIRECT;

	datapath_detach_text(v->name, v->xdp.mode, fix);
	if (v->xdp.program.id && !v->ours && datapath_is_entry(v->xdp.program.name)) {
		bool known = datapath_home(v->link.index, dir, home);
		int jobs = known ? 0 : datapath_jobs_on(&v->xdp);

		if (jobs)
			finding(d, LEVEL_FAULT, v->name, "xdp", NULL,
				"a datapath's program is attached, %s, id %u, %s jobs, but not pinned in any BPF "
				"filesystem mounted here: either another process has mounted one, or the pins are "
				"lost; %s ends its jobs",
				v->xdp.program.name, v->xdp.program.id, jobs < 0 ? "maybe with" : "with", fix);
		else if (!known)
			finding(d, LEVEL_FAULT, v->name, "xdp", fix,
				"a datapath's program is attached, %s, id %u, but not pinned in %s: give its --pin, "
				"unless its pins are lost",
				v->xdp.program.name, v->xdp.program.id, dir);
		else if (!strcmp(home, dir))
			finding(d, LEVEL_OK, v->name, "xdp", NULL, "the datapath that is pinned in %s is attached",
				home);
		else
			finding(d, LEVEL_OK, v->name, "xdp", NULL,
				"the interface runs the datapath that is pinned in %s; check that datapath with fpisa doctor --pin %s",
				home, home);
	} else if (v->ours && !datapath_is_entry(v->xdp.program.name)) {
		finding(d, LEVEL_FAULT, v->name, "xdp", fix,
			"the wrong program is attached: %s, id %u; the program for received frames is fpisa",
			v->xdp.program.name, v->xdp.program.id);
	} else if (v->xdp.program.id && !v->ours && !d->sees) {
		finding(d, LEVEL_OK, v->name, "xdp", NULL,
			"an XDP program is attached, id %u; identifying it requires CAP_SYS_ADMIN", v->xdp.program.id);
	} else if (v->xdp.program.id && !v->ours) {
		finding(d, LEVEL_FAULT, v->name, "xdp", fix, "another XDP program is attached: %s, id %u",
			v->xdp.program.name, v->xdp.program.id);
	} else if (v->ours && v->xdp.mode == DATAPATH_SKB && native) {
		in_stack(d, v);
	} else if (v->ours) {
		v->native = v->xdp.mode == DATAPATH_NATIVE;
		finding(d, LEVEL_OK, v->name, "xdp", NULL, "the datapath is attached, %s",
			name_of(xdp_mode_names, v->xdp.mode));
	} else if (v->named && v->link.flags & IFF_UP) {
		try_native(d, v);
	} else if (!v->know_features) {
		finding(d, LEVEL_OK, v->name, "xdp", NULL,
			"no XDP program is attached; fpisa doctor %s tests whether %s has native XDP", v->name,
			v->driver);
	} else if (native) {
		v->native = true;
		finding(d, LEVEL_OK, v->name, "xdp", NULL, "%s has native XDP", v->driver);
	} else if (!short_of_queues(v)) {
		finding(d, LEVEL_OK, v->name, "xdp", NULL,
			"%s has no native XDP; load with --mode skb, which is slower", v->driver);
	}
}

/*
 * Check for datapaths on two interfaces of a stack: the lower one takes the frames, and bypasses the upper one with its
 * answers.
 */
static void check_stack(struct doctor *d, const struct device *v)
{
	struct datapath_interface above;
	char off[OFF_LEN];

	if (!datapath_is_entry(v->xdp.program.name) || !datapath_stacked(NULL, v->link.index, true, &above))
		return;
	datapath_off(&above, *d->dir ? d->dir : DATAPATH_PIN, off);
	finding(d, LEVEL_FAULT, v->name, "stack", off,
		"a datapath is on this interface and on %s above: with both, workers cannot join", above.name);
}

/*
 * Check GRO. A veth accepts redirected frames only if its peer polls: with GRO on, or an XDP program of its own. Without a
 * datapath on the device, nothing is lost yet.
 */
static void check_gro(struct doctor *d, const struct device *v)
{
	int takes = veth_takes(&v->link, &v->peer, v->know_features && v->native ? &v->features : NULL);
	enum level level = v->ours ? LEVEL_FAULT : LEVEL_WARN;
	char fix[512];

	if (strcmp(v->link.kind, "veth") || (v->ours && v->xdp.mode == DATAPATH_SKB))
		return;
	if (takes < 0) {
		finding(d, LEVEL_OK, v->name, "gro", NULL,
			"the peer's namespace cannot be seen from here; turn GRO on at the peer");
	} else if (takes) {
		finding(d, LEVEL_OK, v->name, "gro", NULL, "the peer takes redirected frames");
	} else if (v->peer.seen) {
		snprintf(fix, sizeof(fix), "%sethtool -K %s gro on", v->peer.enter, v->peer.link.name);
		finding(d, level, v->name, "gro", fix,
			"GRO is off on the peer %s: in native mode, results redirected to it vanish", v->peer.link.name);
	} else {
		finding(d, level, v->name, "gro", NULL,
			"GRO is off on the peer, whose namespace cannot be seen from here: in native mode, results vanish; "
			"there, run ethtool -K DEV gro on for interface %u",
			v->link.lower);
	}
}

/*
 * Check UDP GRO at a bridge. The kernel coalesces results that a socket of its own receives. A bridge's port has no
 * socket, and forwards results one by one unless it is configured otherwise.
 */
static void check_udp_gro(struct doctor *d, const struct device *v)
{
	char fix[512];

	if (!v->peer.seen || !v->peer.link.master || v->peer.udp_forwarding < 0)
		return;
	if (v->peer.udp_forwarding) {
		finding(d, LEVEL_OK, v->name, "udp-gro", NULL, "the peer %s, a bridge port, merges results",
			v->peer.link.name);
		return;
	}
	snprintf(fix, sizeof(fix), "%sethtool -K %s rx-udp-gro-forwarding on", v->peer.enter, v->peer.link.name);
	finding(d, LEVEL_WARN, v->name, "udp-gro", fix,
		"the peer %s is a bridge port and forwards results one by one, which costs workers more CPU time",
		v->peer.link.name);
}

static void check_redirect(struct doctor *d, const struct device *v)
{
	if (strcmp(v->link.kind, "veth") && v->ours && v->know_features && v->xdp.mode == DATAPATH_NATIVE &&
	    !(v->features & NETDEV_XDP_NDO_XMIT))
		finding(d, LEVEL_FAULT, v->name, "redirect", NULL,
			"%s does not send redirected frames, so results cannot leave here; load with --mode skb",
			v->driver);
}

/* The fields by which a card may choose a receive queue */
#define SPREAD_PORTS (RXH_L4_B_0_1 | RXH_L4_B_2_3)
#define SPREAD_ADDRESSES (RXH_IP_SRC | RXH_IP_DST)
#define SPREAD (SPREAD_PORTS | SPREAD_ADDRESSES)

/* Report on a device whose frames all go to one CPU: that CPU may do all the work. */
static void one_queue(struct doctor *d, const struct device *v, const struct channels *c, long cpus)
{
	const struct fpisa_steering *s = v->ours ? &d->dp->steering : NULL;
	char list[CPUS_LEN];

	if (s && s->cpus)
		finding(d, LEVEL_OK, v->name, "queues", NULL, "1 of %u receive queues, slots steered to CPUs %s",
			c->max_rx, cpus_text(s->cpu, s->cpus, list));
	else if (cpus > 1 && v->native)
		finding(d, LEVEL_OK, v->name, "queues", NULL,
			"1 of %u receive queues; if its CPU is full, fpisa load --cpus 0-%ld spreads slots over others",
			c->max_rx, (cpus < FPISA_STEER_CPUS ? cpus : FPISA_STEER_CPUS) - 1);
	else
		finding(d, LEVEL_OK, v->name, "queues", NULL, "1 of %u receive queues", c->max_rx);
}

static void check_queues(struct doctor *d, const struct device *v)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct channels c = {0};
	__u64 hash = 0;
	__u32 want;
	char fix[512];

	if (ethtool_channels(v->name, &c) || !c.rx) {
		finding(d, LEVEL_OK, v->name, "queues", NULL, "%s does not report its queues", v->driver);
		return;
	}
	if (short_of_queues(v)) {
		if (v->peer.tx <= c.max_rx)
			snprintf(fix, sizeof(fix), "ethtool -L %s rx %u", v->name, v->peer.tx);
		else
			snprintf(fix, sizeof(fix), "%sethtool -L %s tx %u", v->peer.enter, v->peer.link.name, c.rx);
		finding(d, LEVEL_FAULT, v->name, "queues", fix,
			"the interface has %u receive queues, but the peer %s has %u transmit queues: veth refuses native XDP",
			c.rx, v->peer.link.name, v->peer.tx);
		return;
	}
	want = c.max_rx < cpus ? c.max_rx : cpus;
	/* The receive queues of a veth follow from its peer's transmit queues. */
	if (c.rx < want && strcmp(v->link.kind, "veth")) {
		snprintf(fix, sizeof(fix), "ethtool -L %s %s %u", v->name, c.combined ? "combined" : "rx", want);
		finding(d, LEVEL_WARN, v->name, "queues", fix, "%u of %u receive queues for %ld CPUs", c.rx, c.max_rx,
			cpus);
		return;
	}
	if (c.rx == 1) {
		one_queue(d, v, &c, cpus);
	} else if (ethtool_udp_hash(v->name, &hash)) {
		finding(d, LEVEL_OK, v->name, "queues", NULL, "%u of %u receive queues", c.rx, c.max_rx);
	} else if (hash & SPREAD) {
		finding(d, LEVEL_OK, v->name, "queues", NULL, "%u of %u receive queues, UDP spread by %s", c.rx,
			c.max_rx,
			!(hash & SPREAD_PORTS)	? "addresses" :
			hash & SPREAD_ADDRESSES ? "addresses and ports" :
						  "ports");
	} else {
		snprintf(fix, sizeof(fix), "ethtool -N %s rx-flow-hash udp4 sd", v->name);
		finding(d, LEVEL_WARN, v->name, "queues", fix, "%u receive queues, but all UDP arrives at one of them",
			c.rx);
	}
}

static void check_lro(struct doctor *d, const struct device *v)
{
	char fix[128];

	if (ethtool_lro(v->name) > 0) {
		snprintf(fix, sizeof(fix), "ethtool -K %s lro off", v->name);
		finding(d, LEVEL_FAULT, v->name, "lro", fix, "LRO merges received frames before XDP sees them");
	} else {
		finding(d, LEVEL_OK, v->name, "lro", NULL, "off");
	}
}

/* Find the first VLAN device on top of `l`. Return whether one exists. */
static bool vlan_on(const struct link *l, char name[IF_NAMESIZE])
{
	struct link *links = NULL;
	int n = links_get(&links), i = 0;

	while (i < n && (strcmp(links[i].kind, "vlan") || !link_above(&links[i], l)))
		i++;
	if (i < n)
		memcpy(name, links[i].name, IF_NAMESIZE);
	free(links);
	return i < n;
}

/*
 * Check whether XDP sees VLAN tags. A card that strips tags stores them where XDP does not read. A veth gets stripped
 * tags from its peer, unless the peer puts them into the frames. Nearly all devices do this; it matters only if tagged
 * frames arrive.
 */
static void check_vlan(struct doctor *d, const struct device *v)
{
	bool veth = !strcmp(v->link.kind, "veth");
	char vlan[IF_NAMESIZE], fix[NETNS_PREFIX_LEN + 64];
	bool vlans = vlan_on(&v->link, vlan);

	if (!strcmp(v->link.kind, "bridge")) {
		finding(d, LEVEL_OK, v->name, "vlan", NULL, "the bridge removes VLAN tags before its datapath%s%s%s",
			vlans ? "; for jobs in the VLAN of " : "", vlans ? vlan : "",
			vlans ? ", run fpisa load --mode skb on that device" : "");
		return;
	}
	if (veth ? v->peer.tags : ethtool_vlan_rx(v->name) <= 0) {
		finding(d, LEVEL_OK, v->name, "vlan", NULL,
			"received frames keep their VLAN tags, so the datapath "
			"passes them to the stack");
		return;
	}
	if (!veth)
		snprintf(fix, sizeof(fix), "ethtool -K %s rxvlan off", v->name);
	else if (v->peer.seen)
		snprintf(fix, sizeof(fix), "%sethtool -K %s txvlan off", v->peer.enter, v->peer.link.name);
	else
		snprintf(fix, sizeof(fix), "ethtool -K DEV txvlan off at its peer");
	if (vlans && (!veth || v->peer.seen))
		finding(d, LEVEL_WARN, v->name, "vlan", fix,
			"XDP does not see VLAN tags: frames of %s reach the datapath as if untagged", vlan);
	else
		finding(d, LEVEL_OK, v->name, "vlan", NULL,
			"XDP does not see VLAN tags and takes all frames as untagged; if tagged frames arrive, %s", fix);
}

void doctor_device(struct doctor *d, const char *dev, bool named)
{
	struct device v = {.name = dev, .named = named};
	int err = link_get(if_nametoindex(dev), &v.link);

	if (err) {
		finding(d, LEVEL_FAULT, dev, "link", NULL, "%s", strerror(-err));
		return;
	}
	datapath_program_on(v.link.index, &v.xdp);
	v.ours = d->dp && datapath_attached(d->dp, v.link.index, &v.xdp) > 0;
	/* An interface that is down is checked only if the user named it, or if it has the datapath. */
	if (!named && !v.ours && !(v.link.flags & IFF_UP))
		return;
	if (ethtool_driver(dev, v.driver))
		snprintf(v.driver, sizeof(v.driver), "%s", *v.link.kind ? v.link.kind : "?");
	v.know_features = !netdev_xdp_features(v.link.index, &v.features);
	if (!link_ethernet(&v.link)) {
		finding(d, named || v.xdp.program.id ? LEVEL_FAULT : LEVEL_OK, dev, "link", NULL,
			"frames of the interface have no Ethernet headers, so a datapath would not see workers");
		return;
	}
	veth_look(&v.link, &v.peer);
	check_link(d, &v);
	if (d->privileged) {
		check_xdp(d, &v);
		check_stack(d, &v);
	}
	check_gro(d, &v);
	check_udp_gro(d, &v);
	check_redirect(d, &v);
	check_queues(d, &v);
	doctor_ports(d, dev, v.link.index);
	check_lro(d, &v);
	check_vlan(d, &v);
}
