/* SPDX-License-Identifier: GPL-2.0-only */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "query/datapath/queries.h"
#include "queries.h"
#include "lab/testbed/frame.h"

static void must(int bad, const char *what)
{
	if (bad) {
		fprintf(stderr, "query: %s: %s\n", what, strerror(errno));
		abort();
	}
}

static int map_of(const struct query *q, const char *name)
{
	return bpf_object__find_map_fd_by_name(q->object, name);
}

void query_join(struct query *q)
{
	uint32_t id = q->config.job;
	struct fpisa_session s = {.generation = q->epoch = ++q->h->generation};

	for (uint32_t r = 0; r < q->job.workers; r++) {
		s.incarnation[r] = HARNESS_INCARNATION;
		s.secret[r] = fpisa_cookie(&q->job.key, r, HARNESS_INCARNATION);
		s.key[r] = fpisa_rank_key(&q->job, r, s.secret[r]);
	}
	must(bpf_map_update_elem(bpf_map__fd(q->h->skel->maps.fpisa_sessions), &id, &s, BPF_ANY), "session");
}

void query_update(const struct query *q)
{
	uint32_t id = q->config.job;

	must(bpf_map_update_elem(bpf_map__fd(q->h->skel->maps.fpisa_jobs), &id, &q->job, BPF_ANY), "job");
}

void query_open(struct query *q, struct harness *h, unsigned int kind, uint32_t workers)
{
	uint32_t id = q->config.job, index = FPISA_QUERY_PROGRAM + id;
	struct fpisa_query_config given = q->config;
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = query_kind_names[kind - FPISA_QUERY_TOPN].name);
	struct bpf_program *p;
	struct bpf_map *m;
	const void *bytes;
	size_t size;
	int fd;

	q->h = h;
	q->job = (struct fpisa_job){.workers = workers + 1, .window = 1, .token = q->token};
	harness_job(h, id, &q->job);
	q->job.vlan = q->vlan;
	q->job.kind = (__u8)kind;
	q->job.format = given.form ? (__u8)given.form : FPISA_FORM_REAL;
	q->job.query = (struct fpisa_query_parameters){
		.limit = given.limit,
		.key_bytes = (__u8)given.key_bytes,
		.filter_bytes = (__u8)given.filter_bytes,
		.filter_log = (__u8)__builtin_popcount(given.filter_mask),
		.flags = (__u8)given.flags,
	};
	q->job.elements = 0;
	q->job.window = 0;
	q->job.fanout = FPISA_FANOUT_UNICAST;
	query_update(q);
	for (uint32_t r = 0; r <= workers; r++) {
		const struct fpisa_peer peer = {
			.mac = {2, 0, 0, 0, 1, (uint8_t)r}, .local_mac = {2, 0, 0, 0, 0, 0xfe}, .ifindex = 1};
		uint32_t key = id * FPISA_MAX_WORKERS + r;

		must(bpf_map_update_elem(bpf_map__fd(h->skel->maps.fpisa_peers), &key, &peer, BPF_ANY), "peer");
	}
	fpisa_query_of(&q->job, id, &q->config);
	q->config.seed = given.seed;
	bytes = query_object(kind, &size);
	q->object = bpf_object__open_mem(bytes, size, &opts);
	must(!q->object, "open");
	must(query_specialise(q->object, kind, &q->config), "specialise");
	bpf_object__for_each_map(m, q->object) {
		fd = bpf_map__is_internal(m) ? -1 : bpf_object__find_map_fd_by_name(h->skel->obj, bpf_map__name(m));
		bpf_map__set_pin_path(m, NULL);
		if (fd >= 0)
			must(bpf_map__reuse_fd(m, fd), "share map");
	}
	bpf_object__for_each_program(p, q->object) {
		bpf_program__set_type(p, BPF_PROG_TYPE_XDP);
		bpf_program__set_expected_attach_type(p, 0);
	}
	must(bpf_object__load(q->object), "load");
	fd = bpf_program__fd(bpf_object__next_program(q->object, NULL));
	must(bpf_map_update_elem(bpf_map__fd(h->skel->maps.fpisa_stages), &index, &fd, BPF_ANY), "program array");
	q->state_fd = map_of(q, "fpisa_query_state");
	q->counters_fd = map_of(q, "fpisa_query_rows");
	query_join(q);
}

