// SPDX-License-Identifier: GPL-2.0-only
/* Output of `fpisa bench arith`. bench.h documents the functions. */
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "cli/names.h"
#include "cli/print.h"

#define MAX_FIGURES 16

/* A figure with a name. */
struct figure {
	const char *key;
	const double *ns; /* [rounds]; NULL if this datapath does not have the figure */
};

static const double *reference(const struct bench_arith *a, enum bench_kind kind)
{
	return bench_best(&a->reference, kind)->ns;
}

static const double *step(const struct bench_arith *a, uint8_t mode, uint8_t pipeline, uint8_t clz,
			  enum bench_step which)
{
	const struct bench_config *c = bench_find(a, mode, pipeline, clz, BENCH_WORKERS, false);

	return c ? c->ns[which] : NULL;
}

static const double *add(const struct bench_arith *a, uint8_t mode, uint8_t pipeline)
{
	return step(a, mode, pipeline, FPISA_CLZ_BITS, BENCH_MORE);
}

/* Return the read-out time with the leading-zero count of this name, or NULL if there is no such count. */
static const double *readout(const struct bench_arith *a, const char *name)
{
	for (const struct name *clz = clz_names; clz->name; clz++)
		if (!strcmp(clz->name, name))
			return step(a, FPISA_MODE_FPISA, FPISA_PIPELINE_FUSED, (uint8_t)clz->id, BENCH_READ);
	return NULL;
}

static int list_figures(const struct bench_arith *a, struct figure f[MAX_FIGURES])
{
	const struct figure all[] = {
		{"empty_ns", reference(a, BENCH_EMPTY)},
		{"touch_ns", reference(a, BENCH_TOUCH)},
		{"int32_add_ns", reference(a, BENCH_ADD)},
		{"fpisa_add_ns", add(a, FPISA_MODE_FPISA, FPISA_PIPELINE_FUSED)},
		{"fpisa_add_no_statistics_ns", bench_flagged(a, FPISA_JOB_UNCOUNTED)->ns[BENCH_MORE]},
		{"fpisa_add_big_endian_ns", bench_flagged(a, FPISA_JOB_BIG_ENDIAN)->ns[BENCH_MORE]},
		{"fpisa_a_add_ns", add(a, FPISA_MODE_FPISA_A, FPISA_PIPELINE_FUSED)},
		{"fpisa64_add_ns", add(a, FPISA_MODE_FPISA64, FPISA_PIPELINE_FUSED)},
		{"exact_add_ns", add(a, FPISA_MODE_EXACT, FPISA_PIPELINE_FUSED)},
		{"staged_add_ns", add(a, FPISA_MODE_FPISA, FPISA_PIPELINE_STAGED)},
		{"readout_bits_ns", readout(a, "bits")},
		{"readout_lpm32_ns", readout(a, "lpm")},
	};
	int n = sizeof(all) / sizeof(all[0]);

	for (int i = 0; i < n; i++)
		f[i] = all[i];
	return n;
}

static struct bench_spread over_rounds(const struct bench_arith *a, const double *v)
{
	return bench_spread(v, a->o.rounds);
}

/* Compute the spread of quotients. Each quotient is of two figures of the same round. */
static struct bench_spread ratio(const struct bench_arith *a, const double *v, const double *by)
{
	static double quotient[BENCH_MAX_ROUNDS];

	for (uint64_t i = 0; i < a->o.rounds; i++)
		quotient[i] = v[i] / by[i];
	return over_rounds(a, quotient);
}

/* -- networks -------------------------------------------------------------- */

static const char *const networks[BENCH_NETWORKS] = {[BENCH_VLAN] = "vlan", [BENCH_IPV6] = "ipv6"};

#define NETWORK_FIGURES 3

/* A figure of a frame in another network, and the same figure over IPv4 without a tag, in ns by `scale`. */
struct network_figure {
	const char *key;
	const double *ns, *ipv4; /* [rounds] */
	double scale;
};

