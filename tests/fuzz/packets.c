/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hostile packets through the loaded datapath, by BPF_PROG_TEST_RUN:
 *
 *	packets [--cases N] [--seed S] [--check-all K] [--json]
 *
 * Frames of several jobs (targets.c), valid or mutated (mutate.c), half of
 * the mutated ones with their checksums repaired so that deep checks are
 * reached. A model of the headers below FPISA's, written from doc/wire.md,
 * and the aggregator of user space (user/lib/soft.c) say what must become of
 * each: verdict, counter, reply and registers must be theirs, bit by bit.
 * What is not ours must pass unchanged; a frame that is refused must leave
 * every byte of the job's state as it was, and every K cases all maps are
 * compared. Every reason that a frame can provoke has to be reached.
 *
 * Status: 0, 1 if anything of this failed, 77 where BPF is not permitted.
 * Case c of a seed is the same in every run.
 */
#include <arpa/inet.h>
#include <getopt.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "mutate.h"
#include "targets.h"

#define MAX_REPORTS 5

/* Of the run; shared with the parent, which reports when the child died. */
struct summary {
	uint64_t cases, mutated, repaired, passed, refused, replies, rounds;
	uint64_t crashes, changed, wrong_verdict, wrong_reply, wrong_state, not_identical;
	uint64_t reached[FPISA_VERDICT_COUNT];
	int done;
};

static struct summary *sum;
static struct harness *h;
static struct vectors_rng rng;
static struct fpisa_counters unowned; /* expected, of frames of no job */
static uint64_t seed;

/* One case. */
struct attempt {
	struct frame in, out;
	char ways[MUTATE_NAMES];
	struct target *t;	    /* whose header it is; NULL: no job's */
	enum fpisa_verdict verdict; /* expected, as the rest */
	int action, key;	    /* of the version touched, -1: none */
	bool counted_as_job;	    /* else among the frames of no job */
	bool accepted;		    /* may change state */
	bool hello;
	uint64_t to; /* ranks that get the reply */
	size_t reply_len;
	union {
		struct fpisa_hdr hdr;
		uint8_t bytes[HARNESS_FRAME];
	} reply; /* from the FPISA header on */
};

static struct attempt a;

static const char *verdict_name(unsigned int v)
{
	static const char *const names[] = {
#define X(name, class, text) #name,
		FPISA_VERDICTS(X)
#undef X
	};

	return v < FPISA_VERDICT_COUNT ? names[v] : "?";
}

static void complain(uint64_t *counter, const char *what)
{
	uint64_t before =
		sum->changed + sum->wrong_verdict + sum->wrong_reply + sum->wrong_state + sum->not_identical;

	++*counter;
	if (before >= MAX_REPORTS)
		return;
	fprintf(stderr,
		"packets: seed %llu case %llu: %s; job %s, ways:%s, expected %s action %d, got action %d\n",
		(unsigned long long)seed, (unsigned long long)sum->cases, what, a.t ? a.t->name : "none",
		a.ways, verdict_name(a.verdict), a.action, a.out.action);
	for (uint32_t i = 0; i < a.in.len && i < FPISA_PAYLOAD_OFFSET + 16; i++)
		fprintf(stderr, "%02x%s", a.in.data[i], i % 32 == 31 ? "\n" : " ");
	fprintf(stderr, "... %u bytes\n", a.in.len);
}

/* -- valid frames ------------------------------------------------------------ */

/* Values of any format: uniform bits, one exponent, or zeros. */
static void values(uint32_t *w, uint32_t words)
{
	uint32_t kind = vectors_below(&rng, 8), base = (uint32_t)vectors_next(&rng);

	for (uint32_t i = 0; i < words; i++) {
		uint32_t r = (uint32_t)vectors_next(&rng);

		w[i] = !kind ? 0 : kind < 4 ? r : (base & 0xfff0fff0) | (r & 0x800f800f);
	}
}

