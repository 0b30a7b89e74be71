/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The programs of FPISA on XDP:
 *
 *	fpisa			the entry; attach this program
 *	fpisa_mau0..fpisa_mau8	the paper's nine units, chained by tail calls
 *
 * A contribution passes these steps from wire to wire. Each step is a file:
 *
 *	parse.h		is the frame whole and an FPISA frame, and what is its job
 *	check.h		does the job accept the frame, from the rank in its header (fpisa/frame.h)
 *	phv.h		the data that later steps need
 *	admission.h	the slot of the frame, and the rules of the protocol (fpisa/slot.h)
 *	pipeline.h	MAU0..8, in one program (fused.h) or a program for each unit (staged.h)
 *	finish.h	recording of the contribution, and the end of the round
 *	fanout.h	sending of the result to all ranks
 *
 * A leaf of a tree and its parent have programs of their own (tree.h), from the first or the last of these steps on.
 *
 * reply.h answers a sender whose frame a step refuses, or that asks for the state of the round. lpm.h fills the trie
 * that MAU6 reads, before the first round that needs it (clz_ready()).
 *
 * receive() and contribution() below call the first three steps, and admission() calls the other steps. chain()
 * replaces a missing stage (staged.h). A HELLO goes to hello.h, and a frame of a query goes to the program of the query
 * (query/).
 *
 * A step returns an XDP action, which ends the packet, or GO_ON (finish.h). A check returns an enum fpisa_verdict,
 * which is FPISA_V_ok if the frame passed. A rule of slots returns an enum fpisa_step, or a negated verdict. A global
 * function that cannot fail returns 0, because the verifier requires a return value.
 *
 * The entry is in section "prog", because iproute2 loads only the program of that section. So the entry can run every
 * stage itself, and every element of the program array names the entry until a loader installs the stage programs. The
 * command `ip link set dev DEV xdp obj fpisa.o` alone is therefore enough to run the pipeline through real tail calls.
 * When stage programs are loaded, the entry replaces missing stages.
 */
#include "parse.h"
#include "path_mtu.h"
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

/* The banks of family 0. Each bank has FPISA_STAGES programs, and the program that replaces missing ones. */
#define BANK(n) [(n)*FPISA_BANK_SIZE...(n) * FPISA_BANK_SIZE + FPISA_STAND_IN] = (void *)&fpisa

/*
 * The program array. The index of a unit or of admission is fpisa_bank_of() + the number of the unit, or
 * FPISA_ADMISSION. The index of a query is FPISA_QUERY_PROGRAM + the query's number.
 */
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

/* Continue in a program of trees. */
static __always_inline int tree_call(struct xdp_md *ctx, struct fpisa_phv *phv, const struct fpisa_control *control,
				     const struct packet *p, __u32 program)
{
	phv->job = p->id;
	phv->payload = p->payload;
	phv->port = (__u8)p->port;
	phv->bank = fpisa_bank_of(p->job->family, control->bank);
	tail_call(ctx, phv->bank + program);
	return count_verdict(p->id, FPISA_V_family, XDP_DROP);
}

/* Process an ADD to p->job. */
static __always_inline int contribution(struct xdp_md *ctx, struct fpisa_phv *phv, struct fpisa_control *control,
					struct packet *p)
{
	enum fpisa_verdict v;

