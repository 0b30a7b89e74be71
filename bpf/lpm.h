/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Leading zeros by longest prefix match, in the paper's trie (section 3.2, figure 5). The first frame that needs the
 * trie fills it, unless the loader has already filled it.
 */
#ifndef FPISA_BPF_LPM_H
#define FPISA_BPF_LPM_H

#include "maps.h"
#include "fpisa/lookup.h"

/* -- lookup by MAU6 --------------------------------------------------- */

/*
 * Look up the leading zeros. Skip the first four zeros, which a sum of few values has in its headroom, because a
 * lookup visits a node for each leading zero.
 */
static __always_inline __u32 clz32_lpm(__u32 x)
{
	__u32 skip = 4 & (__u32)(fpisa_nonzero(x >> 28) - 1);
	struct fpisa_lpm_key key = {.prefixlen = 32, .addr = bpf_htonl(x << skip)};
	__u32 *lz = bpf_map_lookup_elem(&fpisa_lpm, &key);

	return lz ? *lz + skip : 32;
}

/* -- filling of the trie -------------------------- */

/*
 * Insert an entry for each bit. Return 0, or -1 if there is not enough memory. `zeros` is a copy, because the loop's
 * bound must stay in a register.
 */
GLOBAL_FN int fill_trie(void)
{
#pragma clang loop unroll(disable)
	for (__u32 lz = 0; lz < 32; lz++) {
		struct fpisa_lpm_key key = {.prefixlen = lz + 1, .addr = bpf_htonl(0x80000000u >> lz)};
		__u32 zeros = lz;

		if (bpf_map_update_elem(&fpisa_lpm, &key, &zeros, BPF_ANY))
			return -1;
	}
	return 0;
}

/*
 * Return whether the trie is filled. Return 0 if another CPU is filling the trie, or if filling failed; the next frame
 * then tries again.
 */
static __always_inline int trie_ready(struct fpisa_control *control)
{
	int full;

	if (fpisa_likely(fpisa_read_once(&control->trie_state) == 2))
		return 1;
	if (__sync_val_compare_and_swap(&control->trie_state, 0, 1))
		return 0;
	full = !fill_trie();
	__sync_lock_test_and_set(&control->trie_state, full ? 2 : 0);
	return full;
}

/* Return whether a job's rounds can be read out by the method `clz` (enum fpisa_clz). The method lpm needs the trie. */
static __always_inline int clz_ready(struct fpisa_control *control, __u32 clz)
{
	return clz != FPISA_CLZ_LPM || trie_ready(control);
}

#endif
