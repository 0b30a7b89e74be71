/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Declarations that the files of the verb `analyze` share.
 *
 * 	analyze.c  options, inputs, order of events
 * 	sum.c      the figures of one input
 * 	source.c   the sources of the error of one element
 * 	report.c   tables
 * 	json.c     the figures as JSON
 * 	plot.c     the figures as pictures, drawn with gnuplot
 *
 * The figures are those of section 5.2 of the paper (figures 7 and 8, and
 * section 5.2.1). The figures are the ratio between the workers' values of one
 * element, the size of a sum's error, and the causes of the error. The sums are
 * computed with the arithmetic of the datapath (user/lib/soft/blocks.h), and
 * the exact sums for comparison with oracle.h.
 *
 * Functions return 0, or report the error and return -errno.
 */
#ifndef FPISA_ANALYZE_H
#define FPISA_ANALYZE_H

#include <stdbool.h>
#include <stdint.h>

#include "fpisa/job.h"
#include "lab/oracle/oracle.h"
#include "lab/values/gradients.h"

#define ANALYZE_MODES (FPISA_MODE_END - 1)

/* Ratios of two finite magnitudes lie in [2^0, 2^2098), and errors lie in [10^-324, 10^309). */
#define ANALYZE_OCTAVES 2098
#define ANALYZE_DECADES 633
#define ANALYZE_FIRST_DECADE (-324)
#define ANALYZE_HEADROOM 7 /* the ratio 2^7, which the paper's figure marks */

int verb_analyze(int argc, char **argv);
extern const char analyze_help[];

struct analyze_options {
	uint32_t workers; /* 0 means the number in the files */
	bool modes[FPISA_MODE_END];
	int format, raw, rounding; /* rounding 0 means the default of each mode */
	uint64_t orders, seed;
	const char *plot; /* prefix of the pictures' file names; NULL for no pictures */
	bool json;
};

/* The values to sum, one row per worker. */
struct analyze_input {
	char name[128]; /* name in tables */
	struct gradients *files;
	uint32_t file_count;
	uint32_t workers;
	uint64_t elements;
};

/* The sources of a sum's error. */
enum analyze_source {
	ANALYZE_ROUNDING,   /* bits that a right shift dropped in an add */
	ANALYZE_OVERWRITE,  /* stored mantissas that were discarded */
	ANALYZE_LEFT_SHIFT, /* amounts cut off by saturation, which only left shifts cause */
	ANALYZE_READ_OUT,   /* rounding of the register to a packed value */
	ANALYZE_SOURCES,
};

extern const char *const analyze_source_names[ANALYZE_SOURCES];

/* The sums of one input in one mode. Errors are relative to the exact sum, as computed by oracle_exact_error(). */
struct analyze_mode {
	struct fpisa_job job;
	uint64_t correct; /* number of results that are the correctly rounded sum */
	uint64_t zero;	  /* number of results that equal the exact sum; any two NaNs are equal */
	/* number of results where only the result or only the sum is finite, or where their infinities differ */
	uint64_t special;
	uint64_t by_order; /* number of elements whose bits another order changes */
	/* errors of results that are not `special`; ulps are those of the correct results */
	double max_ulp, sum_ulp, max_abs;
	/* number of results by absolute error, which is in [10^(k-324), 10^(k-323)), without `zero` and `special` */
	uint64_t decades[ANALYZE_DECADES];
	struct oracle_events adds;	/* events of the adds in rank order */
	double source[ANALYZE_SOURCES]; /* sums of error magnitudes over elements whose result and sum are finite */
};

struct analyze_figures {
	struct fpisa_format f;
	/* number of elements for which all workers' values are finite and not zero */
	uint64_t nonzero;
	uint64_t zeros;	   /* number of zero values */
	uint64_t vanished; /* number of nonzero values that are too small for the format */
	/* number of elements in `nonzero` by the ratio of largest to smallest magnitude, which is in [2^k, 2^(k+1)) */
	uint64_t octaves[ANALYZE_OCTAVES];
	int modes;
	struct analyze_mode mode[ANALYZE_MODES];
};

/* -- sum.c -------------------------------------------------------------- */

/* Compute all figures of one input. */
void analyze_sum(const struct analyze_options *o, const struct analyze_input *in, struct analyze_figures *g);

/* Return the number of elements in `nonzero` with a ratio below 2^k. */
uint64_t analyze_below(const struct analyze_figures *g, int k);

/* -- source.c ----------------------------------------------------------- */

/*
 * Add the magnitudes of one element's errors to source[], separately for each source. The n words are summed in their
 * order, with the units of mau.h one by one. `result` is the read-out, which must be finite. The mode must not be
 * exact.
 */
void analyze_sources(const struct fpisa_job *j, const uint64_t *words, uint32_t n, uint64_t result,
		     double source[ANALYZE_SOURCES]);

/* -- report.c, json.c, plot.c ------------------------------------------- */

void analyze_report(const struct analyze_options *o, const struct analyze_input *in, const struct analyze_figures *g,
		    uint32_t inputs);

int analyze_json(const struct analyze_options *o, const struct analyze_input *in, const struct analyze_figures *g,
		 uint32_t inputs);

/* Check that the pictures can be made before the sums are computed. */
int analyze_plot_check(const struct analyze_options *o);
int analyze_plot(const struct analyze_options *o, const struct analyze_input *in, const struct analyze_figures *g,
		 uint32_t inputs);

#endif
