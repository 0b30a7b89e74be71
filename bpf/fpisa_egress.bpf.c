/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Unicast fan-out: runs on one worker's copy of a result as it leaves
 * through the job's device map, and addresses it. Loaded once a rank; the
 * rank is a constant of the load. An object of its own, for bpftool cannot
 * load a device-map program together with fpisa.o's.
 *
 * A rank that was taken out of the job, or never said HELLO, gets no copy.
 */
#include "exits.h"

const volatile __u32 fpisa_rank = 0;

SEC("xdp/devmap")
int fpisa_egress(struct xdp_md *ctx)
{
	struct headers h;
	struct fpisa_peer *peer;
	struct fpisa_job *job;
	__u32 id, key, rank = fpisa_rank;

	if (!find_headers(ctx, &h) || rank >= FPISA_MAX_WORKERS)
		return XDP_DROP;
	id = h.fpisa->job;
	job = bpf_map_lookup_elem(&fpisa_jobs, &id);
	key = id * FPISA_MAX_WORKERS + rank;
	peer = bpf_map_lookup_elem(&fpisa_peers, &key);
	if (!job || !peer || !peer->ifindex || !(job->live >> rank & 1))
		return XDP_DROP;
	__builtin_memcpy(h.eth->h_dest, peer->mac, ETH_ALEN);
	__builtin_memcpy(h.eth->h_source, peer->local_mac, ETH_ALEN);
	h.udp->dest = job->rank[rank].port;
	h.ip->daddr = job->rank[rank].addr;
	h.ip->check = 0;
	h.ip->check = ip_checksum(h.ip);
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
