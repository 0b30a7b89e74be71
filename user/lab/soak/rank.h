/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A rank's process: rank.c joins and makes calls, check.c has what a rank
 * contributes and recomputes what comes back.
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
	struct fpisa_group *g; /* in the place of f */
	uint64_t session;      /* of the group: its ranks have agreed on it */
	uint64_t joined_ns;    /* the group, or tried to */
	uint8_t mode;	       /* that the group asks for; integers have none */
	char key_file[32];
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

/* Choose the call's operation among those that the job offers: half of the calls are sums. */
struct oracle_call rank_operation(const struct worker *w);

/*
 * Fill send with this rank's contribution to the call. In a group, where the order of arrival is not known,
 * values are such that every order has the same sums.
 */
void rank_fill(struct worker *w, uint64_t call);

/* A chunk of results, of all ranks but some of those in `absent`; all of a call that ended well, with its flags. */
void rank_check_chunk(struct worker *w, const struct fpisa_chunk *c, uint64_t absent);
void rank_check_call(struct worker *w, uint32_t flags);

/* -- rank.c ---------------------------------------------------------------- */

/* Begin in the host's namespace without privilege; arg is a struct soak_place. NULL: an error. */
struct worker *rank_begin(void *arg, int control, bool privileged);

/* Note that a call into the library begins, or ends: with an error `expected`, or one that counts as unexpected. */
void rank_call_begins(struct worker *w);
void rank_call_ends(struct worker *w, int err, bool expected);

/* Computes, most often for less than a round. */
void rank_compute(struct worker *w);

/* Complete a call that was started. */
int rank_complete(struct worker *w, enum soak_completion completion, struct fpisa_request **r, uint32_t *flags);

/* A call's input is in send, or in recv if it is in place. */
bool rank_prepare(struct worker *w, uint64_t random);

/* Check, after a failed call in place, that its array is unchanged. */
void rank_check_restored(struct worker *w);

/* Count a call that ended well. */
void rank_count_call(struct worker *w, const struct oracle_call *c, enum soak_completion completion, bool in_place);

#endif
