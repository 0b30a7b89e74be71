// SPDX-License-Identifier: GPL-2.0-only
/*
 * The sources of a sum's error. After an add the register contains its old
 * value plus the incoming value, minus up to three amounts. Each amount is
 * measured when the unit that drops it runs. The units and amounts are:
 *
 * 	MAU3, MAU4  the bits below the register that a right shift drops
 * 	MAU4	    the stored mantissa that is discarded (fpisa-a)
 * 	MAU4	    the amount that saturation cuts off
 *
 * The read-out rounds once. The signed amounts add up to the result minus the
 * exact sum. The figures are sums of the amounts' magnitudes.
 *
 * A left shift does not lose anything by itself. But a register saturates only
 * after left shifts, because its headroom is sufficient for the adds of all
 * workers. So saturation counts as the error of left shifts.
 */
#include <math.h>

#include "analyze.h"
#include "fpisa/mau.h"
#include "values/pack.h"

typedef __int128 wide;

/* The register of one element. */
struct trace {
	const struct fpisa_job *j;
	struct fpisa_format f;
	__u16 e;
	__s64 m;
};

/* Return the number x * 2^e, where 2^e is the unit in the last place of a mantissa with this exponent. */
static double units(const struct trace *t, double x, int e)
{
	return ldexp(x, e - format_bias(t->f) - t->f.mbits - t->f.guard);
}

/* Return m - kept x 2^d for d >= 0. This is the amount that a shift from m to `kept` dropped. */
static double dropped(__s64 m, __s64 kept, int d)
{
	/* A shift by more than 64 places drops all bits, and `kept` is 0 or -1. */
	return d <= 64 ? (double)((wide)m - kept * ((wide)1 << d)) : (double)m - ldexp((double)kept, d);
}

static void trace_first(struct trace *t, uint64_t word)
{
	struct fpisa_lane l = {.word = word};

	fpisa_mau0_extract(&l, t->f);
	fpisa_mau1_implied_one(&l, t->f);
	t->e = fpisa_mau2_first(&l);
	t->m = l.m;
}

static void trace_add(struct trace *t, uint64_t word, double source[ANALYZE_SOURCES])
{
	/* Use the units of the mode itself. fpisa64 is fpisa with another register. */
	enum fpisa_mode mode = t->j->mode == FPISA_MODE_FPISA_A ? FPISA_MODE_FPISA_A : FPISA_MODE_FPISA;
	struct fpisa_lane l = {.word = word};
	int incoming, before = t->e & FPISA_EXP_MASK, after;
	__s64 m, old = t->m;

	fpisa_mau0_extract(&l, t->f);
	fpisa_mau1_implied_one(&l, t->f);
	incoming = l.e & FPISA_EXP_MASK;
	m = l.m;
	t->e = fpisa_mau2_exponent(&l, t->e, t->f, mode);
	after = t->e & FPISA_EXP_MASK;
	fpisa_mau3_align(&l, t->f, mode);
	t->m = fpisa_mau4_add(&l, old, t->f, mode);
	if (after > incoming)
		source[ANALYZE_ROUNDING] += fabs(units(t, dropped(m, l.m, after - incoming), incoming));
	if (l.st == FPISA_DISCARD) {
		source[ANALYZE_OVERWRITE] += fabs(units(t, (double)old, before));
		old = 0;
	} else if (after > before) {
		__s64 kept = old >> (after - before < 63 ? after - before : 63);

		source[ANALYZE_ROUNDING] += fabs(units(t, dropped(old, kept, after - before), before));
		old = kept;
	}
	source[ANALYZE_LEFT_SHIFT] += fabs(units(t, (double)((wide)old + l.m - t->m), after));
}

/* Return |register - result|. The result is zero or has the sign of the register. */
static double read_out(const struct trace *t, uint64_t result)
{
	uint64_t magnitude = result & ((1ull << (t->f.ebits + t->f.mbits)) - 1);
	uint64_t field = magnitude >> t->f.mbits, n = magnitude & fpisa_frac_ones(t->f);
	int place = (field ? (int)field : 1) + t->f.guard, e = t->e & FPISA_EXP_MASK;
	wide have = t->m < 0 ? -(wide)t->m : t->m, got = field ? n | 1ull << t->f.mbits : n;

	if (!got)
		return units(t, (double)have, e);
	/* The positions differ by at most the width of the register. */
	if (place > e)
		return fabs(units(t, (double)(have - (got << (place - e))), e));
	return fabs(units(t, (double)((have << (e - place)) - got), place));
}

void analyze_sources(const struct fpisa_job *j, const uint64_t *words, uint32_t n, uint64_t result,
		     double source[ANALYZE_SOURCES])
{
	struct trace t = {.j = j, .f = fpisa_job_format(j)};

	trace_first(&t, words[0]);
	for (uint32_t k = 1; k < n; k++)
		trace_add(&t, words[k], source);
	source[ANALYZE_READ_OUT] += read_out(&t, result);
}
