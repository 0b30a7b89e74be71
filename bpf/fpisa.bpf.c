/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * FPISA on XDP: the programs.
 *
 *	fpisa			the entry; attach this program
 *	fpisa_mau0..fpisa_mau8	the paper's nine units, chained by tail calls
 *
 * A contribution's way from wire to wire, a file a step:
 *
 *	parse.h		is it a whole frame of ours, and of which job
 *	check.h		does its job accept it, from the rank in its header; by fpisa/frame.h
 *	phv.h		the data that later steps need
 *	admission.h	its slot, and the protocol's rules, of fpisa/slot.h
 *	pipeline.h	MAU0..8, in one program (fused.h) or a program each (staged.h)
 *	finish.h	the contribution is recorded, the round done
 *	fanout.h	the result, to all ranks
 *
 * reply.h answers a sender that is refused on that way, or asks for the state of the round. lpm.h fills the trie that
 * MAU6 reads, before the first round that needs it (clz_ready()).
 *
 * receive() and contribution() below are the first three steps in C, admission() the rest, chain() a stage that is
 * missing (staged.h). A HELLO leaves the list for hello.h, a frame of a query for the query's program (query/).
 *
 * A step returns an XDP action, which ends the packet, or GO_ON (finish.h); a check an enum fpisa_verdict, FPISA_V_ok
 * if it passed; a rule of slots an enum fpisa_step, or a verdict negated. A function that cannot fail returns 0,
 * because the verifier wants a number.
 *
 * The entry is in section "prog", where iproute2 looks; iproute2 loads that program alone. So the entry can run every
 * stage itself, and is in every slot of the program array until a loader puts the stage programs there. `ip link set
 * dev DEV xdp obj fpisa.o` then runs the pipeline through real tail calls with no other step. When stage programs are
 * loaded, the entry replaces missing ones.
 */
#include "parse.h"
#include "check.h"
#include "phv.h"
#include "admission.h"
#include "pipeline.h"
#include "finish.h"
#include "fanout.h"
#include "hello.h"
#include "lpm.h"
#include "programs.h"

int fpisa(struct xdp_md *ctx);

/* Family 0's banks: FPISA_STAGES programs each, and their stand-in. */
#define BANK(n) [(n)*FPISA_BANK_SIZE...(n) * FPISA_BANK_SIZE + FPISA_STAND_IN] = (void *)&fpisa

/* Programs; index: fpisa_bank_of() + number of the unit, or FPISA_ADMISSION; FPISA_QUERY_PROGRAM + a query's number. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, FPISA_PROGRAMS);
	__uint(key_size, sizeof(__u32));
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__array(values, int(void *));
} fpisa_stages SEC(".maps") = {.values = {BANK(0), BANK(1)}};

static __always_inline void tail_call(struct xdp_md *ctx, __u32 index)
{
	bpf_tail_call(ctx, &fpisa_stages, index);
}

/* Process an ADD to p->job. */
static __always_inline int contribution(struct xdp_md *ctx, struct fpisa_phv *phv, struct fpisa_control *control,
					struct packet *p)
{
	enum fpisa_verdict v = check(ctx, p);

	if (v != FPISA_V_ok)
		return refuse(ctx, p->id, v);
	mark_seen(p->id, p->h.fpisa->rank);
	fill_phv(phv, p, control);
	p->slot = lookup(&fpisa_slots, phv->key);
	if (!clz_ready(control, phv->clz))
		return count_verdict(p->id, FPISA_V_busy, XDP_DROP);
	if (p->h.fpisa->flags & FPISA_F_RETRANSMIT)
		p->counters->retransmissions++;
	if (phv->marked)
		p->counters->marked++;
	if (!p->job->family)
		return admission(ctx, phv, p);
	/* No slot is locked yet, so if the family is not loaded, only this frame is lost. */
	tail_call(ctx, phv->bank + FPISA_ADMISSION);
	return count_verdict(p->id, FPISA_V_family, XDP_DROP);
}

/* Remove the tag of a frame that has_tag(), if it is a frame of a job with that tag. Return GO_ON, or how it ends. */
GLOBAL_FN int untag(struct xdp_md *ctx)
{
	struct fpisa_control *control = lookup(&fpisa_control, 0);
	enum fpisa_verdict v;
	struct packet p;

	if (!control)
		return XDP_PASS;
	v = find_tagged(ctx, control, &p);
	if (v != FPISA_V_ok)
		return count_verdict(p.id, v, XDP_PASS);
	return pop_tag(ctx) ? count_verdict(p.id, FPISA_V_internal, XDP_DROP) : GO_ON;
}

/* Process a HELLO to the job. If the kernel must see it, it gets its tag again. */
static __always_inline int joining(struct xdp_md *ctx, const struct fpisa_phv *phv, const struct packet *p)
{
	int action = hello(ctx, p->id, p->payload);

	if (action == XDP_PASS && phv->tagged && push_tag(ctx, p->job->vlan))
		return XDP_DROP;
	return action;
}

/* Process a new frame. */
static __always_inline int receive(struct xdp_md *ctx, struct fpisa_phv *phv)
{
	struct fpisa_control *control = lookup(&fpisa_control, 0);
	enum fpisa_verdict v;
	struct packet p;

	if (!control)
		return XDP_PASS;
	phv->tagged = has_tag(ctx);
	if (phv->tagged) {
		int action = untag(ctx);

		if (action != GO_ON)
			return action;
	}
	p.whole = find_headers(ctx, &p.h);
	if (!is_ours(ctx, &p.h, control))
		return count_verdict(FPISA_MAX_JOBS, FPISA_V_not_ours, XDP_PASS);
	v = find_job(&p);
	if (v != FPISA_V_ok)
		return count_verdict(p.id, v, XDP_PASS);
	if (!phv->tagged && !may_be_bare(p.job))
		return count_verdict(p.id, FPISA_V_vlan, XDP_PASS);
	v = parse(ctx, control, &p);
	if (v != FPISA_V_ok)
		return count_verdict(FPISA_MAX_JOBS, v, XDP_DROP);
	if (!p.job)
		return count_verdict(FPISA_MAX_JOBS, FPISA_V_no_job, XDP_DROP);
	p.session = lookup(&fpisa_sessions, p.id);
	p.counters = counters_of(p.id);
	if (!p.session || !p.counters)
		return count_verdict(p.id, FPISA_V_internal, XDP_DROP);
	p.counters->packets++;
	p.counters->bytes += FPISA_PAYLOAD_OFFSET + p.payload;
	v = fpisa_check_type(p.h.fpisa);
	if (v != FPISA_V_ok) {
		/* A query's frame, if the number is a query's: query/. */
		if (v == FPISA_V_type)
			tail_call(ctx, FPISA_QUERY_PROGRAM + p.id);
		return count_verdict(p.id, v, XDP_DROP);
	}
	/* Replies reuse the frame, and come from the first port. */
	p.h.udp->dest = bpf_htons(first_port(control));
	if (p.h.fpisa->type == FPISA_TYPE_ADD)
		return contribution(ctx, phv, control, &p);
	return p.port ? count_verdict(p.id, FPISA_V_port, XDP_DROP) : joining(ctx, phv, &p);
}

SEC("prog")
int fpisa(struct xdp_md *ctx)
{
	struct fpisa_phv *phv = lookup(&fpisa_phv, 0);
	__u32 stage;

	if (!phv)
		return XDP_PASS;
	stage = phv->stage;
	phv->stage = 0;
	return stage ? chain(ctx, phv, stage - 1) : receive(ctx, phv);
}

char _license[] SEC("license") = "Dual BSD/GPL";
