/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Secrets, and the keys of a job with a token. All are SipHash-2-4 (Aumasson and Bernstein, INDOCRYPT 2012).
 *
 * The aggregator derives cookies and the secrets of results from a random key of the job. Both sides derive keys of
 * tags from the token (tag.h). The token and these keys are never sent. doc/protocol.md, section 6, lists the attacks
 * that they prevent.
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

/* In BPF this is a global function, because inlined rounds take 20 KB. */
#ifdef __bpf__
#define FPISA_SIP_FN __attribute__((noinline))
#else
#define FPISA_SIP_FN static __always_inline
#endif

/* Return SipHash-2-4 of the 8 * `words` bytes of the first `words` words (2 or 3), little-endian. */
FPISA_SIP_FN __u64 fpisa_sip(const struct fpisa_key *key, __u64 a, __u64 b, __u64 c, __u32 words)
{
	__u64 v[4];

	if (!key)
		return 0;
	v[0] = key->k0 ^ 0x736f6d6570736575ull;
	v[1] = key->k1 ^ 0x646f72616e646f6dull;
	v[2] = key->k0 ^ 0x6c7967656e657261ull;
	v[3] = key->k1 ^ 0x7465646279746573ull;
	FPISA_ROLLED
	for (__u32 i = 0; i <= 3 && i <= words; i++) {
		__u64 m = i == words ? (__u64)words << 59 : a;

		v[3] ^= m;
		fpisa_sip_round(v);
		fpisa_sip_round(v);
		v[0] ^= m;
		a = b;
		b = c;
	}
	v[2] ^= 0xff;
	FPISA_ROLLED
	for (__u32 i = 0; i < 4; i++)
		fpisa_sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static __always_inline __u64 fpisa_siphash(const struct fpisa_key *key, __u64 a, __u64 b)
{
	return fpisa_sip(key, a, b, 0, 2);
}

static __always_inline __u64 fpisa_siphash3(const struct fpisa_key *key, __u64 a, __u64 b, __u64 c)
{
	return fpisa_sip(key, a, b, c, 3);
}

/*
 * Return the cookie of `rank` for its incarnation `inc`. The cookie is sent only to the listed address of the rank, and
 * each frame of the rank carries the cookie. The result is never 0, because 0 means "no cookie".
 */
static __always_inline __u64 fpisa_cookie(const struct fpisa_key *key, __u32 rank, __u64 inc)
{
	return fpisa_siphash(key, inc, rank) ?: 1;
}

/* Return the secret that the results of a generation carry. No cookie can be derived from this secret. */
static __always_inline __u64 fpisa_result_secret(const struct fpisa_key *key, __u32 generation)
{
	return fpisa_siphash(key, generation, 1ull << 32) ?: 1;
}

/* -- keys that both sides derive from the token ------ */

enum fpisa_key_use {
	FPISA_KEY_HELLO = 1, /* HELLO, WELCOME, and ERROR in answer to a HELLO */
	/* contributions of a rank, and STATUS and ERROR to the rank; depends on the rank's cookie */
	FPISA_KEY_RANK = 2,
	FPISA_KEY_RESULTS = 3, /* results of a generation; depends on the secret of the results */
	FPISA_KEY_NH = 4,      /* one word of the NH key, by the number of the word */
};

static __always_inline __u64 fpisa_derive(const struct fpisa_key *token, enum fpisa_key_use use, __u32 rank, __u32 half,
					  __u64 of)
{
	return fpisa_siphash(token, of, (__u64)use << 32 | rank << 1 | half);
}

static __always_inline struct fpisa_key fpisa_key_of(const struct fpisa_key *token, enum fpisa_key_use use, __u32 rank,
						     __u64 of)
{
	return (struct fpisa_key){fpisa_derive(token, use, rank, 0, of), fpisa_derive(token, use, rank, 1, of)};
}

#endif
