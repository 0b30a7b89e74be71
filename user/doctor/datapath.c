// SPDX-License-Identifier: GPL-2.0-only
/* doctor: the loaded datapath, its build, and the routes of each job to its ranks */
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/names.h"
#include "cli/print.h"
#include "doctor.h"
#include "host/link.h"
#include "host/route.h"
#include "job/job.h"

#define SILENT_S 2 /* a rank that a round waits for, and that has been silent for longer, is reported */
#define WATCH_S 2  /* time in which frames of another VLAN are counted; a rank sends a frame again after 1 s or less */

struct text {
	char *at, *end;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(t->at, t->end - t->at, fmt, ap);
	va_end(ap);
	t->at += n < t->end - t->at ? n : t->end - t->at;
}

/* Replace an interface in a list of workers. */
struct swap {
	__u32 from; /* 0: each port of a bridge */
	bool below; /* name the interface below that leads to the worker, or no interface */
};

/* Write the name of the rank's interface after the swap, or "" for none. */
static void swapped(const struct doctor *d, const struct fpisa_job *j, __u32 rank, __u32 ifindex,
		    const struct swap *swap, char name[IF_NAMESIZE])
{
	struct link l;

	*name = 0;
	if (swap && swap->from == ifindex) {
		if (swap->below)
			job_port_towards(d->dp, ifindex, j, rank, name);
	} else if (j->rank[rank].given && !(swap && !swap->from && !link_get(ifindex, &l) && l.master &&
					    job_port_towards(d->dp, l.master, j, rank, name))) {
		if_indextoname(ifindex, name);
	}
}

/*
 * Write the commands that create the job again with the current routes to its ranks. `swap`, which may be NULL, names
 * an interface to replace by another.
 */
static void remake(const struct doctor *d, __u32 job, const struct fpisa_job *j, const struct swap *swap, char *out,
		   size_t size)
{
	char a[ENDPOINT_LEN];
	struct text t = {out, out + size};
	const char *pin = pin_option(d);
	__u32 vrf;

	add(&t, "fpisa job del %u%s && fpisa job add %u%s --workers ", job, pin, job, pin);
	for (__u32 r = 0; r < j->workers; r++) {
		char dev[IF_NAMESIZE];
		struct fpisa_peer peer;

		add(&t, "%s%s", r ? "," : "", endpoint_text(j->rank[r].addr, j->rank[r].port, a));
		if (datapath_peer(d->dp, job, r, &peer) || !if_indextoname(peer.ifindex, dev))
			continue;
		swapped(d, j, r, peer.ifindex, swap, dev);
		add(&t, "%s%s", *dev ? "@" : "", dev);
	}
	if (!address_here(j->address, &vrf))
		add(&t, " --foreign-address");
	job_options_text(j, t.at, t.end - t.at);
}

/*
 * Check the job's address, or both addresses of a job with ranks of both families. Workers on this machine's own
 * networks ask for it by ARP; a router may forward frames of others.
 */
static void check_address(struct doctor *d, const struct fpisa_job *j, const char *subject)
{
	struct fpisa_address address = j->address;
	char a[ADDRESS_LEN], fix[96];
	__u32 vrf;
	bool v6;

	if (j->ipv4 && address_here(address, &vrf))
		address = fpisa_ipv4(j->ipv4);
	v6 = fpisa_is_ipv6(&address);
	address_text(address, a);
	if (address_here(address, &vrf)) {
		finding(d, LEVEL_OK, subject, "address", NULL, "%s is an address of this machine", a);
		return;
	}
	snprintf(fix, sizeof(fix), "ip address add %s/%d dev lo", a, v6 ? 128 : 32);
	finding(d, LEVEL_WARN, subject, "address", fix,
		"%s is not an address of this machine, so %s for it get no answer", a,
		v6 ? "neighbour solicitations" : "ARP requests");
}

/*
 * Return whether the route to the rank leads elsewhere, looked up as the datapath does. check_ports() handles an
 * interface that is gone; a missing route is the operator's concern.
 */
