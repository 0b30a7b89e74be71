/* SPDX-License-Identifier: GPL-2.0-only */
/* The oracle of the packet fuzzer. See checker.h for the contracts. */
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "checker.h"
#include "headers.h"

#define MAX_REPORTS 5

struct summary *sum;
struct attempt a;
uint64_t seed;
static struct fpisa_counters unowned; /* expected counters of frames that name no job */

const char *verdict_name(unsigned int v)
{
	static const char *const names[] = {
#define X(name, class, text) #name,
		FPISA_VERDICTS(X)
#undef X
	};

	return v < FPISA_VERDICT_COUNT ? names[v] : "?";
}

void complain(uint64_t *counter, const char *what)
{
	uint64_t before = sum->changed + sum->wrong_verdict + sum->wrong_reply + sum->wrong_state + sum->not_identical;

	++*counter;
	if (before >= MAX_REPORTS)
		return;
	fprintf(stderr, "packets: seed %llu case %llu: %s; job %s, mutations:%s, expected %s action %d, got action %d\n",
		(unsigned long long)seed, (unsigned long long)sum->cases, what, a.t ? a.t->name : "none", a.mutations,
		verdict_name(a.verdict), a.action, a.out.action);
	for (uint32_t i = 0; i < a.in.len && i < FPISA_PAYLOAD_OFFSET + 16; i++)
		fprintf(stderr, "%02x%s", a.in.data[i], i % 32 == 31 ? "\n" : " ");
	fprintf(stderr, "... %u bytes\n", a.in.len);
}

/* -- expected outcome of a frame ----------------------------------------------- */

static struct target *target_of(uint32_t id)
{
	for (int i = 0; i < targets; i++)
		if (target[i].id == id)
			return &target[i];
	return NULL;
}

/* Return whether the frame's destination is the address of any job. */
static bool is_known(void)
{
	for (int i = 0; i < targets; i++)
		if (headers_to(&a.in, &target[i].job.address))
			return true;
	return false;
}

/*
 * Return whether the frame's address is the address of the job that the frame names, or of any job if the frame names
 * no existing job.
 */
static bool for_us(void)
{
	const struct fpisa_hdr *hdr = headers_fpisa(&a.in);

	a.t = hdr ? target_of(hdr->job) : NULL;
	return a.t ? headers_to(&a.in, &a.t->job.address) : is_known();
}

/* Return whether the aggregator would take the lock of the slot. */
static bool wants_slot(enum fpisa_verdict v)
{
	return v == FPISA_V_accepted || v == FPISA_V_duplicate || v == FPISA_V_status || v == FPISA_V_result ||
	       v == FPISA_V_resent || v == FPISA_V_generation || v == FPISA_V_stale || v == FPISA_V_ahead ||
	       v == FPISA_V_mismatch;
}

static void expect_of_job(uint32_t payload)
{
	const struct fpisa_counters before = a.t->soft.counters, *after = &a.t->soft.counters;
	const uint32_t shift = headers_shift(&a.in);
	struct fpisa_rank from = {.addr = headers_from(&a.in)};
	uint8_t op;

	memcpy(&from.port, a.in.data + 34 + shift, 2);
	memcpy(a.reply.bytes, a.in.data + FPISA_OFFSET + shift, FPISA_HDR_LEN + payload);
	a.reply_len = FPISA_HDR_LEN + payload;
	a.hello = a.reply.hdr.type == FPISA_TYPE_HELLO;
	if (!a.hello && a.reply.hdr.slot < 2 * a.t->job.window)
		a.key = (int)a.reply.hdr.slot;
	op = a.reply.hdr.op;
	a.t->soft.next_generation = targets_control->next_generation;
	a.verdict = fpisa_soft_frame(&a.t->soft, &from.addr, from.port, headers_be16(&a.in, 36 + shift) - FPISA_PORT,
				     headers_ecn(&a.in) == 3, a.reply.bytes, &a.reply_len, &a.to);
	/* The model counts the bytes of frames over IPv4. */
	if (after->bytes > before.bytes)
		a.t->soft.counters.bytes += shift;
	/* Each add that rounds or overwrites discards one magnitude. The histogram does not count squares. */
	if (a.t->job.flags & FPISA_JOB_HISTOGRAM && op != FPISA_OP_NORM)
		a.t->discards += after->rounded - before.rounded + after->overwritten - before.overwritten;
	if (a.t->unloaded && wants_slot(a.verdict)) {
		a.verdict = FPISA_V_family;
		a.t->soft.session.broken = a.t->session->broken;
		a.to = 0;
	} else if (a.t->no_ports && a.verdict == FPISA_V_result) {
		a.verdict = FPISA_V_fanout;
		a.to = 0;
		a.accepted = true;
	} else if (a.verdict == FPISA_V_status) {
		/* The frame counts twice, once for its effect and once for its answer. */
		if (after->v_duplicate > before.v_duplicate)
			a.t->counted.v_duplicate++;
		else
			a.t->counted.v_accepted++;
	}
	a.accepted |= !fpisa_is_drop(a.verdict) && a.verdict != FPISA_V_duplicate && a.verdict != FPISA_V_challenge;
	a.action = a.to ? XDP_REDIRECT : XDP_DROP;
}