/* A contribution to a round that is open, complete, or to be started. */
static void valid_add(struct target *t)
{
	static uint32_t w[FPISA_MAX_PAYLOAD / 4];
	uint32_t versions = 2 * t->job.window, key = vectors_below(&rng, versions), rank, count;
	const struct fpisa_slot *s = &t->slot[key];
	uint64_t chunk = (key >> 1) + (key & 1) * (uint64_t)t->job.window;
	bool start = s->generation != t->session->generation;

	rank = vectors_below(&rng, t->job.workers);
	if (!start) {
		chunk = s->chunk;
		if (s->done && vectors_below(&rng, 3)) {
			chunk += versions;
			start = true;
		} else if (!s->done && vectors_below(&rng, 4)) {
			/* One that is missing. */
			for (uint32_t i = 0; i < t->job.workers && s->bitmap >> rank & 1; i++)
				rank = (rank + 1) % t->job.workers;
		}
	}
	if (!vectors_below(&rng, 24))
		chunk += ((uint64_t)vectors_below(&rng, 5) - 2) * versions;
	count = start ? 32 * (1 + vectors_below(&rng, t->job.elements / 32)) : s->count;
	values(w, count * fpisa_format_of(t->job.format).bytes / 4);
	h->generation = t->session->generation;
	harness_add(&a.in, h, &t->job, t->id, rank, chunk, count, w);
	harness_hdr(&a.in)->total = start ? 1 + vectors_below(&rng, 1000) : s->total;
	harness_hdr(&a.in)->call = start ? vectors_below(&rng, 3) : s->call;
	harness_hdr(&a.in)->flags = (vectors_below(&rng, 5) ? 0 : FPISA_F_RETRANSMIT) |
				    (vectors_below(&rng, 8) ? 0 : FPISA_F_PROBE);
	harness_seal(&a.in);
}

static void valid_hello(struct target *t)
{
	uint32_t rank = vectors_below(&rng, t->job.workers), kind = vectors_below(&rng, 16);

	harness_hello(&a.in, &t->job, t->id, rank, t->session->incarnation[rank] + (kind == 0) - (kind == 1));
}

/* -- what must become of a frame ----------------------------------------------- */

static struct target *target_of(uint32_t id)
{
	for (int i = 0; i < targets; i++)
		if (target[i].id == id)
			return &target[i];
	return NULL;
}

static uint32_t be16(uint32_t at)
{
	return (uint32_t)a.in.data[at] << 8 | a.in.data[at + 1];
}

/* RFC 1071: the sum of all 16-bit words, carries added back, is all ones. */
static bool ip_intact(const uint8_t *p)
{
	uint32_t s = 0;

	for (int i = 0; i < 20; i += 2)
		s += (uint32_t)p[i] << 8 | p[i + 1];
	return (s >> 16) + (s & 0xffff) == 0xffff;
}

/* doc/wire.md, section 2. *payload is set to the bytes after the FPISA header. */
static enum fpisa_verdict below_fpisa(uint32_t *payload)
{
	const uint8_t *p = a.in.data;

	if (a.in.len < FPISA_OFFSET + 2 || be16(12) != ETH_P_IP || p[14] != 0x45 || p[23] != 17 ||
	    be16(20) & 0x1fff || be16(36) != FPISA_PORT || p[42] != 'F' || p[43] != 'P')
		return FPISA_V_not_ours;
	if (be16(20) & 0x2000)
		return FPISA_V_fragment;
	if (!ip_intact(p + 14))
		return FPISA_V_ip_checksum;
	if (be16(16) != be16(38) + 20 || be16(38) < 8 + 76 || be16(16) + 14 > a.in.len)
		return FPISA_V_truncated;
	*payload = be16(38) - 8 - 76;
	return FPISA_V_absorbed;
}

/* Would the aggregator get as far as the slot's guard? */
static bool wants_slot(enum fpisa_verdict v)
{
	return v == FPISA_V_absorbed || v == FPISA_V_duplicate || v == FPISA_V_status ||
	       v == FPISA_V_result || v == FPISA_V_resent || v == FPISA_V_generation || v == FPISA_V_stale ||
	       v == FPISA_V_ahead || v == FPISA_V_mismatch;
}

