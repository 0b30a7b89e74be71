// SPDX-License-Identifier: GPL-2.0-only
/*
 * The figures of one input, computed for blocks of 32 elements. For each block,
 * compute the values as a worker would send them, their ratio, the correctly
 * rounded sum, and each mode's sums in rank order and in random orders.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "analyze.h"
#include "cli/progress.h"
#include "lib/soft/blocks.h"
#include "values/pack.h"
#include "values/random.h"

typedef uint64_t lanes[FPISA_BLOCK];

/* One block with the packed values by rank, and the correctly rounded sums. */
struct block {
	uint32_t n; /* number of elements; further lanes are zero */
	lanes word[FPISA_MAX_WORKERS];
	lanes nearest;
	struct oracle_exact exact[FPISA_BLOCK];
};

/* Room for the packed values of a contribution, an exponent block, and the largest mantissa block. */
struct registers {
	uint64_t payload[FPISA_BLOCK];
	struct fpisa_exp_block e;
	struct fpisa_limbs64_block m;
};

/* -- the values ---------------------------------------------------------- */

static double value_of(const struct analyze_input *in, uint32_t rank, uint64_t i)
{
	bool each = in->file_count > 1;

	return gradients_value(&in->files[each ? rank : 0], each ? 0 : rank, i);
}

static void take_values(const struct analyze_input *in, uint64_t at, struct block *b, struct analyze_figures *g)
{
	uint64_t left = in->elements - at;

	memset(b->word, 0, sizeof(b->word));
	b->n = left < FPISA_BLOCK ? left : FPISA_BLOCK;
	for (uint32_t r = 0; r < in->workers; r++) {
		for (uint32_t i = 0; i < b->n; i++) {
			double v = value_of(in, r, at + i);

			b->word[r][i] = pack_value(g->f, v);
			g->zeros += v == 0;
			g->vanished += v != 0 && unpack_value(g->f, b->word[r][i]) == 0;
		}
	}
}

static void sum_exactly(struct block *b, uint32_t workers, struct fpisa_format f)
{
	for (uint32_t i = 0; i < b->n; i++) {
		oracle_exact_init(&b->exact[i], f);
		for (uint32_t r = 0; r < workers; r++)
			oracle_exact_add(&b->exact[i], b->word[r][i]);
		b->nearest[i] = oracle_exact_read(&b->exact[i]);
	}
}

/* Return floor(log2(a / b)) exactly, where a >= b > 0. */
static int octave(double a, double b)
{
	int ea, eb;
	double fa = frexp(a, &ea), fb = frexp(b, &eb);

	return ea - eb - (fa < fb);
}

static void note_ratio(const struct block *b, uint32_t i, uint32_t workers, struct analyze_figures *g)
{
	double most = 0, least = INFINITY;

	for (uint32_t r = 0; r < workers; r++) {
		double v = fabs(unpack_value(g->f, b->word[r][i]));

		if (!isfinite(v) || v == 0)
			return;
		most = fmax(most, v);
		least = fmin(least, v);
	}
	g->nonzero++;
	g->octaves[octave(most, least)]++;
}

uint64_t analyze_below(const struct analyze_figures *g, int k)
{
	uint64_t n = 0;

	while (k-- > 0)
		n += g->octaves[k];
	return n;
}

/* -- a mode's sums -------------------------------------------------------- */

/* Compute sums in the order in which rank[k][lane] is the k-th rank to arrive. If `rank` is NULL, use rank order. */
static void sum_block(const struct analyze_mode *m, const struct block *b, uint8_t (*rank)[FPISA_BLOCK], lanes result,
		      struct oracle_events *adds)
{
	const struct fpisa_format f = fpisa_job_format(&m->job);
	const struct fpisa_final sum = fpisa_final_of(f, FPISA_OP_SUM, 0, 1, 0);
	struct registers r;
	const struct fpisa_soft_registers at = {.e = &r.e, .m = &r.m};

	for (uint32_t k = 0; k < m->job.workers; k++) {
		uint64_t events;

		for (int i = 0; i < FPISA_BLOCK; i++)
			fpisa_put_word(r.payload, i, f, b->word[rank ? rank[k][i] : k][i]);
		events = fpisa_soft_add(&m->job, FPISA_OP_SUM, r.payload, at, 1, k == 0);
		if (!adds)
			continue;
		adds->rounded += fpisa_event_count(events, FPISA_EV_ROUNDED);
		adds->overwritten += fpisa_event_count(events, FPISA_EV_OVERWRITTEN);
		adds->left_shifted += fpisa_event_count(events, FPISA_EV_LEFT_SHIFTED);
		adds->overflowed += fpisa_event_count(events, FPISA_EV_OVERFLOWED);
	}
	fpisa_soft_read(&m->job, &sum, r.payload, at, 1);
	for (int i = 0; i < FPISA_BLOCK; i++)
		result[i] = fpisa_get_word(r.payload, i, f);
}

