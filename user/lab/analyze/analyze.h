/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Declarations that the files of the verb `analyze` share.
 *
 *	analyze.c  options, inputs, the order of events
 *	sum.c      the figures of one input
 *	source.c   the sources of the error of one element
 *	report.c   tables
 *	json.c     the same as JSON
 *	plot.c     the same as pictures, by gnuplot
 *
 * The figures are those of the paper's section 5.2 (figures 7 and 8, 5.2.1):
 * the ratio of the workers' values of one element, the size of the error of a
 * sum, and its causes. The arithmetic of the datapath (user/lib/soft/blocks.h)
 * computes the sums, and oracle.h the exact sums for comparison.
 *
 * Functions return 0, or -errno after they have reported the error.
 */
#ifndef FPISA_ANALYZE_H
#define FPISA_ANALYZE_H

#include <stdbool.h>
#include <stdint.h>

#include "fpisa/job.h"
#include "lab/oracle/oracle.h"
#include "lab/values/gradients.h"

#define ANALYZE_MODES (FPISA_MODE_END - 1)

/* Ratios of two finite magnitudes lie in [2^0, 2^2098), errors in [10^-324, 10^309). */
#define ANALYZE_OCTAVES 2098
#define ANALYZE_DECADES 633
#define ANALYZE_FIRST_DECADE (-324)
#define ANALYZE_HEADROOM 7 /* the mark in the paper's figure: ratios below 2^7 */

int verb_analyze(int argc, char **argv);
extern const char analyze_help[];

struct analyze_options {
	uint32_t workers; /* 0: take the number from the files */
	bool modes[FPISA_MODE_END];
	int format, raw, rounding; /* rounding 0: the default of each mode */
	uint64_t orders, seed;
	const char *plot; /* prefix of the pictures; NULL for none */
	bool json;
};

/* The values to sum, one row per worker. */
struct analyze_input {
	char name[128]; /* for tables */
	struct gradients *files;
	uint32_t file_count;
	uint32_t workers;
	uint64_t elements;
};

/* The sources of a sum's error. */
enum analyze_source {
	ANALYZE_ROUNDING,   /* bits that a right shift in an add dropped */
	ANALYZE_OVERWRITE,  /* stored mantissas that were discarded */
	ANALYZE_LEFT_SHIFT, /* amounts cut off by saturation, which only left shifts cause */
	ANALYZE_READ_OUT,   /* the rounding of the register to a packed value */
	ANALYZE_SOURCES,
};

extern const char *const analyze_source_names[ANALYZE_SOURCES];

/* One mode's sums of one input. Errors are against the exact sum, as oracle_exact_error() computes them. */
struct analyze_mode {
	struct fpisa_job job;
	uint64_t correct;  /* results that are the correctly rounded sum */
	uint64_t zero;	   /* results that equal the exact sum; any two NaN are equal */
	uint64_t special;  /* results that are finite where the sum is not, or vice versa, or whose infinities differ */
	uint64_t by_order; /* elements whose bits another order changes */
	double max_ulp, sum_ulp, max_abs;  /* over results that are not `special`, in ulps of correct results */
	uint64_t decades[ANALYZE_DECADES]; /* absolute errors of the others in [10^(k-324), 10^(k-323)) */
	struct oracle_events adds;	   /* events of the adds in the order of the ranks */
	double source[ANALYZE_SOURCES];	   /* sums of magnitudes, over elements with a finite result and sum */
};

struct analyze_figures {
	struct fpisa_format f;
	uint64_t nonzero;		   /* elements for which every worker's value is finite and not zero */
	uint64_t zeros;			   /* zero values */
	uint64_t vanished;		   /* values that are not zero but too small for the format */
	uint64_t octaves[ANALYZE_OCTAVES]; /* elements of `nonzero` with largest / smallest magnitude in [2^k, 2^(k+1)) */
	int modes;
	struct analyze_mode mode[ANALYZE_MODES];
};

/* -- sum.c -------------------------------------------------------------- */

/* Compute all figures of one input. */
void analyze_sum(const struct analyze_options *o, const struct analyze_input *in, struct analyze_figures *g);

/* Return the number of elements of `nonzero` with a ratio below 2^k. */
uint64_t analyze_below(const struct analyze_figures *g, int k);

/* -- source.c ----------------------------------------------------------- */

/*
 * Add the magnitudes of one element's errors to source[], by source. The n words are summed in their order, by the
 * units of mau.h one by one. `result` is the read-out, which is finite. The mode is not exact.
 */
void analyze_sources(const struct fpisa_job *j, const uint64_t *words, uint32_t n, uint64_t result,
		     double source[ANALYZE_SOURCES]);

/* -- report.c, json.c, plot.c ------------------------------------------- */

void analyze_report(const struct analyze_options *o, const struct analyze_input *in, const struct analyze_figures *g,
		    uint32_t inputs);

int analyze_json(const struct analyze_options *o, const struct analyze_input *in, const struct analyze_figures *g,
		 uint32_t inputs);

/* Check that the pictures can be made, before the work is done. */
int analyze_plot_check(const struct analyze_options *o);
int analyze_plot(const struct analyze_options *o, const struct analyze_input *in, const struct analyze_figures *g,
		 uint32_t inputs);

#endif