static void expect_of_job(uint32_t payload)
{
	uint64_t before = a.t->soft.counters.v_duplicate;
	struct fpisa_rank from;

	memcpy(&from.addr, a.in.data + 26, 4);
	memcpy(&from.port, a.in.data + 34, 2);
	memcpy(a.reply.bytes, a.in.data + FPISA_OFFSET, FPISA_HDR_LEN + payload);
	a.reply_len = FPISA_HDR_LEN + payload;
	a.hello = a.reply.hdr.type == FPISA_TYPE_HELLO;
	if (!a.hello && a.reply.hdr.slot < 2 * a.t->job.window)
		a.key = (int)a.reply.hdr.slot;
	a.t->soft.next_generation = targets_control->next_generation;
	a.verdict = fpisa_soft_frame(&a.t->soft, from.addr, from.port, a.reply.bytes, &a.reply_len, &a.to);
	if (a.t->unloaded && wants_slot(a.verdict)) {
		a.verdict = FPISA_V_family;
		a.to = 0;
	} else if (a.t->no_ports && a.verdict == FPISA_V_result) {
		a.verdict = FPISA_V_fanout;
		a.to = 0;
		a.accepted = true;
	} else if (a.verdict == FPISA_V_status) {
		/* Counted twice: for what it did, and for its answer. */
		if (a.t->soft.counters.v_duplicate > before)
			a.t->counted.v_duplicate++;
		else
			a.t->counted.v_absorbed++;
	}
	a.accepted |= a.verdict < FPISA_V_FIRST_DROP && a.verdict != FPISA_V_duplicate;
	a.action = a.to ? XDP_REDIRECT : XDP_DROP;
}

static void expect(void)
{
	uint32_t payload = 0;

	a.action = XDP_DROP;
	a.verdict = below_fpisa(&payload);
	if (a.verdict == FPISA_V_not_ours)
		a.action = XDP_PASS;
	if (a.verdict != FPISA_V_absorbed)
		return;
	a.t = target_of(harness_hdr(&a.in)->job);
	if (!a.t) {
		a.verdict = FPISA_V_no_job;
		return;
	}
	a.counted_as_job = true;
	if (memcmp(a.in.data + 30, &a.t->job.address, 4)) {
		a.verdict = FPISA_V_elsewhere;
		a.action = XDP_PASS;
		return;
	}
	expect_of_job(payload);
}

/* -- what became of it ------------------------------------------------------- */

/* The frame that leaves, built anew from the request and the expected FPISA part. */
static void check_reply(void)
{
	const struct fpisa_job *j = &a.t->job;
	bool all = a.verdict == FPISA_V_result;
	uint32_t len = FPISA_OFFSET + (uint32_t)a.reply_len;
	uint8_t want[HARNESS_FRAME];

	memcpy(want, a.in.data, FPISA_OFFSET);
	memcpy(want, a.in.data + 6, 6);
	memcpy(want + 6, a.in.data, 6);
	if (all) {
		const uint8_t *g = (const uint8_t *)&j->group;

		memcpy(want, (uint8_t[]){1, 0, 0x5e, g[1] & 0x7f, g[2], g[3]}, 6);
	}
	want[15] = 0;
	want[16] = (uint8_t)((len - 14) >> 8);
	want[17] = (uint8_t)(len - 14);
	want[20] = 0x40;
	want[21] = 0;
	want[22] = 64;
	memcpy(want + 24, a.out.data + 24, 2);
	memcpy(want + 26, &j->address, 4);
	memcpy(want + 30, all ? (const uint8_t *)&j->group : a.in.data + 26, 4);
	memcpy(want + 34, a.in.data + 36, 2);
	memcpy(want + 36, all ? (const uint8_t *)&j->group_port : a.in.data + 34, 2);
	want[38] = (uint8_t)((len - 34) >> 8);
	want[39] = (uint8_t)(len - 34);
	want[40] = want[41] = 0;
	memcpy(want + FPISA_OFFSET, a.reply.bytes, a.reply_len);
	if (a.out.len < len || memcmp(want, a.out.data, len) || !ip_intact(a.out.data + 14))
		complain(&sum->wrong_reply, "the reply is not the one expected");
	else if (a.reply_len == FPISA_HDR_LEN && a.out.len != len)
		complain(&sum->wrong_reply, "a bare reply carries a payload");
}

