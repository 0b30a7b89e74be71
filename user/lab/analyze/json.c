// SPDX-License-Identifier: GPL-2.0-only
/* Print the results of `fpisa analyze` as JSON: every number of the tables, as counts and sums. */
#include <json-c/json.h>

#include "analyze.h"
#include "cli/names.h"
#include "cli/print.h"

/* Return the nonzero entries of a histogram as [{KEY: k + first, "elements": n}, ...]. */
static struct json_object *histogram(const uint64_t *count, int n, const char *key, int first)
{
	struct json_object *a = json_object_new_array();

	for (int k = 0; k < n; k++) {
		struct json_object *bucket;

		if (!count[k])
			continue;
		bucket = json_object_new_object();
		json_object_object_add(bucket, key, json_object_new_int(k + first));
		json_add_number(bucket, "elements", count[k]);
		json_object_array_add(a, bucket);
	}
	return a;
}

static struct json_object *mode_json(const struct analyze_options *o, const struct analyze_input *in,
				     const struct analyze_mode *m)
{
	static const char *const keys[ANALYZE_SOURCES] = {"rounding", "overwrite", "left_shift", "read_out"};
	struct json_object *j = json_object_new_object(), *source = json_object_new_object();
	uint64_t finite = in->elements - m->special;

	json_add_string(j, "mode", name_of(mode_names, m->job.mode));
	json_add_string(j, "rounding", name_of(rounding_names, m->job.rounding));
	json_add_double(j, "max_ulp_error", m->max_ulp);
	json_add_double(j, "mean_ulp_error", finite ? m->sum_ulp / finite : 0);
	json_add_double(j, "max_abs_error", m->max_abs);
	json_add_number(j, "correctly_rounded", m->correct);
	if (o->orders)
		json_add_number(j, "depend_on_order", m->by_order);
	else
		json_object_object_add(j, "depend_on_order", NULL);
	json_add_number(j, "special", m->special);
	json_add_number(j, "adds", in->elements * (in->workers - 1));
	json_add_number(j, "rounded", m->adds.rounded);
	json_add_number(j, "overwritten", m->adds.overwritten);
	json_add_number(j, "left_shifted", m->adds.left_shifted);
	json_add_number(j, "overflowed", m->adds.overflowed);
	for (int k = 0; k < ANALYZE_SOURCES; k++)
		json_add_double(source, keys[k], m->source[k]);
	json_object_object_add(j, "error_by_source", source);
	json_add_number(j, "without_error", m->zero);
	json_object_object_add(j, "error_by_decade",
			       histogram(m->decades, ANALYZE_DECADES, "log10", ANALYZE_FIRST_DECADE));
	return j;
}

static struct json_object *input_json(const struct analyze_options *o, const struct analyze_input *in,
				      const struct analyze_figures *g)
{
	struct json_object *j = json_object_new_object(), *files = json_object_new_array(),
			   *modes = json_object_new_array();

	for (uint32_t i = 0; i < in->file_count; i++)
		json_object_array_add(files, json_text(in->files[i].path));
	for (int m = 0; m < g->modes; m++)
		json_object_array_add(modes, mode_json(o, in, &g->mode[m]));
	json_object_object_add(j, "files", files);
	json_add_number(j, "workers", in->workers);
	json_add_number(j, "elements", in->elements);
	json_add_number(j, "zero_values", g->zeros);
	json_add_number(j, "vanished_values", g->vanished);
	json_add_number(j, "elements_without_zero", g->nonzero);
	json_add_number(j, "ratio_below_128", analyze_below(g, ANALYZE_HEADROOM));
	json_object_object_add(j, "ratio_by_octave", histogram(g->octaves, ANALYZE_OCTAVES, "log2", 0));
	json_object_object_add(j, "modes", modes);
	return j;
}

int analyze_json(const struct analyze_options *o, const struct analyze_input *in, const struct analyze_figures *g,
		 uint32_t inputs)
{
	struct json_object *j = json_object_new_object(), *a = json_object_new_array();

	json_add_string(j, "format", name_of(format_names, o->format));
	json_add_number(j, "orders", o->orders);
	json_add_number(j, "seed", o->seed);
	for (uint32_t i = 0; i < inputs; i++)
		json_object_array_add(a, input_json(o, &in[i], &g[i]));
	json_object_object_add(j, "inputs", a);
	return print_json(j, false);
}