static bool leads_elsewhere(const struct doctor *d, __u32 job, const struct fpisa_job *j, __u32 rank)
{
	char dev[IF_NAMESIZE];
	struct fpisa_peer p;
	struct route way;

	return !datapath_peer(d->dp, job, rank, &p) && if_indextoname(p.ifindex, dev) &&
	       !route_get(j->rank[rank].addr, fpisa_own_address(j, &j->rank[rank].addr), 0, &way) &&
	       way.ifindex != (p.vlan_device ?: p.ifindex);
}

/*
 * Check the routes to the ranks, and the settings that let the datapath ask for them. Without forwarding every HELLO is
 * dropped.
 */
static void check_routes(struct doctor *d, __u32 job, const struct fpisa_job *j, const char *subject)
{
	char fix[FIX_LEN], text[RANKS_LEN];
	const bool asked = datapath_routes_asked(j, false), v6 = asked;
	__u64 other = 0;

	for (__u32 r = 0; r < j->workers; r++)
		if (j->live >> r & 1 && !j->rank[r].given && leads_elsewhere(d, job, j, r))
			other |= 1ull << r;
	if (other) {
		remake(d, job, j, NULL, fix, sizeof(fix));
		finding(d, LEVEL_FAULT, subject, "routes", fix,
			"routes to ranks %s lead to other interfaces than when the job was created, so these ranks "
			"cannot join",
			ranks_text(other, text));
	} else if (asked && datapath_routes_asked(j, true))
		finding(d, LEVEL_OK, subject, "routes", NULL, "the datapath may look up routes to its ranks");
	else
		finding(d, LEVEL_FAULT, subject, "routes",
			v6 ? "sysctl -w net.ipv6.conf.lo.forwarding=1" : "sysctl -w net.ipv4.conf.lo.forwarding=1",
			"%s is off, so no rank can join; setting %s to 0 also clears it",
			v6 ? "net.ipv6.conf.lo.forwarding" : "net.ipv4.conf.lo.forwarding",
			v6 ? "net.ipv6.conf.all.forwarding" : "net.ipv4.ip_forward");
	if (!datapath_local_taken(j))
		finding(d, LEVEL_WARN, subject, "local", "sysctl -w net.ipv4.conf.lo.accept_local=1",
			"net.ipv4.conf.lo.accept_local is off, so the rank on this machine misses results and asks "
			"for each again");
}

/*
 * Check the route of a leaf to its parent, and the port at which the route begins. Unless both are right, no rank can
 * join.
 */
static void check_parent(struct doctor *d, const struct fpisa_job *j, const char *subject)
{
	char parent[PARENT_LEN], fix[FIX_LEN], dev[IF_NAMESIZE] = "?";
	struct datapath_interface i = {.name = ""};
	struct job_port_text t;
	struct route way;
	int err;

	if (!(j->flags & FPISA_JOB_LEAF))
		return;
	job_parent_text(j, parent);
	err = route_get(j->parent.addr, j->address, 0, &way);
	if (err) {
		finding(d, LEVEL_FAULT, subject, "parent", NULL, "no route to the parent, %s: %s, so no rank can join",
			parent, strerror(-err));
		return;
	}
	if_indextoname(way.ifindex, dev);
	if (datapath_attached(d->dp, way.ifindex, &i) > 0) {
		finding(d, LEVEL_OK, subject, "parent", NULL, "the parent and the rank there are %s, behind %s", parent,
			dev);
		return;
	}
	job_port_look(d->dp, way.ifindex, &i, &t);
	snprintf(fix, sizeof(fix), "%s%s", t.fix, pin_option(d));
	finding(d, LEVEL_FAULT, subject, "parent", *t.fix ? fix : NULL,
		"the parent, %s, is behind %s: %s, so no rank can join%s%s", parent, dev, t.why, *t.fix ? "" : "; ",
		*t.fix ? "" : t.advice);
}

/* Return whether the rank's copy of a result has a port. With multicast, an entry of any rank behind the port is enough. */
static bool has_entry(const struct datapath *dp, __u32 job, const struct fpisa_job *j, __u32 rank, __u32 ifindex)
{
	__u32 port = 0, egress = 0;

	if (j->fanout == FPISA_FANOUT_UNICAST)
		return !datapath_port(dp, job, rank, &port, &egress) && port == ifindex && egress;
	for (__u32 r = 0; r < j->workers; r++)
		if (!datapath_port(dp, job, r, &port, &egress) && port == ifindex)
			return true;
	return false;
}

