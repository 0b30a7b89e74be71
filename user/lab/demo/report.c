// SPDX-License-Identifier: GPL-2.0-only
/* Output of the demo, which consists of progress on a terminal, and of a table or JSON. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "cli/names.h"
#include "cli/print.h"
#include "cli/progress.h"
#include "demo.h"
#include "job/job.h"
#include "values/pack.h"

#define BARS 16 /* number of workers that fit into the progress line */

/* -- progress, on stderr ------------------------------------------------- */

static unsigned percent(const struct demo *d, uint32_t rank)
{
	return 100 * __atomic_load_n(&d->result[rank].chunks, __ATOMIC_RELAXED) / d->chunks;
}

void demo_progress(const struct demo *d)
{
	char text[16 + 4 * BARS + 64] = "summing, %:";
	int n = strlen(text);
	unsigned least = 100;

	for (uint32_t r = 0; r < d->o.workers; r++) {
		unsigned now = percent(d, r);

		if (d->o.workers <= BARS)
			n += snprintf(text + n, sizeof(text) - n, "%4u", now);
		least = now < least ? now : least;
	}
	if (d->o.workers > BARS)
		snprintf(text + n, sizeof(text) - n, " %u, the slowest of %u workers", least, d->o.workers);
	progress_step("%s", text);
}

/* -- figures ------------------------------------------------------------- */

static double seconds_of(const struct demo *d, uint32_t rank)
{
	return (d->result[rank].end_ns - d->start_ns) / 1e9;
}

static double seconds(const struct demo *d)
{
	double longest = 0;

	for (uint32_t r = 0; r < d->o.workers; r++)
		longest = fmax(longest, seconds_of(d, r));
	return longest;
}

static double gbps(const struct demo *d, double s)
{
	return d->elements * 8 * d->f.bytes / s / 1e9;
}

static uint64_t retransmits(const struct demo *d)
{
	uint64_t sum = 0;

	for (uint32_t r = 0; r < d->o.workers; r++)
		sum += d->result[r].info.retransmits;
	return sum;
}

static bool passed(const struct demo *d, const struct fpisa_counters *c, const struct demo_check *k)
{
	return !k->mismatches && !k->disagreements && !k->wrong_flags && demo_counts_agree(c, k) &&
	       demo_histogram_agrees(d, k);
}

static const char *kernel(void)
{
	static struct utsname u;

	return uname(&u) ? "?" : u.release;
}

/* Return the value nearest to the true result of element i. */
static double ideal_value(const struct demo *d, uint64_t i)
{
	struct oracle_call c = demo_ideal(d);
	uint64_t words[FPISA_MAX_WORKERS];

	for (uint32_t r = 0; r < d->o.workers; r++)
		words[r] = demo_word(d, d->input, r, i);
	return unpack_value(d->f, oracle_result_nearest(&c, d->o.workers, words));
}

/* -- table --------------------------------------------------------------- */

static void print_head(const struct demo *d)
{
	static const char *const verbs[] = {
		[FPISA_OP_SUM] = "sum",
		[FPISA_OP_MIN] = "take the least of",
		[FPISA_OP_MAX] = "take the greatest of",
		[FPISA_OP_AVG] = "average",
		[FPISA_OP_SCALE] = "sum and scale",
		[FPISA_OP_NORM] = "take the norm of",
	};
	const struct demo_options *o = &d->o;
	char cpus[CPUS_LEN], arithmetic[ARITHMETIC_LEN];

	printf("%u workers %s %" PRIu64 " values each: %s\n", o->workers, verbs[o->op], d->elements, d->source);
	if (o->op == FPISA_OP_SCALE)
		printf("the factor is %.17g\n", o->factor);
	if (d->f.integer)
		printf("each value is multiplied by 2^%d and rounded to an integer\n", d->int_shift);
	if (d->vanished)
		printf("%" PRIu64 " of them are too small for %s and count as 0\n", d->vanished,
		       name_of(format_names, d->job.format));
	job_arithmetic_text(&d->job, arithmetic);
	printf("mode %s, pipeline %s, leading zeros by %s\n", arithmetic, name_of(pipeline_names, d->job.pipeline),
	       name_of(clz_names, d->job.clz));
	if (o->colocated)
		printf("each worker's host is an aggregator too, and no other machine is at their switch\n");
	printf("%u values per frame, window %u, %s, %s XDP on veth, Linux %s", d->job.elements, d->job.window,
	       name_of(fanout_names, d->job.fanout), name_of(xdp_mode_names, o->xdp), kernel());
	if (o->steering.cpus)
		printf(", slots on CPUs %s", cpus_text(o->steering.cpu, o->steering.cpus, cpus));
	puts("");
	if (o->drop > 0 || o->duplicate > 0 || o->reorder > 0 || o->delay > 0 || o->corrupt > 0)
		printf("of the frames each way %g are dropped, %g duplicated, %g reordered, %g delayed, %g "
		       "corrupted\n",
		       o->drop, o->duplicate, o->reorder, o->delay, o->corrupt);
	puts("");
}