static void check_peer(void)
{
	const struct fpisa_peer *p = NULL;

	for (uint32_t r = 0; r < a.t->job.workers; r++)
		if (!memcmp(&a.t->job.rank[r].addr, a.in.data + 26, 4) &&
		    !memcmp(&a.t->job.rank[r].port, a.in.data + 34, 2))
			p = &a.t->peer[r];
	if (!p || memcmp(p->mac, a.in.data + 6, 6) || memcmp(p->local_mac, a.in.data, 6))
		complain(&sum->wrong_state, "the peer's addresses are not those of its HELLO");
	if (memcmp(a.t->session, &a.t->soft.session, sizeof(*a.t->session)) ||
	    targets_control->next_generation != a.t->soft.next_generation)
		complain(&sum->wrong_state, "the session differs");
}

static void check_state(void)
{
	const char *what;

	if (!a.t)
		return;
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

static void check(void)
{
	struct fpisa_counters *expected = a.counted_as_job ? &a.t->counted : &unowned;
	struct fpisa_counters *counted = a.counted_as_job ? a.t->counters : targets_unowned;
	uint64_t want = ++(&expected->v_not_ours)[a.verdict];

	if ((&counted->v_not_ours)[a.verdict] != want) {
		complain(&sum->wrong_verdict, "the expected verdict is not counted");
		*expected = *counted;
	} else if (a.out.action != a.action) {
		complain(&sum->wrong_verdict, "another action than the verdict's");
	} else if (a.action == XDP_PASS) {
		sum->passed++;
		if (a.out.len != a.in.len || memcmp(a.out.data, a.in.data, a.in.len))
			complain(&sum->not_identical, "changed on its way through");
	} else if (a.action == XDP_REDIRECT) {
		sum->replies++;
		check_reply();
	}
	sum->reached[a.verdict]++;
	sum->refused += a.verdict >= FPISA_V_FIRST_DROP;
	sum->rounds += a.verdict == FPISA_V_result;
	check_state();
}

static void run(void)
{
	a.out.len = a.in.len;
	memcpy(a.out.data, a.in.data, a.in.len);
	harness_run(h, &a.out);
}

/* -- cases --------------------------------------------------------------------- */

/* Somebody else holds the slot, the session or the trie: the frame is dropped as busy. */
static void case_busy(struct target *t)
{
	bool hello = !vectors_below(&rng, 4);
	__u64 *guard, was;
	uint32_t addr;

	if (hello)
		valid_hello(t);
	else
		valid_add(t);
	memcpy(&addr, a.in.data + 26, sizeof(addr));
	/* Ranks that were taken out are told before anybody waits. */
	if (t->unloaded || !(t->live->live >> (ntohl(addr) - HARNESS_WORKER(0)) & 1))
		return;
	a.t = t;
	if (hello) {
		guard = &t->session->guard;
	} else {
		harness_hdr(&a.in)->flags = 0;
		harness_seal(&a.in);
		a.key = (int)harness_hdr(&a.in)->slot;
		guard = t->job.clz == FPISA_CLZ_LPM && vectors_below(&rng, 2) ? &targets_control->trie_state
									      : &t->slot[a.key].guard;
	}
	was = *guard;
	*guard = 1;
	targets_accept(t, a.key);
	a.counted_as_job = true;
	a.verdict = FPISA_V_busy;
	a.action = XDP_DROP;
	t->soft.counters.packets++;
	t->soft.counters.bytes += a.in.len;
	strcpy(a.ways, " busy");
	run();
	check();
	*guard = was;
	targets_accept(t, a.key);
}

/* Ranks taken out of a job, or all back; the other bank of the program array. */
static void change_configuration(struct target *t)
{
	uint64_t all = t->job.workers == 64 ? ~0ull : (1ull << t->job.workers) - 1;

	if (vectors_below(&rng, 2)) {
		targets_control->bank ^= 1;
	} else {
		t->live->live = vectors_below(&rng, 2) ? all : vectors_next(&rng) & all;
		if (!t->live->live)
			t->live->live = all;
		t->soft.job.live = t->live->live;
	}
	for (int i = 0; i < targets; i++)
		targets_accept(&target[i], -1);
}

static void one_case(void)
{
	struct target *t = &target[vectors_below(&rng, (uint32_t)targets)];
	uint32_t repair;

	a.t = NULL;
	a.key = -1;
	a.to = 0;
	a.accepted = a.counted_as_job = a.hello = false;
	a.ways[0] = 0;
	if (!vectors_below(&rng, 1024))
		change_configuration(t);
	if (!vectors_below(&rng, 4096)) {
		case_busy(t);
		return;
	}
	if (vectors_below(&rng, 16))
		valid_add(t);
	else
		valid_hello(t);
	if (vectors_below(&rng, 8) >= 3) {
		sum->mutated++;
		mutate(&rng, &a.in, 1 + (int)(vectors_below(&rng, 2) * vectors_below(&rng, 4)), a.ways);
		repair = vectors_below(&rng, 8);
		sum->repaired += repair < 4;
		mutate_repair(&a.in, repair < 6, repair < 4);
	}
	expect();
	run();
	check();
}

/* Counters of both at the end, but for what the user-space aggregator does not count. */
static void check_counters(void)
{
	for (int i = 0; i < targets; i++) {
		struct target *t = &target[i];
		struct fpisa_counters k = *t->counters, s = t->soft.counters;

		if (memcmp(&k.v_not_ours, &t->counted.v_not_ours,
			   sizeof(k) - offsetof(struct fpisa_counters, v_not_ours))) {
			a.t = t;
			complain(&sum->wrong_verdict, "a verdict counted that was not expected");
		}
		if (t->unloaded)
			continue;
#define SAME(counter)                                                                                        \
	if (k.counter != s.counter) {                                                                        \
		fprintf(stderr, "packets: seed %llu: job %s: %s is %llu, expected %llu\n",                   \
			(unsigned long long)seed, t->name, #counter, (unsigned long long)k.counter,          \
			(unsigned long long)s.counter);                                                      \
		sum->wrong_verdict++;                                                                        \
	}
		SAME(packets)
		SAME(bytes) SAME(elements) SAME(rounded) SAME(overwritten) SAME(left_shifted) SAME(overflowed)
			SAME(results_inexact) SAME(results_overflow) SAME(results_overwrite) SAME(results_nan)
				SAME(results_inf) SAME(mau0) SAME(mau4) SAME(mau5) SAME(mau8)
#undef SAME
	}
}

static int fuzz(uint64_t cases, uint64_t check_all)
{
	const char *why, *what;

	harness_prepare = targets_prepare;
	h = harness_open(&why);
	if (!h) {
		printf("skip: %s\n", why);
		return 77;
	}
	harness_stages(h, HARNESS_PROGRAMS);
	if (targets_open(h))
		return 1;
	rng.state = seed;
	while (sum->cases < cases) {
		one_case();
		sum->cases++;
		if (sum->cases % check_all && sum->cases < cases)
			continue;
		what = targets_changed_anywhere();
		if (what) {
			complain(&sum->changed, what);
			break;
		}
	}
	check_counters();
	targets_close();
	harness_close(h);
	sum->done = 1;
	return 0;
}

/* Reasons that no frame has provoked; `internal` cannot be. */
static int unreached(FILE *to)
{
	int n = 0;

	for (unsigned int v = 0; v < FPISA_VERDICT_COUNT; v++) {
		if (sum->reached[v] || v == FPISA_V_internal)
			continue;
		n++;
		if (to)
			fprintf(to, " %s", verdict_name(v));
	}
	return n;
}

static int report(bool json, double seconds)
{
	int reasons = FPISA_VERDICT_COUNT - 1, missed = unreached(NULL);
	uint64_t bad = sum->crashes + sum->changed + sum->wrong_verdict + sum->wrong_reply +
		       sum->wrong_state + sum->not_identical;

#define EACH_NUMBER(X)                                                                                       \
	X("cases", sum->cases)                                                                               \
	X("mutated", sum->mutated) X("repaired", sum->repaired) X("passed", sum->passed)                     \
		X("refused", sum->refused) X("replies", sum->replies) X("rounds", sum->rounds)               \
			X("crashes", sum->crashes) X("states changed by a refused packet", sum->changed)     \
				X("wrong verdicts", sum->wrong_verdict) X("wrong replies", sum->wrong_reply) \
					X("wrong states", sum->wrong_state)                                  \
						X("foreign frames changed", sum->not_identical)
#define TEXT(name, n) printf("%-36s %llu\n", name, (unsigned long long)(n));
#define JSON(name, n) printf("\"%s\": %llu, ", name, (unsigned long long)(n));
	if (json) {
		printf("{\"seed\": %llu, ", (unsigned long long)seed);
		EACH_NUMBER(JSON)
		printf("\"verdicts\": %d, \"verdicts reached\": %d, \"seconds\": %.1f}\n", reasons,
		       reasons - missed, seconds);
	} else {
		printf("%-36s %llu\n", "seed", (unsigned long long)seed);
		EACH_NUMBER(TEXT)
		printf("%-36s %d of %d, %.1f s\n", "verdicts reached", reasons - missed, reasons, seconds);
		for (unsigned int v = 0; v < FPISA_VERDICT_COUNT; v++)
			printf("  %-34s %llu\n", verdict_name(v), (unsigned long long)sum->reached[v]);
	}
	if (missed) {
		fprintf(stderr, "packets: not reached:");
		unreached(stderr);
		fprintf(stderr, "\n");
	}
	return bad || missed || !sum->done;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"cases", required_argument, NULL, 'c'},
						{"seed", required_argument, NULL, 's'},
						{"check-all", required_argument, NULL, 'k'},
						{"json", no_argument, NULL, 'j'},
						{0}};
	uint64_t cases = 100000, check_all = 65536;
	struct timespec t0, t1;
	bool json = false;
	int opt, status;
	pid_t child;

	seed = 0;
	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt == 'c')
			cases = strtoull(optarg, NULL, 0);
		else if (opt == 's')
			seed = strtoull(optarg, NULL, 0);
		else if (opt == 'k')
			check_all = strtoull(optarg, NULL, 0);
		else if (opt == 'j')
			json = true;
		else
			return 2;
	}
	if (!cases || !check_all || optind < argc) {
		fprintf(stderr, "usage: packets [--cases N] [--seed S] [--check-all K] [--json]\n");
		return 2;
	}
	if (!seed)
		seed = vectors_seed();
	sum = mmap(NULL, sizeof(*sum), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sum == MAP_FAILED)
		return 1;
	clock_gettime(CLOCK_MONOTONIC, &t0);
	child = fork();
	if (!child)
		exit(fuzz(cases, check_all));
	if (child < 0 || waitpid(child, &status, 0) < 0)
		return 1;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		return 77;
	clock_gettime(CLOCK_MONOTONIC, &t1);
	if (!sum->done) {
		sum->crashes++;
		fprintf(stderr, "packets: seed %llu: died at case %llu, status %#x\n",
			(unsigned long long)seed, (unsigned long long)sum->cases, status);
	}
	return report(json, (double)(t1.tv_sec - t0.tv_sec) + (double)(t1.tv_nsec - t0.tv_nsec) / 1e9);
}