/* Report a port of the job on which the datapath is not attached. */
static void check_port(struct doctor *d, __u32 job, const struct fpisa_job *j, const char *subject, __u64 ranks,
		       const char *dev, __u32 ifindex)
{
	char text[RANKS_LEN], which[RANKS_LEN + 8];
	struct datapath_interface other;
	struct job_port_text t;
	enum job_port p = job_port_look(d->dp, ifindex, &other, &t);
	struct fpisa_job by_route = *j;
	struct link vlan;
	char fix[FIX_LEN];

	*fix = 0;
	/* job add finds the VLAN again, because the port may remove the tag of the route's device. */
	if (p == JOB_PORT_NAME && job_vlan_above(j, __builtin_ctzll(ranks), ifindex, &vlan) == j->vlan)
		by_route.vlan = 0;
	snprintf(which, sizeof(which), "%s %s", ranks_text(ranks, text), ranks & (ranks - 1) ? "are" : "is");
	if (p == JOB_PORT_NAME || p == JOB_PORT_ABOVE)
		remake(d, job, &by_route, &(struct swap){ifindex, p == JOB_PORT_NAME}, fix, sizeof(fix));
	else if (*t.fix)
		snprintf(fix, sizeof(fix), "%s%s", t.fix, pin_option(d));
	finding(d, LEVEL_FAULT, subject, "port", *fix ? fix : NULL, "%s %s behind %s: %s%s%s",
		ranks & (ranks - 1) ? "ranks" : "rank", which, dev, t.why, *fix ? "" : "; ",
		*fix ? job_port_note(fix) : t.advice);
}

static __u64 ranks_behind(const struct doctor *d, __u32 job, const struct fpisa_job *j, __u32 ifindex)
{
	struct fpisa_peer p;
	__u64 behind = 0;

	for (__u32 r = 0; r < j->workers; r++)
		if (j->live >> r & 1 && !datapath_peer(d->dp, job, r, &p) && p.ifindex == ifindex)
			behind |= 1ull << r;
	return behind;
}

/*
 * Find the port of each rank, or 0 if the rank was removed or its port is unknown. After the ranks, find the interface
 * of the route to a leaf's parent, or 0.
 */
static void ports_of(const struct doctor *d, __u32 job, const struct fpisa_job *j, __u32 ifindex[FPISA_MAX_WORKERS + 1])
{
	struct route way;

	memset(ifindex, 0, (FPISA_MAX_WORKERS + 1) * sizeof(*ifindex));
	if (j->flags & FPISA_JOB_LEAF && !route_get(j->parent.addr, j->address, 0, &way))
		ifindex[j->workers] = way.ifindex;
	for (__u32 r = 0; r < j->workers; r++) {
		struct fpisa_peer p;

		if (j->live >> r & 1 && !datapath_peer(d->dp, job, r, &p))
			ifindex[r] = p.ifindex;
	}
}

/* Check the mode of the ports: a program in native mode cannot send to lo, by which a rank on this machine receives. */
static void check_native(struct doctor *d, __u32 job, const struct fpisa_job *j, const char *subject)
{
	__u32 ifindex[FPISA_MAX_WORKERS + 1];
	struct job_port_text t;
	char fix[FIX_LEN];

	ports_of(d, job, j, ifindex);
	if (!job_native_beside_lo(d->dp, j, ifindex, &t))
		return;
	snprintf(fix, sizeof(fix), "%s%s", t.fix, pin_option(d));
	finding(d, LEVEL_WARN, subject, "native", fix, "%s", t.why);
}

/* Check whether the links of this machine are slower than the links of the job's workers together. */
static void check_links(struct doctor *d, __u32 job, const struct fpisa_job *j, const char *subject)
{
	__u32 ifindex[FPISA_MAX_WORKERS + 1], n = 0;
	char text[512];

	ports_of(d, job, j, ifindex);
	for (__u32 r = 0; r < j->workers; r++)
		if (j->live >> r & 1)
			ifindex[n++] = ifindex[r];
	if (job_links_text(ifindex, n, d->rate, text, sizeof(text)))
		finding(d, LEVEL_WARN, subject, "links", NULL, "%s", text);
}

/*
 * Check the bridges through which multicast results leave. Without a querier a bridge sends them to all its ports. If it
 * has more ports than ranks are behind it, some port has no rank.
 */
