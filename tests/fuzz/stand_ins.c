/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Stand-ins for the layers below the verbs. They do nothing, but the target crashes if an invalid job or load reaches
 * them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include "datapath/datapath.h"
#include "datapath/groups.h"
#include "lab/demo/demo.h"
#include "lab/testbed/lab.h"
#include "host/ethtool.h"
#include "host/route.h"
#include "host/stack.h"
#include "host/veth.h"
#include "lib/base/address.h"
#include "cli/report.h"
#include "stand_ins.h"

bool stand_in_opens;

int datapath_open(struct datapath *dp, const char *pin)
{
	static struct fpisa_job jobs[FPISA_MAX_JOBS];
	static struct fpisa_control control;

	(void)pin;
	*dp = (struct datapath){.lock = -1, .jobs = jobs, .control = &control};
	return stand_in_opens ? 0 : -ENOENT;
}

const char *datapath_place(const char *dev, enum datapath_mode mode, char name[IF_NAMESIZE])
{
	(void)mode, (void)name;
	return dev;
}

bool datapath_below(__u32 ifindex, struct link *at, struct link *below)
{
	(void)ifindex, (void)at, (void)below;
	return false;
}

int datapath_job_add(struct datapath *dp, __u32 job, struct fpisa_job *j, const __u32 *ifindex)
{
	(void)dp;
	CHECK(job < FPISA_MAX_JOBS && j->workers && j->workers <= FPISA_MAX_WORKERS);
	CHECK(j->elements && j->elements % FPISA_BLOCK == 0 && j->elements <= FPISA_MAX_ELEMENTS);
	CHECK(j->window && !(j->window & (j->window - 1)) && j->window <= FPISA_MAX_WINDOW);
	CHECK(j->format && j->format < FPISA_FORMAT_END && j->mode && j->mode < FPISA_MODE_END);
	CHECK(j->pipeline && j->clz && j->fanout && j->rounding);
	CHECK((j->fanout == FPISA_FANOUT_MULTICAST) == fpisa_is_multicast(&j->group));
	for (__u32 r = 0; r < j->workers; r++)
		CHECK(fpisa_is_address(&j->rank[r].addr) && j->rank[r].port && ifindex[r]);
	return -ENOENT;
}

int datapath_refuse_own_member(__u32 query, const char *address)
{
	return refuse(-EINVAL, "query %u: %s is an address of this machine", query, address);
}

int datapath_job_check(__u32 job, struct fpisa_job *j)
{
	CHECK(job < FPISA_MAX_JOBS && j->elements && j->format && j->mode && j->workers <= FPISA_MAX_WORKERS);
	return 0;
}

int datapath_job_place(const struct fpisa_job *jobs, __u32 slots, __u32 job, struct fpisa_job *j)
{
	CHECK(slots >= FPISA_LEAST_SLOTS && slots <= FPISA_MAX_SLOTS && !jobs[job].active && j->window &&
	      j->window <= FPISA_MAX_WINDOW);
	return jobs[j->window % FPISA_MAX_JOBS].active ? -ENOSPC : 0;
}

__u64 datapath_job_limbs(const struct fpisa_job *j)
{
	return j->mode == FPISA_MODE_EXACT ? j->elements : 0;
}

int datapath_job_ports(__u32 port, __u32 job, const struct fpisa_job *j)
{
	CHECK(port && port <= 65535 && job < FPISA_MAX_JOBS);
	return port + j->ports > 65536 ? -EINVAL : 0;
}

int datapath_histogram(const struct datapath *dp, __u32 job, struct fpisa_histogram *out)
{
	(void)dp;
	(void)job;
	(void)out;
	return -ENOENT;
}

int datapath_load(const struct datapath_load *o, char *const *devs, int n)
{
	CHECK(n > 0 && devs[n - 1] && o->port <= 65535 && (o->mode == DATAPATH_NATIVE || o->mode == DATAPATH_SKB));
	CHECK(o->steering.cpus <= FPISA_STEER_CPUS && o->steering.queue <= FPISA_STEER_MAX_QUEUE);
	return -ENOENT;
}

void neighbour_of(struct fpisa_address address, struct neighbour *n)
{
	*n = (struct neighbour){.family = AF_INET6};
	memcpy(n->address, &address, sizeof(n->address));
}

int route_get(struct fpisa_address address, struct fpisa_address from, __u32 ifindex, struct route *r)
{
	const __u32 to = address.w[3];

	(void)from;
	*r = (struct route){.ifindex = ifindex ?: 1 + to % 3, .source = address, .local = to % 11 == 0};
	if (to % 4) /* else the host is behind a router */
		neighbour_of(address, &r->next);
	r->source.w[3] = htonl(to % 7);
	return to % 5 ? 0 : -ENETUNREACH;
}

int interface_mtu(const char *dev)
{
	return *dev ? 1500 : -ENODEV;
}

/* Functions that no arguments reach */
#define NOTHING(type, name, ...)      \
	type name(__VA_ARGS__)        \
	{                             \
		return (type)-ENOENT; \
	}
#define NOTHING_AT_ALL(name, ...) \
	void name(__VA_ARGS__)    \
	{                         \
	}