static void list_network(const struct bench_arith *a, enum bench_network n, struct network_figure f[NETWORK_FIGURES])
{
	double *const *ns = a->network[n].ns;
	double *const *ipv4 = bench_ipv4(a)->ns;

	f[0] = (struct network_figure){"known", a->known[BENCH_IN_NETWORK + n], a->known[BENCH_ALONE], 1};
	f[1] = (struct network_figure){"add", ns[BENCH_MORE], ipv4[BENCH_MORE], BENCH_ELEMENTS};
	f[2] = (struct network_figure){"last", ns[BENCH_LAST], ipv4[BENCH_LAST], BENCH_ELEMENTS};
}

/* Compute the spread of how many ns more a frame takes than over IPv4 in the same round. */
static struct bench_spread more_ns(const struct bench_arith *a, const struct network_figure *f)
{
	static double more[BENCH_MAX_ROUNDS];

	for (uint64_t i = 0; i < a->o.rounds; i++)
		more[i] = (f->ns[i] - f->ipv4[i]) * f->scale;
	return over_rounds(a, more);
}

/* -- exact sums of FP64 ------------------------------------------------------ */

#define EXACT64_RATIOS 3

/* The quotient of fused exact sums of FP64 by exact sums of FP32, or of the same sums by their add. */
struct exact64 {
	const char *key;
	const double *ns, *by; /* [rounds] */
};

static void list_exact64(const struct bench_arith *a, struct exact64 of[EXACT64_RATIOS])
{
	double *const *wide = bench_exact64(a)->ns;

	of[0] = (struct exact64){"add_ratio", wide[BENCH_MORE], add(a, FPISA_MODE_EXACT, FPISA_PIPELINE_FUSED)};
	of[1] = (struct exact64){"readout_ratio", wide[BENCH_READ],
				 step(a, FPISA_MODE_EXACT, FPISA_PIPELINE_FUSED, FPISA_CLZ_BITS, BENCH_READ)};
	of[2] = (struct exact64){"set_over_add", wide[BENCH_SET], wide[BENCH_MORE]};
}

/* -- JSON ----------------------------------------------------------------- */

static struct json_object *quartiles(struct bench_spread s)
{
	struct json_object *o = json_object_new_array();

	json_object_array_add(o, json_double(s.low));
	json_object_array_add(o, json_double(s.high));
	return o;
}

/* Add KEY and KEY_quartiles to the object. */
static void add_spread(struct json_object *o, const char *key, struct bench_spread s)
{
	char name[64];

	json_add_double(o, key, s.median);
	snprintf(name, sizeof(name), "%s_quartiles", key);
	json_object_object_add(o, name, quartiles(s));
}

static struct json_object *network_json(const struct bench_arith *a, enum bench_network n)
{
	struct json_object *o = json_object_new_object();
	struct network_figure f[NETWORK_FIGURES];
	char key[16];

	list_network(a, n, f);
	for (int i = 0; i < NETWORK_FIGURES; i++) {
		snprintf(key, sizeof(key), "%s_more", f[i].key);
		add_spread(o, key, more_ns(a, &f[i]));
		snprintf(key, sizeof(key), "%s_ratio", f[i].key);
		add_spread(o, key, ratio(a, f[i].ns, f[i].ipv4));
	}
	return o;
}

static struct json_object *config_json(const struct bench_arith *a, const struct bench_config *c)
{
	static const char *const keys[BENCH_STEPS] = {"set_ns", "add_ns", "last_ns", "readout_ns", "round_ns"};
	const double *integer = reference(a, BENCH_ADD);
	struct json_object *o = json_object_new_object();

