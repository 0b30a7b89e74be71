/* SPDX-License-Identifier: GPL-2.0-only */
/* The oracle of queries.c. See query_checker.h for the contracts. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include "fpisa/query/check.h"
#include "headers.h"
#include "query_checker.h"
#include "lab/testbed/frame.h"

#define MOST_REPORTS 5

struct attempt a;
uint64_t seed, cases, wrong, reached[FPISA_VERDICT_COUNT];

const char *verdict_name(unsigned int v)
{
	static const char *const names[] = {
#define X(name, class, text) #name,
		FPISA_VERDICTS(X)
#undef X
	};

	return v < FPISA_VERDICT_COUNT ? names[v] : "?";
}

static void complain(const char *what)
{
	if (wrong++ >= MOST_REPORTS)
		return;
	fprintf(stderr,
		"queries: seed %llu case %llu: %s; query %s, mutations:%s, expected %s action %d, got action %d\n",
		(unsigned long long)seed, (unsigned long long)cases, what, a.t ? a.t->name : "none", a.mutations,
		verdict_name(a.verdict), a.action, a.out.action);
	for (uint32_t i = 0; i < a.sent.len && i < FPISA_PAYLOAD_OFFSET + 16; i++)
		fprintf(stderr, "%02x%s", a.sent.data[i], i % 32 == 31 ? "\n" : " ");
	fprintf(stderr, "... %u bytes\n", a.sent.len);
}

/* -- expected outcome of a frame -------------------------------------------------------- */

static struct target *target_of(uint32_t id)
{
	for (int i = 0; i < targets; i++)
		if (target[i].q.config.job == id)
			return &target[i];
	return NULL;
}

static uint64_t cookie(const struct target *t, uint32_t rank)
{
	return fpisa_cookie(&t->q.job.key, rank, HARNESS_INCARNATION);
}

/* Expect the verdict on ROWS, and put the remaining rows into the reply. */
static enum fpisa_verdict expect_rows(struct target *t)
{
	struct fpisa_hdr *r = &a.reply.hdr;
	uint8_t keep[FPISA_QUERY_ROWS];
	uint32_t bytes = t->q.config.row_bytes, kept = 0;
	enum fpisa_verdict v =
		fpisa_soft_query_rows(&t->soft, t->q.epoch, r->rank, r->chunk, a.reply.payload, r->count, keep);

	if (fpisa_is_drop(v))
		return v;
	for (uint32_t i = 0; i < r->count; i++)
		if (keep[i])
			memmove(a.reply.payload + kept++ * bytes, a.reply.payload + i * bytes, bytes);
	if (!kept && !(r->flags & FPISA_F_LAST)) {
		fpisa_make_ack(r);
		return FPISA_V_rows_taken;
	}
	r->count = (uint16_t)kept;
	fpisa_make_passed_on(r, cookie(t, WORKERS));
	a.to = WORKERS;
	a.payload = fpisa_query_payload(kept, bytes);
	memset(a.reply.payload + kept * bytes, 0, a.payload - kept * bytes);
	return FPISA_V_rows_passed;
}

static enum fpisa_verdict expect_keys(struct target *t)
{
	struct fpisa_hdr *r = &a.reply.hdr;
	uint64_t missing;
	uint32_t state;
	enum fpisa_verdict v = fpisa_soft_query_keys(&t->soft, t->q.epoch, r->rank, a.reply.payload, r->count,
						     r->flags & FPISA_F_LAST, (__u64 *)&missing, &state);

	if (v == FPISA_V_keys_taken)
		fpisa_make_keys_ack(r, missing, state);
	return v;
}

static enum fpisa_verdict expect_seal(struct target *t)
{
	struct fpisa_query_state *s = &t->soft.state;
	uint64_t missing = 0, held = 0;
	__u64 last[WORKERS];

	memcpy(last, a.reply.payload, sizeof(last));
	if (t->kind == FPISA_QUERY_TABLE) {
		missing = fpisa_soft_query_seal(&t->soft, t->q.epoch, last);
		held = s->used;
	} else if (t->kind == FPISA_QUERY_TOPN && s->epoch == t->q.epoch) {
		held = s->bar;
	}
	fpisa_make_sealed(&a.reply.hdr, missing, held);
	return FPISA_V_status;
}

static enum fpisa_verdict expect_read(struct target *t)
{
	struct fpisa_query_state *s = &t->soft.state;
	uint64_t first = a.reply.hdr.chunk;
	uint32_t n = 0;

	if (s->epoch != t->q.epoch || !s->sealed)
		return FPISA_V_unsealed;
	for (; n < a.reply.hdr.count && first < s->used && first + n < s->used; n++)
		memcpy(a.reply.payload + n * sizeof(struct fpisa_query_group), &t->soft.groups[first + n],
		       sizeof(struct fpisa_query_group));
	fpisa_make_groups(&a.reply.hdr, n, s->used);
	a.payload = n * (uint32_t)sizeof(struct fpisa_query_group);
	return FPISA_V_groups;
}