void query_close(struct query *q)
{
	uint32_t index = FPISA_QUERY_PROGRAM + q->config.job;

	bpf_map_delete_elem(bpf_map__fd(q->h->skel->maps.fpisa_stages), &index);
	bpf_object__close(q->object);
}

struct fpisa_query_state query_state(const struct query *q)
{
	struct fpisa_query_state s;
	uint32_t zero = 0;

	must(bpf_map_lookup_elem(q->state_fd, &zero, &s), "state");
	return s;
}

void query_set_state(const struct query *q, const struct fpisa_query_state *s)
{
	uint32_t zero = 0;

	must(bpf_map_update_elem(q->state_fd, &zero, s, BPF_ANY), "state");
}

struct fpisa_query_counters query_counters(const struct query *q)
{
	struct fpisa_query_counters sum = {0}, *all = calloc((size_t)q->h->cpus, sizeof(*all));
	uint32_t zero = 0;

	must(!all || bpf_map_lookup_elem(q->counters_fd, &zero, all), "counters");
	for (int cpu = 0; cpu < q->h->cpus; cpu++)
		for (size_t i = 0; i < sizeof(sum) / 8; i++)
			((uint64_t *)&sum)[i] += ((uint64_t *)&all[cpu])[i];
	free(all);
	return sum;
}

struct fpisa_query_group query_group(const struct query *q, uint32_t number)
{
	struct fpisa_query_group g;

	must(bpf_map_lookup_elem(map_of(q, "fpisa_groups"), &number, &g), "group");
	return g;
}

void query_frame(struct frame *f, const struct query *q, uint8_t type, uint32_t rank, uint64_t sequence, uint32_t count,
		 uint32_t bytes, const void *payload)
{
	uint64_t cookie = fpisa_cookie(&q->job.key, rank, HARNESS_INCARNATION);
	uint32_t padded = fpisa_query_payload(count, bytes);

	memset(f->data, 0, FPISA_PAYLOAD_OFFSET + padded);
	f->len = frame_outer(f->data, &q->job, rank, padded);
	*harness_hdr(f) = (struct fpisa_hdr){.magic = FPISA_MAGIC,
					     .version = FPISA_VERSION,
					     .type = type,
					     .format = q->job.format,
					     .job = q->config.job,
					     .generation = q->epoch,
					     .rank = (uint16_t)rank,
					     .count = (uint16_t)count,
					     .chunk = sequence,
					     .secret = q->token ? 0 : cookie,
					     .bitmap = q->token ? cookie : 0};
	if (payload)
		memcpy(harness_payload(f), payload, (size_t)count * bytes);
	harness_set_checksums(f);
}

void query_rows(struct frame *f, const struct query *q, uint32_t rank, uint64_t sequence, uint32_t count,
		const void *rows, bool last)
{
	query_frame(f, q, FPISA_TYPE_ROWS, rank, sequence, count, q->config.row_bytes, rows);
	if (last) {
		harness_hdr(f)->flags = FPISA_F_LAST;
		harness_set_checksums(f);
	}
}

void query_keys(struct frame *f, const struct query *q, uint32_t rank, uint64_t sequence, uint32_t count,
		const void *keys, bool last)
{
	query_frame(f, q, FPISA_TYPE_KEYS, rank, sequence, count, q->config.filter_bytes, keys);
	harness_hdr(f)->flags = last ? FPISA_F_LAST : 0;
	harness_set_checksums(f);
}

void query_seal(struct frame *f, const struct query *q, const uint64_t *last)
{
	query_frame(f, q, FPISA_TYPE_SEAL, q->config.master, 0, q->config.master, sizeof(*last), last);
}

uint8_t *query_pack(uint8_t *to, const struct fpisa_query_config *c, const uint64_t key[FPISA_KEY_WORDS], float value,
		    uint32_t count)
{
	memcpy(to, key, c->key_bytes);
	memcpy(to + c->key_bytes, &value, sizeof(value));
	if (c->key_bytes > 4)
		memcpy(to + c->key_bytes + 4, &count, sizeof(count));
	return to + c->row_bytes;
}