	json_add_string(o, "values", c->file ? a->o.gradients : "random");
	json_add_string(o, "format", name_of(format_names, c->format));
	json_add_string(o, "mode", name_of(mode_names, c->mode));
	json_add_string(o, "pipeline", name_of(pipeline_names, c->pipeline));
	json_add_string(o, "clz", name_of(clz_names, c->clz));
	json_add_number(o, "workers", c->workers);
	json_add_number(o, "elements", c->job.elements);
	json_object_object_add(o, "statistics", json_object_new_boolean(!(c->flags & FPISA_JOB_UNCOUNTED)));
	json_object_object_add(o, "big_endian", json_object_new_boolean(c->flags & FPISA_JOB_BIG_ENDIAN));
	for (int s = 0; s < BENCH_STEPS; s++)
		if (c->workers > 2 || (s != BENCH_MORE && s != BENCH_READ))
			add_spread(o, keys[s], over_rounds(a, c->ns[s]));
	if (c->workers > 2) {
		add_spread(o, "add_ratio", ratio(a, c->ns[BENCH_MORE], integer));
		add_spread(o, "readout_ratio", ratio(a, c->ns[BENCH_READ], integer));
	}
	return o;
}

/*
 * Estimate the time of an add on live frames. The time outside the add is that of the known frame, because a frame
 * cannot be added twice.
 */
static struct bench_spread live_estimate(const struct bench_arith *a)
{
	const double *ns = add(a, FPISA_MODE_FPISA, FPISA_PIPELINE_FUSED);
	static double estimate[BENCH_MAX_ROUNDS];

	for (uint64_t i = 0; i < a->o.rounds; i++)
		estimate[i] = a->known[BENCH_LIVE][i] + BENCH_ELEMENTS * ns[i] - a->known[BENCH_ALONE][i];
	return over_rounds(a, estimate);
}

/* Return whether the kernel supports live frames. */
static bool has_live(const struct bench_arith *a)
{
	return over_rounds(a, a->known[BENCH_LIVE]).median > 0;
}

static struct json_object *frame_json(const struct bench_arith *a)
{
	struct json_object *o = json_object_new_object();

	add_spread(o, "known", over_rounds(a, a->known[BENCH_ALONE]));
	add_spread(o, "known_tagged", over_rounds(a, a->known[BENCH_TAGGED]));
	if (has_live(a)) {
		add_spread(o, "known_live", over_rounds(a, a->known[BENCH_LIVE]));
		add_spread(o, "add_live_estimate", live_estimate(a));
	}
	return o;
}

static struct json_object *exact64_json(const struct bench_arith *a)
{
	struct json_object *o = json_object_new_object();
	struct exact64 of[EXACT64_RATIOS];

	list_exact64(a, of);
	for (int i = 0; i < EXACT64_RATIOS; i++)
		add_spread(o, of[i].key, ratio(a, of[i].ns, of[i].by));
	return o;
}

static struct json_object *cpus_json(const struct bench_arith *a)
{
	struct json_object *o;

	if (a->o.cpus < 2)
		return NULL;
	o = json_object_new_object();
	add_spread(o, "add_scaling", over_rounds(a, a->scaling[BENCH_ADDS]));
	add_spread(o, "spin_scaling", over_rounds(a, a->scaling[BENCH_SPINS]));
	add_spread(o, "ratio", ratio(a, a->scaling[BENCH_ADDS], a->scaling[BENCH_SPINS]));
	add_spread(o, "owned_scaling", over_rounds(a, a->scaling[BENCH_OWNED]));
	add_spread(o, "shared_scaling", over_rounds(a, a->scaling[BENCH_SHARED]));
	add_spread(o, "owned_ratio", ratio(a, a->scaling[BENCH_OWNED], a->scaling[BENCH_SPINS]));
	add_spread(o, "owned_over_shared", ratio(a, a->scaling[BENCH_OWNED], a->scaling[BENCH_SHARED]));
	return o;
}

static struct json_object *programs_json(const struct bench_arith *a)
{
	static const char *const kinds[BENCH_KINDS] = {"touch", "int32_add", "empty", "spin"};
	struct json_object *list = json_object_new_array();