static enum fpisa_verdict expect_of_query(struct target *t)
{
	struct fpisa_hdr *r = &a.reply.hdr;

	switch (r->type) {
	case FPISA_TYPE_ROWS:
		return expect_rows(t);
	case FPISA_TYPE_KEYS:
		return expect_keys(t);
	case FPISA_TYPE_SEAL:
		return expect_seal(t);
	case FPISA_TYPE_READ:
		return expect_read(t);
	default:
		a.to = r->slot;
		fpisa_make_passed_on(r, cookie(t, r->slot));
		return FPISA_V_ack_passed;
	}
}

/* Return the verdict of the checks, in the order of the datapath. */
static enum fpisa_verdict checks(const struct target *t, const struct fpisa_hdr *in)
{
	struct fpisa_session s = {.generation = t->q.epoch};
	const struct fpisa_address at = headers_from(&a.in);
	const uint32_t shift = headers_shift(&a.in);
	enum fpisa_verdict v = fpisa_check_type(in);
	__be16 port;

	for (uint32_t r = 0; r <= WORKERS; r++)
		s.secret[r] = cookie(t, r);
	memcpy(&port, a.in.data + 34 + shift, sizeof(port));
	if (v == FPISA_V_ok) /* the frame is not for a query: the entry program checks it */
		v = fpisa_check_add(in, a.payload, &t->q.job, &s, &at, port);
	else if (v != FPISA_V_type)
		return v;
	else if (a.payload % FPISA_QUERY_PAD)
		v = FPISA_V_length;
	else
		v = fpisa_check_member(in, &t->q.job, &s, &at, port);
	if (v == FPISA_V_ok)
		v = fpisa_check_query(in, a.payload, &t->q.job, &t->q.config);
	if (v == FPISA_V_ok && headers_be16(&a.in, 36 + shift) != FPISA_PORT)
		v = FPISA_V_port;
	if (v == FPISA_V_ok && in->generation != t->q.epoch)
		v = FPISA_V_generation;
	if (v != FPISA_V_ok && !fpisa_reported(v))
		return v;
	return frame_checksum(in, a.reply.payload, a.payload) == in->checksum ? v : FPISA_V_checksum;
}

/* Return whether the frame's destination is the address of any query. */
static bool is_known(const struct frame *f)
{
	for (int i = 0; i < targets; i++)
		if (headers_to(f, &target[i].q.job.address))
			return true;
	return false;
}

bool checker_expect(void)
{
	struct fpisa_hdr *r = &a.reply.hdr;
	const struct fpisa_hdr *hdr;
	bool known;
	int tag;

	a.to = SENDER;
	a.payload = 0;
	a.action = XDP_PASS;
	a.t = NULL;
	if (!headers_untag(&a.sent, &a.in, &tag)) {
		a.verdict = FPISA_V_qinq;
		return true;
	}
	hdr = headers_fpisa(&a.in);
	if (hdr)
		a.t = target_of(hdr->job);
	known = is_known(&a.in);
	a.verdict = headers_verdict(&a.in, a.t ? headers_to(&a.in, &a.t->q.job.address) : known, known, 0, &a.payload);
	if (a.verdict != FPISA_V_not_ours && a.verdict != FPISA_V_wrong_destination && a.verdict != FPISA_V_extension) {
		/* No query in this program has a VLAN, so it takes frames without a tag, or with a tag of ID 0. */
		if (tag > 0 || (!tag && !a.t)) {
			a.verdict = FPISA_V_vlan;
			return true;
		}
		a.action = XDP_DROP;
	}
	if (a.verdict == FPISA_V_ok && !a.t)
		a.verdict = FPISA_V_no_job;
	if (a.verdict != FPISA_V_ok) {
		if (a.verdict != FPISA_V_wrong_destination)
			a.t = NULL;
		return true;
	}
	memcpy(&a.reply, a.in.data + FPISA_OFFSET + headers_shift(&a.in), FPISA_HDR_LEN + a.payload);
	if (r->version == FPISA_VERSION && r->type == FPISA_TYPE_HELLO)
		return false;
	a.verdict = checks(a.t, r);
	a.payload = a.verdict == FPISA_V_ok ? a.payload : 0;
	if (a.verdict == FPISA_V_ok) {
		a.payload = 0;
		a.verdict = expect_of_query(a.t);
	}
	if (!fpisa_is_drop(a.verdict)) {
		a.action = XDP_REDIRECT;
	} else if (fpisa_reported(a.verdict)) {
		fpisa_make_error(r, a.verdict);
		a.action = XDP_REDIRECT;
	}
	return true;
}

/* -- actual outcome of a frame ----------------------------------------------------------- */

