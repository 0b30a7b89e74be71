// SPDX-License-Identifier: GPL-2.0-only
/* The ports and the address of a job by the routes of this machine; job.h has the contracts. */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/print.h"
#include "cli/report.h"
#include "datapath/job.h"
#include "host/route.h"
#include "host/stack.h"
#include "host/veth.h"
#include "job.h"

/* Return the job's address for the rank, or :: if it is not known yet. */
static struct fpisa_address own_address(const struct job_spec *s, __u32 rank)
{
	if (!datapath_is_mixed(&s->job) || fpisa_is_ipv6(&s->job.rank[rank].addr))
		return s->job.address;
	return s->job.ipv4 ? fpisa_ipv4(s->job.ipv4) : FPISA_NO_ADDRESS;
}

static void set_own_address(struct job_spec *s, __u32 rank, struct fpisa_address own)
{
	if (!datapath_is_mixed(&s->job) || fpisa_is_ipv6(&s->job.rank[rank].addr))
		s->job.address = own;
	else
		s->job.ipv4 = own.w[3];
}

/* Return whether no rank before this one has its family. */
static bool is_first_of_family(const struct job_spec *s, __u32 rank)
{
	for (__u32 r = 0; r < rank; r++)
		if (fpisa_is_ipv6(&s->job.rank[r].addr) == fpisa_is_ipv6(&s->job.rank[rank].addr))
			return false;
	return true;
}

/* Warn of a worker whose route has another source address. A worker always sends to the job's address of its family. */
static void warn_of_address(__u32 job, const struct job_spec *s, __u32 rank, struct fpisa_address source)
{
	char a[ADDRESS_LEN], worker[ADDRESS_LEN], other[ADDRESS_LEN];

	address_text(own_address(s, rank), a);
	warning("%s %u: its address is %s, the source address of the route to the first worker, but the route to "
		"worker %s has %s; check that this worker has a route to %s, or choose another address with --address",
		datapath_noun(&s->job), job, a, address_text(s->job.rank[rank].addr, worker),
		address_text(source, other), a);
}

/* Report that this machine lacks something that the job needs. */
__attribute__((format(printf, 3, 4))) static int lack(const struct job_spec *s, int err, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!s->draft)
		return refuse(err, "%s", text);
	warning("%s", text);
	return 0;
}

/* Check that workers can reach the address, by ARP on their own network or through a router that knows the address. */
static int check_address(const struct job_spec *s, __u32 job, struct fpisa_address address)
{
	char a[ADDRESS_LEN], b[ADDRESS_LEN];
	__u32 vrf;

	if (!fpisa_is_address(&address))
		return 0;
	if (address_here(address, &vrf)) {
		for (__u32 k = 0; vrf && k < s->job.workers; k++)
			if (!s->dev[k])
				return refuse(
					-EINVAL,
					"%s %u: the datapath does not look for worker %s in a VRF; name its interface, "
					"ADDR@DEV, a port of the VRF that %s is in",
					datapath_noun(&s->job), job, address_text(s->job.rank[k].addr, a),
					address_text(address, b));
		return 0;
	}
	for (__u32 k = 0; s->foreign_address && k < s->job.workers; k++)
		if (!s->dev[k])
			return refuse(
				-EINVAL,
				"%s %u: worker %s has no interface; with --foreign-address the kernel does not look up "
				"the workers' interfaces, so give ADDR@DEV",
				datapath_noun(&s->job), job, address_text(s->job.rank[k].addr, a));
	if (s->foreign_address)
		return 0;
	address_text(address, a);
	return lack(s, -EADDRNOTAVAIL,
		    "%s %u: %s is not an address of this machine, so no worker reaches it here; run ip address add "
		    "%s/%d dev lo, or give --foreign-address if the workers' frames arrive here all the same",
		    datapath_noun(&s->job), job, a, a, fpisa_is_ipv6(&address) ? 128 : 32);
}

