/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Joining, for a rank of a job (lib/join.c) and a member of a query (query/lib/member.c). A joining rank repeats HELLO
 * until a WELCOME says that all ranks have joined. fpisa_session_join() in fpisa/slot.h has the rules of the
 * aggregator.
 */
#ifndef FPISA_BASE_HELLO_H
#define FPISA_BASE_HELLO_H

#include <stdint.h>
#include <string.h>
#include "fpisa/address.h"
#include "fpisa/tag.h"

/*
 * An attempt to join. The number is larger than those of all earlier attempts, and the nonce cannot be guessed. Both
 * are zero before the first attempt.
 */
struct fpisa_incarnation {
	uint64_t number, nonce;
};

/* Progress of the attempt at one aggregator. */
struct fpisa_joining {
	uint64_t cookie;	    /* cookie from the aggregator; 0: not received yet */
	uint64_t next_ns, pause_ns; /* time of the next HELLO, and the pause after it */
	uint64_t missing;	    /* ranks that have not joined, as far as known */
	/* all ranks of this leaf have joined, but ranks of other leaves of the tree have not */
	int above;
	uint64_t heard_ns; /* time of the last answer; 0: no answer yet */
	int joined;
};

struct fpisa_hello_frame {
	struct fpisa_hdr header;
	struct fpisa_hello payload;
};

/* Meaning of a WELCOME. */
enum fpisa_welcome {
	FPISA_WELCOME_STALE,	 /* ignore the WELCOME, because it does not answer the last HELLO */
	FPISA_WELCOME_CHALLENGE, /* the WELCOME has the cookie, which is stored */
	FPISA_WELCOME_NEWER,	 /* an incarnation `aux` is known already, so choose a later number */
	FPISA_WELCOME_PENDING,	 /* other ranks have not joined */
	FPISA_WELCOME_JOINED,	 /* all ranks have joined, and the payload of the WELCOME is valid */
};

/* Return the multicast address of the results that a WELCOME names, or :: for none. */
static inline struct fpisa_address fpisa_hello_group(const struct fpisa_hello *hello, int ipv6)
{
	struct fpisa_address group = FPISA_NO_ADDRESS;

	if (!hello->group)
		return group;
	if (!ipv6)
		return fpisa_ipv4(hello->group);
	memcpy(&group, hello->group_high, sizeof(hello->group_high));
	group.w[3] = hello->group;
	return group;
}

/* Return the number of the next attempt. */
uint64_t fpisa_incarnation_next(const struct fpisa_incarnation *i);

/* Begin the attempt with this number, and draw its nonce. Return 0, or -EIO if getrandom() fails. */
int fpisa_incarnation_begin(struct fpisa_incarnation *i, uint64_t number);

/*
 * Begin an attempt at one aggregator. `anew` is nonzero after an earlier attempt of the same join; the pauses
 * then continue to grow.
 */
void fpisa_joining_begin(struct fpisa_joining *j, int anew);

/* Return whether it is time for a HELLO. If so, set the time of the next one. */
int fpisa_hello_is_due(struct fpisa_joining *j, uint64_t now);

/*
 * Store the missing ranks that a WELCOME names. If they have changed, other ranks are joining at this time, so begin again
 * with the shortest pause.
 */
void fpisa_joining_lacks(struct fpisa_joining *j, uint64_t missing, uint64_t now);

/* Write the HELLO. The WELCOME will contain the same `call`. */
void fpisa_hello_write(struct fpisa_hello_frame *f, uint32_t job, const struct fpisa_incarnation *i,
		       const struct fpisa_joining *j, const struct fpisa_key *token, uint32_t call);

/* Evaluate a WELCOME that is whole and has the right proof. */
enum fpisa_welcome fpisa_welcome_take(struct fpisa_joining *j, const struct fpisa_incarnation *i,
				      const struct fpisa_hdr *h);

#endif