/* Return whether the reply, of `len` bytes, has the IP header to `to`. */
static bool is_ip_right(const struct fpisa_address *to, uint32_t len)
{
	const uint8_t *ip = a.out.data + 14, ecn = headers_ecn(&a.in) ? 2 : 0;
	const struct fpisa_address *from = &a.t->q.job.address;

	if (!headers_shift(&a.in))
		return headers_be16(&a.out, 12) == 0x0800 && headers_ip_intact(ip) && ip[1] == ecn &&
		       headers_be16(&a.out, 16) == len - 14 && !memcmp(ip + 12, &from->w[3], 4) &&
		       !memcmp(ip + 16, &to->w[3], 4);
	return headers_be16(&a.out, 12) == 0x86dd && ip[0] == 0x60 && ip[1] >> 4 == ecn &&
	       (ip[1] & 15 || ip[2] || ip[3]) && headers_be16(&a.out, 18) == len - 54 && ip[6] == 17 && ip[7] == 64 &&
	       !memcmp(ip + 8, from, 16) && !memcmp(ip + 24, to, 16);
}

static void check_reply(void)
{
	const uint32_t shift = headers_shift(&a.in), len = FPISA_PAYLOAD_OFFSET + shift + a.payload;
	struct fpisa_address to = headers_from(&a.in);
	const uint8_t *port = a.in.data + 34 + shift;
	uint8_t macs[12];

	memcpy(macs, a.in.data + 6, 6);
	memcpy(macs + 6, a.in.data, 6);
	if (a.to != SENDER) {
		memcpy(macs, (uint8_t[]){2, 0, 0, 0, 1, (uint8_t)a.to, 2, 0, 0, 0, 0, 0xfe}, sizeof(macs));
		to = a.t->q.job.rank[a.to].addr;
		port = (const uint8_t *)&a.t->q.job.rank[a.to].port;
	}
	a.reply.hdr.checksum = frame_checksum(&a.reply.hdr, a.reply.payload, a.payload);
	if (a.out.len != len || memcmp(a.out.data, macs, sizeof(macs)) || !is_ip_right(&to, len) ||
	    headers_be16(&a.out, 34 + shift) != FPISA_PORT || memcmp(a.out.data + 36 + shift, port, 2) ||
	    headers_be16(&a.out, 38 + shift) != 8 + FPISA_HDR_LEN + a.payload ||
	    memcmp(a.out.data + FPISA_OFFSET + shift, &a.reply, FPISA_HDR_LEN + a.payload) ||
	    !harness_udp_checksum_right(&a.out))
		complain("the reply is not the one expected");
}

/* Check that the state equals the state of the query in user space, which received exactly the frames that count. */
static void check_state(const struct target *t)
{
	struct fpisa_query_state now = query_state(&t->q), want = t->soft.state;

	now.barrier = want.barrier = 0;
	if (memcmp(&now, &want, sizeof(now)))
		complain("the state differs");
}

static void check_map(struct target *t, const char *name, const void *want, size_t bytes, uint32_t n)
{
	int fd = bpf_object__find_map_fd_by_name(t->q.object, name);
	uint8_t value[256];

	for (uint32_t i = 0; i < n; i++)
		if (bpf_map_lookup_elem(fd, &i, value) || memcmp(value, (const uint8_t *)want + i * bytes, bytes)) {
			complain(name);
			return;
		}
}

void checker_maps(void)
{
	for (int i = 0; i < targets; i++) {
		struct target *t = a.t = &target[i];
		const struct fpisa_query_config *c = &t->q.config;

		if (c->flags & FPISA_QUERY_FILTER)
			check_map(t, "fpisa_filter", t->soft.filter, sizeof(*t->soft.filter), c->filter_mask + 1);
		if (t->kind == FPISA_QUERY_TOPN)
			check_map(t, "fpisa_heap", t->soft.heap, sizeof(*t->soft.heap), c->limit);
		if (t->kind != FPISA_QUERY_TABLE)
			continue;
		check_map(t, "fpisa_buckets", t->soft.buckets, sizeof(*t->soft.buckets), c->bucket_mask + 1);
		check_map(t, "fpisa_groups", t->soft.groups, sizeof(*t->soft.groups), c->limit);
	}
}

void checker_run(void)
{
	uint32_t counted = a.t ? a.t->q.config.job : FPISA_MAX_JOBS;
	uint64_t before = harness_verdict(harness, counted, a.verdict);

	a.out.len = a.sent.len;
	memcpy(a.out.data, a.sent.data, a.sent.len);
	harness_run(harness, &a.out);
	reached[a.verdict]++;
	if (harness_verdict(harness, counted, a.verdict) != before + 1)
		complain("the expected verdict is not counted");
	else if (a.out.action != a.action)
		complain("the action is not the verdict's");
	else if (a.action == XDP_PASS && (a.out.len != a.sent.len || memcmp(a.out.data, a.sent.data, a.sent.len)))
		complain("the program changed the frame");
	else if (a.action == XDP_REDIRECT)
		check_reply();
	if (a.t)
		check_state(a.t);
}
