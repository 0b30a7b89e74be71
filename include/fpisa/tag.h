/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The tag of a frame, in jobs with a token: who does not know the key can neither
 * make a frame nor change one. doc/wire.md, section 4.1, describes it for writers
 * of clients; doc/protocol.md, section 6, says what it keeps out.
 *
 * The tag is SipHash-2-4(K, chunk, NH1, NH2). NH is the universal hash of UMAC
 * (Black et al., CRYPTO 1999; RFC 4418) over words of 32 bits: one multiplication
 * for 8 bytes. Two passes, whose keys are shifted by one pair of words (Toeplitz), map two
 * different frames to equal values with a probability of at most 2^-64, whatever the frames are. The chunk stands in the PRF's
 * input beside them: values are compared only between frames of one key and chunk.
 */
#ifndef FPISA_TAG_H
#define FPISA_TAG_H

#include "secret.h"
#include "wire.h"

/* Words of 64 bits before the payload: the header without `secret`, which has the tag, and without `checksum`. */
#define FPISA_TAG_HDR_WORDS 8

/*
 * The key of NH: a word for each word of the frame, and one more for the second pass. Beyond the largest
 * payload by what the datapath's loop over the end of a payload may read as far as a verifier knows.
 */
#define FPISA_NH_WORDS 456

_Static_assert(FPISA_NH_WORDS > FPISA_TAG_HDR_WORDS + FPISA_MAX_PAYLOAD / 8 + 28, "a key for each word");

struct fpisa_nh_key {
	__u64 w[FPISA_NH_WORDS];
};

struct fpisa_nh {
	__u64 a, b; /* by pass */
};

/* The first `words` of the key that follows from a token. */
static __always_inline void fpisa_nh_fill(__u64 *w, int words, const struct fpisa_key *token)
{
	for (int i = 0; i < words; i++)
		w[i] = fpisa_derive(token, FPISA_KEY_NH, 0, 0, (__u64)i);
}

/*
 * Hashes `words` words at `p` with the key's words from `k` on; callers in BPF pass a constant. There the loop is unrolled and its
 * sums are kept in order: clang would load everything first, which takes more stack than there is.
 */
static __always_inline void fpisa_nh_words(struct fpisa_nh *s, const void *p, const __u64 *k, int words)
{
	const char *key = (const char *)k;

	FPISA_UNROLLED
	for (int i = 0; i < words; i++) {
		__u32 low = fpisa_load32((const char *)p + 8 * i), high = fpisa_load32((const char *)p + 8 * i + 4);
		__u64 t = (__u64)(low + fpisa_load32(key + 8 * i)) * (high + fpisa_load32(key + 8 * i + 4));

		fpisa_add_to(s->a, t);
		t = (__u64)(low + fpisa_load32(key + 8 * i + 8)) * (high + fpisa_load32(key + 8 * i + 12));
		fpisa_add_to(s->b, t);
	}
}

/* The header's words, but for the tag and the checksum. */
static __always_inline void fpisa_nh_header(struct fpisa_nh *s, const struct fpisa_hdr *h, const __u64 *k)
{
	fpisa_nh_words(s, h, k, 6);
	fpisa_nh_words(s, &h->bitmap, k + 6, 2);
}

static __always_inline __u64 fpisa_tag(const struct fpisa_key *key, const struct fpisa_hdr *h, const struct fpisa_nh *s)
{
	return fpisa_siphash3(key, h->chunk, s->a, s->b);
}

/* Words of a HELLO or a WELCOME that are hashed; its key has one more. */
#define FPISA_HELLO_WORDS (FPISA_TAG_HDR_WORDS + 9)

/* The proof of a HELLO, and of a WELCOME: a tag that covers `secret` too, in place of the chunk, and of the payload all but the proof. */
static __always_inline __u64 fpisa_hello_tag(const struct fpisa_key *key, const __u64 *k, const struct fpisa_hdr *h,
					     const struct fpisa_hello *p)
{
	struct fpisa_nh s = {};

	fpisa_nh_header(&s, h, k);
	fpisa_nh_words(&s, p, k + FPISA_TAG_HDR_WORDS, 8);
	fpisa_nh_words(&s, &p->results, k + FPISA_TAG_HDR_WORDS + 8, 1);
	return fpisa_siphash3(key, h->secret, s.a, s.b);
}

#endif
