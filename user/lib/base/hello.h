/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Joining, for a rank of a job (lib/join.c) and a member of a query (query/lib/member.c): HELLO until a WELCOME says
 * that all have joined. The rules of the other side are fpisa_session_join() in fpisa/slot.h.
 */
#ifndef FPISA_BASE_HELLO_H
#define FPISA_BASE_HELLO_H

#include <stdint.h>
#include "fpisa/tag.h"

/* An attempt to join. Its number is larger than all before it, and its nonce cannot be guessed. Zero before the first. */
struct fpisa_incarnation {
	uint64_t number, nonce;
};

/* Progress of the attempt at one aggregator. */
struct fpisa_joining {
	uint64_t cookie;	    /* 0 until the aggregator has sent it */
	uint64_t next_ns, pause_ns; /* when the next HELLO is sent, and the pause after it */
	uint64_t missing;	    /* ranks that have not joined, as far as known */
	int above;		    /* ranks of other leaves of a tree have not joined, and all of this one's have */
	uint64_t heard_ns;	    /* time of the last answer; 0: no answer yet */
	int joined;
};

struct fpisa_hello_frame {
	struct fpisa_hdr header;
	struct fpisa_hello payload;
};

/* Meaning of a WELCOME. */
enum fpisa_welcome {
	FPISA_WELCOME_STALE,	 /* ignore it: it does not answer the last HELLO */
	FPISA_WELCOME_CHALLENGE, /* the WELCOME has the cookie, which is stored */
	FPISA_WELCOME_NEWER,	 /* incarnation `aux` existed before: choose a later one */
	FPISA_WELCOME_PENDING,	 /* other ranks have not joined */
	FPISA_WELCOME_JOINED,	 /* all have joined, and its payload is valid */
};

/* Return the number of the next attempt. */
uint64_t fpisa_incarnation_next(const struct fpisa_incarnation *i);

/* Begin that attempt, with a nonce. Return -EIO if getrandom() fails. */
int fpisa_incarnation_begin(struct fpisa_incarnation *i, uint64_t number);

/* Begin an attempt at one aggregator: `anew` after another attempt of the same join, whose pauses continue. */
void fpisa_joining_begin(struct fpisa_joining *j, int anew);

/* Return whether it is time for a HELLO. If so, set the time of the next one. */
int fpisa_hello_is_due(struct fpisa_joining *j, uint64_t now);

/* Write the HELLO; WELCOME echoes `call`. */
void fpisa_hello_write(struct fpisa_hello_frame *f, uint32_t job, const struct fpisa_incarnation *i,
		       const struct fpisa_joining *j, const struct fpisa_key *token, uint32_t call);

/* Evaluate a WELCOME that is whole, and has its proof. */
enum fpisa_welcome fpisa_welcome_take(struct fpisa_joining *j, const struct fpisa_incarnation *i,
				      const struct fpisa_hdr *h);

#endif
