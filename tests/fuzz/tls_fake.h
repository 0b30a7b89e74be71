/* SPDX-License-Identifier: GPL-2.0-only */
/* A stand-in for user/lib/manager/tls.c and its library. tls_fake.c describes the bytes. */
#ifndef FUZZ_TLS_FAKE_H
#define FUZZ_TLS_FAKE_H

#include <stddef.h>
#include <stdint.h>

#define TLS_FAKE_SECRET 4 /* bytes that prove possession of a key */
#define TLS_FAKE_KNOWN 2

struct tls_fake {
	const uint8_t *known[TLS_FAKE_KNOWN]; /* keys that others may have; no other key is ever proven */
	size_t n_known;
	int sessions; /* open sessions */
	int proven;   /* handshakes with a key so far */
};

extern struct tls_fake tls_fake;

#endif
