/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Run every format in every mode through the in-process aggregator, fused and staged, and compare bit for bit with the
 * oracle. Test also the effect of the order of arrival on a sum of 64 contributions.
 */
#include "formats.h"
#include "values/pack.h"
#include "soft_frames.h"

#define ELEMENTS 128
#define MOST 64

struct pair {
	const char *format_name, *mode_name;
	uint8_t format, mode;
};

static const struct pair pairs[] = {
#define MODES(name, format)                                                                       \
	{name, "fpisa", format, FPISA_MODE_FPISA}, {name, "fpisa-a", format, FPISA_MODE_FPISA_A}, \
		{name, "fpisa64", format, FPISA_MODE_FPISA64},                                    \
	{                                                                                         \
		name, "exact", format, FPISA_MODE_EXACT                                           \
	}
	MODES("fp32", FPISA_FORMAT_FP32), MODES("fp16", FPISA_FORMAT_FP16), MODES("bf16", FPISA_FORMAT_BF16),
	MODES("e4m3", FPISA_FORMAT_E4M3), MODES("e5m2", FPISA_FORMAT_E5M2), MODES("fp64", FPISA_FORMAT_FP64),
};

#define PAIRS ((int)(sizeof(pairs) / sizeof(pairs[0])))

static int try_init(struct fpisa_soft *s, const struct pair *p, uint32_t workers, uint8_t rounding, uint8_t pipeline)
{
	*s = (struct fpisa_soft){
		.number = SOFT_JOB,
		.job =
			{
				.active = 1,
				.workers = workers,
				.live = ~0ull >> (64 - workers),
				.token = SOFT_TOKEN,
				.elements = ELEMENTS,
				.window = 4,
				.format = p->format,
				.mode = p->mode,
				.rounding = rounding,
				.pipeline = pipeline,
				.fanout = FPISA_FANOUT_UNICAST,
			},
	};
	list_ranks(s);
	return fpisa_soft_init(s);
}

/* Send the ranks' contributions words[rank][element], from rank 0 on, and check every verdict. *f is the result. */
static void sum(struct fpisa_soft *s, struct fpisa_format form, uint64_t chunk, uint64_t (*words)[ELEMENTS],
		struct frame *f)
{
	for (uint32_t r = 0; r < s->job.workers; r++) {
		for (int i = 0; i < ELEMENTS; i++)
			fpisa_put_word(f->w, i, form, words[r][i]);
		add(f, s, r, chunk);
		assert_int_equal(give(s, f, r), r + 1 < s->job.workers ? FPISA_V_accepted : FPISA_V_result);
	}
	assert_true(intact(f));
	assert_int_equal(f->len, FPISA_HDR_LEN + ELEMENTS * form.bytes);
}

static void check_pair(const struct pair *p, uint8_t rounding, uint8_t pipeline, struct vectors_rng *rng)
{
	enum { CHUNKS = 40, RANKS = 8 };
	static uint64_t words[RANKS][ELEMENTS];
	uint32_t workers = 1 + vectors_below(rng, RANKS);
	struct fpisa_format f = fpisa_register(p->format, (enum fpisa_mode)p->mode, workers);
	struct oracle_events events = {0};
	static struct frame frame;
	struct fpisa_soft s;

	assert_int_equal(try_init(&s, p, workers, rounding, pipeline), 0);
	join(&s);
	for (uint64_t chunk = 0; chunk < CHUNKS; chunk++) {
		uint32_t flags = 0;

		for (int i = 0; i < ELEMENTS; i++) {
			int middle = (int)vectors_below(rng, (1u << f.ebits) - 1), kind = vectors_below(rng, 8);

			for (uint32_t r = 0; r < workers; r++)
				words[r][i] = random_word(rng, f, kind, middle);
		}
		sum(&s, f, chunk, words, &frame);
		for (int i = 0; i < ELEMENTS; i++) {
			uint64_t column[RANKS], want;

			for (uint32_t r = 0; r < workers; r++)
				column[r] = words[r][i];
			want = oracle_replay(f, (enum fpisa_mode)p->mode, (enum fpisa_rounding)rounding, workers,
					     column, &events, &flags);
			if (fpisa_get_word(frame.w, i, f) != want)
				fail_msg("%s %s, rounding %d, pipeline %d, chunk %d element %d: %llx, oracle "
					 "%llx",
					 p->format_name, p->mode_name, rounding, pipeline, (int)chunk, i,
					 (unsigned long long)fpisa_get_word(frame.w, i, f), (unsigned long long)want);
		}
		assert_int_equal(frame.h.result_flags, flags);
	}
	assert_int_equal(s.counters.rounded, events.rounded);
	assert_int_equal(s.counters.overwritten, events.overwritten);
	assert_int_equal(s.counters.left_shifted, events.left_shifted);
	assert_int_equal(s.counters.overflowed, events.overflowed);
	assert_int_equal(s.counters.mau4, pipeline == FPISA_PIPELINE_STAGED ? CHUNKS * workers : 0);
	fpisa_soft_free(&s);
}

