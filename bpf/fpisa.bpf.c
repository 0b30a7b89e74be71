/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * FPISA on XDP: the programs.
 *
 *	fpisa			the parser and entry; attach this one
 *	fpisa_mau0..fpisa_mau8	the paper's nine units, chained by tail calls
 *
 * The entry is in section "prog", which is where iproute2 looks; it loads
 * that program alone. So the entry can run every stage itself, and stands in
 * every slot of the program array until a loader puts the stage programs
 * there: `ip link set dev DEV xdp obj fpisa.o` then runs the pipeline
 * through real tail calls with no other step.
 */
#include "ingress.h"
#include "programs.h"

int fpisa(struct xdp_md *ctx);

/* Family 0's banks; FPISA_STAGES programs each. */
#define BANK(n) [(n) * FPISA_BANK_SIZE ...(n) * FPISA_BANK_SIZE + FPISA_STAGES - 1] = (void *)&fpisa

/* Programs; index: fpisa_bank_of() + number of the unit, or FPISA_ADMISSION. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, FPISA_PROGRAMS);
	__uint(key_size, sizeof(__u32));
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__array(values, int(void *));
} fpisa_stages SEC(".maps") = { .values = { BANK(0), BANK(1) } };

static __always_inline void tail_call(struct xdp_md *ctx, __u32 index)
{
	bpf_tail_call(ctx, &fpisa_stages, index);
}

SEC("prog")
int fpisa(struct xdp_md *ctx)
{
	__u32 zero = 0, stage;
	struct fpisa_phv *phv = bpf_map_lookup_elem(&fpisa_phv, &zero);

	if (!phv)
		return XDP_PASS;
	stage = phv->stage;
	phv->stage = 0;
	if (stage)
		return chain(ctx, phv, stage - 1);
	return ingress(ctx, phv);
}

char _license[] SEC("license") = "Dual BSD/GPL";
