// SPDX-License-Identifier: GPL-2.0-only
/*
 * Settings for jobs whose ranks are found by routes. The datapath needs these settings to ask the kernel for the route
 * to a rank (find_nexthop() in bpf/hello.h):
 *
 * - Forwarding on `lo`, for IPv4 or IPv6, because the datapath asks for routes from `lo` and the kernel requires
 *   forwarding there. The setting has no other effect on `lo`. Setting net.ipv4.ip_forward, or
 *   net.ipv6.conf.all.forwarding, to 0 also switches forwarding off on `lo`, so every command that adds or applies a job
 *   switches it on again.
 * - Managed neighbour entries for the ranks, or for the routers before them, which the kernel keeps resolved. A program
 *   cannot make the kernel resolve an address, and a firewall may drop a frame that XDP passes to the stack.
 * - accept_local on `lo` for a rank on this machine. A result that another port completes arrives on `lo` from this
 *   machine's own address. Without accept_local the kernel drops such a frame.
 *
 * Unloading switches the settings off again that a job has switched on, unless another datapath of the network
 * namespace may need them.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/report.h"
#include "egress.h"
#include "host/netns.h"
#include "host/route.h"
#include "interface.h"
#include "pin.h"
#include "routes.h"

static const char *const lo_path[FPISA_LO_SETTINGS] = {
	[FPISA_LO_FORWARDING] = "/proc/sys/net/ipv4/conf/lo/forwarding",
	[FPISA_LO_FORWARDING6] = "/proc/sys/net/ipv6/conf/lo/forwarding",
	[FPISA_LO_ACCEPT_LOCAL] = "/proc/sys/net/ipv4/conf/lo/accept_local",
};

/* The setting for all interfaces, which also changes lo's; NULL: there is none. */
static const char *const all_path[FPISA_LO_SETTINGS] = {
	[FPISA_LO_FORWARDING] = "/proc/sys/net/ipv4/conf/all/forwarding",
	[FPISA_LO_FORWARDING6] = "/proc/sys/net/ipv6/conf/all/forwarding",
};

/* Return rank `n`, or a leaf's parent, which follows the ranks. */
static const struct fpisa_rank *place(const struct fpisa_job *j, __u32 n)
{
	return n < j->workers ? &j->rank[n] : &j->parent;
}

/* Return whether a rank or the parent, of this family, is reached by the kernel's routes. */
static bool any_routed_of(const struct fpisa_job *j, bool v6)
{
	for (__u32 n = 0; n < fpisa_places(j); n++)
		if (!place(j, n)->given && fpisa_is_ipv6(&place(j, n)->addr) == v6)
			return true;
	return false;
}

static bool any_routed(const struct fpisa_job *j)
{
	return any_routed_of(j, false) || any_routed_of(j, true);
}

/* Return whether the job has a rank on this machine, whose port was given as lo, over IPv4. IPv6 needs no setting. */
static bool any_here(const struct fpisa_job *j)
{
	__u32 vrf;

	for (__u32 r = 0; r < j->workers; r++)
		if (j->rank[r].given && fpisa_is_ipv4(&j->rank[r].addr) && address_here(j->rank[r].addr, &vrf))
			return true;
	return false;
}

/* Find the first neighbour on the route to a place, as find_nexthop() does. */
static int next_hop(const struct fpisa_job *j, __u32 n, struct neighbour *next)
{
	const struct fpisa_rank *at = place(j, n);
	struct route way;
	int err = at->given ? -ENOENT : route_get(at->addr, fpisa_own_address(j, &at->addr), 0, &way);

	if (!err)
		*next = way.next;
	return err;
}

__u32 routes_vlan_device(const struct fpisa_job *j, __u32 rank)
{
	struct neighbour next;

	return j->vlan && !next_hop(j, rank, &next) ? next.ifindex : 0;
}

/* Return '1' or '0', or 0 if the setting cannot be read. */
static char setting(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char on = 0;

	if (fd < 0)
		return 0;
	if (read(fd, &on, 1) != 1)
		on = 0;
	close(fd);
	return on;
}

/* Write '1' or '0'. Return 0 or a negative errno. Report no errors. */
static int set(const char *path, char on)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), err = 0;

	if (fd < 0 || write(fd, &on, 1) != 1)
		err = -errno;
	if (fd >= 0)
		close(fd);
	return err;
}

/* Return the unique number of this network namespace, or 0 if the kernel does not report it. */
static __u64 netns_cookie(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	__u64 cookie = 0;
	socklen_t len = sizeof(cookie);

	if (fd < 0)
		return 0;
	if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len))
		cookie = 0;
	close(fd);
	return cookie;
}