	for (int i = 0; i < a->reference.programs; i++) {
		const struct bench_program *p = &a->reference.program[i];
		struct json_object *o;

		if (p->kind == BENCH_SPIN)
			continue;
		o = json_object_new_object();
		json_add_string(o, "does", kinds[p->kind]);
		json_add_string(o, "name", p->name);
		add_spread(o, "ns", over_rounds(a, p->ns));
		json_object_array_add(list, o);
	}
	return list;
}

struct json_object *bench_arith_json(const struct bench_arith *a)
{
	struct json_object *top = json_object_new_object(), *spread = json_object_new_object(),
			   *ratios = json_object_new_object(), *list = json_object_new_array();
	struct figure f[MAX_FIGURES];
	int n = list_figures(a, f);

	json_add_number(top, "elements", BENCH_ELEMENTS);
	json_add_number(top, "rounds", a->o.rounds);
	json_add_number(top, "seed", a->o.seed);
	for (int i = 0; i < n; i++) {
		struct bench_spread s;

		if (!f[i].ns) {
			json_object_object_add(top, f[i].key, NULL);
			continue;
		}
		s = over_rounds(a, f[i].ns);
		json_add_double(top, f[i].key, s.median);
		json_object_object_add(spread, f[i].key, quartiles(s));
		add_spread(ratios, f[i].key, ratio(a, f[i].ns, reference(a, BENCH_ADD)));
	}
	json_object_object_add(top, "quartiles", spread);
	json_object_object_add(top, "ratios", ratios);
	json_add_string(top, "int32_add_program", bench_best(&a->reference, BENCH_ADD)->name);
	json_add_string(top, "touch_program", bench_best(&a->reference, BENCH_TOUCH)->name);
	for (uint32_t i = 0; i < a->configs; i++)
		json_object_array_add(list, config_json(a, &a->config[i]));
	json_object_object_add(top, "configurations", list);
	json_object_object_add(top, "exact64", exact64_json(a));
	json_object_object_add(top, "programs", programs_json(a));
	json_object_object_add(top, "cpus", cpus_json(a));
	json_object_object_add(top, "frame_ns", frame_json(a));
	for (enum bench_network k = 0; k < BENCH_NETWORKS; k++)
		json_object_object_add(top, networks[k], network_json(a, k));
	return top;
}

/* -- text ----------------------------------------------------------------- */

static void print_figures(const struct bench_arith *a)
{
	struct figure f[MAX_FIGURES];
	int n = list_figures(a, f);

	printf("%-26s %8s %19s %9s\n", "ns per element", "median", "quartiles", "x int32");
	for (int i = 0; i < n; i++) {
		struct bench_spread s;

		if (!f[i].ns)
			continue;
		s = over_rounds(a, f[i].ns);
		printf("%-26s %8.2f %9.2f %9.2f %9.1f\n", f[i].key, s.median, s.low, s.high,
		       ratio(a, f[i].ns, reference(a, BENCH_ADD)).median);
	}
	if (has_live(a))
		printf("a frame, ns: known %.0f, tagged %.0f, live %.0f; add live (estimate): %.0f\n",
		       over_rounds(a, a->known[BENCH_ALONE]).median, over_rounds(a, a->known[BENCH_TAGGED]).median,
		       over_rounds(a, a->known[BENCH_LIVE]).median, live_estimate(a).median);
	printf("int32_add: %s; touch: %s\n", bench_best(&a->reference, BENCH_ADD)->name,
	       bench_best(&a->reference, BENCH_TOUCH)->name);
}

static const char *marked_pipeline(const struct bench_config *c)
{
	return c->flags & FPISA_JOB_UNCOUNTED  ? "fused*" :
	       c->flags & FPISA_JOB_BIG_ENDIAN ? "fused+" :
						 name_of(pipeline_names, c->pipeline);
}

