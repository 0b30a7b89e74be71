/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Frames of one job that are sent to the loaded datapath, for test_rounds.c, test_join.c, test_drops.c and test_pass.c
 */
#ifndef PROTOCOL_H
#define PROTOCOL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <cmocka.h>
#include <linux/bpf.h>
#include "harness.h"

#define JOB 5
#define N 64

static inline struct fpisa_job make_with(uint8_t pipeline, uint32_t workers, uint64_t token)
{
	struct fpisa_job j = {
		.workers = workers, .elements = N, .window = 4, .pipeline = pipeline, .token = token, .slot_base = 16};

	harness_job(harness, JOB, &j);
	return j;
}

static inline struct fpisa_job make(uint8_t pipeline, uint32_t workers)
{
	return make_with(pipeline, workers, 0);
}

static inline void values(uint32_t *w, float v)
{
	for (int i = 0; i < N; i++)
		memcpy(&w[i], &v, 4);
}

static inline int send_add(const struct fpisa_job *j, struct frame *f, uint32_t rank, uint64_t chunk, float v,
			   uint8_t flags)
{
	uint32_t w[N];

	values(w, v);
	harness_add(f, harness, j, JOB, rank, chunk, N, w);
	harness_hdr(f)->flags = flags;
	harness_set_checksums(f);
	harness_run(harness, f);
	return f->action;
}

/* Run the frame. It must pass to the stack unchanged. */
static inline void passes_unchanged(struct frame *f)
{
	static struct frame copy;

	copy = *f;
	harness_run(harness, f);
	assert_int_equal(f->action, XDP_PASS);
	assert_int_equal(f->len, copy.len);
	assert_memory_equal(f->data, copy.data, copy.len);
}

/* Return the MTU of the path to a rank that the datapath has stored. */
static inline uint32_t path_mtu(uint32_t rank)
{
	uint32_t key = JOB * FPISA_MAX_WORKERS + rank;
	struct fpisa_peer peer;

	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(harness->skel->maps.fpisa_peers), &key, &peer), 0);
	return peer.path_mtu;
}

/* Run an ICMP message. It passes unchanged, and counts for the job if it is `ours`, else as a foreign frame. */
static inline void icmp_passes(struct frame *f, bool ours)
{
	const uint64_t counted = harness_verdict(harness, JOB, FPISA_V_path_mtu),
		       foreign = harness_verdict(harness, FPISA_MAX_JOBS, FPISA_V_not_ours);

	passes_unchanged(f);
	assert_int_equal(harness_verdict(harness, JOB, FPISA_V_path_mtu), counted + ours);
	assert_int_equal(harness_verdict(harness, FPISA_MAX_JOBS, FPISA_V_not_ours), foreign + !ours);
}

static inline int send_hello(const struct fpisa_job *j, struct frame *f, uint32_t rank, uint64_t incarnation)
{
	harness_hello(f, j, JOB, rank, incarnation);
	if (incarnation > harness->incarnation[rank])
		harness->incarnation[rank] = incarnation;
	harness_run(harness, f);
	return f->action;
}

static inline float first_value(struct frame *f)
{
	float v;

	memcpy(&v, harness_payload(f), 4);
	return v;
}

static inline void set_live(const struct fpisa_job *j, uint64_t live)
{
	struct fpisa_job k = *j;
	uint32_t id = JOB;

	k.live = live;
	assert_int_equal(bpf_map_update_elem(bpf_map__fd(harness->skel->maps.fpisa_jobs), &id, &k, BPF_ANY), 0);
}

/* Check that a reply goes to the sender, with swapped addresses and right checksums. */
static inline void check_reply(struct frame *f, const struct fpisa_job *j, uint32_t rank)
{
	uint32_t saddr, daddr;
	uint16_t sport, dport, ip_len, udp_len;

	assert_int_equal(f->action, XDP_REDIRECT);
	assert_true(harness_checksums_right(f));
	memcpy(&saddr, f->data + 26, 4);
	memcpy(&daddr, f->data + 30, 4);
	memcpy(&sport, f->data + 34, 2);
	memcpy(&dport, f->data + 36, 2);
	memcpy(&udp_len, f->data + 38, 2);
	memcpy(&ip_len, f->data + 16, 2);
	assert_int_equal(saddr, j->address.w[3]);
	assert_int_equal(daddr, j->rank[rank].addr.w[3]);
	assert_int_equal(sport, htons(FPISA_PORT));
	assert_int_equal(dport, j->rank[rank].port);
	assert_true(harness_udp_checksum_right(f));
	assert_int_equal(ntohs(ip_len), f->len - 14);
	assert_int_equal(ntohs(udp_len), f->len - 34);
	assert_memory_equal(f->data + 6, "\x02\0\0\0\0\xfe", 6);
	assert_int_equal(f->data[5], rank);
}

/* Make the frame a fragment, which is wrong for any destination. */
static inline void mutate_fragment(struct frame *f)
{
	f->data[20] = 0x20;
}
static inline void mutate_length_ip(struct frame *f)
{
	f->data[16] = 0x0f;
	f->data[38] = 0x0e;
	f->data[39] = f->data[17] - 20;
}

static inline void mutate_version(struct frame *f)
{
	harness_hdr(f)->version = 1;
}
static inline void mutate_job(struct frame *f)
{
	harness_hdr(f)->job = 63;
}
static inline void mutate_job_number(struct frame *f)
{
	harness_hdr(f)->job = 1u << 31;
}

#endif