/* Resolve a worker on this machine, or a parent's leaf, which sends through lo. */
static int resolve_local(struct job_spec *s, __u32 job, __u32 rank)
{
	const struct fpisa_rank *at = &s->job.rank[rank];
	char a[ADDRESS_LEN], b[ENDPOINT_LEN];

	address_text(at->addr, a);
	if (fpisa_is_query(&s->job))
		return datapath_refuse_own_member(job, a);
	if (s->dev[rank] && !strcmp(s->dev[rank], "lo"))
		return 0;
	if ((at->port == htons(FPISA_PORT) && !(s->job.flags & FPISA_JOB_LEAVES)) || s->dev[rank])
		return refuse(
			-EINVAL,
			"worker %s is an address of this machine; if this machine is a worker too, give it a port of "
			"its own, such as %s, and run fpisa load lo --mode skb",
			a, endpoint_text(at->addr, htons(FPISA_PORT + 1), b));
	if (s->job.fanout != FPISA_FANOUT_UNICAST)
		return refuse(-EINVAL,
			      "worker %s is this machine, and lo does not carry multicast; give --fanout unicast", a);
	s->dev[rank] = (char *)"lo";
	s->ifindex[rank] = if_nametoindex("lo");
	s->job.rank[rank].given = 1;
	return 0;
}

/* Find the interfaces and the aggregator's address that the command line does not give, from the kernel's routes. */
static int resolve(struct job_spec *s, __u32 job)
{
	bool warn = !fpisa_is_address(&s->job.address) && !s->job.ipv4;
	char a[ADDRESS_LEN];

	for (__u32 r = 0; r < s->job.workers; r++) {
		int err;

		if (!s->dev[r])
			continue;
		s->ifindex[r] = if_nametoindex(s->dev[r]);
		err = s->ifindex[r] ? 0 : lack(s, -ENODEV, "%s: no such interface; see ip link", s->dev[r]);
		if (err)
			return err;
		s->job.rank[r].given = 1;
	}

	for (__u32 r = 0; r < s->job.workers; r++) {
		struct fpisa_address own = own_address(s, r);
		struct route route, any;
		int err;

		if (s->dev[r] && !s->ifindex[r])
			continue;
		/* Look up the route as the datapath does. */
		err = route_get(s->job.rank[r].addr, own, s->ifindex[r], &route);

		address_text(s->job.rank[r].addr, a);
		if (!err && route.local && resolve_local(s, job, r))
			return -EINVAL;
		if (!err && route.broadcast)
			return refuse(-EINVAL, "worker %s is the broadcast address of a network; name each machine", a);
		if (warn && !is_first_of_family(s, r) &&
		    !route_get(s->job.rank[r].addr, FPISA_NO_ADDRESS, s->ifindex[r], &any) &&
		    fpisa_is_address(&any.source) && !fpisa_same_address(&any.source, &own)) {
			warn_of_address(job, s, r, any.source);
			warn = false;
		}
		if (s->ifindex[r] && fpisa_is_address(&own))
			continue;
		if (err && !s->ifindex[r]) {
			err = lack(s, err, "worker %s: cannot find a route: %s; add a route, or give ADDR@DEV", a,
				   strerror(-err));
			if (err)
				return err;
			continue;
		}
		if (!s->ifindex[r])
			s->ifindex[r] = route.ifindex;
		if (!fpisa_is_address(&own) && is_first_of_family(s, r) && (err || !fpisa_is_address(&route.source))) {
			err = lack(s, -EADDRNOTAVAIL,
				   "worker %s: this machine has no address towards the worker; give --address", a);
			if (err)
				return err;
		}
		if (!fpisa_is_address(&own))
			set_own_address(s, r, route.source);
		/* Look up the route again, because rules may select another interface for the selected address. */
		if (!s->dev[r] && fpisa_is_address(&route.source) &&
		    !route_get(s->job.rank[r].addr, own_address(s, r), 0, &any))
			s->ifindex[r] = any.ifindex;
	}
	return 0;
}

/* Resolve a parent on this machine, to which the leaf sends through lo. */
static int resolve_local_parent(struct job_spec *s, __u32 job)
{
	struct fpisa_job *j = &s->job;
	char a[ADDRESS_LEN];

	if (j->parent_job == FPISA_MAX_JOBS || j->parent_job == job)
		return refuse(-EINVAL,
			      "job %u: the parent %s is this machine, where leaf and parent need different numbers; end "
			      "--parent with the number of the parent's job, ADDR[:PORT]/RANK/JOB",
			      job, address_text(j->parent.addr, a));
	j->parent.given = 1;
	s->ifindex[j->workers] = if_nametoindex("lo");
	return 0;
}

