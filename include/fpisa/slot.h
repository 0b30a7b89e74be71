/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The rules of the protocol, as pure functions over one slot or one session. The datapath and the in-process transport
 * call these functions, and tests/model explores the same rules under loss, duplication, reordering and shrink.
 *
 * Chunk numbers begin at 0 in each generation. With a window of W slots, chunk c uses slot c mod W and version (c / W)
 * mod 2. A worker sends chunk c + W only after it has the result of chunk c. So when chunk c + 2W arrives for an entry
 * that holds c, every rank has the result of c, and the entry is free.
 */
#ifndef FPISA_SLOT_H
#define FPISA_SLOT_H

#include "job.h"
#include "verdict.h"

/* The fields of a contribution that the slot rules read. */
struct fpisa_claim {
	__u64 chunk;
	__u64 digest;
	__u64 operand;
	__u32 generation;
	__u32 call;
	__u32 window;
	__u16 count;
	__u16 rank;
	__u16 keepers;
	__u8 op;
};

/* The decision about a contribution. A negative value is the negated verdict of a drop. */
enum fpisa_step {
	FPISA_STEP_SET,	   /* first contribution, whose values overwrite the registers */
	FPISA_STEP_ADD,	   /* add the values to the registers */
	FPISA_STEP_WAIT,   /* already known, and the round is not complete */
	FPISA_STEP_FINISH, /* already known, but the round is complete now (shrink) */
	FPISA_STEP_RESEND, /* the round is done; send the kept result to the sender */
};

/* Return the value of `slot` in the header of a frame with chunk c. */
static __always_inline __u32 fpisa_slot_of(__u64 chunk, __u32 window)
{
	__u32 slot = (__u32)chunk & (window - 1);
	__u32 version = (chunk & window) != 0;

	return slot << 1 | version;
}

/* Let all ranks keep the result if this contribution names other keepers, for example of a library that does not know them. */
static __always_inline void fpisa_slot_merge_keepers(struct fpisa_slot *s, const struct fpisa_claim *c)
{
	if (s->keepers != c->keepers)
		s->keepers = 0;
}

/*
 * Apply rules 1 to 5 (doc/protocol.md, section 1). The owner of the slot has checked that the generation of the claim
 * is current. If the contribution is the first of a round, begin the round in *s. Change no other state, because
 * fpisa_slot_commit() follows once the registers hold the contribution. `broken` is the verdict that broke the
 * generation, or 0. A broken generation only sends kept results.
 */
static __always_inline int fpisa_slot_admit(struct fpisa_slot *s, const struct fpisa_claim *c, __u64 live,
					    enum fpisa_verdict broken)
{
	__u64 bit = 1ull << (c->rank & 63);
	int start = 0;

	if (s->generation != c->generation) {
		/* The entry is empty in this generation, so its first chunk must be below 2W. */
		if (c->chunk >= 2ull * c->window)
			return -FPISA_V_ahead;
		start = 1;
	} else if (c->chunk < s->chunk) {
		return -FPISA_V_stale;
	} else if (c->chunk > s->chunk) {
		if (!s->done || c->chunk != s->chunk + 2ull * c->window)
			return -FPISA_V_ahead;
		start = 1;
	}
	if (start) {
		if (broken)
			return -(int)broken;
		s->generation = c->generation;
		s->chunk = c->chunk;
		s->digest = c->digest;
		s->operand = c->operand;
		s->call = c->call;
		s->count = c->count;
		s->keepers = c->keepers;
		s->op = c->op;
		s->bitmap = 0;
		s->order = 0;
		s->arrivals = 0;
		s->flags = 0;
		s->done = 0;
		return FPISA_STEP_SET;
	}
	if (s->count != c->count || s->op != c->op || s->call != c->call || s->digest != c->digest ||
	    s->operand != c->operand)
		return -FPISA_V_mismatch;
	if (s->done) {
		fpisa_slot_merge_keepers(s, c);
		return FPISA_STEP_RESEND;
	}
	if (broken)
		return -(int)broken;
	if (s->bitmap & bit)
		return (s->bitmap & live) == live ? FPISA_STEP_FINISH : FPISA_STEP_WAIT;
	fpisa_slot_merge_keepers(s, c);
	return s->bitmap ? FPISA_STEP_ADD : FPISA_STEP_SET;
}

/*
 * Break the generation if it is current. A broken generation adds nothing more, and its ranks get `why` as the reason.
 * The whole generation ends, and not only the round, because a waiting worker resends only its oldest chunk, which may
 * wait for ranks that have given up. The mark is one word, so it is never read half written. The first mark of a
 * generation stays.
 *
 * A late CPU must not overwrite the mark of a generation that began in the meantime. So a CPU replaces only the mark
 * that it read before it checked that its own generation was current. A late CPU may still replace an older mark while
 * another CPU marks the new generation. The second CPU then has to try again. This cannot happen twice, because a
 * second late CPU could replace the new mark only if it had read this mark before the new generation began.
 */
#define FPISA_BREAK_ATTEMPTS 2

static __always_inline void fpisa_break(struct fpisa_session *session, __u32 generation, enum fpisa_verdict why)
{
	for (int i = 0; i < FPISA_BREAK_ATTEMPTS; i++) {
		__u64 seen = __sync_fetch_and_add(&session->broken, 0);

		if ((__u32)seen == generation || fpisa_read_once(&session->generation) != generation ||
		    __sync_val_compare_and_swap(&session->broken, seen, (__u64)why << 32 | generation) == seen)
			return;
	}
}

