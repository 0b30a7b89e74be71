/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The worker's state, shared by api.c and call.c (what callers see), join.c
 * (HELLO and WELCOME), engine.c (chunks in flight) and reply.c (what comes
 * back).
 *
 * The window is a set of tracks. Track i carries the chunks i, i + w, i + 2w,
 * ... one after the other: the next leaves when the result of the one before
 * has come. The wire's self-clock (chunk c + W after the result of c) holds
 * for any w that divides the job's window W, so a worker whose receiver
 * holds less uses fewer tracks.
 */
#ifndef FPISA_INTERNAL_H
#define FPISA_INTERNAL_H

#include <sys/queue.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "fpisa.h"
#include "fpisa/frame.h"
#include "lib/transport/faults.h"
#include "lib/transport/transport.h"
#include "rto.h"

struct fpisa_request {
	TAILQ_ENTRY(fpisa_request) link;
	struct fpisa *f;
	const char *send;
	char *recv;
	char *kept; /* what results have overwritten, by place; NULL: nothing is kept */
	uint64_t count;
	uint64_t first; /* its first chunk */
	uint64_t chunks;
	uint64_t left;	      /* chunks without a result */
	uint64_t deadline_ns; /* by the handle's clock; 0: nobody has waited yet */
	uint64_t probe_ns;    /* the same; when to ask next who is missing */
	uint32_t late;	      /* turns after the deadline */
	uint64_t operand; /* fpisa_hdr.aux of its frames */
	uint64_t ranks;	  /* in the last of its results, 0: none yet */
	uint64_t digest;  /* fpisa_hdr.digest of its frames */
	uint32_t call;
	uint32_t flags; /* FPISA_RESULT_* so far */
	uint8_t op, mode;
	int done;	/* its results and those of all before it are here */
	int given_up;	/* by a rejoin: it stands in that list */
	int error;	/* why it has not all of its results then: -errno */
};

TAILQ_HEAD(fpisa_requests, fpisa_request);

struct fpisa_track {
	TAILQ_ENTRY(fpisa_track) link;
	struct fpisa_tracks *queue; /* where it stands; NULL when it has nothing to carry */
	struct fpisa_request *req;  /* of its chunk, NULL when that is not started yet */
	uint64_t chunk;
	uint64_t sent_ns;      /* last transmission; no two are equal */
	uint64_t since_ns;     /* its timeout counts from here */
	uint64_t bitmap, live; /* the last STATUS of this chunk; live is 0 without one */
	uint32_t tries;	       /* transmissions */
	int flying;	       /* the chunk was sent and is not known to be lost */
	int gso;	       /* the first of them was in a GSO batch */
	uint32_t backoff;      /* doublings of the timeout after the next transmission */
	struct fpisa_hdr hdr;  /* of the frame being sent */
};

TAILQ_HEAD(fpisa_tracks, fpisa_track);

struct fpisa {
	struct fpisa_fork_hook fork; /* first */
	struct fpisa_transport *t;
	char peer[32];	     /* the aggregator, for messages */
	uint16_t local_port; /* 0 without sockets */
	uint32_t job;
	uint64_t token;
	uint64_t timeout_ns;
	struct fpisa_clock clock;
	void (*on_chunk)(void *arg, const struct fpisa_chunk *c);
	void *arg;
	enum fpisa_overflow overflow;
	int restore; /* the array of a call in place that fails */
	enum fpisa_transport_name transport;
	struct fpisa_fault_rates faults;
	uint64_t seed; /* of the faults */

	/* Since the last join. */
	uint64_t incarnation;
	uint64_t nonce;	 /* of its HELLOs */
	uint64_t secret; /* its cookie, 0 until the aggregator has told it */
	uint64_t digest; /* of all calls */
	uint32_t generation;
	uint32_t workers, elements, window;
	struct fpisa_format format;
	uint16_t rank;
	struct fpisa_hello hello;
	struct fpisa_requests requests; /* started and not released, in order */
	struct fpisa_request *oldest;	/* first of them that is not done */
	uint64_t end;			/* chunks of all requests */
	uint32_t calls;
	uint32_t tracks;
	struct fpisa_track *track;
	struct fpisa_tracks fresh;		     /* not yet sent, by when they could be */
	struct fpisa_tracks ready;		     /* to be sent again now */
	struct fpisa_tracks waiting[FPISA_BACKOFFS]; /* sent, by backoff, in the order of since_ns */
	struct fpisa_tracks held;		     /* sent and overdue, until the next result */
	uint64_t heard_ns;			     /* the latest sent_ns whose result is here */
	uint32_t lost_gso;			     /* results since the last to a chunk sent but once, in a GSO batch */
	struct fpisa_rto rto;
	uint64_t resumed_ns; /* the last gap in our work, longer than a timeout, ended then */
	int taken;	     /* frames in the last turn */
	uint32_t flying; /* tracks that are */
	uint32_t limit;	 /* of them, 1 .. tracks: fewer when the receiver overflows */
	uint32_t calm;	 /* results since it changed */
	uint64_t drops;	 /* of the transport, when last asked */

	int busy;			/* one of its functions runs, or did in another thread at the fork */
	int foreign;			/* it was made before this process was forked */
	struct fpisa_requests given_up; /* of earlier joins, not released */
	int error;			/* of the handle until it rejoins */
	char message[FPISA_MESSAGE_SIZE];
	uint64_t missing;
	struct fpisa_info count; /* its counters only */
};

/* api.c */
int fpisa_poison(struct fpisa *f, int error); /* the thread's message becomes the handle's */
int fpisa_poisoned(const struct fpisa *f);    /* the handle's error, its message again the thread's */
int fpisa_foreign(const struct fpisa *f);     /* -ECHILD: it belongs to another process */
int fpisa_enter(struct fpisa *f);	      /* a public function begins: 0, or why the handle cannot be used */
void fpisa_leave(struct fpisa *f);
int fpisa_new(struct fpisa **f, const struct fpisa_options *options);

/* call.c */
void fpisa_request_free(struct fpisa_request *r);
void fpisa_request_keep(struct fpisa_request *r, uint64_t offset); /* a result is about to overwrite the chunk there */
void fpisa_requests_restore(struct fpisa *f); /* arrays of unfinished ones, as far as they were kept */
void fpisa_requests_give_up(struct fpisa *f); /* none goes on; their owners may still hold them */

/* join.c: 0, or -errno with the message set. Forgets all requests. spent_ns of the deadline have gone. */
int fpisa_join(struct fpisa *f, uint64_t spent_ns);

/* engine.c */
int fpisa_tracks_reset(struct fpisa *f, uint32_t capacity);
void fpisa_tracks_start(struct fpisa *f, struct fpisa_request *r);
void fpisa_track_move(struct fpisa_track *l, struct fpisa_tracks *to);
void fpisa_track_next(struct fpisa *f, struct fpisa_track *l);
int fpisa_tracks_send(struct fpisa *f);
void fpisa_tracks_heard(struct fpisa *f, uint64_t sent_ns, uint64_t now);
int fpisa_progress(struct fpisa *f, uint64_t wait_ns);
void fpisa_tick(struct fpisa *f, uint64_t now, uint64_t waited_ns);
int fpisa_advance(struct fpisa_request *r, int block);

/* reply.c */
const struct fpisa_hdr *fpisa_reply_check(struct fpisa *f, const struct fpisa_in *in);
int fpisa_reply_take(struct fpisa *f, const struct fpisa_in *in, uint64_t now);

static inline uint32_t fpisa_min_u32(uint64_t a, uint32_t b)
{
	return a < b ? (uint32_t)a : b;
}

#endif