/* Find the interface of a leaf's parent from the kernel's routes, as the datapath does. No option gives it. */
static int resolve_parent(struct job_spec *s, __u32 job)
{
	struct link at, below;
	struct route route;
	char a[ADDRESS_LEN];
	__u32 vrf = 0;
	int err;

	if (!(s->job.flags & FPISA_JOB_LEAF))
		return 0;
	if (s->foreign_address || (address_here(s->job.address, &vrf) && vrf))
		return refuse(-EINVAL,
			      "job %u: cannot find a route from %s to the parent; a leaf's address must be an address of "
			      "this machine, on an interface outside any VRF; omit --foreign-address or give another "
			      "--address",
			      job, address_text(s->job.address, a));
	address_text(s->job.parent.addr, a);
	err = route_get(s->job.parent.addr, s->job.address, 0, &route);
	if (err)
		return lack(s, err, "job %u: cannot find a route to the parent %s: %s; add a route", job, a,
			    strerror(-err));
	if (route.local)
		return resolve_local_parent(s, job);
	if (s->job.parent_job != FPISA_MAX_JOBS && s->job.parent_job != job)
		return refuse(-EINVAL,
			      "job %u: the parent %s is another machine, where its job has the number of the leaf's job; "
			      "end --parent with the rank, or take number %u",
			      job, a, s->job.parent_job);
	s->job.parent_job = job;
	if (route.broadcast)
		return refuse(-EINVAL, "job %u: the parent %s is the broadcast address of a network; name the machine",
			      job, a);
	if (datapath_below(route.ifindex, &at, &below))
		return refuse(-EINVAL,
			      "job %u: the parent %s is reached through %s, in VLAN %u, but the datapath does not "
			      "support trees in a VLAN; run fpisa load %s --mode skb",
			      job, a, at.name, at.vlan, at.name);
	s->ifindex[s->job.workers] = route.ifindex;
	return 0;
}

/* Find the route to a rank as the datapath does. Return false if its port was given, or if there is no route. */
static bool route_to(const struct job_spec *s, __u32 rank, struct route *way)
{
	return !s->job.rank[rank].given && !route_get(s->job.rank[rank].addr, own_address(s, rank), 0, way);
}

/* Return a rank behind a router, or the number of ranks if there is none. */
static __u32 rank_behind_router(const struct job_spec *s)
{
	struct neighbour self;
	struct route way;
	__u32 r;

	for (r = 0; r < s->job.workers; r++) {
		if (!route_to(s, r, &way) || way.local)
			continue;
		neighbour_of(s->job.rank[r].addr, &self);
		if (memcmp(self.address, way.next.address, sizeof(self.address)))
			break;
	}
	return r;
}

/* Take unicast results if a rank is behind a router, unless multicast was requested. */
static void choose_fanout(struct job_spec *s, __u32 job)
{
	const __u32 rank = s->job.fanout == FPISA_FANOUT_MULTICAST ? rank_behind_router(s) : s->job.workers;
	char a[ADDRESS_LEN];

	if (rank == s->job.workers)
		return;
	if (s->any_fanout) {
		s->job.fanout = FPISA_FANOUT_UNICAST;
		s->job.group = FPISA_NO_ADDRESS;
		s->job.group_port = 0;
		return;
	}
	warning("job %u: worker %s is behind a router, and routers without multicast routing drop multicast results, so "
		"the worker has to request each result; give --fanout unicast",
		job, address_text(s->job.rank[rank].addr, a));
}

#define MTU_OF_LEN (ADDRESS_LEN + sizeof("the route to "))

/*
 * Return the smallest MTU of the job's ports and of the routes to its ranks, and the name of the port or route. On an
 * error, report it and return a negative errno. Ignore an MTU that ICMP messages have set (warn_of_paths()).
 */
static int least_mtu(const struct job_spec *s, char of[MTU_OF_LEN])
{
	int least = INT_MAX;

	for (__u32 r = 0; r < fpisa_places(&s->job); r++) {
		char dev[IF_NAMESIZE], a[ADDRESS_LEN];
		struct route way;
		int mtu;

		if (r < s->job.workers && route_to(s, r, &way) && way.mtu && !way.mtu_learned && (int)way.mtu < least) {
			least = (int)way.mtu;
			snprintf(of, MTU_OF_LEN, "the route to %s", address_text(s->job.rank[r].addr, a));
		}
		if (!job_first_behind(s, r))
			continue;
		if (!if_indextoname(s->ifindex[r], dev))
			return fail(-errno, NULL, "interface %u: cannot find its name", s->ifindex[r]);
		mtu = interface_mtu(dev);
		if (mtu < 0)
			return fail(mtu, NULL, "%s: cannot read the MTU", dev);
		if (mtu < least)
			snprintf(of, MTU_OF_LEN, "%s", dev);
		least = mtu < least ? mtu : least;
	}
	return least;
}