static void check_flooding(struct doctor *d, __u32 job, const struct fpisa_job *j, const char *subject)
{
	const __u32 querier = fpisa_is_ipv6(&j->group) ? LINK_MLD : LINK_IGMP;
	struct link *links = NULL;
	const int n = j->fanout == FPISA_FANOUT_MULTICAST ? links_get(&links) : 0;
	char fix[IF_NAMESIZE + 64];

	for (int i = 0; i < n; i++) {
		const int ranks = __builtin_popcountll(ranks_behind(d, job, j, links[i].index));
		int ports = 0;

		for (int k = 0; k < n; k++)
			ports += links[k].master == links[i].index;
		if (strcmp(links[i].kind, "bridge") || links[i].queriers & querier || !ranks || ports <= ranks)
			continue;
		snprintf(fix, sizeof(fix), "ip link set %s type bridge mcast_snooping 1 mcast_querier 1", links[i].name);
		finding(d, LEVEL_WARN, subject, "flooding", fix,
			"%s sends results to all of its %d ports, because it does not snoop or has no %s querier, but at most %d "
			"of them lead to ranks",
			links[i].name, ports, querier == LINK_MLD ? "MLD" : "IGMP", ranks);
	}
	free(links);
}

static void check_ports(struct doctor *d, __u32 job, const struct fpisa_job *j, const char *subject)
{
	char fix[FIX_LEN], dev[IF_NAMESIZE], text[RANKS_LEN];
	__u64 gone = 0, closed = 0;

	for (__u32 r = 0; r < j->workers; r++) {
		struct datapath_interface i = {.name = ""};
		struct fpisa_peer p;

		if (!(j->live >> r & 1) || datapath_peer(d->dp, job, r, &p))
			continue;
		if (!if_indextoname(p.ifindex, dev)) {
			gone |= 1ull << r;
		} else if (datapath_attached(d->dp, p.ifindex, &i) <= 0) {
			__u64 behind = ranks_behind(d, job, j, p.ifindex);

			if (!(behind & ((1ull << r) - 1)))
				check_port(d, job, j, subject, behind, dev, p.ifindex);
		} else if (d->sees && !has_entry(d->dp, job, j, r, p.ifindex)) {
			closed |= 1ull << r;
		}
	}
	if (gone | closed) {
		remake(d, job, j, NULL, fix, sizeof(fix));
		finding(d, LEVEL_FAULT, subject, "egress", fix, "results cannot reach ranks %s: %s",
			ranks_text(gone | closed, text), gone ? "their interface is gone" : "no entry in fpisa_fanout");
	} else {
		finding(d, LEVEL_OK, subject, "egress", NULL, "every live rank has a port, %s",
			name_of(fanout_names, j->fanout));
	}
	check_native(d, job, j, subject);
}

/* Return the maximum number of elements of a frame that fits the MTU, or 0 if no frame fits. */
static __u32 elements_for(struct fpisa_job j, unsigned int mtu)
{
	j.elements = (__u16)fpisa_max_elements(fpisa_format_of(j.format), j.mode);
	while (j.elements && job_frame_bytes(&j) > mtu)
		j.elements -= FPISA_BLOCK;
	return j.elements;
}

/*
 * Check the MTU: jumbo frames may have been switched off after the job was created, or a frame has room for more
 * values.
 */
static void check_mtu(struct doctor *d, __u32 job, const struct fpisa_job *j, const char *subject)
{
	unsigned int bytes = job_frame_bytes(j), least = 0;
	__u32 most;
	char fix[64 * 64], text[64 * 64] = "";
	struct text m = {fix, fix + sizeof(fix)}, t = {text, text + sizeof(text)};
	__u32 ifindex[FPISA_MAX_WORKERS + 1];

	ports_of(d, job, j, ifindex);
	for (__u32 r = 0; r < fpisa_places(j); r++) {
		struct link l;
		__u32 k = 0;

		while (ifindex[k] != ifindex[r])
			k++;
		if (k < r || !ifindex[r] || link_get(ifindex[r], &l))
			continue;
		if (!least || l.mtu < least)
			least = l.mtu;
		if (l.mtu >= bytes)
			continue;
		add(&m, "%sip link set dev %s mtu %u", *text ? " && " : "", l.name, bytes);
		add(&t, "%s%s has %u", *text ? ", " : "", l.name, l.mtu);
	}
	if (*text)
		finding(d, LEVEL_FAULT, subject, "mtu", fix, "frames of %u bytes do not fit the MTU: %s", bytes, text);
	if (*text || !least)
		return;
	most = elements_for(*j, least);
	if (most > j->elements)
		finding(d, LEVEL_OK, subject, "mtu", NULL,
			"frames have %u values; the MTU of %u allows %u: with --elements %u a vector takes %u%% "
			"fewer frames",
			j->elements, least, most, most, (most - j->elements) * 100 / most);
	else
		finding(d, LEVEL_OK, subject, "mtu", NULL, "frames have %u values, the most that the MTU of %u allows",
			j->elements, least);
}

