/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Send hostile packets through the loaded datapath, with BPF_PROG_TEST_RUN.
 * 	packets [--cases N] [--seed S] [--check-all K] [--json]
 * Frames of several jobs (targets.c) are valid or mutated (mutate.c). Half of the mutated frames have their checksums
 * repaired, so that they reach deep checks. A model of the headers below FPISA's, written from doc/wire.md, and the
 * aggregator in user space (user/lib/soft/soft.c) give the expected outcome of each frame. Verdict, counter, reply and
 * registers must agree bit for bit. Foreign frames must pass unchanged. A refused frame must leave every byte of the
 * job's state unchanged, and every K cases all maps are compared. Every reason that a frame can provoke must be
 * reached.
 *
 * The exit status is 0, or 1 if any check failed, or 77 where BPF is not permitted. Case c of a seed is the same in
 * every run.
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
#include "checker.h"

static struct harness *h;
static struct vectors_rng rng;

/* -- valid frames ------------------------------------------------------------ */

/* Fill the payload with values of any format: uniform bits, one common exponent, or zeros. */
static void values(uint32_t *w, uint32_t words)
{
	uint32_t kind = vectors_below(&rng, 8), base = (uint32_t)vectors_next(&rng);

	for (uint32_t i = 0; i < words; i++) {
		uint32_t r = (uint32_t)vectors_next(&rng);

		w[i] = !kind ? 0 : kind < 4 ? r : (base & 0xfff0fff0) | (r & 0x800f800f);
	}
}

/* Choose the sum in half of the cases, else any operation that the job offers, with its operand. */
static void choose_operation(const struct target *t, uint8_t *op, uint64_t *operand)
{
	const struct fpisa_format f = fpisa_format_of(t->job.format);

	*op = FPISA_OP_SUM;
	*operand = 0;
	if (vectors_below(&rng, 2))
		return;
	do
		*op = (uint8_t)(1 + vectors_below(&rng, FPISA_OP_END - 1));
	while (!fpisa_op_offered(f, (enum fpisa_mode)t->job.mode, *op));
	if (*op == FPISA_OP_SCALE)
		*operand = mutate_factor(&rng, f.bytes != 8);
}

/* Name the keepers of the open round *s in most cases, else random ones, or none. */
static uint16_t choose_keepers(const struct target *t, const struct fpisa_slot *s)
{
	const uint32_t first = vectors_below(&rng, t->job.workers), last = vectors_below(&rng, t->job.workers);

	if (s && vectors_below(&rng, 8))
		return s->keepers;
	return vectors_below(&rng, 2) ? fpisa_keepers(first, last) : 0;
}

/* Make a contribution to a round that is open, complete, or to be started. */
static void valid_add(struct target *t)
{
	static uint32_t w[FPISA_MAX_PAYLOAD / 4];
	uint32_t versions = 2 * t->job.window, key = vectors_below(&rng, versions), rank, count;
	const struct fpisa_slot *s = &t->slot[key];
	uint64_t chunk = (key >> 1) + (key & 1) * (uint64_t)t->job.window;
	bool start = s->generation != t->session->generation;
	uint64_t operand;
	uint8_t op;

	rank = vectors_below(&rng, t->job.workers);
	if (!start) {
		chunk = s->chunk;
		if (s->done && vectors_below(&rng, 3)) {
			chunk += versions;
			start = true;
		} else if (!s->done && vectors_below(&rng, 4)) {
			/* Choose a rank that has not contributed. */
			for (uint32_t i = 0; i < t->job.workers && s->bitmap >> rank & 1; i++)
				rank = (rank + 1) % t->job.workers;
		}
	}
	if (!vectors_below(&rng, 24))
		chunk += ((uint64_t)vectors_below(&rng, 5) - 2) * versions;
	count = start ? 32 * (1 + vectors_below(&rng, t->job.elements / 32)) : s->count;
	values(w, fpisa_payload_bytes(fpisa_format_of(t->job.format), count) / 4);
	choose_operation(t, &op, &operand);
	h->generation = t->session->generation;
	h->incarnation[rank] = t->session->incarnation[rank];
	harness_add(&a.in, h, &t->job, t->id, rank, chunk, count, w);
	harness_hdr(&a.in)->digest = start ? 1 + vectors_below(&rng, 1000) : s->digest;
	harness_hdr(&a.in)->call = start ? vectors_below(&rng, 3) : s->call;
	harness_hdr(&a.in)->op = start ? op : s->op;
	harness_hdr(&a.in)->aux = start ? operand : s->operand;
	harness_hdr(&a.in)->contributors = choose_keepers(t, start ? NULL : s);
	harness_hdr(&a.in)->flags =
		(vectors_below(&rng, 5) ? 0 : FPISA_F_RETRANSMIT) | (vectors_below(&rng, 8) ? 0 : FPISA_F_PROBE);
	harness_set_checksums(&a.in);
}

