/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The tag of a frame, in jobs with a token. Without the key, nobody can forge or change a frame undetected. doc/wire.md,
 * section 4.1, describes the tag for authors of clients. doc/protocol.md, section 6, lists the attacks that it prevents.
 *
 * The tag is SipHash-2-4(K, chunk, A, B). z0, z1, ... are the 32-bit halves of the frame's words, each plus a 32-bit
 * half of the key. A = z0 z1 + z2 z3 + ... is NH, the universal hash of UMAC (Black et al., CRYPTO 1999; RFC 4418). B =
 * z1 z2 + z3 z4 + ... pairs the halves differently, with a half of the key before the first and after the last half. So
 * each half is a factor of one product in each sum, and needs one addition. Two different frames have equal A and B
 * with a probability of at most 2^-64, whatever the frames are. The chunk is also an input of the PRF, so values are
 * compared only between frames of one key and chunk.
 */
#ifndef FPISA_TAG_H
#define FPISA_TAG_H

#include "secret.h"
#include "wire.h"

/*
 * Number of 64-bit words before the payload. These are the header without `secret`, which contains the tag, and without
 * `checksum`.
 */
#define FPISA_TAG_HDR_WORDS 8

/*
 * Index of the key's words for the header and for the payload. The upper half of the word before them is the first half
 * in B.
 */
#define FPISA_NH_START 1
#define FPISA_NH_PAYLOAD (FPISA_NH_START + FPISA_TAG_HDR_WORDS)

/*
 * Number of words of the NH key, which has a word for each word of the frame, one before and one after. The key is
 * longer than the largest payload needs, because the verifier assumes that the loop over the end of a payload may read
 * so far.
 */
#define FPISA_NH_WORDS 456

_Static_assert(FPISA_NH_WORDS > FPISA_NH_PAYLOAD + FPISA_MAX_PAYLOAD / 8 + 28, "a key for each word");

struct fpisa_nh_key {
	__u64 w[FPISA_NH_WORDS];
};

struct fpisa_nh {
	__u64 a, b;
	__u64 last; /* the last half of 32 bits, with its key added */
};

/* Compute the first `words` words of the NH key of a token. */
static __always_inline void fpisa_nh_fill(__u64 *w, int words, const struct fpisa_key *token)
{
	for (int i = 0; i < words; i++)
		w[i] = fpisa_derive(token, FPISA_KEY_NH, 0, 0, (__u64)i);
}

/*
 * Hash `words` words at `p` with the key's words from `k` on. Callers in BPF pass a constant. In BPF the loop is
 * unrolled, and the order of its sums is fixed. Otherwise clang would load all words first, which needs more stack than
 * BPF has.
 */
static __always_inline void fpisa_nh_words(struct fpisa_nh *s, const void *p, const __u64 *k, int words)
{
	const char *key = (const char *)k;

	FPISA_UNROLLED
	for (int i = 0; i < words; i++) {
		__u32 low = fpisa_load32((const char *)p + 8 * i) + fpisa_load32(key + 8 * i);
		__u32 high = fpisa_load32((const char *)p + 8 * i + 4) + fpisa_load32(key + 8 * i + 4);
		__u64 t = s->last * low;

		fpisa_add_to(s->b, t);
		t = (__u64)low * high;
		fpisa_add_to(s->a, t);
		s->last = high;
	}
}

/*
 * Hash the words of the header, except tag and checksum. Hash the payload with the words of the key from k +
 * FPISA_NH_PAYLOAD on.
 */
static __always_inline struct fpisa_nh fpisa_nh_header(const struct fpisa_hdr *h, const __u64 *k)
{
	struct fpisa_nh s = {.last = k[0] >> 32};

	fpisa_nh_words(&s, h, k + FPISA_NH_START, 6);
	fpisa_nh_words(&s, &h->bitmap, k + FPISA_NH_START + 6, 2);
	return s;
}

/*
 * Return the tag of a frame of `chunk`. `s` is the hash of all words of the frame, and `k` points to the next word of
 * the key.
 */
static __always_inline __u64 fpisa_tag(const struct fpisa_key *key, __u64 chunk, const struct fpisa_nh *s,
				       const __u64 *k)
{
	return fpisa_siphash3(key, chunk, s->a, s->b + s->last * (__u32)k[0]);
}

/* Number of words of the key for a HELLO or a WELCOME. */
#define FPISA_NH_HELLO_WORDS (FPISA_NH_PAYLOAD + 9 + 1)

/*
 * Return the proof of a HELLO or a WELCOME. The proof is a tag that covers `secret` in place of the chunk, and all of
 * the payload except the proof.
 */
static __always_inline __u64 fpisa_hello_tag(const struct fpisa_key *key, const __u64 *k, const struct fpisa_hdr *h,
					     const struct fpisa_hello *p)
{
	struct fpisa_nh s = fpisa_nh_header(h, k);

	fpisa_nh_words(&s, p, k + FPISA_NH_PAYLOAD, 8);
	fpisa_nh_words(&s, &p->results, k + FPISA_NH_PAYLOAD + 8, 1);
	return fpisa_tag(key, h->secret, &s, k + FPISA_NH_PAYLOAD + 9);
}

#endif
