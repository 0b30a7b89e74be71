/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A request is a call in progress. Its arrays are cut into chunks of the job's elements; the last chunk may have fewer.
 * Chunks are numbered through all calls since the handle joined, from 0, as on the wire.
 */
#ifndef FPISA_REQUEST_H
#define FPISA_REQUEST_H

#include <stdint.h>
#include <sys/queue.h>

struct fpisa;

/* Elements first .. end - 1 of a call's vector. */
struct fpisa_part {
	uint64_t first, end;
};

struct fpisa_request {
	TAILQ_ENTRY(fpisa_request) link;
	struct fpisa *f;
	const char *send; /* NULL: zeros */
	char *recv;	  /* destination of the elements of `part`; NULL: results are not kept */
	char *kept;	  /* bytes of recv that results have overwritten, by position; NULL: none are kept */
	struct fpisa_unclean *unclean; /* chunks of an array in place that results have changed; NULL: not tracked */
	struct fpisa_part part;	       /* the elements that this rank keeps: all, except in a reduce-scatter */
	uint64_t count;		       /* elements of the call's vector, and so of `send` */
	uint64_t bytes; /* bytes of the elements without scales; of a broadcast up to 3 fewer: the last element is cut */
	uint64_t first; /* first chunk: the request has first .. first + chunks - 1 */
	uint64_t chunks;
	uint64_t left;	      /* chunks without a result; 1 until the request is placed */
	uint64_t timeout_ns;  /* from the first wait to the deadline */
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
	int barrier;	      /* other ranks may run the barrier in another job, so they need not get its error */
	int done;	      /* the results of this and of all earlier requests are here */
	int given_up;	      /* a rejoin gave the request up; it is in the list `given_up` */
	int error;	      /* -errno: why results of a given-up request are missing */
	int blocking;	      /* the owner waits for the request, and needs no event */
	int told;	      /* the end or failure was reported */
	/* If it is set, the library owns the request, which is in the list `ended` once its end was reported. */
	void (*on_done)(void *arg, int rc, uint32_t flags);
	void *arg;
};

TAILQ_HEAD(fpisa_requests, fpisa_request);

void fpisa_request_free(struct fpisa_request *r);
void fpisa_requests_free(struct fpisa_requests *list);

/* Return whether recv is at the position of its elements in send. */
int fpisa_request_in_place(const struct fpisa_request *r);

/*
 * Reserve the memory for the record of the request if it fails, for chunks as small as the job's may be. Return 0, or
 * -ENOMEM with the message set.
 */
int fpisa_request_reserve(struct fpisa_request *r);

/* Give the request the next chunks, call number and digest of the generation. */
void fpisa_request_place(struct fpisa_request *r);

/* Return the number of elements of the chunk that begins at element `offset` of the call. */
uint32_t fpisa_request_elements(const struct fpisa_request *r, uint64_t offset);

/* Return the bytes of the chunk that begins at element `offset` in an array, without scales. */
uint32_t fpisa_request_bytes(const struct fpisa_request *r, uint64_t offset);

/* End the requests at the front that have all of their results. A request of no elements has them as soon as it is placed. */
void fpisa_requests_complete(struct fpisa *f);

/* Report once, to the request's waiters or callback, that the request is done or has failed. */
void fpisa_request_tell(struct fpisa_request *r);
void fpisa_requests_tell(struct fpisa *f); /* report to all requests of the handle that it has failed */

/* Copy what the caller keeps of the result for the chunk at `offset` into its array. */
void fpisa_request_deliver(struct fpisa_request *r, uint64_t offset, const char *scales, const char *elements);

/* Restore the arrays of unfinished requests in place when the handle fails, or record which chunks changed. */
void fpisa_requests_restore(struct fpisa *f);
void fpisa_requests_give_up(struct fpisa *f); /* end all requests unfinished; their owners may still hold them */

#endif