	if (p->job->flags & FPISA_JOB_LEAVES)
		return tree_call(ctx, phv, control, p, FPISA_PART);
	v = check(ctx, p, &phv->from);
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

/*
 * Remove the VLAN tag of a tagged frame if the frame belongs to a job with that VLAN ID. Return GO_ON, or the XDP
 * action for the frame.
 */
GLOBAL_FN int untag(struct xdp_md *ctx)
{
	struct fpisa_control *control = lookup(&fpisa_control, 0);
	enum fpisa_verdict v;
	struct packet p;

	if (!control)
		return XDP_PASS;
	v = find_tagged(ctx, control, &p);
	if (v != FPISA_V_ok)
		return pass(ctx, p.id, v);
	return pop_tag(ctx) ? count_verdict(p.id, FPISA_V_internal, XDP_DROP) : GO_ON;
}

/* Narrow an IPv6 frame if it belongs to a job, and store its addresses in the PHV. Return GO_ON, or the XDP action for it. */
GLOBAL_FN int narrow(struct xdp_md *ctx)
{
	struct fpisa_control *control = lookup(&fpisa_control, 0);
	struct fpisa_phv *phv = lookup(&fpisa_phv, 0);
	enum fpisa_verdict v;
	struct headers6 h;
	struct packet p;

	if (!control || !phv)
		return XDP_PASS;
	p.id = FPISA_MAX_JOBS;
	v = find_ipv6(ctx, control, &p, &h, 0);
	if (v == FPISA_V_ok && !phv->tagged && !may_be_bare(p.job))
		v = FPISA_V_vlan;
	if (v != FPISA_V_ok)
		return pass(ctx, p.id, v);
	phv->from = address_of(&h.ip->saddr);
	phv->to = address_of(&h.ip->daddr);
	return cut_ipv6(ctx, &h) ? count_verdict(p.id, FPISA_V_internal, XDP_DROP) : GO_ON;
}

/* Process a HELLO to the job. If the frame passes to the kernel, insert its IPv6 header and its VLAN tag again. */
static __always_inline int joining(struct xdp_md *ctx, struct fpisa_phv *phv, const struct fpisa_control *control,
				   const struct packet *p)
{
	int action = hello(ctx, p->id, p->payload);

	if (action == GO_ON)
		return tree_call(ctx, phv, control, p, FPISA_GREET);
	if (action == XDP_PASS && p->ipv6 && widen(ctx, p->id, TO_KERNEL))
		return XDP_DROP;
	if (action == XDP_PASS && phv->tagged && push_tag(ctx, p->job->vlan))
		return XDP_DROP;
	return action;
}

/* Return whether the frame comes from the parent of a leaf. If the parent is on this host, replace its job by the leaf's. */
static __always_inline int is_for_leaf(struct packet *p)
{
	const __u32 below = fpisa_read_once(&p->job->below);
	struct fpisa_job *leaf = below ? lookup(&fpisa_jobs, below - 1) : NULL;

	if (leaf && leaf->active) {
		p->id = below - 1;
		p->job = leaf;
	}
	return p->job->flags & FPISA_JOB_LEAF;
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
	p.ipv6 = is_ipv6(ctx, 0);
	if (p.ipv6) {
		int action = narrow(ctx);

		if (action != GO_ON)
			return action;
	}
	p.whole = find_headers(ctx, &p.h);
	if (!is_ours(ctx, &p.h, control))
		return pass_foreign(ctx);
	if (!p.ipv6)
		phv->from = fpisa_ipv4(p.h.ip->saddr);
	v = find_job(&p, p.ipv6 ? phv->to : fpisa_ipv4(p.h.ip->daddr));
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
	p.counters->bytes += FPISA_PAYLOAD_OFFSET + (p.ipv6 ? NARROWED : 0) + p.payload;
	v = fpisa_check_type(p.h.fpisa);
	if (v != FPISA_V_ok) {
		if (v == FPISA_V_type && is_for_leaf(&p))
			return tree_call(ctx, phv, control, &p, FPISA_DOWN);
		/*
		 * Jobs do not use this type. If the number belongs to a query, the program of the query processes the
		 * frame (query/).
		 */
		if (v == FPISA_V_type)
			tail_call(ctx, FPISA_QUERY_PROGRAM + p.id);
		return count_verdict(p.id, v, XDP_DROP);
	}
	/* Replies reuse the frame, and come from the first port. */
	p.h.udp->dest = bpf_htons(first_port(control));
	if (p.h.fpisa->type == FPISA_TYPE_ADD)
		return contribution(ctx, phv, control, &p);
	return p.port ? count_verdict(p.id, FPISA_V_port, XDP_DROP) : joining(ctx, phv, control, &p);
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