/* Check the paths to the ranks. A router that drops a result as too big reports the MTU of the next link. */
static void check_paths(struct doctor *d, __u32 job, const struct fpisa_job *j, const char *subject)
{
	const unsigned int bytes = job_frame_bytes(j);
	struct fpisa_job smaller = *j;
	char fix[FIX_LEN], text[RANKS_LEN];
	unsigned int least = bytes;
	__u64 narrow = 0;

	for (__u32 r = 0; r < j->workers; r++) {
		struct fpisa_peer peer;

		if (datapath_peer(d->dp, job, r, &peer) || !peer.path_mtu || peer.path_mtu >= bytes)
			continue;
		narrow |= 1ull << r;
		least = peer.path_mtu < least ? peer.path_mtu : least;
	}
	if (!narrow)
		return;
	smaller.elements = (__u16)elements_for(*j, least);
	remake(d, job, &smaller, NULL, fix, sizeof(fix));
	finding(d, LEVEL_FAULT, subject, "path", smaller.elements ? fix : NULL,
		"routers drop results to ranks %s, because packets of %u bytes are larger than the path's MTU of %u",
		ranks_text(narrow, text), bytes, least);
}

/* Write the command that continues the job without these ranks. */
static const char *shrink(const struct doctor *d, __u32 job, __u64 ranks, char *fix, size_t size)
{
	struct text t = {fix, fix + size};

	add(&t, "fpisa job shrink %u", job);
	for (__u32 r = 0; r < FPISA_MAX_WORKERS; r++)
		if (ranks >> r & 1)
			add(&t, " %u", r);
	add(&t, "%s", pin_option(d));
	return fix;
}

/* Find the ranks for which the oldest round waits, and which have been silent for SILENT_S. */
static __u64 silent_ranks(const struct doctor *d, __u32 job, __u64 *chunk)
{
	__u64 missing;
	double s;

	if (job_missing(d->dp, job, &missing, chunk))
		return 0;
	for (__u32 r = 0; r < FPISA_MAX_WORKERS; r++)
		if (missing >> r & 1 && (job_silence(d->dp, job, r, &s) || s < SILENT_S))
			missing &= ~(1ull << r);
	return missing;
}

/* `blocked`: another finding says why ranks cannot join or are not heard */
static void check_members(struct doctor *d, __u32 job, const struct fpisa_job *j, const char *subject, bool blocked)
{
	char fix[PATH_MAX + 512], text[RANKS_LEN], silence[SILENCE_LEN];
	__u64 joined, missing, silent, chunk;
	struct fpisa_session s;

	if (datapath_session(d->dp, job, &s))
		return;
	joined = job_joined(j, &s);
	missing = j->live & ~joined;
	silent = joined ? silent_ranks(d, job, &chunk) : 0;
	if (!joined)
		finding(d, LEVEL_OK, subject, "members", NULL, "no rank has joined yet");
	else if (missing && blocked)
		finding(d, LEVEL_WARN, subject, "members", NULL,
			"the job waits for ranks %s, which cannot join; see the fault above", ranks_text(missing, text));
	else if (missing)
		finding(d, LEVEL_WARN, subject, "members", shrink(d, job, missing, fix, sizeof(fix)),
			"the job waits for ranks %s: start these ranks, or continue without these ranks",
			ranks_text(missing, text));
	else if (silent && !job_silence_text(d->dp, job, silent, silence))
		finding(d, LEVEL_WARN, subject, "members", blocked ? NULL : shrink(d, job, silent, fix, sizeof(fix)),
			"chunk %llu waits for ranks %s%s%s", (unsigned long long)chunk, ranks_text(silent, text),
			silence,
			blocked ? "; see the warning above" :
				  ": start all ranks again, or continue without these ranks");
	else
		finding(d, LEVEL_OK, subject, "members", NULL, "every live rank has joined");
}

