/* SPDX-License-Identifier: GPL-2.0-only */
/* The process of a rank. rank.c joins and makes calls. check.c makes contributions and recomputes results. */
#ifndef FPISA_SOAK_RANK_H
#define FPISA_SOAK_RANK_H

#include "fpisa/block.h"
#include "lab/oracle/oracle.h"
#include "soak.h"

#define MAX_COUNT 4000
#define MAX_CHUNKS (MAX_COUNT / FPISA_BLOCK + 1)

struct worker {
	const struct soak *s;
	struct soak_rank *out;
	uint32_t job, rank;
	uint64_t random;
	struct fpisa *f;
	struct fpisa_group *g; /* used in a group instead of `f` */
	uint64_t session;      /* number that the ranks of the group have agreed on */
	uint64_t joined_ns;    /* time of the last attempt to join the group */
	uint8_t mode;	       /* mode that the group requests; integers do not have a mode */
	char key_file[32];
	struct fpisa_info info;
	uint64_t retransmits, bad; /* counts of the handle that are already included in *out */
	uint32_t calls;		   /* number of calls in the generation */
	uint64_t count;
	struct fpisa_chunk chunk[MAX_CHUNKS];
	uint32_t chunks;
	unsigned char send[MAX_COUNT * 8], recv[MAX_COUNT * 8];
};

/* Store a message about a rank. Only the first message is kept. */
void rank_say(struct worker *w, const char *what);

/* Return the random number of the call. All ranks of the generation get the same number. */
uint64_t rank_random(const struct worker *w);

/* Choose the operation of the call among those that the job supports. Half of the calls are sums. */
struct oracle_call rank_operation(const struct worker *w);

/*
 * Fill `send` with this rank's contribution to the call. In a group the order of arrival is unknown, so the values have
 * the same sums in every order.
 */
void rank_fill(struct worker *w, uint64_t call);

/*
 * Check a chunk of results. Any of the ranks in `absent` may be missing from
 * the results. rank_check_call() checks the chunks and flags of a successful
 * call.
 */
void rank_check_chunk(struct worker *w, const struct fpisa_chunk *c, uint64_t absent);
void rank_check_call(struct worker *w, uint32_t flags);

/* -- rank.c ---------------------------------------------------------------- */

/*
 * Begin in the host's namespace. Drop privileges unless `privileged` is set.
 * `arg` is a struct soak_place. Return NULL on error.
 */
struct worker *rank_begin(void *arg, int control, bool privileged);

/* Record that a call into the library begins, or that it ends with an expected or unexpected error. */
void rank_call_begins(struct worker *w);
void rank_call_ends(struct worker *w, int err, bool expected);

/* Compute, usually for less time than a round takes. */
void rank_compute(struct worker *w);

/* Complete a call that was started. */
int rank_complete(struct worker *w, enum soak_completion completion, struct fpisa_request **r, uint32_t *flags);

/*
 * Prepare the input of a call in `send`, and for an in-place call also in `recv`. Return whether the call is in place.
 */
bool rank_prepare(struct worker *w, uint64_t random);

/* Check after a failed in-place call that its array is unchanged. */
void rank_check_restored(struct worker *w);

/* Count a successful call. */
void rank_count_call(struct worker *w, const struct oracle_call *c, enum soak_completion completion, bool in_place);

#endif