static void valid_hello(struct target *t)
{
	uint32_t rank = vectors_below(&rng, t->job.workers), kind = vectors_below(&rng, 16);
	uint64_t known = t->session->incarnation[rank];

	harness_hello(&a.in, &t->job, t->id, rank, known + (kind == 0) - (kind == 1 && known > 1));
}

/* Give a.in the IPv6 header that frames of a job over IPv6 have. */
static void widen_frame(const struct target *t)
{
	if (fpisa_is_ipv6(&t->job.address))
		mutate_to_ipv6(&rng, &a.in);
}

static void tag(uint16_t type, uint32_t id)
{
	if (a.sent.len + FPISA_VLAN_LEN <= FPISA_MAX_FRAME)
		harness_tag(&a.sent, type, (uint16_t)(vectors_below(&rng, 8) << 13 | id));
}

/* Give the frame its job's tag. Often omit the tag, change it or add a second. */
static void tag_frame(const struct target *t)
{
	uint32_t kind = vectors_below(&rng, 16);
	uint16_t type = vectors_below(&rng, 2) ? ETH_P_8021Q : ETH_P_8021AD;

	a.sent = a.in;
	if (kind ? t->job.vlan : !vectors_below(&rng, 4))
		tag(ETH_P_8021Q, t->job.vlan);
	else if (!kind)
		tag(type, vectors_below(&rng, 9));
	if (kind == 1 && !vectors_below(&rng, 2))
		tag(type, TARGETS_VLAN);
}

static void run(void)
{
	a.out.len = a.sent.len;
	memcpy(a.out.data, a.sent.data, a.sent.len);
	harness_run(h, &a.out);
}

/* -- cases --------------------------------------------------------------------- */

/* Check that a frame is dropped as busy while another holder has the lock of the slot, the session or the trie. */
static void case_busy(struct target *t)
{
	bool hello = !vectors_below(&rng, 4);
	__u64 *lock, was;
	uint32_t addr;

	if (hello)
		valid_hello(t);
	else
		valid_add(t);
	memcpy(&addr, a.in.data + 26, sizeof(addr));
	/* Removed ranks get their answer before the lock is taken. */
	if (t->unloaded || !(t->live->live >> (ntohl(addr) - HARNESS_WORKER(0)) & 1))
		return;
	a.t = t;
	if (hello) {
		lock = &t->session->lock;
	} else {
		harness_hdr(&a.in)->flags = 0;
		harness_set_checksums(&a.in);
		a.key = (int)harness_hdr(&a.in)->slot;
		lock = t->job.clz == FPISA_CLZ_LPM && vectors_below(&rng, 2) ? &targets_control->trie_state :
									       &t->slot[a.key].lock;
	}
	widen_frame(t);
	was = *lock;
	*lock = 1;
	targets_accept(t, a.key);
	a.counted_as_job = true;
	a.verdict = FPISA_V_busy;
	a.action = XDP_DROP;
	t->soft.counters.packets++;
	t->soft.counters.bytes += a.in.len;
	strcpy(a.mutations, " busy");
	a.sent = a.in;
	if (t->job.vlan)
		tag(ETH_P_8021Q, t->job.vlan);
	run();
	checker_verify();
	*lock = was;
	targets_accept(t, a.key);
}

/* Remove ranks from a job, restore all ranks, or switch to the other bank of the program array. */
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
	a.mutations[0] = 0;
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
		mutate(&rng, &a.in, 1 + (int)(vectors_below(&rng, 2) * vectors_below(&rng, 4)), a.mutations);
		repair = vectors_below(&rng, 8);
		sum->repaired += repair < 4;
		mutate_repair(&a.in, repair < 6, repair < 4);
	}
	if (vectors_below(&rng, 16))
		widen_frame(t);
	if (fpisa_is_ipv6(&t->job.address) && !vectors_below(&rng, 8)) {
		strncat(a.mutations, " ipv6", MUTATE_NAMES - strlen(a.mutations) - 1);
		mutate_ipv6(&rng, &a.in);
	}
	tag_frame(t);
	checker_expect();
	run();
	checker_verify();
}