/* Return whether the frame's tag, or its absence, matches the job. Without a tag, the frame may name no job. */
static bool has_its_tag(void)
{
	if (a.verdict == FPISA_V_extension)
		return true;
	if (a.tag >= 0)
		return a.t && a.t->job.vlan == a.tag;
	return !a.t || !a.t->job.vlan || a.t->job.stripped;
}

void checker_expect(void)
{
	uint32_t payload = 0;

	if (!headers_untag(&a.sent, &a.in, &a.tag)) {
		a.verdict = FPISA_V_qinq;
		a.action = XDP_PASS;
		return;
	}
	a.action = XDP_DROP;
	a.verdict = headers_verdict(&a.in, for_us(), is_known(), TARGETS_MORE_PORTS, &payload);
	if (a.verdict != FPISA_V_not_ours && a.verdict != FPISA_V_wrong_destination && !has_its_tag())
		a.verdict = FPISA_V_vlan;
	if (a.verdict == FPISA_V_not_ours || a.verdict == FPISA_V_wrong_destination || a.verdict == FPISA_V_vlan ||
	    a.verdict == FPISA_V_extension)
		a.action = XDP_PASS;
	if (a.verdict == FPISA_V_ok && !a.t)
		a.verdict = FPISA_V_no_job;
	else if (a.verdict == FPISA_V_ok)
		expect_of_job(payload);
	else if (a.verdict != FPISA_V_wrong_destination && a.verdict != FPISA_V_vlan)
		a.t = NULL;
	a.counted_as_job = a.t;
}

/* -- actual outcome of a frame ----------------------------------------------- */

/* Write the expected IPv4 header of the reply, of a frame of `len` bytes. */
static void want_ipv4(uint8_t *want, uint32_t len, bool all)
{
	const struct fpisa_job *j = &a.t->job;

	want[15] = headers_ecn(&a.in) ? 2 : 0; /* ECT(0) if the request is ECN-capable, never CE */
	want[16] = (uint8_t)((len - 14) >> 8);
	want[17] = (uint8_t)(len - 14);
	want[20] = 0x40;
	want[21] = 0;
	want[22] = 64;
	memcpy(want + 24, a.out.data + 24, 2);
	memcpy(want + 26, &j->address.w[3], 4);
	memcpy(want + 30, all ? &j->group.b[12] : a.in.data + 26, 4);
}

/* Write the expected IPv6 header. The flow label may have any value except 0. */
static void want_ipv6(uint8_t *want, uint32_t len, bool all)
{
	const struct fpisa_job *j = &a.t->job;

	want[14] = 0x60;
	want[15] = (uint8_t)((headers_ecn(&a.in) ? 2 : 0) << 4 | (a.out.data[15] & 15));
	memcpy(want + 16, a.out.data + 16, 2);
	want[18] = (uint8_t)((len - 54) >> 8);
	want[19] = (uint8_t)(len - 54);
	want[20] = 17;
	want[21] = 64;
	memcpy(want + 22, &j->address, 16);
	memcpy(want + 38, all ? j->group.b : a.in.data + 22, 16);
	if (!(want[15] & 15) && !want[16] && !want[17])
		complain(&sum->wrong_reply, "the flow label is 0");
}

/* Write the expected multicast Ethernet address of results. */
static void want_group(uint8_t *want)
{
	const uint8_t *g = &a.t->job.group.b[12];

	if (headers_shift(&a.in))
		memcpy(want, (uint8_t[]){0x33, 0x33, g[0], g[1], g[2], g[3]}, 6);
	else
		memcpy(want, (uint8_t[]){1, 0, 0x5e, g[1] & 0x7f, g[2], g[3]}, 6);
}