#pragma clang diagnostic ignored "-Wunused-parameter"
NOTHING(int, datapath_detach, const struct datapath *dp, const char *dev)
NOTHING(int, datapath_unload, const char *pin, char *const *devs, int n, struct datapath_unloaded *u)
NOTHING(int, datapath_job, const struct datapath *dp, __u32 job, struct fpisa_job *out)
NOTHING(int, datapath_session, const struct datapath *dp, __u32 job, struct fpisa_session *out)
NOTHING(int, datapath_peer, const struct datapath *dp, __u32 job, __u32 rank, struct fpisa_peer *out)
NOTHING(int, datapath_last_seen, const struct datapath *dp, __u32 job, __u32 rank, struct fpisa_last_seen *out)
NOTHING(int, datapath_aggregator_get, const struct datapath_groups *g, __u32 place, struct aggregator_record *r)
NOTHING(int, datapath_slot, const struct datapath *dp, __u32 key, struct fpisa_slot *out)
NOTHING(int, datapath_counters, const struct datapath *dp, __u32 key, struct fpisa_counters *sum)
NOTHING(int, datapath_steered, const struct datapath *dp, struct datapath_cpu *out)
NOTHING(int, datapath_job_del, struct datapath *dp, __u32 job)
NOTHING(int, datapath_job_end, struct datapath *dp, __u32 job, __u64 token)
NOTHING(int, datapath_job_shrink, struct datapath *dp, __u32 job, __u64 ranks, __u64 *live)
NOTHING(int, datapath_status, const struct datapath *dp, struct datapath_status *s)
NOTHING(int, datapath_groups_open, struct datapath *dp, bool make, struct datapath_groups *g)
NOTHING(int, datapath_groups_manager, const struct datapath_groups *g, pid_t *pid)
NOTHING(bool, datapath_is_agent, const struct datapath *dp, const struct datapath_groups *g, struct aggregator_record *r)
NOTHING(int, datapath_groups_counts, const struct datapath_groups *g, struct manager_counts *c)
NOTHING(int, datapath_group_get, const struct datapath_groups *g, __u32 place, struct group_record *r)
NOTHING_AT_ALL(datapath_groups_close, struct datapath_groups *g)
NOTHING(bool, datapath_is_entry, const char *name)
NOTHING(bool, datapath_job_here, const struct datapath *dp, __u32 job)
NOTHING(int, datapath_attached, const struct datapath *dp, __u32 ifindex, struct datapath_interface *i)
NOTHING(int, demo_data, struct demo *d)
NOTHING(int, lab_enter, const char *verb)
NOTHING(int, datapath_upgrade, const char *pin)
NOTHING(int, star_make, const struct star *s, const struct process *worker, uint32_t workers)
NOTHING(uint32_t, star_mtu, uint32_t payload)
NOTHING_AT_ALL(star_port, char name[IF_NAMESIZE], const struct star *s, uint32_t link)
NOTHING(int, demo_spawn, struct demo *d)
NOTHING(int, demo_hosts_make, struct demo *d)
NOTHING(int, demo_hosts_load, struct demo *d)
NOTHING(int, demo_hosts_traffic, struct demo_traffic *t, uint32_t hosts)
NOTHING(int, demo_await, struct demo *d, enum demo_state state, void (*progress)(const struct demo *d))
NOTHING(int, link_get, __u32 ifindex, struct link *l)
NOTHING(int, link_below_vlan, const struct link *l, struct link *below)
NOTHING(bool, link_above, const struct link *upper, const struct link *lower)
NOTHING(int, links_get, struct link **links)
NOTHING(int, link_vlans_get, struct link_vlans *v)
NOTHING(int, links_stack, const struct link *links, int n, const struct link *at, bool up, int *found)
NOTHING(__u32, bridge_port_towards, __u32 bridge, const struct neighbour *to)
NOTHING(int, ethtool_vlan_rx, const char *dev)
NOTHING(int, datapath_program_on, __u32 ifindex, struct datapath_interface *i)
NOTHING(uint32_t, fpisa_link_rate, const char *dev)
NOTHING(bool, link_native, const struct link *l)
NOTHING(bool, link_ethernet, const struct link *l)
NOTHING(bool, link_vrf, const struct link *l)
NOTHING(bool, link_answered_below, const struct link *l)
NOTHING(bool, address_here, struct fpisa_address address, __u32 *vrf)
NOTHING(const char *, datapath_detach_text, const char *dev, enum datapath_mode mode, char command[DETACH_LEN])
NOTHING(bool, datapath_stacked, const struct datapath *dp, __u32 ifindex, bool up, struct datapath_interface *i)
NOTHING_AT_ALL(veth_look, const struct link *l, struct veth_peer *p)
NOTHING_AT_ALL(veth_warn, const struct link *l, const struct veth_peer *p)
NOTHING(int, demo_release, struct demo *d)

const char *demo_lost(const struct demo *d)
{
	(void)d;
	return NULL;
}

NOTHING(int, demo_check, const struct demo *d, const struct fpisa_counters *c, struct demo_check *k)
NOTHING(int, demo_report, const struct demo *d, const struct fpisa_counters *c, const struct demo_check *k)
NOTHING_AT_ALL(datapath_close, struct datapath *dp)
NOTHING_AT_ALL(datapath_refresh, struct datapath *dp)
NOTHING_AT_ALL(demo_kill, struct demo *d)
NOTHING_AT_ALL(demo_step, const char *what)
NOTHING_AT_ALL(demo_progress, const struct demo *d)
NOTHING_AT_ALL(demo_progress_end, void)