/*
 * Check for ranks that cannot join because their HELLOs arrive at another port of a bridge than the job's. Return
 * whether there are such ranks.
 */
static bool check_arrival(struct doctor *d, __u32 job, const struct fpisa_job *j, const char *subject)
{
	char fix[FIX_LEN], text[RANKS_LEN], name[IF_NAMESIZE];
	struct fpisa_counters c;
	struct fpisa_session s;
	__u64 elsewhere = 0;

	if (datapath_counters(d->dp, job, &c) || !c.v_route || datapath_session(d->dp, job, &s))
		return false;
	for (__u32 r = 0; r < j->workers; r++) {
		struct fpisa_peer p;
		struct link l;

		if ((j->live & ~job_joined(j, &s)) >> r & 1 && j->rank[r].given && !datapath_peer(d->dp, job, r, &p) &&
		    !link_get(p.ifindex, &l) && l.master && job_port_towards(d->dp, l.master, j, r, name) &&
		    strcmp(name, l.name))
			elsewhere |= 1ull << r;
	}
	if (!elsewhere)
		return false;
	remake(d, job, j, &(struct swap){0}, fix, sizeof(fix));
	finding(d, LEVEL_FAULT, subject, "arrival", fix,
		"frames of ranks %s arrive at other ports than the job's (counter route), so these ranks cannot join%s",
		ranks_text(elsewhere, text), job_port_note(fix));
	return true;
}

/* Return the number of frames that came to the job with another VLAN tag, or 0 if it does not sum here. */
static __u64 other_vlan(const struct datapath *dp, __u32 job)
{
	const struct fpisa_job *j = &dp->jobs[job];
	struct fpisa_counters c;

	return !j->active || fpisa_is_query(j) || datapath_counters(dp, job, &c) ? 0 : c.v_vlan;
}

/* Count the frames of another VLAN that come to each job now. Do not wait if none ever came. */
static void watch_vlans(const struct datapath *dp, __u64 come[FPISA_MAX_JOBS])
{
	bool any = false;

	for (__u32 job = 0; job < FPISA_MAX_JOBS; job++)
		any |= (come[job] = other_vlan(dp, job));
	if (any)
		sleep(WATCH_S);
	for (__u32 job = 0; any && job < FPISA_MAX_JOBS; job++)
		come[job] = other_vlan(dp, job) - come[job];
}

/*
 * Check for ranks that cannot join because their frames have another VLAN tag than the job, and for ranks that have
 * joined although some of their frames do. `come` is the number of such frames that came now. Return whether there are
 * such ranks.
 */
