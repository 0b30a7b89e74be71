/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A rank's process: rank.c joins and makes calls, check.c makes contributions
 * and recomputes results.
 */
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
	struct fpisa_group *g; /* used instead of f in a group */
	uint64_t session;      /* number that the group's ranks have agreed on */
	uint64_t joined_ns;    /* last attempt to join the group */
	uint8_t mode;	       /* mode that the group requests; integers do not have a mode */
	char key_file[32];
	struct fpisa_info info;
	uint64_t retransmits, bad; /* counts of the handle, already included in *out */
	uint32_t calls;		   /* calls in the generation */
	uint64_t count;
	struct fpisa_chunk chunk[MAX_CHUNKS];
	uint32_t chunks;
	unsigned char send[MAX_COUNT * 8], recv[MAX_COUNT * 8];
};

/* Keep the first message about a rank. */
void rank_say(struct worker *w, const char *what);

/* Return the call's random number, which is the same in every rank of the generation. */
uint64_t rank_random(const struct worker *w);

/* Choose the call's operation among those that the job offers. Half of the calls are sums. */
struct oracle_call rank_operation(const struct worker *w);

/*
 * Fill send with this rank's contribution to the call. The order of arrival is not known in a group, so
 * there the values have the same sums in every order.
 */
void rank_fill(struct worker *w, uint64_t call);

/*
 * Check a chunk of results of all ranks, except some of `absent`.
 * rank_check_call(): the chunks and flags of a successful call.
 */
void rank_check_chunk(struct worker *w, const struct fpisa_chunk *c, uint64_t absent);
void rank_check_call(struct worker *w, uint32_t flags);

/* -- rank.c ---------------------------------------------------------------- */

/*
 * Begin in the host's namespace, without privilege unless `privileged`; arg is a
 * struct soak_place. Return NULL on error.
 */
struct worker *rank_begin(void *arg, int control, bool privileged);

/* Record that a call into the library begins, or ends with an `expected` or unexpected error. */
void rank_call_begins(struct worker *w);
void rank_call_ends(struct worker *w, int err, bool expected);

/* Compute, most often for less than a round. */
void rank_compute(struct worker *w);

/* Complete a call that was started. */
int rank_complete(struct worker *w, enum soak_completion completion, struct fpisa_request **r, uint32_t *flags);

/* Prepare a call's input in send, and also in recv for a call in place. Return whether the call is in place. */
bool rank_prepare(struct worker *w, uint64_t random);

/* Check after a failed call in place that its array is unchanged. */
void rank_check_restored(struct worker *w);

/* Count a successful call. */
void rank_count_call(struct worker *w, const struct oracle_call *c, enum soak_completion completion, bool in_place);

#endif