static void note_size(struct analyze_mode *m, double absolute, double ulps)
{
	int decade = (int)floor(log10(absolute)) - ANALYZE_FIRST_DECADE;

	m->decades[decade < 0 ? 0 : decade]++;
	m->max_abs = fmax(m->max_abs, absolute);
	m->max_ulp = fmax(m->max_ulp, ulps);
	m->sum_ulp += ulps;
}

static void note_error(struct analyze_mode *m, const struct block *b, uint32_t i, uint64_t result)
{
	const struct fpisa_format f = b->exact[i].f;
	double got = unpack_value(f, result), sum = unpack_value(f, b->nearest[i]), ulps, absolute;
	uint64_t words[FPISA_MAX_WORKERS];

	m->correct += result == b->nearest[i];
	if (!isfinite(got) || !isfinite(sum)) {
		bool same = got == sum || (isnan(got) && isnan(sum));

		m->zero += same;
		m->special += !same;
		return;
	}
	ulps = oracle_exact_error(&b->exact[i], result, &absolute);
	if (ulps > 0)
		note_size(m, fmin(absolute, DBL_MAX), ulps);
	else
		m->zero++;
	if (m->job.mode == FPISA_MODE_EXACT) {
		m->source[ANALYZE_READ_OUT] += absolute;
		return;
	}
	for (uint32_t r = 0; r < m->job.workers; r++)
		words[r] = b->word[r][i];
	analyze_sources(&m->job, words, m->job.workers, result, m->source);
}

/* Draw a random order for each lane. */
static void shuffle(uint8_t (*rank)[FPISA_BLOCK], uint32_t workers, uint64_t *state)
{
	for (int i = 0; i < FPISA_BLOCK; i++) {
		for (uint32_t k = 0; k < workers; k++) {
			uint32_t other = random_below(state, k + 1);

			rank[k][i] = rank[other][i];
			rank[other][i] = k;
		}
	}
}

/* Sum in random orders, which are the same for every mode. */
static void sum_in_orders(const struct analyze_options *o, const struct block *b, lanes result[ANALYZE_MODES],
			  struct analyze_figures *g, uint64_t *state)
{
	uint32_t changed[ANALYZE_MODES] = {0}; /* one bit for each lane */
	uint8_t rank[FPISA_MAX_WORKERS][FPISA_BLOCK];

	for (uint64_t k = 0; k < o->orders; k++) {
		shuffle(rank, g->mode[0].job.workers, state);
		for (int m = 0; m < g->modes; m++) {
			lanes again;

			sum_block(&g->mode[m], b, rank, again, NULL);
			for (uint32_t i = 0; i < b->n; i++)
				changed[m] |= (uint32_t)(again[i] != result[m][i]) << i;
		}
	}
	for (int m = 0; m < g->modes; m++)
		g->mode[m].by_order += __builtin_popcount(changed[m]);
}

/* -- an input ------------------------------------------------------------- */

static void prepare(const struct analyze_options *o, uint32_t workers, struct analyze_figures *g)
{
	memset(g, 0, sizeof(*g));
	g->f = fpisa_format_of(o->format);
	for (int mode = 1; mode < FPISA_MODE_END; mode++) {
		struct fpisa_job j = {
			.workers = workers,
			.elements = FPISA_BLOCK,
			.format = o->format,
			.mode = mode,
			.rounding = o->rounding ?: (int)fpisa_default_rounding(mode),
			.pipeline = FPISA_PIPELINE_FUSED,
			.clz = FPISA_CLZ_BITS,
			.guard = fpisa_register(o->format, mode, workers).guard,
		};

		if (o->modes[mode])
			g->mode[g->modes++].job = j;
	}
}

void analyze_sum(const struct analyze_options *o, const struct analyze_input *in, struct analyze_figures *g)
{
	lanes result[ANALYZE_MODES];
	uint64_t state = o->seed;
	struct block b;

	prepare(o, in->workers, g);
	for (uint64_t at = 0; at < in->elements; at += FPISA_BLOCK) {
		progress_share(in->name, at, in->elements);
		take_values(in, at, &b, g);
		sum_exactly(&b, in->workers, g->f);
		for (uint32_t i = 0; i < b.n; i++)
			note_ratio(&b, i, in->workers, g);
		for (int m = 0; m < g->modes; m++) {
			sum_block(&g->mode[m], &b, NULL, result[m], &g->mode[m].adds);
			for (uint32_t i = 0; i < b.n; i++)
				note_error(&g->mode[m], &b, i, result[m][i]);
		}
		sum_in_orders(o, &b, result, g, &state);
	}
	progress_end();
}
