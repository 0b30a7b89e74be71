/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A request: a call in progress. Its arrays are cut into chunks of the job's elements, the last may have fewer.
 * Chunks are numbered through all calls since the handle joined, from 0, as on the wire.
 */
#ifndef FPISA_REQUEST_H
#define FPISA_REQUEST_H

#include <stdint.h>
#include <sys/queue.h>

struct fpisa;

struct fpisa_request {
	TAILQ_ENTRY(fpisa_request) link;
	struct fpisa *f;
	const char *send;	       /* NULL: zeros */
	char *recv;		       /* NULL: results are not kept */
	char *kept;		       /* bytes that results have overwritten, by place; NULL: nothing is kept */
	struct fpisa_unclean *unclean; /* which chunks of an array in place results have changed; NULL: not tracked */
	uint64_t count;		       /* elements of each array */
	uint64_t bytes; /* bytes of the elements without scales; of a broadcast up to 3 fewer: the last element is cut */
	uint64_t first; /* first chunk: the request has first .. first + chunks - 1 */
	uint64_t chunks;
	uint64_t left;	      /* chunks without a result; 1 until the request is placed */
	uint64_t deadline_ns; /* by the handle's clock; 0: no caller has waited yet */
	uint64_t probe_ns;    /* the same; when to ask next for the missing ranks */
	uint32_t late;	      /* turns after the deadline */
	uint64_t operand;     /* fpisa_hdr.aux of its frames */
	uint64_t ranks;	      /* ranks in all results so far; 0: no result yet */
	uint64_t *ranks_to;   /* where to store `ranks` at the end, or NULL */
	uint64_t tag;	      /* tag in the digest; in a group the digest of all of its calls so far */
	uint64_t number;      /* number of the call in its group, from 1; 0: not in a group */
	uint64_t digest;      /* fpisa_hdr.digest of its frames */
	uint32_t call;	      /* number of the call since the handle joined */
	uint32_t flags;	      /* FPISA_RESULT_* so far */
	uint8_t op, mode;     /* enum fpisa_operation, enum fpisa_mode */
	int root;	      /* root of a broadcast; -1: an all-reduce */
	int barrier;	      /* other ranks may run the barrier in another job, so they need not hear of its error */
	int done;	      /* the results of this and of all earlier requests are here */
	int given_up;	      /* a rejoin gave the request up: it stands in that list */
	int error;	      /* why results are missing then: -errno */
	int blocking;	      /* the owner waits for the request, and needs no event */
	int told;	      /* the end or failure was reported */
	/* If it is set, the library owns the request, in the list `ended` once told. */
	void (*on_done)(void *arg, int rc, uint32_t flags);
	void *arg;
};

TAILQ_HEAD(fpisa_requests, fpisa_request);

void fpisa_request_free(struct fpisa_request *r);
void fpisa_requests_free(struct fpisa_requests *list);

/*
 * Reserve the memory in which the request is remembered if it fails, for chunks as small as the job's may be. 0, or
 * -ENOMEM with the message set.
 */
int fpisa_request_reserve(struct fpisa_request *r);

/* Give the request the next chunks, call number and digest of the generation. */
void fpisa_request_place(struct fpisa_request *r);

/* Return the number of elements of the chunk that begins at element `offset` of the call. */
uint32_t fpisa_request_elements(const struct fpisa_request *r, uint64_t offset);

/* Return the bytes of that chunk in an array, without scales. */
uint32_t fpisa_request_bytes(const struct fpisa_request *r, uint64_t offset);

/* End the requests at the front that have all of their results. A request of no elements has them as soon as it is placed. */
void fpisa_requests_complete(struct fpisa *f);

/* Tell the waiters of the request, or its callback, once, that it is done or has failed. */
void fpisa_request_tell(struct fpisa_request *r);
void fpisa_requests_tell(struct fpisa *f); /* tell all requests of the handle: it has failed */

/* Copy the result for the chunk at `offset` into the caller's array. */
void fpisa_request_deliver(struct fpisa_request *r, uint64_t offset, const char *scales, const char *elements);

/* Restore the arrays of unfinished requests in place when the handle fails, or remember which chunks changed. */
void fpisa_requests_restore(struct fpisa *f);
void fpisa_requests_give_up(struct fpisa *f); /* end all requests unfinished; their owners may still hold them */

#endif
