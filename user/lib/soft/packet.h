/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A frame in the aggregator of soft.h, for soft.c and leaf.c. */
#ifndef FPISA_SOFT_PACKET_H
#define FPISA_SOFT_PACKET_H

#include <sched.h>
#include "blocks.h"
#include "soft.h"

/* A frame in progress, and its parsed state. */
struct packet {
	struct fpisa_hdr *h;
	void *payload;
	size_t *len;
	uint64_t *to;
	uint32_t marked; /* FPISA_F_MARKED or 0 */
	uint32_t blocks;
	__u64 results; /* the secret of the generation's results */
};

/*
 * Take the lock of a slot. Unlike the datapath, which drops the frame as busy, wait for the owner as long as necessary.
 */
static inline void lock_take(__u64 *lock)
{
	__u64 idle = 0;

	while (!__atomic_compare_exchange_n(lock, &idle, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
		idle = 0;
		sched_yield();
	}
}

static inline void lock_release(__u64 *lock)
{
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

static inline void count(__u64 *counter, uint64_t n)
{
	if (n)
		__atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

static inline uint64_t live_of(const struct fpisa_soft *s)
{
	return fpisa_read_once(&s->job.live);
}

/* -- packet.c ---------------------------------------------------------------- */

struct fpisa_soft_registers fpisa_soft_registers_of(const struct fpisa_soft *s, const struct fpisa_slot *slot);

/* Return the frame's checksum. */
uint32_t fpisa_soft_checksum(const struct packet *p, size_t payload);

/* Return the tag of the frame, with the NH key of the job. */
uint64_t fpisa_soft_tag(const struct fpisa_soft *s, const struct packet *p, const struct fpisa_key *key, size_t payload);

/* Add the checksum or tag to a frame that is otherwise complete, as the reply to the ranks `to`. Return v. */
enum fpisa_verdict fpisa_soft_reply(const struct fpisa_soft *s, struct packet *p, size_t payload, uint64_t to,
				    enum fpisa_verdict v);

/* -- leaf.c ------------------------------------------------------------------ */

/* Send the leaf's HELLO to its parent. */
void fpisa_leaf_greet(struct fpisa_soft *s);

/*
 * Seal the round. Its registers become digits, and no more contributions are added. The caller owns the lock of the
 * slot.
 */
void fpisa_leaf_seal(struct fpisa_soft *s, struct fpisa_slot *slot, uint32_t blocks);

/* Send the partial sum of the sealed round of the ADD `asked` to the parent, unless the slot has another round now. */
void fpisa_leaf_send(struct fpisa_soft *s, const struct fpisa_hdr *asked);

#endif
