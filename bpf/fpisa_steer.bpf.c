/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Steering, for a device whose frames all come to one receive queue:
 *
 *	fpisa_steer	attached to the device in place of fpisa; gives frames of
 *			the protocol to the CPU that owns their slot
 *	fpisa_cpu	runs on that CPU: counts, and calls fpisa
 *
 * All programs that a tail call may reach must have the same attach type. With steering, fpisa and the stages are
 * therefore loaded as programs of a CPU map.
 */
#include "counters.h"
#include "path_mtu.h"
#include "fpisa/steer.h"

/*
 * The rule by which frames are spread over CPUs. This map precedes fpisa_stages, so that it is pinned first, because
 * the loader may be killed between two pins.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fpisa_steering);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fpisa_steering SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fpisa_steered);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fpisa_steered SEC(".maps");

/* Key: CPU; user space sets the number of entries. */
struct {
	__uint(type, BPF_MAP_TYPE_CPUMAP);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct bpf_cpumap_val));
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fpisa_cpumap SEC(".maps");

SHARED_STAGES;

/* Return whether frames of this type belong to a slot: contributions, and the answers of a leaf's parent. */
static __always_inline int has_slot(__u8 type)
{
	return type >= FPISA_TYPE_ADD && type <= FPISA_TYPE_ERROR;
}

/*
 * Pass frames to the CPUs. This program checks only whether a frame belongs to FPISA and to the address of a job. Other
 * frames go to the kernel from here, because a frame that passes a CPU map loses the device's checksum information.
 * fpisa makes all other checks.
 */
SEC("xdp")
int fpisa_steer(struct xdp_md *ctx)
{
	struct fpisa_control *control = lookup(&fpisa_control, 0);
	struct fpisa_steering *steering = lookup(&fpisa_steering, 0);
	struct fpisa_steered *count = lookup(&fpisa_steered, 0);
	enum fpisa_verdict v;
	__u32 index = 0;
	struct packet p;

	if (!control || !steering || !count)
		return XDP_PASS;
	v = has_tag(ctx) ? find_tagged(ctx, control, &p) : find_bare(ctx, control, &p);
	if (v != FPISA_V_ok)
		return pass(ctx, p.id, v);
	/* Keep other frames, such as a HELLO, on the first CPU. */
	if (p.whole && has_slot(p.h.fpisa->type) && steering->cpus)
		index = fpisa_slot_cpu(p.h.fpisa->slot, steering->cpus);
	fpisa_opaque(index);
	if (index >= FPISA_STEER_CPUS || bpf_redirect_map(&fpisa_cpumap, steering->cpu[index], XDP_DROP) != XDP_REDIRECT)
		return count_verdict(FPISA_MAX_JOBS, FPISA_V_internal, XDP_DROP);
	count->sent[index]++;
	return XDP_REDIRECT;
}

SEC("xdp/cpumap")
int fpisa_cpu(struct xdp_md *ctx)
{
	struct fpisa_control *control = lookup(&fpisa_control, 0);
	struct fpisa_steered *count = lookup(&fpisa_steered, 0);

	if (!control || !count)
		return count_verdict(FPISA_MAX_JOBS, FPISA_V_internal, XDP_DROP);
	count->taken++;
	bpf_tail_call(ctx, &fpisa_stages, fpisa_bank_of(0, control->bank) + FPISA_ADMISSION);
	return count_verdict(FPISA_MAX_JOBS, FPISA_V_family, XDP_DROP);
}

char _license[] SEC("license") = "Dual BSD/GPL";
