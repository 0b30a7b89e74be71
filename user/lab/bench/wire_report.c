// SPDX-License-Identifier: GPL-2.0-only
/* The best settings and the output of `bench wire`. wire.h documents the functions. */
#include <json-c/json.h>
#include <math.h>
#include <stdio.h>

#include "cli/names.h"
#include "cli/print.h"
#include "wire.h"

#define NEAR_BEST 0.95

const struct name bench_families[] = {{4, "ipv4"}, {6, "ipv6"}, {0}};

static double median(const struct bench_wire *w, const double *v)
{
	return bench_spread(v, w->rounds).median;
}

static double cpu(const struct bench_wire *w, const struct bench_setting *s)
{
	return median(w, s->aggregator) + median(w, s->worker);
}

/* The MTU of Ethernet, and the largest MTU of a veth with XDP. */
static const uint32_t mtus[] = {1500, 3506};

static bool fits(const struct bench_setting *s, uint32_t mtu)
{
	return star_mtu(s->elements * sizeof(float)) <= mtu;
}

/* Return the index of the best setting among those that fit, or w->settings if no setting fits. */
static uint32_t choose(const struct bench_wire *w, uint32_t mtu)
{
	uint32_t best = w->settings;
	double most = 0;

	for (uint32_t i = 0; i < w->settings; i++) {
		double goodput = median(w, w->setting[i].goodput);

		if (fits(&w->setting[i], mtu) && goodput > most) {
			most = goodput;
			best = i;
		}
	}
	for (uint32_t i = 0; i < w->settings; i++)
		if (fits(&w->setting[i], mtu) && median(w, w->setting[i].goodput) >= NEAR_BEST * most &&
		    cpu(w, &w->setting[i]) < cpu(w, &w->setting[best]))
			best = i;
	return best;
}

void bench_wire_choose(struct bench_wire *w)
{
	w->best = choose(w, UINT32_MAX);
	if (w->best == w->settings)
		w->best = 0;
}

/* Return the setting as options of `job add`. */
static const char *options(const struct bench_setting *s)
{
	static char text[96];

	snprintf(text, sizeof(text), "--elements %u --window %u --pipeline %s", s->elements, s->window,
		 name_of(pipeline_names, (int)s->pipeline));
	return text;
}

/* Return the spread as JSON. Return NULL for a figure of 0, which this side does not know. */
static struct json_object *spread_json(struct bench_spread s)
{
	struct json_object *o;

	if (s.median == 0)
		return NULL;
	o = json_object_new_object();
	json_add_double(o, "median", s.median);
	json_add_double(o, "q1", s.low);
	json_add_double(o, "q3", s.high);
	return o;
}

static struct json_object *setting_json(const struct bench_wire *w, const struct bench_setting *s)
{
	struct json_object *o = json_object_new_object();

	json_add_number(o, "elements", s->elements);
	json_add_number(o, "window", s->window);
	json_add_string(o, "pipeline", name_of(pipeline_names, (int)s->pipeline));
	json_add_number(o, "threads", s->threads);
	json_add_string(o, "family", name_of(bench_families, (int)s->family));
	json_object_object_add(o, "goodput_gbit", spread_json(bench_spread(s->goodput, w->rounds)));
	json_object_object_add(o, "aggregator_s_per_gb", spread_json(bench_spread(s->aggregator, w->rounds)));
	json_object_object_add(o, "worker_s_per_gb", spread_json(bench_spread(s->worker, w->rounds)));
	json_add_double(o, "retransmit_share", s->frames ? (double)s->retransmits / (double)s->frames : NAN);
	return o;
}

struct json_object *bench_wire_json(const struct bench_wire *w)
{
	struct json_object *top = json_object_new_object(), *list = json_object_new_array(),
			   *by_mtu = json_object_new_array();
	const struct bench_setting *best = &w->setting[w->best];

	json_add_number(top, "workers", w->workers);
	json_add_number(top, "vector", w->vector);
	json_add_number(top, "rounds", w->rounds);
	for (uint32_t i = 0; i < w->settings; i++)
		json_object_array_add(list, setting_json(w, &w->setting[i]));
	json_object_object_add(top, "settings", list);
	json_object_object_add(top, "best", setting_json(w, best));
	json_add_string(top, "best_options", options(best));
	for (size_t i = 0; i < sizeof(mtus) / sizeof(mtus[0]); i++) {
		uint32_t k = choose(w, mtus[i]);
		struct json_object *o = json_object_new_object();

		json_add_number(o, "mtu", mtus[i]);
		json_add_string(o, "options", k < w->settings ? options(&w->setting[k]) : NULL);
		json_object_array_add(by_mtu, o);
	}
	json_object_object_add(top, "best_by_mtu", by_mtu);
	return top;
}

/* Return the value, or a dash if this side does not know the value. */
static const char *known(char text[16], bool is, double v)
{
	snprintf(text, 16, "%.3f", v);
	return is ? text : "-";
}

void bench_wire_text(const struct bench_wire *w)
{
	const struct bench_setting *best = &w->setting[w->best];

	printf("%u workers, %llu values each a round, %llu rounds\n", w->workers, (unsigned long long)w->vector,
	       (unsigned long long)w->rounds);
	printf("%8s %6s %8s %7s %6s %8s  %-19s %s\n", "", "", "", "", "", "goodput", "CPU s/GB", "sent again");
	printf("%8s %6s %8s %7s %6s %8s  %10s %8s %10s\n", "elements", "window", "pipeline", "threads", "family",
	       "Gbit/s", "aggregator", "worker", "%");
	for (uint32_t i = 0; i < w->settings; i++) {
		const struct bench_setting *s = &w->setting[i];

		double aggregator = median(w, s->aggregator), worker = median(w, s->worker);
		double again = s->frames ? 100.0 * (double)s->retransmits / (double)s->frames : 0;
		char text[3][16];

		printf("%8u %6u %8s %7u %6s %8.2f  %10s %8s %10s\n", s->elements, s->window,
		       name_of(pipeline_names, (int)s->pipeline), s->threads, name_of(bench_families, (int)s->family),
		       median(w, s->goodput), known(text[0], aggregator > 0, aggregator),
		       known(text[1], worker > 0, worker), known(text[2], s->frames > 0, again));
	}
	for (size_t i = 0; i < sizeof(mtus) / sizeof(mtus[0]); i++) {
		uint32_t k = choose(w, mtus[i]);

		if (k < w->settings && k != w->best)
			printf("best for an MTU of %u: %s\n", mtus[i], options(&w->setting[k]));
	}
	printf("best: %s\n", options(best));
	if (best->threads > 1)
		printf("with %u such jobs at once, a thread of each worker for each\n", best->threads);
}
