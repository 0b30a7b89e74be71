// SPDX-License-Identifier: GPL-2.0-only
/* The VLAN of a job: the VLAN ID, the ports below VLAN devices, and ports that remove tags; job.h has the contract. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/print.h"
#include "cli/report.h"
#include "datapath/job.h"
#include "host/ethtool.h"
#include "host/route.h"
#include "host/stack.h"
#include "host/veth.h"
#include "job.h"

static bool is_bridge(const struct link *l)
{
	return !strcmp(l->kind, "bridge");
}

/* Return whether a datapath below a VLAN device may see the tags. On a bridge, only datapaths on its ports do. */
static bool may_see_tags(const struct link *below)
{
	struct datapath_interface i = {.ifindex = 0};

	return !is_bridge(below) || (!datapath_program_on(below->index, &i) && !i.program.id &&
				     datapath_stacked(NULL, below->index, false, &i));
}

__u16 job_vlan_above(const struct fpisa_job *j, __u32 rank, __u32 ifindex, struct link *vlan)
{
	const struct fpisa_address *to = &j->rank[rank].addr;
	struct link_vlans at = {.ifindex = ifindex};
	struct link port, below;
	struct route way;

	if (link_get(ifindex, &port) || route_get(*to, fpisa_own_address(j, to), 0, &way) ||
	    link_get(way.ifindex, vlan) || link_below_vlan(vlan, &below))
		return 0;
	at.id = vlan->vlan;
	if (port.index == below.index)
		return vlan->vlan;
	if (!is_bridge(&below) || port.master != below.index)
		return 0;
	return !below.vlan_filtering || (!link_vlans_get(&at) && at.tagged) ? vlan->vlan : 0;
}

/*
 * Take the VLAN ID for the job from the VLAN device of the rank's route, if the datapath would be below this device. If
 * the device is the port, replace the port by the interface below. `given`: the user gave the ID.
 */
static int take_vlan(struct job_spec *s, __u32 job, __u32 rank, bool given)
{
	char a[ADDRESS_LEN];
	struct link at, below;
	bool lower = s->ifindex[rank] && datapath_below(s->ifindex[rank], &at, &below) && may_see_tags(&below);

	if (!lower && (given || !s->job.rank[rank].given || !job_vlan_above(&s->job, rank, s->ifindex[rank], &at)))
		return 0;
	if (s->job.vlan && s->job.vlan != at.vlan)
		return refuse(
			-EINVAL,
			"%s %u: worker %s is reached through %s, in VLAN %u, but the job's frames have VLAN %u; all "
			"workers of a job must be in one VLAN, so create another job for this worker, or run fpisa "
			"load %s --mode skb",
			datapath_noun(&s->job), job, address_text(s->job.rank[rank].addr, a), at.name, at.vlan,
			s->job.vlan, at.name);
	s->job.vlan = at.vlan;
	if (lower)
		s->ifindex[rank] = below.index;
	s->tagged |= 1ull << rank;
	return 0;
}

/*
 * Return 1 if VLAN tags of received frames are removed before XDP receives them, else 0. Return -ENOENT if the peer of
 * a veth cannot be examined. Write the command that prevents the removal.
 */
static int strips_tags(const struct link *l, char fix[NETNS_PREFIX_LEN + 64])
{
	struct veth_peer peer;

	snprintf(fix, NETNS_PREFIX_LEN + 64, "ethtool -K %s rxvlan off", l->name);
	if (strcmp(l->kind, "veth"))
		return ethtool_vlan_rx(l->name) > 0;
	veth_look(l, &peer);
	snprintf(fix, NETNS_PREFIX_LEN + 64, "%sethtool -K %s txvlan off", peer.enter,
		 peer.seen ? peer.link.name : "PEER");
	return peer.seen ? !peer.tags : -ENOENT;
}

/* Refuse a bridge with a datapath of its own. Name the VLAN device on the bridge, if the job's VLAN has one. */
static int refuse_bridge(const struct job_spec *s, __u32 job, const struct link *bridge)
{
	char move[DETACH_LEN + IF_NAMESIZE + 64] = "", off[DETACH_LEN];
	struct link *links = NULL;
	const int n = links_get(&links);

	for (int i = 0; i < n; i++)
		if (links[i].vlan == s->job.vlan && link_above(&links[i], bridge))
			snprintf(move, sizeof(move), "run %s && fpisa load %s --mode skb, or ",
				 datapath_detach_text(bridge->name, DATAPATH_SKB, off), links[i].name);
	free(links);
	return refuse(
		-EOPNOTSUPP,
		"%s %u: %s: a bridge removes VLAN tags before its own datapath; %sload the bridge's ports and give each "
		"worker its port, ADDR@PORT",
		datapath_noun(&s->job), job, bridge->name, move);
}

/*
 * Set whether a port removes the tags or could remove them. In generic mode this is an error, because the kernel adds
 * the removed tags to replies again.
 */
static int check_tags(struct job_spec *s, __u32 job)
{
	for (__u32 r = 0; r < s->job.workers; r++) {
		struct datapath_interface i = {.ifindex = 0};
		char fix[NETNS_PREFIX_LEN + 64];
		bool generic;
		struct link l;
		int strips;

		if (!job_first_behind(s, r) || link_get(s->ifindex[r], &l))
			continue;
		strips = strips_tags(&l, fix);
		generic = !datapath_program_on(l.index, &i) && i.program.id && i.mode == DATAPATH_SKB;
		if (is_bridge(&l) && generic)
			return refuse_bridge(s, job, &l);
		if (strips > 0 && generic)
			return refuse(
				-EOPNOTSUPP,
				"%s %u: %s: VLAN tags are removed before the datapath, which runs in the stack there; "
				"run %s",
				datapath_noun(&s->job), job, l.name, fix);
		if (!strips || generic)
			continue;
		s->job.stripped = 1;
		warning("%s %u: %s: VLAN tags %s removed before XDP, so the job accepts untagged frames of every VLAN "
			"there; run %s, and create the job again",
			datapath_noun(&s->job), job, l.name, strips < 0 ? "may be" : "are", fix);
	}
	return 0;
}

int job_spec_vlan(struct job_spec *s, __u32 job)
{
	const bool given = s->job.vlan;
	char a[ADDRESS_LEN], dev[IF_NAMESIZE] = "?";
	__u32 bare = 0;
	int err = 0;

	for (__u32 r = 0; !err && r < s->job.workers; r++)
		err = take_vlan(s, job, r, given);
	if (err || !s->job.vlan)
		return err;
	while (bare < s->job.workers && s->tagged >> bare & 1)
		bare++;
	if (!given && bare < s->job.workers) {
		if_indextoname(s->ifindex[bare], dev);
		return refuse(-EINVAL,
			      "%s %u: worker %s is reached through %s, which has no VLAN, but other workers are in "
			      "VLAN %u; all workers of a job must be in one VLAN, so create another job for this "
			      "worker, or load the datapath on the VLAN device with --mode skb",
			      datapath_noun(&s->job), job, address_text(s->job.rank[bare].addr, a), dev, s->job.vlan);
	}
	return check_tags(s, job);
}
