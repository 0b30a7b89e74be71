/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The rules of the protocol as a shared object for tests/model/model.py. Each function passes numbers to
 * include/fpisa/frame.h, slot.h and tree.h, in the order in which the datapath (bpf/) and the in-process transport call
 * them. model.py compiles this file.
 */
#include "fpisa/tree.h"

/* A version of a slot as model.py holds it, without fields that are equal in every claim */
struct rules_slot {
	__u64 generation, chunk, bitmap, order, arrivals, done, digest, keepers;
};

#define CALL 7
#define COUNT 32
#define SECRET 1000 /* secret of every rank, because the models compare incarnations themselves */
#define TOKEN 17
#define EMITS 0x100  /* a result is sent */
#define BREAKS 0x100 /* the generation is broken from this frame on */
#define HALF 0x200   /* half of the contribution may be in the registers */

static void unpack(struct fpisa_slot *s, const struct rules_slot *r)
{
	*s = (struct fpisa_slot){
		.generation = (__u32)r->generation,
		.chunk = r->chunk,
		.bitmap = r->bitmap,
		.order = r->order,
		.arrivals = (__u8)r->arrivals,
		.done = (__u8)r->done,
		.digest = r->digest,
		.keepers = (__u16)r->keepers,
	};
	if (r->generation) {
		s->call = CALL;
		s->count = COUNT;
		s->op = FPISA_OP_SUM;
	}
}

static void pack(struct rules_slot *r, const struct fpisa_slot *s)
{
	r->generation = s->generation;
	r->chunk = s->chunk;
	r->bitmap = s->bitmap;
	r->order = s->order;
	r->arrivals = s->arrivals;
	r->done = s->done;
	r->digest = s->digest;
	r->keepers = s->keepers;
}

static struct fpisa_job job_of(__u32 workers, __u32 window, __u64 live)
{
	struct fpisa_job job = {.active = 1,
				.workers = workers,
				.live = live,
				.window = window,
				.elements = COUNT,
				.format = FPISA_FORMAT_FP32};

	for (__u32 i = 0; i < workers; i++)
		job.rank[i].addr = fpisa_ipv4(i + 1);
	return job;
}

__u32 rules_slot_of(__u64 chunk, __u32 window)
{
	return fpisa_slot_of(chunk, window);
}

/*
 * Take one ADD of `rank` for `chunk` in `generation`. `door` is the live mask during the checks without state. `live`
 * and `current` are the live mask and the job's generation under the lock. *r is the version that fpisa_slot_of()
 * names, and is updated as the datapath would update it. `keepers` is the ADD's field `contributors`. `broken` is the reason if the generation is broken, else 0.
 * `lost` says that the programs of the pipeline are missing after admission. Return the negated verdict of a drop, plus
 * BREAKS, or enum fpisa_step, plus EMITS.
 */
int rules_add(struct rules_slot *r, __u32 workers, __u32 window, __u32 rank, __u64 chunk, __u32 generation, __u64 door,
	      __u64 live, __u32 current, __u64 digest, __u32 broken, __u32 lost, __u32 keepers)
{
	struct fpisa_job job = job_of(workers, window, door);
	struct fpisa_hdr h = {.format = FPISA_FORMAT_FP32,
			      .op = FPISA_OP_SUM,
			      .generation = generation,
			      .slot = fpisa_slot_of(chunk, window),
			      .rank = (__u16)rank,
			      .count = COUNT,
			      .chunk = chunk,
			      .digest = digest,
			      .secret = SECRET,
			      .call = CALL,
			      .contributors = (__u16)keepers};
	struct fpisa_session session = {.generation = current};
	const struct fpisa_address from = fpisa_ipv4(rank + 1);
	struct fpisa_claim claim;
	enum fpisa_verdict v;
	struct fpisa_slot s;
	__u64 results;
	int step;

	session.secret[rank] = SECRET;
	v = fpisa_check_add(&h, COUNT * 4, &job, &session, &from, 0);
	if (v != FPISA_V_ok)
		return -(int)v;
	if (broken)
		fpisa_break(&session, current, (enum fpisa_verdict)broken);
	unpack(&s, r);
	claim = fpisa_claim_of(&h, &job);
	step = fpisa_admit(&session, &s, &claim, live, &results);
	if (step < 0)
		return session.broken && !broken ? step - BREAKS : step;
	if (lost && step != FPISA_STEP_WAIT) {
		fpisa_break(&session, s.generation, FPISA_V_pipeline);
		pack(r, &s);
		return -(FPISA_V_pipeline | BREAKS | (step == FPISA_STEP_SET || step == FPISA_STEP_ADD ? HALF : 0));
	}
	if (step == FPISA_STEP_WAIT) {
		pack(r, &s);
		return step;
	}
	if (step == FPISA_STEP_SET || step == FPISA_STEP_ADD) {
		if (!fpisa_slot_commit(&s, (__u16)rank, live, 0)) {
			pack(r, &s);
			return step;
		}
	}
	s.done = 1;
	pack(r, &s);
	return step | EMITS;
}