static void every_pair(void **state)
{
	struct vectors_rng rng = {vectors_seed()};

	(void)state;
	for (int i = 0; i < PAIRS; i++)
		for (uint8_t rounding = FPISA_ROUND_DOWN; rounding <= FPISA_ROUND_NEAREST; rounding++)
			for (uint8_t pipeline = FPISA_PIPELINE_STAGED; pipeline <= FPISA_PIPELINE_FUSED; pipeline++)
				check_pair(&pairs[i], rounding, pipeline, &rng);
}

/*
 * Fill with 1e8, 1, -1e8, 1, or the nearest values in the format, and with values of every magnitude up to a 64th of
 * 1e8.
 */
static void mixed(struct vectors_rng *rng, struct fpisa_format f, uint64_t *words)
{
	double big = fmin(1e8, unpack_value(f, fpisa_beyond(f) - 1) / 2), small = unpack_value(f, 1);
	double octaves = fmin(log2(big / 64 / small), 60);

	words[0] = pack_value(f, big);
	words[1] = words[3] = pack_value(f, 1);
	words[2] = pack_value(f, -big);
	for (int i = 4; i < MOST; i++) {
		double v = big / 64 * exp2(-octaves * vectors_below(rng, 1 << 30) / (1 << 30));

		words[i] = pack_value(f, vectors_below(rng, 2) ? v : -v);
	}
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Give each element of eight chunks the 64 words in a different order. Return the number of different results. */
static int spread(const struct pair *p, uint8_t pipeline, const uint64_t *set, struct vectors_rng *rng, uint64_t *one)
{
	enum { PERMUTATIONS = 1000, CHUNKS = 8 };
	static uint64_t words[MOST][ELEMENTS], got[CHUNKS * ELEMENTS];
	struct fpisa_format f = fpisa_register(p->format, (enum fpisa_mode)p->mode, MOST);
	static struct frame frame;
	struct fpisa_soft s;
	int distinct = 1;

	_Static_assert(CHUNKS * ELEMENTS >= PERMUTATIONS, "an element a permutation");
	assert_int_equal(try_init(&s, p, MOST, FPISA_ROUND_NEAREST, pipeline), 0);
	join(&s);
	for (uint64_t chunk = 0; chunk < CHUNKS; chunk++) {
		for (int i = 0; i < ELEMENTS; i++) {
			for (uint32_t r = 0; r < MOST; r++) {
				uint32_t k = vectors_below(rng, r + 1);

				words[r][i] = words[k][i];
				words[k][i] = set[r];
			}
		}
		sum(&s, f, chunk, words, &frame);
		for (int i = 0; i < ELEMENTS; i++)
			got[chunk * ELEMENTS + (uint64_t)i] = fpisa_get_word(frame.w, i, f);
	}
	fpisa_soft_free(&s);
	qsort(got, PERMUTATIONS, sizeof(got[0]), by_value);
	for (int i = 1; i < PERMUTATIONS; i++)
		distinct += got[i] != got[i - 1];
	*one = got[0];
	return distinct;
}

static void order_of_arrival(void **state)
{
	struct vectors_rng rng = {vectors_seed()};
	uint64_t set[MOST], one;
	int distinct = 0;

	(void)state;
	print_message("results of 1000 orders of 64 contributions\n");
	for (int i = 0; i < PAIRS; i++) {
		const struct pair *p = &pairs[i];
		struct oracle_exact x;

		if (p->mode == FPISA_MODE_FPISA)
			mixed(&rng, fpisa_format_of(p->format), set);
		for (uint8_t pipeline = FPISA_PIPELINE_STAGED; pipeline <= FPISA_PIPELINE_FUSED; pipeline++) {
			distinct = spread(p, pipeline, set, &rng, &one);
			if (p->mode != FPISA_MODE_EXACT)
				continue;
			oracle_exact_init(&x, fpisa_format_of(p->format));
			for (int k = 0; k < MOST; k++)
				oracle_exact_add(&x, set[k]);
			assert_int_equal(distinct, 1);
			assert_int_equal(one, oracle_exact_read(&x));
		}
		print_message("  %s %-7s %4d\n", p->format_name, p->mode_name, distinct);
		/* The order matters for this set of values. */
		if (p->format == FPISA_FORMAT_FP32 && p->mode == FPISA_MODE_FPISA)
			assert_true(distinct > 1);
	}
}

static void not_offered(void **state)
{
	struct pair p = pairs[0];
	struct fpisa_soft s;

	(void)state;
	p.mode = FPISA_MODE_END;
	assert_int_equal(try_init(&s, &p, 2, FPISA_ROUND_DOWN, FPISA_PIPELINE_FUSED), -EINVAL);
	p.mode = FPISA_MODE_FPISA;
	p.format = FPISA_FORMAT_END;
	assert_int_equal(try_init(&s, &p, 2, FPISA_ROUND_DOWN, FPISA_PIPELINE_FUSED), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_pair),
		cmocka_unit_test(order_of_arrival),
		cmocka_unit_test(not_offered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
