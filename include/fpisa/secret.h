/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Secrets that the aggregator derives instead of keeping: the cookie that
 * only a rank's listed address receives, and what results carry. Both are
 * SipHash-2-4 (Aumasson and Bernstein, INDOCRYPT 2012) under a random key of
 * the job, so whoever has seen any number of them knows no other.
 * doc/protocol.md, section 6, says whom they keep out.
 */
#ifndef FPISA_SECRET_H
#define FPISA_SECRET_H

#include "base.h"

struct fpisa_key {
	__u64 k0, k1;
};

static __always_inline __u64 fpisa_rotate_left(__u64 x, int n)
{
	return x << n | x >> (64 - n);
}

static __always_inline void fpisa_sip_round(__u64 v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = fpisa_rotate_left(v[1], 13) ^ v[0];
	v[3] = fpisa_rotate_left(v[3], 16) ^ v[2];
	v[0] = fpisa_rotate_left(v[0], 32);
	v[2] += v[1];
	v[0] += v[3];
	v[1] = fpisa_rotate_left(v[1], 17) ^ v[2];
	v[3] = fpisa_rotate_left(v[3], 21) ^ v[0];
	v[2] = fpisa_rotate_left(v[2], 32);
}

static __always_inline void fpisa_sip_word(__u64 v[4], __u64 m)
{
	v[3] ^= m;
	fpisa_sip_round(v);
	fpisa_sip_round(v);
	v[0] ^= m;
}

/* SipHash-2-4 of the 16 bytes of a and b, little-endian. */
static __always_inline __u64 fpisa_siphash(const struct fpisa_key *key, __u64 a, __u64 b)
{
	__u64 v[4] = { key->k0 ^ 0x736f6d6570736575ull, key->k1 ^ 0x646f72616e646f6dull,
		       key->k0 ^ 0x6c7967656e657261ull, key->k1 ^ 0x7465646279746573ull };

	fpisa_sip_word(v, a);
	fpisa_sip_word(v, b);
	fpisa_sip_word(v, 16ull << 56);
	v[2] ^= 0xff;
	fpisa_sip_round(v);
	fpisa_sip_round(v);
	fpisa_sip_round(v);
	fpisa_sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/*
 * What only the listed address of `rank` is told, for its incarnation `inc`,
 * and what then stands in each of its frames. Never 0, which no rank has.
 */
static __always_inline __u64 fpisa_cookie(const struct fpisa_key *key, __u32 rank, __u64 inc)
{
	return fpisa_siphash(key, inc, rank) ?: 1;
}

/* What the results of a generation carry; no cookie follows from it. */
static __always_inline __u64 fpisa_result_secret(const struct fpisa_key *key, __u32 generation)
{
	return fpisa_siphash(key, generation, 1ull << 32) ?: 1;
}

#endif
