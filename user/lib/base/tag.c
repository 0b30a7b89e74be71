/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* NH over many words; tag.h has the contracts. */
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include "tag.h"

#if defined(__x86_64__)
/* Four words at a time: sums of halves, then lower by upper half. */
static __attribute__((target("avx2"))) size_t nh_avx2(struct fpisa_nh *s, const char *p, const char *k, size_t words)
{
	__m256i a = _mm256_setzero_si256(), b = a;
	__u64 lane[2][4];
	size_t i;

	for (i = 0; i + 4 <= words; i += 4) {
		__m256i m = _mm256_loadu_si256((const void *)(p + 8 * i));
		__m256i x = _mm256_add_epi32(m, _mm256_loadu_si256((const void *)(k + 8 * i)));
		__m256i y = _mm256_add_epi32(m, _mm256_loadu_si256((const void *)(k + 8 * i + 8)));

		a = _mm256_add_epi64(a, _mm256_mul_epu32(x, _mm256_srli_epi64(x, 32)));
		b = _mm256_add_epi64(b, _mm256_mul_epu32(y, _mm256_srli_epi64(y, 32)));
	}
	memcpy(lane[0], &a, sizeof(a));
	memcpy(lane[1], &b, sizeof(b));
	for (int n = 0; n < 4; n++) {
		s->a += lane[0][n];
		s->b += lane[1][n];
	}
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
	struct fpisa_nh s = {0};

	fpisa_nh_header(&s, h, k);
	fpisa_nh_many(&s, payload, k + FPISA_TAG_HDR_WORDS, words);
	return fpisa_tag(key, h, &s);
}

__u64 fpisa_token_proof(const struct fpisa_key *token, const struct fpisa_hdr *h, const struct fpisa_hello *p)
{
	struct fpisa_key key = fpisa_key_of(token, FPISA_KEY_HELLO, 0, 0);
	__u64 k[FPISA_HELLO_WORDS + 1];

	if (!token->k0)
		return 0;
	fpisa_nh_fill(k, FPISA_HELLO_WORDS + 1, token);
	return fpisa_hello_tag(&key, k, h, p);
}