/*
 * Compare the counters of datapath and model at the end, except for counters that the user-space aggregator does not
 * have.
 */
static void check_counters(void)
{
	for (int i = 0; i < targets; i++) {
		struct target *t = &target[i];
		struct fpisa_counters k = *t->counters, s = t->soft.counters;

		if (memcmp(&k.v_not_ours, &t->counted.v_not_ours,
			   sizeof(k) - offsetof(struct fpisa_counters, v_not_ours))) {
			a.t = t;
			complain(&sum->wrong_verdict, "an unexpected verdict was counted");
		}
		if (t->unloaded)
			continue;
#define SAME(counter)                                                                                                \
	if (k.counter != s.counter) {                                                                                \
		fprintf(stderr, "packets: seed %llu: job %s: %s is %llu, expected %llu\n", (unsigned long long)seed, \
			t->name, #counter, (unsigned long long)k.counter, (unsigned long long)s.counter);            \
		sum->wrong_verdict++;                                                                                \
	}
		/* clang-format lays this out differently each time. */
		/* clang-format off */
		SAME(packets)
		SAME(bytes)
		SAME(elements)
		SAME(rounded) SAME(overwritten) SAME(left_shifted) SAME(overflowed) SAME(results_inexact)
			SAME(results_overflow) SAME(results_overwrite) SAME(results_nan) SAME(results_inf) SAME(mau0)
				SAME(mau4) SAME(mau5) SAME(mau8)
		/* clang-format on */
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

/*
 * Return whether a frame can provoke the verdict. No frame can provoke `internal`. No frame can provoke the verdicts of
 * the kernel's routes either, because ranks with a known port need no route. queries.c tests the verdicts of queries.
 * The fuzzer sends no two HELLOs in one frame and no ICMP message, and no target has leaves or a parent.
 */
static bool provocable(unsigned int v)
{
	return (v < FPISA_V_rows_taken || v == FPISA_V_vlan || v == FPISA_V_qinq || v == FPISA_V_extension) &&
	       v != FPISA_V_internal && v != FPISA_V_route && v != FPISA_V_unresolved && v != FPISA_V_forwarding &&
	       v != FPISA_V_pipeline;
}

/* Print the reasons that no frame has provoked. Return their number. */
static int unreached(FILE *to)
{
	int n = 0;

	for (unsigned int v = 0; v < FPISA_VERDICT_COUNT; v++) {
		if (sum->reached[v] || !provocable(v))
			continue;
		n++;
		if (to)
			fprintf(to, " %s", verdict_name(v));
	}
	return n;
}

static int report(bool json, double seconds)
{
	int reasons = 0, missed = unreached(NULL);
	uint64_t bad = sum->crashes + sum->changed + sum->wrong_verdict + sum->wrong_reply + sum->wrong_state +
		       sum->not_identical;

	for (unsigned int v = 0; v < FPISA_VERDICT_COUNT; v++)
		reasons += provocable(v);

/* clang-format lays this out differently each time. */
/* clang-format off */
#define EACH_NUMBER(X)                                                                                          \
	X("cases", sum->cases)                                                                                  \
	X("mutated", sum->mutated)                                                                              \
	X("repaired", sum->repaired)                                                                            \
	X("passed", sum->passed) X("refused", sum->refused) X("replies", sum->replies) X("rounds", sum->rounds) \
		X("crashes", sum->crashes) X("states changed by a refused packet", sum->changed)                \
			X("wrong verdicts", sum->wrong_verdict) X("wrong replies", sum->wrong_reply)            \
				X("wrong states", sum->wrong_state) X("foreign frames changed", sum->not_identical)
/* clang-format on */
#define TEXT(name, n) printf("%-36s %llu\n", name, (unsigned long long)(n));
#define JSON(name, n) printf("\"%s\": %llu, ", name, (unsigned long long)(n));
	if (json) {
		printf("{\"seed\": %llu, ", (unsigned long long)seed);
		EACH_NUMBER(JSON)
		printf("\"verdicts\": %d, \"verdicts reached\": %d, \"seconds\": %.1f}\n", reasons, reasons - missed,
		       seconds);
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
		fprintf(stderr, "packets: seed %llu: died at case %llu, status %#x\n", (unsigned long long)seed,
			(unsigned long long)sum->cases, status);
	}
	return report(json, (double)(t1.tv_sec - t0.tv_sec) + (double)(t1.tv_nsec - t0.tv_nsec) / 1e9);
}
