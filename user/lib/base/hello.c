/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* HELLO and WELCOME; hello.h has the contracts. */
#include <errno.h>
#include <sys/random.h>
#include "clock.h"
#include "hello.h"
#include "tag.h"

#define FIRST_PAUSE_NS 2000000ull
#define MAX_PAUSE_NS 50000000ull
#define MAX_INCARNATION (1ull << 63)

uint64_t fpisa_incarnation_next(const struct fpisa_incarnation *i)
{
	uint64_t now = fpisa_clock_ns(CLOCK_REALTIME);

	return now > i->number ? now : i->number + 1;
}

int fpisa_incarnation_begin(struct fpisa_incarnation *i, uint64_t number)
{
	i->number = number;
	return getrandom(&i->nonce, sizeof(i->nonce), 0) == sizeof(i->nonce) ? 0 : -EIO;
}

void fpisa_joining_begin(struct fpisa_joining *j, int anew)
{
	if (!anew)
		*j = (struct fpisa_joining){.pause_ns = FIRST_PAUSE_NS};
	j->cookie = 0;
	j->next_ns = 0;
	j->joined = 0;
}

int fpisa_hello_is_due(struct fpisa_joining *j, uint64_t now)
{
	if (j->joined || now < j->next_ns)
		return 0;
	j->next_ns = now + j->pause_ns;
	j->pause_ns = 2 * j->pause_ns < MAX_PAUSE_NS ? 2 * j->pause_ns : MAX_PAUSE_NS;
	return 1;
}

void fpisa_joining_lacks(struct fpisa_joining *j, uint64_t missing, uint64_t now)
{
	if (missing == j->missing)
		return;
	j->missing = missing;
	j->pause_ns = 2 * FIRST_PAUSE_NS;
	j->next_ns = now + FIRST_PAUSE_NS;
}

void fpisa_hello_write(struct fpisa_hello_frame *f, uint32_t job, const struct fpisa_incarnation *i,
		       const struct fpisa_joining *j, const struct fpisa_key *token, uint32_t call)
{
	struct fpisa_seal seal;

	*f = (struct fpisa_hello_frame){0};
	f->header = (struct fpisa_hdr){
		.magic = FPISA_MAGIC,
		.version = FPISA_VERSION,
		.type = FPISA_TYPE_HELLO,
		.job = job,
		.rank = 0xffff,
		.chunk = i->nonce,
		.call = call,
		.secret = j->cookie,
		.aux = i->number,
	};
	f->payload.proof = fpisa_token_proof(token, &f->header, &f->payload);
	seal = fpisa_seal_begin(&f->header, NULL);
	fpisa_seal_words(&seal, &f->payload, sizeof(f->payload) / 8);
	fpisa_seal_end(&seal, &f->header, NULL);
}

enum fpisa_welcome fpisa_welcome_take(struct fpisa_joining *j, const struct fpisa_incarnation *i,
				      const struct fpisa_hdr *h)
{
	if (j->joined || !i->number || h->type != FPISA_TYPE_WELCOME || h->chunk != i->nonce || h->aux < i->number)
		return FPISA_WELCOME_STALE;
	if (h->flags & FPISA_F_CHALLENGE) {
		if (j->cookie != h->secret)
			j->next_ns = 0;
		j->cookie = h->secret;
		return FPISA_WELCOME_CHALLENGE;
	}
	if (h->aux > i->number)
		return h->aux + 1 < MAX_INCARNATION ? FPISA_WELCOME_NEWER : FPISA_WELCOME_STALE;
	return h->flags & FPISA_F_PENDING ? FPISA_WELCOME_PENDING : FPISA_WELCOME_JOINED;
}
