/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A request is a call in progress. Its arrays are divided into chunks of the job's elements. The last chunk may have
 * fewer elements. Chunk numbers begin at 0 when the handle joins, and continue through all calls.
 */
#ifndef FPISA_REQUEST_H
#define FPISA_REQUEST_H

#include <stdint.h>
#include <sys/queue.h>
#include "fpisa/ranks.h"
#include "spread.h"

struct fpisa;

/* The elements first .. end - 1 of a call's vector. */
struct fpisa_part {
	uint64_t first, end;
};

/* The division of a call's vector among the ranks of a group. Rank r keeps the elements between end[r - 1], or 0, and end[r]. */
struct fpisa_parts {
	struct fpisa_part own; /* part of this rank */
	uint64_t end[FPISA_MAX_RANKS];
};

struct fpisa_request {
	TAILQ_ENTRY(fpisa_request) link;
	struct fpisa *f;
	const char *send;	       /* input; NULL: zeros */
	char *recv;		       /* destination of the elements of `part`; NULL: results are not kept */
	char *kept;		       /* bytes of recv that results have overwritten, by position; NULL: not kept */
	struct fpisa_unclean *unclean; /* chunks of an array in place that results have changed; NULL: not tracked */
	struct fpisa_part part;	       /* elements that this rank keeps, which are all except in a reduce-scatter */
	struct fpisa_parts *parts;     /* parts of a reduce-scatter; NULL: all ranks keep all elements */
	/* order of a reduce-scatter's chunks; NULL: the chunks have their numbers in the order of the call */
	struct fpisa_spread *spread;
	uint64_t count; /* number of elements of the call's vector, and of `send` */
	/* bytes of the elements without scales; up to 3 fewer in a broadcast, whose last element may be incomplete */
	uint64_t bytes;
	uint64_t first; /* first chunk; the request has chunks first .. first + chunks - 1 */
	uint64_t chunks;
	uint64_t left;	      /* number of chunks without a result; 1 until the request is placed */
	uint64_t timeout_ns;  /* time from the first wait to the deadline */
	uint64_t deadline_ns; /* deadline by the handle's clock; 0: no caller has waited yet */
	uint64_t probe_ns;    /* time by the handle's clock at which to ask for the missing ranks again */
	uint32_t late;	      /* number of turns after the deadline */
	uint64_t operand;     /* fpisa_hdr.aux of its frames */
	uint64_t ranks;	      /* ranks that contributed to all results so far; 0: no result yet */
	uint64_t *ranks_to;   /* place for `ranks` at the end, or NULL */
	uint64_t tag;	      /* tag in the digest; in a group the digest of all calls of the group so far */
	uint64_t number;      /* number of the call in the group, from 1; 0: not in a group */
	uint64_t digest;      /* fpisa_hdr.digest of its frames */
	uint32_t call;	      /* number of the call since the handle joined */
	uint32_t flags;	      /* FPISA_RESULT_* of the results so far */
	uint8_t op, mode;     /* enum fpisa_operation, enum fpisa_mode */
	int root;	      /* root of a broadcast; -1: an all-reduce */
	/* the request is a barrier, which other ranks may run in another job, so they may not get its error */
	int barrier;
	int done;     /* all results of this request and of all earlier requests have arrived */
	int given_up; /* a rejoin gave up the request, which is in the list `given_up` */
	int error;    /* negative errno for which results of a given-up request are missing */
	int blocking; /* the owner waits for the request and needs no event */
	int told;     /* the end of the request was reported */
	/* If on_done is set, the library owns the request, which is in the list `ended` after its end was reported. */
	void (*on_done)(void *arg, int rc, uint32_t flags);
	void *arg;
};

TAILQ_HEAD(fpisa_requests, fpisa_request);

void fpisa_request_free(struct fpisa_request *r);
void fpisa_requests_free(struct fpisa_requests *list);

/* Return whether recv is the place of its elements in send. */
int fpisa_request_in_place(const struct fpisa_request *r);

/*
 * Reserve memory to record the changed chunks of the request if it fails. Assume the smallest possible chunks of the
 * job. Return 0, or -ENOMEM with the message set.
 */
int fpisa_request_reserve(struct fpisa_request *r);

/* Give the request the next chunks, call number and digest of the generation. */
void fpisa_request_place(struct fpisa_request *r);

/* Return the number of elements of the chunk that begins at element `offset` of the call. */
uint32_t fpisa_request_elements(const struct fpisa_request *r, uint64_t offset);

/* Return the bytes of the chunk that begins at element `offset` in an array, without scales. */
uint32_t fpisa_request_bytes(const struct fpisa_request *r, uint64_t offset);

/*
 * End the requests at the front that have all of their results. A request without elements has all results as soon as
 * it is placed.
 */
void fpisa_requests_complete(struct fpisa *f);

/* Report once, to the request's waiters or callback, that the request is done or has failed. */
void fpisa_request_tell(struct fpisa_request *r);
void fpisa_requests_tell(struct fpisa *f); /* report the failure of the handle to all of its requests */

/* Return whether this rank keeps elements of the chunk that begins at element `offset`. */
int fpisa_request_keeps(const struct fpisa_request *r, uint64_t offset);

/* Return the ranks of the job that keep elements of the chunk that begins at element `offset`, as in fpisa_hdr.contributors. */
uint16_t fpisa_request_keepers(const struct fpisa_request *r, uint64_t offset);

/* Copy the part of the chunk's result that the caller keeps into its array. The chunk begins at element `offset`. */
void fpisa_request_deliver(struct fpisa_request *r, uint64_t offset, const char *scales, const char *elements);

/*
 * Restore the arrays of unfinished requests in place, or record their changed chunks. Call this when the handle fails.
 */
void fpisa_requests_restore(struct fpisa *f);
/* end all requests without their results; their owners still have the requests */
void fpisa_requests_give_up(struct fpisa *f);

#endif