/*
 * Switch the setting on. Read it first, because writing may be impossible, and is not necessary if the setting is
 * already on.
 */
static int switch_on(const struct datapath *dp, __u32 job, enum fpisa_lo which, const char *hint)
{
	int err;

	if (setting(lo_path[which]) == '1')
		return 0;
	err = set(lo_path[which], '1');
	if (err)
		return fail(err, hint, "job %u: %s", job, lo_path[which]);
	if (!dp->control->switched_on[which])
		dp->control->switched_on[which] = netns_cookie();
	return 0;
}

/* Return where to enlarge the kernel's table of neighbours of a place if it is full. */
static const char *table_hint(const struct fpisa_rank *at, int err)
{
	if (err != -ENOBUFS)
		return "";
	return fpisa_is_ipv6(&at->addr) ? ", see net.ipv6.neigh.default.gc_thresh3" :
					  ", see net.ipv4.neigh.default.gc_thresh3";
}

/*
 * Warn that the kernel refuses the neighbour entry of the next hop to a leaf's parent. No frame of the leaf makes the
 * kernel resolve it.
 */
static void warn_of_parent(__u32 job, const struct fpisa_job *j, int err)
{
	warning("job %u: the kernel refused the neighbour entry of the next hop to the parent: %s%s; if the counter "
		"unresolved_parent rises, ping the parent from this machine",
		job, strerror(-err), table_hint(&j->parent, err));
}

int routes_assert(const struct datapath *dp, __u32 job, const struct fpisa_job *j)
{
	const char *hint = "mount /proc/sys writable, or name the workers' interfaces in job add: ADDR@DEV";
	int err = 0, first = 0, ranks = 0;
	__u32 at = 0;
	struct neighbour next;

	if (any_here(j))
		err = switch_on(dp, job, FPISA_LO_ACCEPT_LOCAL,
				"mount /proc/sys writable, or set this on the host, because a rank is on this machine");
	if (!err && any_routed_of(j, false))
		err = switch_on(dp, job, FPISA_LO_FORWARDING, hint);
	if (!err && any_routed_of(j, true))
		err = switch_on(dp, job, FPISA_LO_FORWARDING6, hint);
	if (err)
		return err;
	for (__u32 n = 0; n < fpisa_places(j); n++) {
		if (next_hop(j, n, &next))
			continue;
		err = neighbour_manage(&next);
		if (err && n == j->workers)
			warn_of_parent(job, j, err);
		if (err && n < j->workers) {
			at = ranks++ ? at : n;
			first = first ?: err;
		}
	}
	if (ranks)
		warning("job %u: the kernel refused the neighbour entries of %d ranks: %s%s; the kernel will resolve "
			"them when a HELLO arrives, unless a firewall drops ARP or neighbour discovery",
			job, ranks, strerror(-first), table_hint(place(j, at), first));
	return 0;
}

/* -- release ---------------------------------------------------------------- */

struct release {
	const char *dir;
	struct fpisa_control control; /* settings to switch off when all jobs are released; zero for a single job */
	int jobs_fd, peers_fd;
	__u32 job; /* number of the job to release; FPISA_MAX_JOBS: all jobs */
	bool done;
	int err;
};

static bool job_of(const struct release *r, __u32 job, struct fpisa_job *j)
{
	return !bpf_map_lookup_elem(r->jobs_fd, &job, j) && j->active && j->workers <= FPISA_MAX_WORKERS &&
	       reply_ports_here(r->dir, job);
}

struct needed {
	struct neighbour *n;
	size_t count;
};

static bool is_needed(const struct neighbour *n, void *arg)
{
	const struct needed *all = arg;

	for (size_t i = 0; i < all->count; i++)
		if (all->n[i].ifindex == n->ifindex && all->n[i].family == n->family &&
		    !memcmp(all->n[i].address, n->address, sizeof(n->address)))
			return true;
	return false;
}

/* List the next hops that the other jobs of this network namespace need. */
static int list_needed(const struct release *r, struct needed *all)
{
	struct fpisa_job j;

	all->count = 0;
	all->n = calloc(FPISA_MAX_JOBS * (FPISA_MAX_WORKERS + 1), sizeof(*all->n));
	if (!all->n)
		return -ENOMEM;
	for (__u32 job = 0; r->job != FPISA_MAX_JOBS && job < FPISA_MAX_JOBS; job++)
		if (job != r->job && job_of(r, job, &j))
			for (__u32 n = 0; n < fpisa_places(&j); n++)
				all->count += !next_hop(&j, n, &all->n[all->count]);
	return 0;
}