static void print_config(const struct bench_arith *a, const struct bench_config *c)
{
	double add = over_rounds(a, c->ns[BENCH_MORE]).median, read = over_rounds(a, c->ns[BENCH_READ]).median;

	printf("%-6s %-7s %-6s %-4s %3u %3u %8.2f", name_of(format_names, c->format), name_of(mode_names, c->mode),
	       marked_pipeline(c), name_of(clz_names, c->clz), c->workers, c->job.elements,
	       over_rounds(a, c->ns[BENCH_SET]).median);
	if (c->workers > 2)
		printf(" %8.2f %8.2f", add, read);
	else
		printf(" %8s %8s", "-", "-");
	printf(" %9.2f", over_rounds(a, c->ns[BENCH_ROUND]).median);
	if (c->workers > 2)
		printf(" %8.1f\n", ratio(a, c->ns[BENCH_MORE], reference(a, BENCH_ADD)).median);
	else
		printf(" %8s\n", "-");
}

static void print_configs(const struct bench_arith *a, bool file)
{
	printf("%-6s %-7s %-6s %-4s %3s %3s %8s %8s %8s %9s %8s\n", "format", "mode", "", "clz", "N", "M", "first",
	       "add", "read-out", "round", "x int32");
	for (uint32_t i = 0; i < a->configs; i++)
		if (a->config[i].file == file)
			print_config(a, &a->config[i]);
	if (!file)
		printf("N workers, M elements a frame; * without statistics; + payloads are big-endian\n");
}

static void print_exact64(const struct bench_arith *a)
{
	struct exact64 of[EXACT64_RATIOS];

	list_exact64(a, of);
	printf("exact, fp64 : fp32: add %.2f, read-out %.2f; fp64, first : add %.2f\n",
	       ratio(a, of[0].ns, of[0].by).median, ratio(a, of[1].ns, of[1].by).median,
	       ratio(a, of[2].ns, of[2].by).median);
}

static void print_networks(const struct bench_arith *a)
{
	struct network_figure f[NETWORK_FIGURES];

	printf("\n%-26s %8s %19s %9s\n", "a frame, ns beside IPv4's", "median", "quartiles", "ratio");
	for (enum bench_network n = 0; n < BENCH_NETWORKS; n++) {
		list_network(a, n, f);
		for (int i = 0; i < NETWORK_FIGURES; i++) {
			const struct bench_spread s = more_ns(a, &f[i]);

			printf("%-8s %-17s %+8.1f %+9.1f %+9.1f %9.3f\n", networks[n], f[i].key, s.median, s.low,
			       s.high, ratio(a, f[i].ns, f[i].ipv4).median);
		}
	}
}

void bench_arith_text(const struct bench_arith *a)
{
	printf("%d elements a frame, %llu rounds, seed %llu\n\n", BENCH_ELEMENTS, (unsigned long long)a->o.rounds,
	       (unsigned long long)a->o.seed);
	print_figures(a);
	print_exact64(a);
	print_networks(a);
	printf("\nrandom values\n");
	print_configs(a, false);
	if (a->o.gradients) {
		printf("\n%s\n", a->o.gradients);
		print_configs(a, true);
	}
	if (a->o.cpus < 2)
		return;
	printf("\n2 CPUs : 1, different slots: adds %.2f, registers alone %.2f, quotient %.2f\n",
	       over_rounds(a, a->scaling[BENCH_ADDS]).median, over_rounds(a, a->scaling[BENCH_SPINS]).median,
	       ratio(a, a->scaling[BENCH_ADDS], a->scaling[BENCH_SPINS]).median);
	printf("2 CPUs : 1, a job of %d slots: each its slots %.2f, each its ranks %.2f\n", BENCH_WINDOW,
	       over_rounds(a, a->scaling[BENCH_OWNED]).median, over_rounds(a, a->scaling[BENCH_SHARED]).median);
}
