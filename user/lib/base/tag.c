/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* NH over many words; tag.h has the contracts. */
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include "tag.h"

#if defined(__x86_64__)
/*
 * Add four words at a time. Multiply each lower half by the upper half of the same word, and by the upper half of the
 * previous word.
 */
static __attribute__((target("avx2"))) size_t nh_avx2(struct fpisa_nh *s, const char *p, const char *k, size_t words)
{
	__m256i a = _mm256_setzero_si256(), b = a, last = _mm256_set1_epi64x((long long)s->last);
	const __m256i one_up = _mm256_setr_epi32(6, 7, 0, 1, 2, 3, 4, 5);
	__u64 lane[3][4];
	size_t i;

	for (i = 0; i + 4 <= words; i += 4) {
		__m256i low = _mm256_add_epi32(_mm256_loadu_si256((const void *)(p + 8 * i)),
					       _mm256_loadu_si256((const void *)(k + 8 * i)));
		__m256i high = _mm256_permutevar8x32_epi32(_mm256_srli_epi64(low, 32), one_up);

		a = _mm256_add_epi64(a, _mm256_mul_epu32(low, _mm256_srli_epi64(low, 32)));
		b = _mm256_add_epi64(b, _mm256_mul_epu32(low, _mm256_blend_epi32(high, last, 3)));
		last = high;
	}
	memcpy(lane[0], &a, sizeof(a));
	memcpy(lane[1], &b, sizeof(b));
	memcpy(lane[2], &last, sizeof(last));
	for (int n = 0; n < 4; n++) {
		s->a += lane[0][n];
		s->b += lane[1][n];
	}
	s->last = lane[2][0];
	return i;
}
#endif

void fpisa_nh_many(struct fpisa_nh *s, const void *p, const __u64 *k, size_t words)
{
	size_t done = 0;

#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx2"))
		done = nh_avx2(s, p, (const char *)k, words);
#endif
	fpisa_nh_words(s, (const char *)p + 8 * done, k + done, (int)(words - done));
}

__u64 fpisa_tag_many(const struct fpisa_key *key, const __u64 *k, const struct fpisa_hdr *h, const void *payload,
		     size_t words)
{
	struct fpisa_nh s = fpisa_nh_header(h, k);

	fpisa_nh_many(&s, payload, k + FPISA_NH_PAYLOAD, words);
	return fpisa_tag(key, h->chunk, &s, k + FPISA_NH_PAYLOAD + words);
}

__u64 fpisa_token_proof(const struct fpisa_key *token, const struct fpisa_hdr *h, const struct fpisa_hello *p)
{
	struct fpisa_key key = fpisa_key_of(token, FPISA_KEY_HELLO, 0, 0);
	__u64 k[FPISA_NH_HELLO_WORDS];

	if (!token->k0)
		return 0;
	fpisa_nh_fill(k, FPISA_NH_HELLO_WORDS, token);
	return fpisa_hello_tag(&key, k, h, p);
}