__u32 rules_keepers(__u32 first, __u32 last)
{
	return fpisa_keepers(first, last);
}

/* Return the ranks that get the payload of a result, if its slot has these keepers. */
__u64 rules_kept_by(__u32 keepers, __u32 workers)
{
	const struct fpisa_job job = job_of(workers, 1, 0);
	const struct fpisa_slot s = {.keepers = (__u16)keepers};
	struct fpisa_hdr h = {0};
	__u64 ranks = 0;

	fpisa_make_result(&h, &s, &job, SECRET, 0, 0);
	for (__u32 r = 0; r < workers; r++)
		ranks |= (__u64)(fpisa_keeps(h.rank, r) != 0) << r;
	return ranks;
}

/*
 * Add plane `plane`, one of `parts`, of the partial sum of leaf `rank` at the root, as rules_add() adds an ADD.
 * `contributors` is the number of ranks in the partial sum. x[0] has the torn ranks, x[1] the number of contributors to
 * the slot, and x[2 + r] the planes of rank r that the registers hold.
 */
int rules_part(struct rules_slot *r, __u64 *x, __u32 workers, __u32 window, __u32 rank, __u64 chunk, __u32 plane,
	       __u32 parts, __u32 contributors, __u64 door, __u64 live, __u32 broken)
{
	struct fpisa_job job = job_of(workers, window, door);
	struct fpisa_hdr h = {.format = FPISA_FORMAT_FP32,
			      .op = FPISA_OP_SUM,
			      .generation = 1,
			      .slot = fpisa_slot_of(chunk, window),
			      .rank = (__u16)rank,
			      .count = COUNT,
			      .chunk = chunk,
			      .digest = 1,
			      .secret = SECRET,
			      .call = CALL,
			      .contributors = (__u16)contributors,
			      .reason = (__u16)(plane | parts << FPISA_PART_COUNT_SHIFT)};
	struct fpisa_session session = {.generation = 1};
	const struct fpisa_address from = fpisa_ipv4(rank + 1);
	struct fpisa_partials partials = {.torn = x[0], .contributors = (__u32)x[1]};
	struct fpisa_claim claim;
	enum fpisa_verdict v;
	struct fpisa_slot s;
	__u64 results;
	int step;

	job.mode = FPISA_MODE_EXACT;
	job.family = fpisa_family(FPISA_FP32, FPISA_MODE_EXACT);
	job.flags = FPISA_JOB_LEAVES;
	for (__u32 i = 0; i < workers; i++)
		partials.in[i].low = x[2 + i];
	session.secret[rank] = SECRET;
	v = fpisa_check_partial(&h, COUNT * 4, &job, &session, &from, 0);
	if (v != FPISA_V_ok)
		return -(int)v;
	if (broken)
		fpisa_break(&session, 1, (enum fpisa_verdict)broken);
	unpack(&s, r);
	claim = fpisa_claim_of(&h, &job);
	step = fpisa_admit_part(&session, &s, &partials, &claim, h.reason, live, &results);
	if (step < 0)
		return step;
	if (step == FPISA_STEP_FINISH || step == FPISA_STEP_RESEND ||
	    (step != FPISA_STEP_WAIT && fpisa_commit_part(&s, &partials, &h, live, 0))) {
		v = step == FPISA_STEP_RESEND ? (enum fpisa_verdict)0 : fpisa_round_lost(&partials);
		if (v)
			return -(int)(v | BREAKS);
		s.done = 1;
		step |= EMITS;
	}
	x[0] = partials.torn;
	x[1] = partials.contributors;
	for (__u32 i = 0; i < workers; i++)
		x[2 + i] = partials.torn >> i & 1 ? partials.in[i].low : 0;
	pack(r, &s);
	return step;
}