/* Check the outgoing frame against a frame built from the request and the expected FPISA part. */
static void check_reply(void)
{
	const struct fpisa_job *j = &a.t->job;
	const uint32_t shift = headers_shift(&a.in), udp = 34 + shift;
	bool all = a.verdict == FPISA_V_result;
	uint32_t len = FPISA_OFFSET + shift + (uint32_t)a.reply_len;
	uint8_t want[HARNESS_FRAME];

	memcpy(want, a.in.data, udp);
	memcpy(want, a.in.data + 6, 6);
	memcpy(want + 6, a.in.data, 6);
	if (all)
		want_group(want);
	(shift ? want_ipv6 : want_ipv4)(want, len, all);
	memcpy(want + udp, (uint8_t[]){FPISA_PORT >> 8, FPISA_PORT & 0xff}, 2);
	memcpy(want + udp + 2, all ? (const uint8_t *)&j->group_port : a.in.data + udp, 2);
	want[udp + 4] = (uint8_t)((len - udp) >> 8);
	want[udp + 5] = (uint8_t)(len - udp);
	memcpy(want + udp + 6, a.out.data + udp + 6, 2);
	memcpy(want + udp + 8, a.reply.bytes, a.reply_len);
	if (a.out.len < len || memcmp(want, a.out.data, len) || (!shift && !headers_ip_intact(a.out.data + 14)) ||
	    !harness_udp_checksum_right(&a.out) || a.out.vlan != j->vlan)
		complain(&sum->wrong_reply, "the reply is not the one expected");
	else if (a.reply_len == FPISA_HDR_LEN && a.out.len != len)
		complain(&sum->wrong_reply, "a bare reply carries a payload");
}

static void check_session(void)
{
	if (memcmp(a.t->session, &a.t->soft.session, sizeof(*a.t->session)) ||
	    targets_control->next_generation != a.t->soft.next_generation)
		complain(&sum->wrong_state, "the session differs");
}

/* Check that the HELLO of a rank's newest incarnation sets the rank's address and port. */
static void check_peer(void)
{
	const struct fpisa_hdr *h = headers_fpisa(&a.in);
	const struct fpisa_address from = headers_from(&a.in);
	const struct fpisa_peer *p = NULL;
	__u64 newest = 0;

	for (uint32_t r = 0; r < a.t->job.workers; r++)
		if (fpisa_same_address(&a.t->job.rank[r].addr, &from) &&
		    !memcmp(&a.t->job.rank[r].port, a.in.data + 34 + headers_shift(&a.in), 2))
			p = &a.t->peer[r], newest = a.t->session->incarnation[r];
	if (h->aux == newest && (!p || memcmp(p->mac, a.in.data + 6, 6) || memcmp(p->local_mac, a.in.data, 6)))
		complain(&sum->wrong_state, "the peer's addresses are not those of its HELLO");
	check_session();
}

/* Repair the generation on both sides. A generation that stayed broken would leave few further cases possible. */
static void check_mismatch(void)
{
	check_session();
	a.t->session->broken = a.t->soft.session.broken = 0;
}

static void check_state(void)
{
	const char *what;

	if (!a.t)
		return;
	if (a.verdict == FPISA_V_mismatch)
		check_mismatch();
	if (a.accepted) {
		if (a.hello)
			check_peer();
		else if ((what = targets_differ(a.t, a.key)))
			complain(&sum->wrong_state, what);
		targets_accept(a.t, a.key);
		return;
	}
	what = targets_changed(a.t, a.key);
	if (!what)
		return;
	complain(&sum->changed, what);
	targets_accept(a.t, a.key);
}

void checker_verify(void)
{
	struct fpisa_counters *expected = a.counted_as_job ? &a.t->counted : &unowned;
	struct fpisa_counters *counted = a.counted_as_job ? a.t->counters : targets_unowned;
	uint64_t want = ++(&expected->v_not_ours)[a.verdict];

	if ((&counted->v_not_ours)[a.verdict] != want) {
		complain(&sum->wrong_verdict, "the expected verdict is not counted");
		*expected = *counted;
	} else if (a.out.action != a.action) {
		complain(&sum->wrong_verdict, "the action is not the verdict's");
	} else if (a.action == XDP_PASS) {
		sum->passed++;
		if (a.out.len != a.sent.len || memcmp(a.out.data, a.sent.data, a.sent.len))
			complain(&sum->not_identical, "the program changed the frame");
	} else if (a.action == XDP_REDIRECT) {
		sum->replies++;
		check_reply();
	}
	sum->reached[a.verdict]++;
	sum->refused += fpisa_is_drop(a.verdict);
	sum->rounds += a.verdict == FPISA_V_result;
	check_state();
}