/* Return why the generation is broken, or 0. */
static __always_inline enum fpisa_verdict fpisa_broken(const struct fpisa_session *session, __u32 generation)
{
	__u64 broken = fpisa_read_once(&session->broken);

	return (__u32)broken == generation ? (enum fpisa_verdict)(broken >> 32) : 0;
}

/*
 * Apply the rules to a contribution whose frame has passed every check. Compare its generation, and decide what to do
 * with the contribution. The caller owns the lock of the slot, because a new generation may already use the slot. A
 * mismatch breaks the generation. Return an enum fpisa_step, or the negated verdict of a drop. Set *results to the
 * secret of the generation's results. Read this secret first, because a rank that was removed before the next
 * generation began must not get the secret of the next generation.
 */
static __always_inline int fpisa_admit(struct fpisa_session *session, struct fpisa_slot *s, const struct fpisa_claim *c,
				       __u64 live, __u64 *results)
{
	int step;

	*results = fpisa_read_once(&session->results);
	if (!c->generation || c->generation != fpisa_read_once(&session->generation))
		return -FPISA_V_generation;
	step = fpisa_slot_admit(s, c, live, fpisa_broken(session, c->generation));
	if (step == -FPISA_V_mismatch)
		fpisa_break(session, c->generation, FPISA_V_mismatch);
	return step;
}

/*
 * Record the contribution of `rank`, whose values the registers hold. `flags` are result flags, and FPISA_F_MARKED if
 * the frame had a congestion mark. Return nonzero if the round is complete. The caller owns the lock.
 */
static __always_inline int fpisa_slot_commit(struct fpisa_slot *s, __u16 rank, __u64 live, __u32 flags)
{
	if (rank < FPISA_ORDER_WORKERS)
		s->order |= (__u64)(s->arrivals & 15) << (4 * rank);
	s->arrivals++;
	s->bitmap |= 1ull << (rank & 63);
	s->flags |= (__u8)flags;
	return (s->bitmap & live) == live;
}

/*
 * Return the ranks of `live` whose contributions to `chunk` are missing from its round in *s. Return 0 if the round is
 * not open or has no contribution yet. Ranks send chunks in order, so when the round of the next chunk is complete, the
 * missing contributions were lost, unless frames were reordered. The caller need not own the lock, because after a
 * wrong answer a rank only sends an unnecessary frame or waits for a timeout.
 */
static __always_inline __u64 fpisa_slot_lacks(const struct fpisa_slot *s, __u32 generation, __u64 chunk, __u64 live)
{
	__u64 bitmap = fpisa_read_once(&s->bitmap);

	if (s->generation != generation || fpisa_read_once(&s->chunk) != chunk || s->done || !bitmap)
		return 0;
	return live & ~bitmap;
}

/* Effect of a HELLO on its rank. */
enum fpisa_waiting {
	FPISA_HELLO_OLD,      /* none, because the incarnation is invalid or older than the known incarnation */
	FPISA_HELLO_JOINED,   /* the rank is in the current generation */
	FPISA_HELLO_WAITS,    /* the rank waits for others */
	FPISA_HELLO_ALL_WAIT, /* all live ranks wait */
};

/*
 * Process a HELLO of `rank` in incarnation `inc` that carried the right cookie. The caller owns the lock of the
 * session. After a newcomer, all waiting ranks must repeat their HELLO.
 */
static __always_inline enum fpisa_waiting fpisa_session_wait(struct fpisa_session *s, __u32 rank, __u64 inc,
							     __u64 cookie, __u64 live)
{
	__u64 bit;

	/*
	 * Use the same value for check and index, because the verifier of Linux 6.1 loses the bound if they are two
	 * copies.
	 */
	fpisa_opaque(rank);
	if (rank >= FPISA_MAX_WORKERS || !inc || inc < s->incarnation[rank])
		return FPISA_HELLO_OLD;
	bit = 1ull << rank;
	if (inc > s->incarnation[rank]) {
		s->incarnation[rank] = inc;
		s->secret[rank] = cookie;
		s->members &= ~bit;
		s->joining = 0;
	}
	if (s->members & bit)
		return FPISA_HELLO_JOINED;
	s->joining |= bit;
	return (s->joining & live) == live ? FPISA_HELLO_ALL_WAIT : FPISA_HELLO_WAITS;
}

/*
 * Process a HELLO of `rank` in incarnation `inc` that carried the right cookie. The caller owns the lock of the
 * session.
 *
 * A generation begins when every live rank has sent a HELLO with an incarnation newer than its last known incarnation.
 * So a worker that restarts joins the next generation together with all other ranks, and no frame of the old generation
 * can affect the new generation. A waiting rank repeats its HELLO. All waiting ranks must have sent a HELLO since the
 * last newcomer, so a worker that died while it waited is not counted. When a generation begins, it takes the number
 * *next, which is then advanced. Return 1 if the sender is in the current generation. Return 0 if the sender has to
 * repeat its HELLO, because other ranks are missing or its incarnation is older than the known incarnation.
 */
static __always_inline int fpisa_session_join(struct fpisa_session *s, __u32 rank, __u64 inc, __u64 cookie, __u64 live,
					      __u32 *next)
{
	enum fpisa_waiting waiting = fpisa_session_wait(s, rank, inc, cookie, live);
	__u32 generation;

	if (waiting != FPISA_HELLO_ALL_WAIT)
		return waiting == FPISA_HELLO_JOINED;
	s->members = s->joining;
	s->joining = 0;
	generation = __sync_fetch_and_add(next, 1);
	/* Skip 0, which means "no generation". The counter starts at 0 if the CLI has not initialised the datapath. */
	if (!generation)
		generation = __sync_fetch_and_add(next, 1);
	fpisa_write_once(&s->generation, generation);
	return 1;
}

#endif