/*
 * Return the ranks that a worker would treat as lost after the result of `chunk`, which the aggregator sends now. *r is
 * the version that fpisa_slot_of() names for the previous chunk.
 */
__u64 rules_lost(const struct rules_slot *r, __u32 workers, __u64 chunk, __u32 generation, __u64 live)
{
	struct fpisa_job job = {.workers = workers};
	struct fpisa_hdr h = {.generation = generation, .chunk = chunk};
	struct fpisa_slot before;

	unpack(&before, r);
	fpisa_tell_lost(&h, &job, &before, live);
	return fpisa_told_lost(&h, workers);
}

/*
 * Take one HELLO of `rank` in `incarnation`, with a proof and the rank's cookie. The session is four numbers and the
 * incarnations of the first `workers` ranks, and is updated. Return 1 if the rank has joined.
 */
int rules_join(__u64 *joining, __u64 *members, __u32 *generation, __u32 *next, __u64 *incarnations, __u32 workers,
	       __u32 rank, __u64 incarnation, __u64 live)
{
	struct fpisa_session s = {.joining = *joining, .members = *members, .generation = *generation};
	struct fpisa_job job = {.workers = workers, .live = live, .token = TOKEN, .key = {1, 2}};
	struct fpisa_hdr h = {.type = FPISA_TYPE_HELLO, .aux = incarnation};
	struct fpisa_hello p = {.proof = TOKEN};
	const struct fpisa_address from = fpisa_ipv4(rank + 1);
	__u32 listed;

	for (__u32 i = 0; i < workers; i++) {
		job.rank[i].addr = fpisa_ipv4(i + 1);
		s.incarnation[i] = incarnations[i];
	}
	h.secret = fpisa_cookie(&job.key, rank, incarnation);
	h.checksum = fpisa_hello_sum(&h, &p);
	if (fpisa_check_hello(&h, &p, sizeof(p), &job, &from, 0, &listed) != FPISA_V_ok ||
	    fpisa_challenge(&h, &p, fpisa_cookie(&job.key, listed, h.aux)) != FPISA_V_ok)
		return 0;
	fpisa_welcome(&h, &p, &job, &s, listed, live, next);
	for (__u32 i = 0; i < workers; i++)
		incarnations[i] = s.incarnation[i];
	*joining = s.joining;
	*members = s.members;
	*generation = s.generation;
	return !(h.flags & FPISA_F_PENDING);
}

/*
 * Take one HELLO of a rank at a leaf, as rules_join() does at a root. *attempt and *offered are those of the leaf.
 * Return enum fpisa_waiting.
 */
int rules_leaf_join(__u64 *joining, __u64 *members, __u64 *attempt, __u64 *offered, __u64 *incarnations, __u32 workers,
		    __u32 rank, __u64 incarnation, __u64 live)
{
	struct fpisa_session s = {.joining = *joining, .members = *members};
	struct fpisa_uplink up = {.attempt = *attempt, .offered = *offered};
	int waiting;

	for (__u32 i = 0; i < workers; i++)
		s.incarnation[i] = incarnations[i];
	waiting = (int)fpisa_leaf_join(&s, &up, rank, incarnation, SECRET, live);
	for (__u32 i = 0; i < workers; i++)
		incarnations[i] = s.incarnation[i];
	*joining = s.joining;
	*members = s.members;
	*attempt = up.attempt;
	*offered = up.offered;
	return waiting;
}

/* Take the parent's WELCOME to `asked`, which names `generation`. Return whether the generation begins at the leaf. */
int rules_leaf_welcome(__u64 *joining, __u64 *members, __u32 *current, __u64 attempt, __u64 *offered, __u64 asked,
		       __u32 generation, __u64 live)
{
	struct fpisa_session s = {.joining = *joining, .members = *members, .generation = *current};
	struct fpisa_uplink up = {.attempt = attempt, .offered = *offered};
	int begins = fpisa_leaf_welcome(&s, &up, asked, generation, live);

	*joining = s.joining;
	*members = s.members;
	*current = s.generation;
	*offered = up.offered;
	return begins;
}

/* Return the name of verdict `v`, or NULL past the last verdict. */
const char *rules_verdict(int v)
{
	static const char *const names[] = {
#define X(name, class, text) #name,
		FPISA_VERDICTS(X)
#undef X
	};

	return v >= 0 && v < FPISA_VERDICT_COUNT ? names[v] : 0;
}