/* Return the largest number of elements, up to that of the job, whose frame fits into the MTU, or 0. */
static __u16 elements_within(struct fpisa_job j, int mtu)
{
	while (j.elements && (int)job_frame_bytes(&j) > mtu)
		j.elements -= FPISA_BLOCK;
	return j.elements;
}

/* Warn of a path whose MTU, by an ICMP message to this machine, is below the size of the job's frames. */
static void warn_of_paths(const struct job_spec *s, __u32 job)
{
	for (__u32 r = 0; r < s->job.workers; r++) {
		char a[ADDRESS_LEN];
		struct route way;

		if (!route_to(s, r, &way) || !way.mtu_learned || !way.mtu || way.mtu >= job_frame_bytes(&s->job))
			continue;
		warning("job %u: a router has reported MTU %u on the path to worker %s, but the job's frames have %u "
			"bytes; if this rank gets no results, add the job with --elements %u",
			job, way.mtu, address_text(s->job.rank[r].addr, a), job_frame_bytes(&s->job),
			elements_within(s->job, (int)way.mtu));
		return;
	}
}

/* Check that the frame fits into the MTU of every port and route. */
static int check_ports(const struct job_spec *s, __u32 job)
{
	struct fpisa_job least = s->job;
	int bytes = job_frame_bytes(&s->job), mtu;
	char of[MTU_OF_LEN] = "";

	mtu = least_mtu(s, of);
	if (mtu >= 0 && bytes <= mtu)
		warn_of_paths(s, job);
	if (mtu < 0 || bytes <= mtu)
		return mtu < 0 ? mtu : 0;
	least.elements = FPISA_BLOCK;
	if (!elements_within(s->job, mtu))
		return refuse(
			-EMSGSIZE,
			"job %u: the MTU of %s is %d, too small for any job of this format: the fewest elements, %d, "
			"make a frame of %u bytes; raise the MTU on both ends of the link",
			job, of, mtu, FPISA_BLOCK, job_frame_bytes(&least));
	return refuse(-EMSGSIZE,
		      "job %u: %u elements make a frame of %d bytes, but the MTU of %s is %d; try --elements %u", job,
		      s->job.elements, bytes, of, mtu, elements_within(s->job, mtu));
}

__u16 job_spec_elements(const struct job_spec *s)
{
	char of[MTU_OF_LEN];
	int mtu = least_mtu(s, of);

	return mtu < 0 ? 0 : elements_within(s->job, mtu);
}

int job_spec_resolve(struct job_spec *s, __u32 job)
{
	int err;

	/* An IPv4 address alone is the address for the IPv4 ranks. */
	if (datapath_is_mixed(&s->job) && fpisa_is_ipv4(&s->job.address)) {
		s->job.ipv4 = s->job.address.w[3];
		s->job.address = FPISA_NO_ADDRESS;
	}
	err = check_address(s, job, s->job.address);
	if (!err && s->job.ipv4)
		err = check_address(s, job, fpisa_ipv4(s->job.ipv4));
	err = err ?: resolve(s, job) ?: resolve_parent(s, job) ?: job_spec_vlan(s, job) ?: check_ports(s, job);
	if (!err)
		choose_fanout(s, job);
	return err;
}

/*
 * Warn if the master's MTU is too small. The master receives the remaining rows of a worker's frame, which may be all
 * of them.
 */
static void warn_of_master(const struct job_spec *s, __u32 query)
{
	__u32 master = s->job.workers - 1;
	struct link to, from;

	if (!fpisa_is_query(&s->job) || link_get(s->ifindex[master], &to))
		return;
	for (__u32 r = 0; r < master; r++) {
		if (link_get(s->ifindex[r], &from) || from.mtu <= to.mtu)
			continue;
		warning("query %u: %s, towards the master, has MTU %u, and %s, towards worker %u, has %u; larger "
			"frames are lost unless enough of their rows are pruned; at both ends, run ip link set dev %s "
			"mtu %u, or let workers send smaller frames",
			query, to.name, to.mtu, from.name, r, from.mtu, to.name, from.mtu);
		return;
	}
}

