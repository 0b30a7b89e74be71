/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Leading zeros by longest prefix match: the trie of bits that the paper has
 * (section 3.2, figure 5) and the trie of bytes beside its table (fpisa/clz.h).
 * Whoever first needs one that no loader filled fills it.
 */
#ifndef FPISA_BPF_LPM_H
#define FPISA_BPF_LPM_H

#include "maps.h"
#include "fpisa/clz.h"
#include "fpisa/lookup.h"

/* -- asked, by MAU6 ------------------------------------------------------ */

/* A look-up visits a node for each leading zero: the four that a sum of few values has in its headroom are skipped. */
static __always_inline __u32 clz32_lpm(__u32 x)
{
	__u32 skip = 4 & (__u32)(fpisa_nonzero(x >> 28) - 1);
	struct fpisa_lpm_key key = {.prefixlen = 32, .addr = bpf_htonl(x << skip)};
	__u32 *lz = bpf_map_lookup_elem(&fpisa_lpm, &key);

	return lz ? *lz + skip : 32;
}

static const __u8 clz_of_window[FPISA_WINDOWS] = FPISA_CLZ_OF_WINDOWS;

/* Inline: on 6.1 a read-out by units has 512 bytes of stack, and each call takes 32 at least. */
static __always_inline __u32 clz32_bytes(__u32 x)
{
	struct fpisa_lpm_key key = {.prefixlen = 32, .addr = bpf_htonl(x)};
	__u32 *skip = bpf_map_lookup_elem(&fpisa_lpm_byte, &key);

	return fpisa_clz32_window(x, skip ? *skip : 0, clz_of_window);
}

/* -- filled, before a round that will ask -------------------------------- */

/* One entry a bit; 0, or -1 if one found no memory. `zeros` is a copy, for the loop's bound must stay in a register. */
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

/* The trie of bits: 0 while another CPU fills it, and if it could not be filled, which the next frame tries again. */
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

/* Does the trie of bytes have its longest prefix? It comes last, so the others are there too. */
static __always_inline int byte_trie_full(void)
{
	struct fpisa_lpm_key zero = {.prefixlen = 32};
	__u32 *skip = bpf_map_lookup_elem(&fpisa_lpm_byte, &zero);

	return skip && *skip == fpisa_byte_skip(FPISA_BYTE_PREFIXES - 1);
}

/* Filled by whoever asks it first, whatever loaded it. Two that fill it at once write the same. */
GLOBAL_FN int byte_trie_ready(void)
{
	if (fpisa_likely(byte_trie_full()))
		return 1;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < FPISA_BYTE_PREFIXES; i++) {
		struct fpisa_lpm_key key = {.prefixlen = fpisa_byte_prefix(i)};
		__u32 skip = fpisa_byte_skip(i);

		if (bpf_map_update_elem(&fpisa_lpm_byte, &key, &skip, BPF_ANY))
			return 0;
	}
	return 1;
}

/* Can a job's rounds be read out by the method `clz` (enum fpisa_clz)? 0: not yet. */
static __always_inline int clz_ready(struct fpisa_control *control, __u32 clz)
{
	if (clz == FPISA_CLZ_LPM)
		return trie_ready(control);
	return clz != FPISA_CLZ_LPM_BYTE || byte_trie_ready();
}

#endif