static void print_workers(const struct demo *d, const struct demo_check *k)
{
	printf("rank  address         results  sent again  duplicates  round trip   seconds  Gbit/s  "
	       "differ\n");
	for (uint32_t r = 0; r < d->o.workers; r++) {
		const struct demo_result *w = &d->result[r];
		char address[ADDRESS_LEN];

		address_text(fpisa_ipv4(htonl(d->o.colocated ? DEMO_HOST(r) : star_worker_address(&d->star, r))),
			     address);
		printf("%4u  %-14s %8" PRIu64 " %11" PRIu64 " %11" PRIu64 " %8.3f ms %9.4f %7.3f %7" PRIu64 "\n", r,
		       address, w->chunks, w->info.retransmits, w->info.duplicates, w->info.rtt_ns / 1e6,
		       seconds_of(d, r), gbps(d, seconds_of(d, r)), k->worker[r]);
	}
	putchar('\n');
}

/* Return the bytes of values that a ring of the hosts would send over each link. */
static double ring_bytes(const struct demo *d)
{
	return 2.0 * (d->o.workers - 1) / d->o.workers * (double)d->row;
}

static void print_traffic(const struct demo *d)
{
	double most = 0;

	if (!d->o.colocated)
		return;
	printf("host           its link sent  received, MB\n");
	for (uint32_t r = 0; r < d->o.workers; r++) {
		const struct demo_traffic *t = &d->traffic[r];
		char address[ADDRESS_LEN];

		printf("%-14s %13.3f %9.3f\n", address_text(fpisa_ipv4(htonl(DEMO_HOST(r))), address),
		       (double)t->sent / 1e6, (double)t->received / 1e6);
		most = fmax(most, fmax((double)t->sent, (double)t->received));
	}
	printf("a ring of these hosts sends %.3f MB of values on each link; with headers, this run sent %.2f times "
	       "that\n\n",
	       ring_bytes(d) / 1e6, most / ring_bytes(d));
}

static void print_share(const char *what, __u64 n, __u64 of)
{
	printf("  %-13s %12llu  %6.2f%%\n", what, n, of ? 100.0 * n / of : 0);
}

static void print_counters(const struct demo *d, const struct fpisa_counters *c)
{
	static const struct {
		const char *text;
		size_t at;
	} drops[] = {
#define DROP_PASS(name, text)
#define DROP_TAKEN(name, text)
#define DROP_REPLY(name, text)
#define DROP_DROP(name, text) {text, offsetof(struct fpisa_counters, v_##name)},
#define X(name, class, text) DROP_##class(name, text)
		FPISA_VERDICTS(X)
#undef X
	};
	/*
	 * The first contribution of a round is stored, and the others are added. For a norm each contribution is
	 * squared.
	 */
	bool squares = d->o.op == FPISA_OP_NORM;
	__u64 adds = d->elements * (d->o.workers - 1 + (squares ? d->o.workers : 0));

	printf("%-15s %12llu\n", squares ? "squares, adds" : "element-adds", adds);
	print_share("rounded", c->rounded, adds);
	print_share("overwritten", c->overwritten, adds);
	print_share("left-shifted", c->left_shifted, adds);
	print_share("overflowed", c->overflowed, adds);
	printf("contributions   %12llu  %llu known already\n", c->v_accepted + c->v_result, c->v_duplicate);
	printf("results         %12llu  %llu sent again on request\n", c->v_result, c->v_resent);
	if (d->job.pipeline == FPISA_PIPELINE_STAGED)
		printf("stage runs      %12llu  of each of MAU0 to MAU4, %llu of MAU5 to MAU8, %llu tail "
		       "calls missed\n",
		       c->mau0, c->mau5, c->missed_tail_calls);
	for (size_t i = 0; i < sizeof(drops) / sizeof(drops[0]); i++) {
		__u64 n = *(const __u64 *)((const char *)c + drops[i].at);

		if (n)
			printf("dropped         %12llu  %s\n", n, drops[i].text);
	}
	putchar('\n');
}

