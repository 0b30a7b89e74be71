/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The hash of keys, with a seed that no member knows. */
#ifndef FPISA_QUERY_HASH_H
#define FPISA_QUERY_HASH_H

#include "query.h"

/*
 * Hash the first `bytes` of a key. Mix the hash once more at the end, because a product alone does not spread keys well
 * that differ in a few high bits.
 */
static __always_inline __u64 fpisa_hash_key(__u64 seed, const __u64 key[FPISA_KEY_WORDS], __u32 bytes)
{
	__u64 hash = fpisa_digest_word(seed, key[0]);

	if (bytes > 8)
		hash = fpisa_digest_word(hash, key[1]);
	if (bytes > 16) {
		hash = fpisa_digest_word(hash, key[2]);
		hash = fpisa_digest_word(hash, key[3]);
	}
	hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9ull;
	hash = (hash ^ hash >> 27) * 0x94d049bb133111ebull;
	return hash ^ hash >> 31;
}

#endif
