/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Functions on a frame for soft.c and leaf.c; packet.h has the contracts. */
#include "lib/base/tag.h"
#include "packet.h"

uint32_t fpisa_soft_checksum(const struct packet *p, size_t payload)
{
	struct fpisa_sum sum = {};

	fpisa_sum_words(&sum, p->h, FPISA_SUM_HDR_WORDS);
	fpisa_checksum_many(&sum, p->payload, payload / 8);
	return fpisa_sum_fold(&sum);
}

uint64_t fpisa_soft_tag(const struct fpisa_soft *s, const struct packet *p, const struct fpisa_key *key, size_t payload)
{
	return fpisa_tag_many(key, s->nh.w, p->h, p->payload, payload / 8);
}

enum fpisa_verdict fpisa_soft_reply(const struct fpisa_soft *s, struct packet *p, size_t payload, uint64_t to,
				    enum fpisa_verdict v)
{
	if (p->h->type == FPISA_TYPE_WELCOME)
		((struct fpisa_hello *)p->payload)->proof = fpisa_proof(&s->job, s->nh.w, p->h, p->payload);
	if (!s->job.keyed || p->h->type == FPISA_TYPE_WELCOME) {
		p->h->checksum = fpisa_soft_checksum(p, payload);
	} else {
		const struct fpisa_key key = fpisa_reply_key(&s->job, &s->session, p->h);

		p->h->checksum = 0;
		p->h->secret = fpisa_soft_tag(s, p, &key, payload);
	}
	*p->len = sizeof(*p->h) + payload;
	*p->to = to;
	return v;
}

uint64_t fpisa_soft_bare(const struct fpisa_soft *s, const void *frame, uint64_t to)
{
	const struct fpisa_hdr *h = frame;
	uint64_t bare = 0;

	for (uint32_t rank = 0; to && h->type == FPISA_TYPE_RESULT && rank < s->job.workers; rank++)
		if (!fpisa_keeps(h->rank, rank))
			bare |= to & 1ull << rank;
	return bare;
}

void fpisa_soft_cut(const struct fpisa_soft *s, void *frame, size_t *len)
{
	uint64_t to;
	struct packet p = {.h = frame, .payload = (struct fpisa_hdr *)frame + 1, .len = len, .to = &to};

	fpisa_make_bare_result(p.h);
	fpisa_soft_reply(s, &p, 0, 0, FPISA_V_result);
}

struct fpisa_soft_registers fpisa_soft_registers_of(const struct fpisa_soft *s, const struct fpisa_slot *slot)
{
	size_t block = (size_t)(slot - s->slot) * (s->job.elements / FPISA_BLOCK);

	return (struct fpisa_soft_registers){s->exponents + block, s->mantissas + block * s->block_size};
}