static void print_errors(const struct demo *d, const struct demo_check *k)
{
	int digits = d->f.bytes == 8 ? 17 : 9;

	if (!k->measured)
		return;
	printf("largest error against the exact result: %.4g ulp, %.4g absolute; correctly rounded: %.2f%%\n",
	       k->max_ulp, k->max_abs, 100.0 * k->nearest / d->elements);
	if (k->max_ulp > 0.5)
		printf("  in ulp, of element %" PRIu64 ": %.*g instead of %.*g\n", k->worst, digits,
		       unpack_value(d->f, demo_word(d, d->output, 0, k->worst)), digits, ideal_value(d, k->worst));
}

static void print_histogram(const struct demo *d)
{
	if (!(d->job.flags & FPISA_JOB_HISTOGRAM))
		return;
	printf("adds that discarded bits, by their magnitude: %" PRIu64 "\n", demo_histogram_total(d));
	job_print_histogram(&d->histogram, &d->job);
	putchar('\n');
}

static void print_verdict(const struct demo *d, const struct fpisa_counters *c, const struct demo_check *k)
{
	uint64_t all = d->elements * d->o.workers;

	if (!demo_counts_agree(c, k))
		printf("the replay has other counts: %" PRIu64 " rounded, %" PRIu64 " overwritten, %" PRIu64
		       " left-shifted, %" PRIu64 " overflowed\n",
		       k->events.rounded, k->events.overwritten, k->events.left_shifted, k->events.overflowed);
	if (!demo_histogram_agrees(d, k))
		printf("the histogram has %" PRIu64 " adds, the replay %" PRIu64 " that rounded or overwrote\n",
		       demo_histogram_total(d), k->events.rounded + k->events.overwritten);
	if (k->wrong_flags)
		printf("result flags differ from the replay's in %" PRIu64 " chunks\n", k->wrong_flags);
	if (!passed(d, c, k))
		printf("FAIL: of %" PRIu64 " elements %" PRIu64 " differ from the recomputation, %" PRIu64
		       " from rank 0's\n",
		       all, k->mismatches, k->disagreements);
	else if (k->replayed)
		printf("PASS: %" PRIu64 " elements are, bit for bit, %s; %.4f s, %.3f Gbit/s a worker\n", all,
		       d->job.mode == FPISA_MODE_EXACT ? "the oracle's exact results, rounded once" :
							 "what the oracle gets in their order of arrival",
		       seconds(d), gbps(d, seconds(d)));
	else
		printf("PASS: %" PRIu64 " elements are the same at every worker; above %d workers no order is "
		       "reported to recompute them; %.4f s, %.3f Gbit/s a worker\n",
		       all, FPISA_ORDER_WORKERS, seconds(d), gbps(d, seconds(d)));
}

/* -- JSON ---------------------------------------------------------------- */

static void add_int(struct json_object *o, const char *key, uint64_t n)
{
	json_object_object_add(o, key, json_object_new_int64(n));
}

static void add_text(struct json_object *o, const char *key, const char *s)
{
	json_object_object_add(o, key, json_text(s));
}

