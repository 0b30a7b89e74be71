/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A query in addition to the jobs of the harness, with its program in the program array, its maps and its frames.
 * Worker r is rank r, and the master is the last rank.
 */
#ifndef QUERIES_H
#define QUERIES_H

#include "fpisa/query/query.h"
#include "harness.h"

struct query {
	struct harness *h;
	struct bpf_object *object;
	struct fpisa_job job;
	struct fpisa_query_config config;
	uint64_t token;
	uint16_t vlan;
	uint32_t epoch; /* generation of the query's members */
	int state_fd, counters_fd;
};

/*
 * Open a query with this number of workers, whose members have joined. The caller has set token, vlan, config.job, key_bytes,
 * limit, flags and seed. It has set form unless values are reals, and filter_bytes and filter_mask for a filter.
 */
void query_open(struct query *q, struct harness *h, unsigned int kind, uint32_t workers);
void query_close(struct query *q);

/* Update the query's job in the datapath after a change of q->job. */
void query_update(const struct query *q);

/* Let all members join again, which begins the next epoch. */
void query_join(struct query *q);

struct fpisa_query_state query_state(const struct query *q);
void query_set_state(const struct query *q, const struct fpisa_query_state *s);
struct fpisa_query_counters query_counters(const struct query *q);
struct fpisa_query_group query_group(const struct query *q, uint32_t number);

/*
 * Build a frame of the query with `count` items of `bytes` bytes each. The items are at *payload, or are zeros if
 * `payload` is NULL.
 */
void query_frame(struct frame *f, const struct query *q, uint8_t type, uint32_t rank, uint64_t sequence, uint32_t count,
		 uint32_t bytes, const void *payload);

/* Build a ROWS frame with rows that are packed as in the query. */
void query_rows(struct frame *f, const struct query *q, uint32_t rank, uint64_t sequence, uint32_t count,
		const void *rows, bool last);

/* Build a KEYS frame with join keys of config.filter_bytes bytes. */
void query_keys(struct frame *f, const struct query *q, uint32_t rank, uint64_t sequence, uint32_t count,
		const void *keys, bool last);

/* Build the SEAL frame of the master. last[] has the last sequence number of each worker. */
void query_seal(struct frame *f, const struct query *q, const uint64_t *last);

/* Pack one row into a buffer. Return the position of the next row. */
uint8_t *query_pack(uint8_t *to, const struct fpisa_query_config *c, const uint64_t key[FPISA_KEY_WORDS], float value,
		    uint32_t count);

#endif
