/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The protocol's rules as a shared object for tests/model/model.py. Each
 * function passes numbers to include/fpisa/frame.h and slot.h, in the order in
 * which the datapath (bpf/) and the in-process transport call them. model.py
 * compiles this file.
 */
#include "fpisa/frame.h"

/* A slot's version as model.py holds it, without fields that are equal in every claim */
struct rules_slot {
	__u64 generation, chunk, bitmap, order, arrivals, done, digest;
};

#define CALL 7
#define COUNT 32
#define SECRET 1000 /* of every rank: models look at incarnations themselves */
#define TOKEN 17
#define EMITS 0x100  /* a result leaves */
#define BREAKS 0x100 /* the generation is broken from now on */
#define HALF 0x200   /* half of the contribution may be in the registers */

static void unpack(struct fpisa_slot *s, const struct rules_slot *r)
{
	*s = (struct fpisa_slot){
		.generation = (__u32)r->generation,
		.chunk = r->chunk,
		.bitmap = r->bitmap,
		.order = r->order,
		.arrivals = (__u16)r->arrivals,
		.done = (__u8)r->done,
		.digest = r->digest,
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
}

__u32 rules_slot_of(__u64 chunk, __u32 window)
{
	return fpisa_slot_of(chunk, window);
}

/*
 * Take one ADD of `rank` for `chunk` in `generation`. `door` is the live mask when
 * the checks without state ran, `live` and `current` the live mask and the
 * job's generation under the lock. *r is the version that fpisa_slot_of()
 * names; it becomes what the datapath leaves behind.
 * `broken`: the reason if the generation is broken, else 0; `lost`: after admission, the programs of the pipeline
 * are missing. Return the negative of a drop's verdict, plus BREAKS, or
 * enum fpisa_step, plus EMITS.
 */
int rules_add(struct rules_slot *r, __u32 workers, __u32 window, __u32 rank, __u64 chunk, __u32 generation, __u64 door,
	      __u64 live, __u32 current, __u64 digest, __u32 broken, __u32 lost)
{
	struct fpisa_job job = {.active = 1,
				.workers = workers,
				.live = door,
				.window = window,
				.elements = COUNT,
				.format = FPISA_FORMAT_FP32};
	struct fpisa_hdr h = {.format = FPISA_FORMAT_FP32,
			      .op = FPISA_OP_SUM,
			      .generation = generation,
			      .slot = fpisa_slot_of(chunk, window),
			      .rank = (__u16)rank,
			      .count = COUNT,
			      .chunk = chunk,
			      .digest = digest,
			      .secret = SECRET,
			      .call = CALL};
	struct fpisa_session session = {.generation = current};
	struct fpisa_claim claim;
	enum fpisa_verdict v;
	struct fpisa_slot s;
	__u64 results;
	int step;

	for (__u32 i = 0; i < workers; i++)
		job.rank[i].addr = i + 1;
	session.secret[rank] = SECRET;
	v = fpisa_check_add(&h, COUNT * 4, &job, &session, rank + 1, 0);
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

/*
 * Take one HELLO of `rank` in `incarnation`, with a proof and its cookie. The session is four numbers
 * and the incarnations of the first `workers` ranks, updated. Return 1 if joined.
 */
int rules_join(__u64 *joining, __u64 *members, __u32 *generation, __u32 *next, __u64 *incarnations, __u32 workers,
	       __u32 rank, __u64 incarnation, __u64 live)
{
	struct fpisa_session s = {.joining = *joining, .members = *members, .generation = *generation};
	struct fpisa_job job = {.workers = workers, .live = live, .token = TOKEN, .key = {1, 2}};
	struct fpisa_hdr h = {.type = FPISA_TYPE_HELLO, .aux = incarnation};
	struct fpisa_hello p = {.proof = TOKEN};
	__u32 listed;

	for (__u32 i = 0; i < workers; i++) {
		job.rank[i].addr = i + 1;
		s.incarnation[i] = incarnations[i];
	}
	h.secret = fpisa_cookie(&job.key, rank, incarnation);
	h.checksum = fpisa_hello_sum(&h, &p);
	if (fpisa_check_hello(&h, &p, sizeof(p), &job, rank + 1, 0, &listed) != FPISA_V_ok ||
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

/* Return the name of verdict `v`, or NULL past the last. */
const char *rules_verdict(int v)
{
	static const char *const names[] = {
#define X(name, class, text) #name,
		FPISA_VERDICTS(X)
#undef X
	};

	return v >= 0 && v < FPISA_VERDICT_COUNT ? names[v] : 0;
}
