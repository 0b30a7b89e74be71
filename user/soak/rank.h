/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A rank's process: rank.c joins and makes calls, check.c has what a rank
 * contributes and recomputes what comes back.
 */
#ifndef FPISA_SOAK_RANK_H
#define FPISA_SOAK_RANK_H

#include "fpisa/block.h"
#include "oracle/oracle.h"
#include "soak.h"

#define MAX_COUNT 4000
#define MAX_CHUNKS (MAX_COUNT / FPISA_BLOCK + 1)

struct worker {
	const struct soak *s;
	struct soak_rank *out;
	uint32_t job, rank;
	uint64_t random;
	struct fpisa *f;
	struct fpisa_info info;
	uint64_t retransmits, bad; /* of the handle, in *out already */
	uint32_t calls;		   /* of the generation */
	uint64_t count;
	struct fpisa_chunk chunk[MAX_CHUNKS];
	uint32_t chunks;
	unsigned char send[MAX_COUNT * 8], recv[MAX_COUNT * 8];
};

/* Keeps the first of all that is said of a rank. */
void rank_say(struct worker *w, const char *what);

/* The call's own random numbers: the same in every rank of the generation. */
uint64_t rank_random(const struct worker *w);

/* The call's operation, one that the job offers: half of them sums. */
struct oracle_call rank_operation(const struct worker *w);

/* What this rank contributes to the call, into send. */
void rank_fill(struct worker *w, uint64_t call);

/* A chunk of results, of all ranks but some of those in `absent`; all of a call that ended well, with its flags. */
void rank_check_chunk(struct worker *w, const struct fpisa_chunk *c, uint64_t absent);
void rank_check_call(struct worker *w, uint32_t flags);

#endif