/* Write the commands that detach the datapath from all interfaces below `at`. */
static void detach_below(const struct datapath *dp, const struct link *at, char *text, size_t size)
{
	struct link *links = NULL;
	int n = links_get(&links), *found = n > 0 ? calloc(n, sizeof(*found)) : NULL;
	size_t len = 0;

	n = found ? links_stack(links, n, at, false, found) : 0;
	for (int k = 0; k < n && len < size; k++) {
		const struct link *l = &links[found[k]];
		struct datapath_interface i;
		char off[DETACH_LEN];

		if (datapath_attached(dp, l->index, &i) > 0)
			len += snprintf(text + len, size - len, "%s%s", len ? " && " : "",
					datapath_detach_text(l->name, i.mode, off));
	}
	free(found);
	free(links);
}

enum job_port job_port_look(const struct datapath *dp, __u32 ifindex, struct datapath_interface *other,
			    struct job_port_text *t)
{
	char off[JOB_PORT_FIX_LEN / 2] = "";
	struct link at = {.name = ""};
	enum job_port p;
	bool above, below;

	link_get(ifindex, &at);
	above = datapath_stacked(dp, ifindex, true, other);
	below = !above && datapath_stacked(dp, ifindex, false, other);
	p = job_port(&at, below ? other->name : NULL, above ? other->name : NULL);
	if (p == JOB_PORT_MOVE)
		detach_below(dp, &at, off, sizeof(off));
	job_port_text(p, &at, other->name, off, link_native(&at), t);
	return p;
}

bool job_native_beside_lo(const struct datapath *dp, const struct fpisa_job *j, const __u32 *ifindex,
			  struct job_port_text *t)
{
	__u32 lo = if_nametoindex("lo"), n = fpisa_places(j), r = 0;
	char dev[IF_NAMESIZE], place[sizeof("the parent")], off[DETACH_LEN];

	while (r < n && ifindex[r] != lo)
		r++;
	for (__u32 k = 0; r < n && k < n; k++) {
		struct datapath_interface i;

		if (!ifindex[k] || datapath_attached(dp, ifindex[k], &i) <= 0 || i.mode != DATAPATH_NATIVE ||
		    !if_indextoname(ifindex[k], dev))
			continue;
		snprintf(place, sizeof(place), r < j->workers ? "rank %u" : "the parent", r);
		snprintf(t->why, sizeof(t->why), "%s is in native mode, which cannot send to lo, so %s misses results",
			 dev, place);
		snprintf(t->fix, sizeof(t->fix), "%s && fpisa load %s --mode skb",
			 datapath_detach_text(dev, i.mode, off), dev);
		return true;
	}
	return false;
}

void job_spec_warn(const struct job_spec *s, const struct datapath *dp, __u32 job)
{
	struct job_port_text native;

	warn_of_master(s, job);
	if (job_native_beside_lo(dp, &s->job, s->ifindex, &native))
		warning("%s %u: %s; run %s", datapath_noun(&s->job), job, native.why, native.fix);
	for (__u32 r = 0; r < fpisa_places(&s->job); r++) {
		struct datapath_interface i;
		struct job_port_text text;
		struct veth_peer peer;
		char dev[IF_NAMESIZE];
		struct link l;
		int got;

		if (!job_first_behind(s, r) || !if_indextoname(s->ifindex[r], dev) || link_get(s->ifindex[r], &l))
			continue;
		veth_look(&l, &peer);
		got = datapath_attached(dp, s->ifindex[r], &i);
		if (got > 0 && i.mode == DATAPATH_NATIVE)
			veth_warn(&l, &peer);
		if (got > 0 && !datapath_is_entry(i.program.name))
			warning("%s: the wrong program is attached, %s, so %s %u does not receive frames there; run ip "
				"link set dev %s xdp%s off, then attach fpisa",
				dev, i.program.name, datapath_noun(&s->job), job, dev,
				i.mode == DATAPATH_SKB ? "generic" : "");
		else if (got <= 0) {
			char ports[JOB_PORTS_LEN];
			bool each = job_port_look(dp, s->ifindex[r], &i, &text) == JOB_PORT_NAME &&
				    job_ports_text(dp, &s->job, s->ifindex, r, ports);

			warning("%s: %s, so %s %u does not receive frames there; %s%s%s", dev, text.why,
				datapath_noun(&s->job), job, each ? "give each worker its own port: " : text.advice,
				each ? ports : "", each ? job_port_note(ports) : "");
		}
	}
}