/* Release the neighbour entry of each rank, on the interface of the rank and on that of its current route. */
static void release_job(struct release *r, __u32 job, const struct fpisa_job *j, struct needed *all)
{
	__u32 seen[2 * (FPISA_MAX_WORKERS + 1)], n = 0;

	for (__u32 rank = 0; rank < fpisa_places(j); rank++) {
		__u32 key = job * FPISA_MAX_WORKERS + rank;
		struct fpisa_peer peer = {.ifindex = 0};
		struct neighbour next = {.ifindex = 0};

		if (place(j, rank)->given)
			continue;
		if (rank < j->workers)
			bpf_map_lookup_elem(r->peers_fd, &key, &peer);
		next_hop(j, rank, &next);
		seen[n++] = peer.ifindex;
		seen[n++] = next.ifindex;
	}
	for (__u32 i = 0; i < n; i++) {
		__u32 k = 0;

		while (seen[k] != seen[i])
			k++;
		if (k == i && seen[i])
			r->err = r->err ?: neighbours_release(seen[i], is_needed, all);
	}
}

/*
 * Switch off the settings of `lo` that jobs switched on in this network namespace. Do not change a setting that was
 * changed since then. The setting may be off already, or forwarding may have been switched on for the whole namespace.
 */
static void switch_off(const struct fpisa_control *control)
{
	const __u64 here = netns_cookie();

	for (int which = 0; here && which < FPISA_LO_SETTINGS; which++) {
		int err = 0;

		if (control->switched_on[which] != here || setting(lo_path[which]) != '1' ||
		    interfaces_have_datapath() || (all_path[which] && setting(all_path[which]) == '1'))
			continue;
		err = set(lo_path[which], '0');
		if (err)
			warning("%s: cannot set it to 0: %s", lo_path[which], strerror(-err));
	}
}

/* Release the entries in the network namespace of this process. */
static int release_here(const char *unused, void *arg)
{
	struct needed all = {.n = NULL};
	struct release *r = arg;
	struct fpisa_job j;

	(void)unused;
	for (__u32 job = 0; job < FPISA_MAX_JOBS; job++) {
		if ((r->job != FPISA_MAX_JOBS && r->job != job) || !job_of(r, job, &j) || !any_routed(&j))
			continue;
		r->done = true;
		if (!all.n)
			r->err = r->err ?: list_needed(r, &all);
		if (all.n)
			release_job(r, job, &j, &all);
	}
	free(all.n);
	switch_off(&r->control);
	return r->done && r->job != FPISA_MAX_JOBS;
}

static void read_control(const char *dir, struct fpisa_control *control)
{
	int fd = pin_open(dir, "fpisa_control");
	__u32 zero = 0;

	if (fd < 0)
		return;
	if (bpf_map_lookup_elem(fd, &zero, control))
		*control = (struct fpisa_control){0};
	close(fd);
}

static void release(const char *dir, __u32 job, const char *what)
{
	struct release r = {
		.dir = dir,
		.jobs_fd = pin_open(dir, "fpisa_jobs"),
		.peers_fd = pin_open(dir, "fpisa_peers"),
		.job = job,
	};
	bool hidden;

	if (job == FPISA_MAX_JOBS)
		read_control(dir, &r.control);
	if (r.jobs_fd >= 0 && !release_here(NULL, &r))
		netns_others(release_here, &r, &hidden);
	if (r.err)
		warning("%s: cannot release managed neighbours, see ip neigh: %s%s", what, strerror(-r.err),
			r.err == -EPERM ? "; run with CAP_NET_ADMIN" : "");
	if (r.jobs_fd >= 0)
		close(r.jobs_fd);
	if (r.peers_fd >= 0)
		close(r.peers_fd);
}

void routes_release(const struct datapath *dp, __u32 job)
{
	char what[16];

	if (!any_routed(&dp->jobs[job]))
		return;
	snprintf(what, sizeof(what), "job %u", job);
	release(dp->pin, job, what);
}

void routes_release_all(const char *dir)
{
	release(dir, FPISA_MAX_JOBS, dir);
}

int datapath_routes_asked(const struct fpisa_job *j, bool v6)
{
	return !any_routed_of(j, v6) || setting(lo_path[v6 ? FPISA_LO_FORWARDING6 : FPISA_LO_FORWARDING]) != '0';
}

bool datapath_local_taken(const struct fpisa_job *j)
{
	return !any_here(j) || setting(lo_path[FPISA_LO_ACCEPT_LOCAL]) != '0';
}