static void add_traffic(struct json_object *j, const struct demo *d)
{
	struct json_object *hosts = json_object_new_array();
	char address[ADDRESS_LEN];

	for (uint32_t r = 0; r < d->o.workers; r++) {
		struct json_object *o = json_object_new_object();

		add_text(o, "address", address_text(fpisa_ipv4(htonl(DEMO_HOST(r))), address));
		add_int(o, "sent_bytes", d->traffic[r].sent);
		add_int(o, "received_bytes", d->traffic[r].received);
		json_object_array_add(hosts, o);
	}
	json_object_object_add(j, "hosts", hosts);
	json_add_double(j, "ring_bytes", ring_bytes(d));
}

static int print_object(const struct demo *d, const struct fpisa_counters *c, const struct demo_check *k)
{
	const struct demo_options *o = &d->o;
	struct json_object *j = json_object_new_object(), *faults = json_object_new_object();
	char cpus[CPUS_LEN];

	add_int(j, "workers", o->workers);
	add_int(j, "vector", d->elements);
	job_parameters_json(j, &d->job, JOB_IN_DEMO);
	add_text(j, "source", d->source);
	add_int(j, "vanished", d->vanished);
	add_text(j, "op", name_of(op_names, o->op));
	if (o->op == FPISA_OP_SCALE)
		json_add_double(j, "factor", o->factor);
	if (d->f.integer)
		json_object_object_add(j, "int32_shift", json_object_new_int(d->int_shift));
	json_add_double(j, "loss", o->drop);
	json_add_double(faults, "drop", o->drop);
	json_add_double(faults, "duplicate", o->duplicate);
	json_add_double(faults, "reorder", o->reorder);
	json_add_double(faults, "delay", o->delay);
	json_add_double(faults, "corrupt", o->corrupt);
	json_object_object_add(j, "faults", faults);
	add_int(j, "seed", o->seed);
	json_object_object_add(j, "mismatches", k->replayed ? json_object_new_int64(k->mismatches) : NULL);
	add_int(j, "disagreements", k->disagreements);
	add_int(j, "flag_mismatches", k->wrong_flags);
	json_object_object_add(j, "counts_agree", k->replayed ? json_object_new_boolean(demo_counts_agree(c, k)) : NULL);
	json_add_double(j, "max_ulp_error", k->measured ? k->max_ulp : NAN);
	json_add_double(j, "max_abs_error", k->measured ? k->max_abs : NAN);
	json_add_double(j, "correctly_rounded", k->measured ? (double)k->nearest / d->elements : NAN);
	if (d->job.flags & FPISA_JOB_HISTOGRAM) {
		json_object_object_add(j, "buckets", job_histogram_json(&d->histogram, &d->job));
		json_object_object_add(j, "histogram_agrees",
				       k->replayed ? json_object_new_boolean(demo_histogram_agrees(d, k)) : NULL);
	}
	add_int(j, "rounded", c->rounded);
	add_int(j, "overwritten", c->overwritten);
	add_int(j, "left_shifted", c->left_shifted);
	add_int(j, "overflowed", c->overflowed);
	add_int(j, "results", c->v_result);
	add_int(j, "resent", c->v_resent);
	add_int(j, "duplicates", c->v_duplicate);
	add_int(j, "busy", c->v_busy);
	add_int(j, "missed_tail_calls", c->missed_tail_calls);
	add_int(j, "retransmits", retransmits(d));
	json_add_double(j, "seconds", seconds(d));
	json_add_double(j, "goodput_gbps", gbps(d, seconds(d)));
	if (o->colocated)
		add_traffic(j, d);
	add_text(j, "kernel", kernel());
	add_text(j, "transport", name_of(transport_names, o->transport));
	add_text(j, "xdp", name_of(xdp_mode_names, o->xdp));
	json_add_string(j, "cpus", o->steering.cpus ? cpus_text(o->steering.cpu, o->steering.cpus, cpus) : NULL);
	json_object_object_add(j, "passed", json_object_new_boolean(passed(d, c, k)));
	return print_json(j, false);
}

int demo_report(const struct demo *d, const struct fpisa_counters *c, const struct demo_check *k)
{
	if (d->o.json)
		return print_object(d, c, k);
	print_head(d);
	print_workers(d, k);
	print_traffic(d);
	print_counters(d, c);
	print_histogram(d);
	print_errors(d, k);
	print_verdict(d, c, k);
	return 0;
}
