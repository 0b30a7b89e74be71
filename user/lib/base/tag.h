/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Checksums and tags of fpisa/tag.h over frames in several pieces, with the fastest instructions of the machine. */
#ifndef FPISA_BASE_TAG_H
#define FPISA_BASE_TAG_H

#include <stddef.h>
#include "checksum.h"
#include "fpisa/tag.h"

/* Add words as fpisa_nh_words() does. */
void fpisa_nh_many(struct fpisa_nh *s, const void *p, const __u64 *k, size_t words);

/* Return the tag of a header with `words` words of payload after it. */
__u64 fpisa_tag_many(const struct fpisa_key *key, const __u64 *k, const struct fpisa_hdr *h, const void *payload,
		     size_t words);

/*
 * Return the proof of a HELLO or a WELCOME by a token, or 0 if the token is 0. Use this only for occasional HELLOs,
 * because it derives all keys.
 */
__u64 fpisa_token_proof(const struct fpisa_key *token, const struct fpisa_hdr *h, const struct fpisa_hello *p);

/* The checksum of a frame in progress, or the tag if there is a key. */
struct fpisa_seal {
	struct fpisa_sum sum;
	struct fpisa_nh nh;
	const __u64 *k; /* NH key for the next word; NULL: the frame has a checksum */
};

/* Begin with a header that is complete except for checksum and tag. `k` is the NH key of the job, or NULL. */
static inline struct fpisa_seal fpisa_seal_begin(const struct fpisa_hdr *h, const __u64 *k)
{
	struct fpisa_seal s = {.k = k};

	if (k) {
		s.nh = fpisa_nh_header(h, k);
		s.k += FPISA_NH_PAYLOAD;
	} else {
		fpisa_sum_words(&s.sum, h, FPISA_SUM_HDR_WORDS);
	}
	return s;
}

/* Add the next words of the payload. */
static inline void fpisa_seal_words(struct fpisa_seal *s, const void *p, size_t words)
{
	if (!s->k) {
		fpisa_checksum_many(&s->sum, p, words);
		return;
	}
	fpisa_nh_many(&s->nh, p, s->k, words);
	s->k += words;
}

/* Write the checksum or the tag into the header. */
static inline void fpisa_seal_end(const struct fpisa_seal *s, struct fpisa_hdr *h, const struct fpisa_key *key)
{
	if (s->k)
		h->secret = fpisa_tag(key, h->chunk, &s->nh, s->k);
	h->checksum = s->k ? 0 : fpisa_sum_fold(&s->sum);
}

/* Return whether the header has the right checksum or tag. */
static inline int fpisa_seal_right(const struct fpisa_seal *s, const struct fpisa_hdr *h, const struct fpisa_key *key)
{
	if (s->k)
		return !h->checksum && h->secret == fpisa_tag(key, h->chunk, &s->nh, s->k);
	return h->checksum == fpisa_sum_fold(&s->sum);
}

/*
 * Return whether a received frame, with `payload` bytes after its header, has the right checksum or tag by `key`. An
 * answer to a HELLO can only have a tag by the key of HELLOs, and a WELCOME has a proof. `k` is as in
 * fpisa_seal_begin().
 */
static inline int fpisa_is_sealed(const struct fpisa_hdr *h, size_t payload, const struct fpisa_key *token,
				  const __u64 *k, const struct fpisa_key *key)
{
	const struct fpisa_hello *hello = (const void *)(h + 1);
	const int welcome = h->type == FPISA_TYPE_WELCOME;
	struct fpisa_seal seal = fpisa_seal_begin(h, welcome ? NULL : k);
	struct fpisa_key first;

	fpisa_seal_words(&seal, hello, payload / 8);
	if (seal.k && !h->generation) {
		first = fpisa_key_of(token, FPISA_KEY_HELLO, 0, 0);
		key = &first;
	}
	return fpisa_seal_right(&seal, h, key) && (!welcome || hello->proof == fpisa_token_proof(token, h, hello));
}

#endif