static bool check_vlan(struct doctor *d, __u32 job, const struct fpisa_job *j, const char *subject, __u64 come)
{
	struct fpisa_job by_route = *j;
	char fix[FIX_LEN] = "", own[16];
	struct fpisa_counters c;
	struct fpisa_session s;

	if (datapath_counters(d->dp, job, &c) || !c.v_vlan || datapath_session(d->dp, job, &s))
		return false;
	snprintf(own, sizeof(own), j->vlan ? "VLAN %u" : "no VLAN", j->vlan);
	if (!(j->live & ~job_joined(j, &s))) {
		if (come)
			finding(d, LEVEL_WARN, subject, "vlan", NULL,
				"%llu frames came within %d s with another VLAN tag than the job, which has %s (counter vlan), "
				"so ranks send them again; check the VLAN on each path of the workers",
				(unsigned long long)come, WATCH_S, own);
		return come;
	}
	by_route.vlan = 0;
	for (__u32 r = 0; r < j->workers && !*fix; r++) {
		struct fpisa_peer p;
		struct link vlan;
		__u16 id = datapath_peer(d->dp, job, r, &p) ? 0 : job_vlan_above(j, r, p.ifindex, &vlan);

		if (id && id != j->vlan)
			remake(d, job, &by_route, NULL, fix, sizeof(fix));
	}
	finding(d, LEVEL_FAULT, subject, "vlan", *fix ? fix : NULL,
		"%llu frames had another VLAN tag than the job, which has %s (counter vlan), so ranks cannot join%s",
		(unsigned long long)c.v_vlan, own,
		*fix ? "" : "; check the VLAN of the workers, and fpisa job add --vlan");
	return true;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Add " --cpus 0,1" if the pinned datapath steers. */
static void steering_option(const struct doctor *d, struct text *t)
{
	struct fpisa_steering s;
	char cpus[CPUS_LEN];

	if (!datapath_steering(d->dir, &s) && s.cpus)
		add(t, " --cpus %s --cpu-queue %u", cpus_text(s.cpu, s.cpus, cpus), s.queue);
}

/* Write "fpisa unload && fpisa load p0 p1", with the interfaces that run the pinned datapath. */
static void reload(const struct doctor *d, char *out, size_t size)
{
	struct if_nameindex *all = if_nameindex();
	char *native[DATAPATH_MAX_INTERFACES], *skb[DATAPATH_MAX_INTERFACES];
	struct text t = {out, out + size};
	int n = 0, m = 0;

	for (struct if_nameindex *i = all; i && i->if_index; i++) {
		struct datapath_interface x = {.name = ""};
		char home[PATH_MAX];

		if (datapath_program_on(i->if_index, &x) || !datapath_is_entry(x.program.name) ||
		    !datapath_home(i->if_index, d->dir, home) || strcmp(home, d->dir))
			continue;
		if (x.mode == DATAPATH_SKB && m < DATAPATH_MAX_INTERFACES)
			skb[m++] = i->if_name;
		else if (x.mode == DATAPATH_NATIVE && n < DATAPATH_MAX_INTERFACES)
			native[n++] = i->if_name;
	}
	qsort(native, n, sizeof(native[0]), compare_names);
	qsort(skb, m, sizeof(skb[0]), compare_names);
	add(&t, "fpisa unload%s", pin_option(d));
	for (int i = 0; i < n; i++)
		add(&t, "%s %s", i ? "" : " && fpisa load", native[i]);
	if (n) {
		steering_option(d, &t);
		add(&t, "%s", pin_option(d));
	}
	for (int i = 0; i < m; i++)
		add(&t, "%s %s", i ? "" : " && fpisa load --mode skb", skb[i]);
	if (m)
		add(&t, "%s", pin_option(d));
	if (all)
		if_freenameindex(all);
}

/*
 * Write "fpisa load p0 p1", with the interfaces of the jobs' ranks. Return false if no job has such an
 * interface.
 */
static bool load_again(const struct doctor *d, char *out, size_t size)
{
	struct if_nameindex *all = if_nameindex();
	struct text t = {out, out + size};
	int n = 0;

	for (struct if_nameindex *i = all; i && i->if_index; i++) {
		bool behind = false;

		for (__u32 job = 0; !behind && job < FPISA_MAX_JOBS; job++) {
			const struct fpisa_job *j = &d->dp->jobs[job];
			bool here = j->active && datapath_job_here(d->dp, job);
			struct fpisa_peer p;

			for (__u32 r = 0; here && !behind && r < j->workers && r < FPISA_MAX_WORKERS; r++)
				behind = j->live >> r & 1 && !datapath_peer(d->dp, job, r, &p) &&
					 p.ifindex == i->if_index;
		}
		if (behind)
			add(&t, "%s %s", n++ ? "" : "fpisa load", i->if_name);
	}
	add(&t, "%s", pin_option(d));
	if (all)
		if_freenameindex(all);
	return n;
}

static bool jobs_elsewhere(const struct datapath *dp)
{
	for (__u32 job = 0; job < FPISA_MAX_JOBS; job++)
		if (dp->jobs[job].active && !datapath_job_here(dp, job))
			return true;
	return false;
}

/*
 * Count the interfaces that run programs of another build: compare the attached program and, if it steers, the entry
 * behind it.
 */
static int of_other_builds(const struct doctor *d, const struct datapath_status *s)
{
	const __u8 *first = d->dp->steering.cpus ? d->steer_tag : d->tag;
	int n = 0;

	for (int i = 0; d->dp->steering.cpus && i < s->programs; i++)
		if (!strcmp(s->program[i].name, "fpisa") && memcmp(s->program[i].tag, d->tag, sizeof(d->tag)))
			return s->interfaces;
	for (int i = 0; i < s->interfaces; i++)
		n += !!memcmp(s->interface[i].program.tag, first, sizeof(d->tag));
	return n;
}

static void check_build(struct doctor *d)
{
	static struct datapath_status s;
	char fix[FIX_LEN], again[FIX_LEN], upgrade[PATH_MAX + 32];
	struct datapath_other_netns e;
	bool behind;
	int others;

	if (!d->verified || datapath_status(d->dp, &s))
		return;
	others = d->sees ? of_other_builds(d, &s) : 0;
	reload(d, fix, sizeof(fix));
	behind = load_again(d, again, sizeof(again));
	snprintf(upgrade, sizeof(upgrade), "fpisa upgrade%s", pin_option(d));
	if (!s.interfaces && datapath_in_other_netns(d->dp, &e))
		finding(d, LEVEL_OK, "datapath", "attached", NULL,
			"the datapath pinned in %s runs on no interface of this network namespace, but on %s of another; run %sfpisa doctor%s",
			d->dir, e.dev, e.enter, pin_option(d));
	else if (!s.interfaces && jobs_elsewhere(d->dp))
		finding(d, LEVEL_OK, "datapath", "attached", NULL,
			"the datapath pinned in %s runs on no interface of this network namespace, but has jobs of another",
			d->dir);
	else if (!s.interfaces)
		finding(d, LEVEL_WARN, "datapath", "attached", behind ? again : fix,
			"the datapath pinned in %s is not attached to an interface of this network namespace%s", d->dir,
			behind || !s.jobs ? "" : "; unloading it ends its jobs, whose interfaces are gone");
	else if (others)
		finding(d, LEVEL_WARN, "datapath", "build", upgrade,
			"%d of %d interfaces run programs of another build of fpisa", others, s.interfaces);
	else
		finding(d, LEVEL_OK, "datapath", "build", NULL, "the datapath pinned in %s runs on %d interfaces%s",
			d->dir, s.interfaces, d->sees ? ", of this build" : "");
}

void doctor_datapath(struct doctor *d)
{
	char fix[FIX_LEN], subject[16], why[WHY_LEN], *what;
	__u64 come[FPISA_MAX_JOBS];

	if (!d->privileged)
		return;
	if (d->dp_err == -EPERM && datapath_trusts(d->dir, why) == -EPERM) {
		what = strstr(why, "; ");
		*what = 0;
		finding(d, LEVEL_FAULT, "datapath", "pins", what + 2, "%s", why);
		return;
	}
	if (d->dp_err == -ENOENT) {
		finding(d, LEVEL_OK, "datapath", "loaded", NULL, "the datapath is not loaded; run fpisa load DEV");
		return;
	}
	if (!d->dp) {
		reload(d, fix, sizeof(fix));
		finding(d, LEVEL_FAULT, "datapath", "version", fix,
			"the pins in %s are of another version of fpisa, or incomplete; their jobs are lost", d->dir);
		return;
	}
	check_build(d);
	watch_vlans(d->dp, come);
	for (__u32 job = 0; job < FPISA_MAX_JOBS; job++) {
		struct fpisa_job j = d->dp->jobs[job];
		bool blocked;

		/* The commands that repair a job do not apply to queries. */
		if (!j.active || j.workers > FPISA_MAX_WORKERS || fpisa_is_query(&j))
			continue;
		snprintf(subject, sizeof(subject), "job %u", job);
		if (!datapath_job_here(d->dp, job)) {
			finding(d, LEVEL_OK, subject, "namespace", NULL,
				"the job belongs to another network namespace; there, run fpisa doctor%s",
				pin_option(d));
			continue;
		}
		check_address(d, &j, subject);
		check_routes(d, job, &j, subject);
		check_parent(d, &j, subject);
		check_ports(d, job, &j, subject);
		check_flooding(d, job, &j, subject);
		check_mtu(d, job, &j, subject);
		check_paths(d, job, &j, subject);
		check_links(d, job, &j, subject);
		blocked = check_arrival(d, job, &j, subject);
		blocked |= check_vlan(d, job, &j, subject, come[job]);
		check_members(d, job, &j, subject, blocked);
	}
}
