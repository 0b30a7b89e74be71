// SPDX-License-Identifier: GPL-2.0-only
/* Output of `fpisa analyze` as tables. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyze.h"
#include "cli/names.h"

const char *const analyze_source_names[ANALYZE_SOURCES] = {
	[ANALYZE_ROUNDING] = "rounding",
	[ANALYZE_OVERWRITE] = "overwrite",
	[ANALYZE_LEFT_SHIFT] = "left shift",
	[ANALYZE_READ_OUT] = "read-out",
};

#define SHARE_LEN 16

/* Format a share. Print 100% only for the whole, and 0 only for zero. */
static const char *share(double n, double of, char buf[SHARE_LEN])
{
	double percent = of > 0 ? 100 * n / of : 0;

	if (!(of > 0) || !isfinite(percent))
		strcpy(buf, "-");
	else if (n == 0)
		strcpy(buf, "0");
	else if (n == of)
		strcpy(buf, "100%");
	else if (percent < 0.001)
		strcpy(buf, "<0.001%");
	else if (percent > 99.999)
		strcpy(buf, ">99.999%");
	else
		snprintf(buf, SHARE_LEN, "%.3f%%", percent);
	return buf;
}

static void print_share(int width, double n, double of)
{
	char buf[SHARE_LEN];

	printf("  %*s", width, share(n, of, buf));
}

static int name_width(const struct analyze_input *in, uint32_t inputs)
{
	size_t width = 4;

	for (uint32_t i = 0; i < inputs; i++)
		width = strlen(in[i].name) > width ? strlen(in[i].name) : width;
	return width;
}

static void print_head(const struct analyze_options *o, const struct analyze_input *in, const struct analyze_figures *g,
		       uint32_t inputs, int width)
{
	for (uint32_t i = 0; i < inputs; i++) {
		printf("%-*s  %u workers, %" PRIu64 " elements", width, in[i].name, in[i].workers, in[i].elements);
		if (g[i].vanished)
			printf(", %" PRIu64 " values too small for %s count as 0", g[i].vanished,
			       name_of(format_names, o->format));
		putchar('\n');
	}
	printf("\n%s; \"by order\": %" PRIu64 " random orders an element, seed %" PRIu64 "\n",
	       name_of(format_names, o->format), o->orders, o->seed);
}

static void print_errors(const struct analyze_options *o, const struct analyze_input *in, const struct analyze_mode *m,
			 int width)
{
	double finite = in->elements - m->special;

	printf("%-*s  %-7s  %-8s %10.4g  %10.4g", width, in->name, name_of(mode_names, m->job.mode),
	       name_of(rounding_names, m->job.rounding), m->max_ulp, finite ? m->sum_ulp / finite : 0);
	print_share(8, m->correct, in->elements);
	print_share(8, m->by_order, o->orders ? in->elements : 0);
	printf("  %11" PRIu64 "  %10" PRIu64, m->adds.overwritten, m->adds.overflowed);
	if (m->special)
		printf("  %" PRIu64 " left or entered the range", m->special);
	putchar('\n');
}

static void print_sources(const struct analyze_input *in, const struct analyze_mode *m, int width)
{
	double adds = in->elements * (in->workers - 1.0), all = 0;

	for (int k = 0; k < ANALYZE_SOURCES; k++)
		all += m->source[k];
	printf("%-*s  %-7s", width, in->name, name_of(mode_names, m->job.mode));
	for (int k = 0; k < ANALYZE_SOURCES; k++)
		print_share(10, m->source[k], all);
	print_share(9, m->adds.rounded, adds);
	print_share(11, m->adds.overwritten, adds);
	print_share(12, m->adds.left_shifted, adds);
	print_share(10, m->adds.overflowed, adds);
	putchar('\n');
}

/* -- distributions ----------------------------------------------------------- */

static void print_ratios(const struct analyze_input *in, const struct analyze_figures *g, uint32_t inputs)
{
	int last = 0;

	printf("\nmax/min of an element   ");
	for (uint32_t i = 0; i < inputs; i++)
		printf("  %12s", in[i].name);
	printf("\nelements without a zero ");
	for (uint32_t i = 0; i < inputs; i++)
		printf("  %*" PRIu64, (int)fmax(12, strlen(in[i].name)), g[i].nonzero);
	printf("\nbelow 2^%d               ", ANALYZE_HEADROOM);
	for (uint32_t i = 0; i < inputs; i++)
		print_share(fmax(12, strlen(in[i].name)), analyze_below(&g[i], ANALYZE_HEADROOM), g[i].nonzero);
	for (int k = 0; k < ANALYZE_OCTAVES; k++)
		for (uint32_t i = 0; i < inputs; i++)
			last = g[i].octaves[k] ? k + 1 : last;
	for (int k = 0; k < last; k++) {
		printf("\n  2^%-4d to 2^%-4d       ", k, k + 1);
		for (uint32_t i = 0; i < inputs; i++)
			print_share(fmax(12, strlen(in[i].name)), g[i].octaves[k], g[i].nonzero);
	}
	putchar('\n');
}

static void print_decades(const struct analyze_input *in, const struct analyze_figures *g)
{
	int first = ANALYZE_DECADES, end = 0;

	for (int m = 0; m < g->modes; m++) {
		for (int k = 0; k < ANALYZE_DECADES; k++) {
			if (!g->mode[m].decades[k])
				continue;
			first = k < first ? k : first;
			end = k >= end ? k + 1 : end;
		}
	}
	printf("\n|error| of a sum, %s\n%-16s", in->name, "");
	for (int m = 0; m < g->modes; m++)
		printf("  %8s", name_of(mode_names, g->mode[m].job.mode));
	printf("\n%-16s", "0");
	for (int m = 0; m < g->modes; m++)
		print_share(8, g->mode[m].zero, in->elements);
	for (int k = first; k < end; k++) {
		printf("\n1e%-4d to 1e%-4d", k + ANALYZE_FIRST_DECADE, k + 1 + ANALYZE_FIRST_DECADE);
		for (int m = 0; m < g->modes; m++)
			print_share(8, g->mode[m].decades[k], in->elements);
	}
	putchar('\n');
}

void analyze_report(const struct analyze_options *o, const struct analyze_input *in, const struct analyze_figures *g,
		    uint32_t inputs)
{
	int width = name_width(in, inputs);

	print_head(o, in, g, inputs, width);
	printf("%-*s  mode     rounding    max ulp    mean ulp   correct  by order  overwritten  "
	       "overflowed\n",
	       width, "file");
	for (uint32_t i = 0; i < inputs; i++)
		for (int m = 0; m < g[i].modes; m++)
			print_errors(o, &in[i], &g[i].mode[m], width);
	printf("\n%-*s           of the error, by magnitude                      of the adds\n", width, "");
	printf("%-*s  mode   ", width, "file");
	for (int k = 0; k < ANALYZE_SOURCES; k++)
		printf("  %10s", analyze_source_names[k]);
	printf("    rounded  overwritten  left-shifted  overflowed\n");
	for (uint32_t i = 0; i < inputs; i++)
		for (int m = 0; m < g[i].modes; m++)
			print_sources(&in[i], &g[i].mode[m], width);
	print_ratios(in, g, inputs);
	for (uint32_t i = 0; i < inputs; i++)
		print_decades(&in[i], &g[i]);
}
