/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Test fpisa_allreduce_op() over the transport `mem`, with ranks as threads. Every format, mode and operation is
 * compared with the oracle in the reported order of arrival. Test also arrays of mxint8 and of big-endian jobs, and
 * refused arguments.
 */
#include <math.h>
#include "workers.h"
#include "lab/oracle/arrivals.h"
#include "cases.h"

#define ELEMENTS 64 /* elements in a chunk */
#define BLOCKS 13   /* six and a half chunks */
#define COUNT (BLOCKS * FPISA_BLOCK)
#define CHUNKS (COUNT / ELEMENTS + 1)
#define SCALES_AT COUNT /* position of the scales in an array of mxint8 */

struct trial {
	struct cases_call call;
	struct cases_round round;
	struct fpisa_format f;
	size_t count;
	bool big_endian, in_place;
	struct fpisa_mem *m;
	uint64_t seed;
	uint32_t timeout_ms;
};

struct member {
	struct trial *trial;
	uint32_t rank;
	pthread_t thread;
	int rc;
	char error[256];
	uint32_t flags;
	struct fpisa_chunk chunk[CHUNKS];
	uint8_t recv[COUNT * 8 + BLOCKS];
};

static void reverse(uint8_t *p, size_t n, uint8_t bytes)
{
	for (size_t i = 0; i < n; i++, p += bytes) {
		for (uint8_t k = 0; k < bytes / 2; k++) {
			uint8_t swap = p[k];

			p[k] = p[bytes - 1 - k];
			p[bytes - 1 - k] = swap;
		}
	}
}

/*
 * Return the elements of a round's contribution. The contribution is a row of scales and then the elements, as on the
 * wire.
 */
static const uint8_t *elements_of(const struct trial *c, uint32_t rank)
{
	return c->round.in[rank] + (c->f.shared ? FPISA_SCALES : 0);
}

static void keep(void *arg, const struct fpisa_chunk *c)
{
	struct member *w = arg;

	w->chunk[c->offset / ELEMENTS] = *c;
}

static void *work(void *arg)
{
	struct member *w = arg;
	struct trial *c = w->trial;
	const struct fpisa_options o = {
		.size = sizeof(o),
		.timeout_ms = c->timeout_ms,
		.overflow = FPISA_OVERFLOW_FLAG,
		.seed = c->seed + w->rank,
		.on_chunk = keep,
		.arg = w,
	};
	uint8_t send[sizeof(w->recv)];
	struct fpisa *f = NULL;

	memset(w->recv, 0xa5, sizeof(w->recv));
	memcpy(send, elements_of(c, w->rank), c->count * c->f.bytes);
	if (c->f.shared)
		memcpy(send + SCALES_AT, c->round.in[w->rank], BLOCKS);
	if (c->big_endian)
		reverse(send, c->count, c->f.bytes);
	if (c->in_place)
		memcpy(w->recv, send, c->count * c->f.bytes + (c->f.shared ? BLOCKS : 0));
	w->rc = fpisa_mem_connect(&f, c->m, w->rank, &o);
	if (!w->rc)
		w->rc = fpisa_allreduce_op(f, c->in_place ? w->recv : send, w->recv, c->count,
					   (enum fpisa_dtype)c->call.format, (enum fpisa_operation)c->call.op,
					   c->call.factor, &w->flags);
	if (w->rc)
		snprintf(w->error, sizeof(w->error), "%s", fpisa_error());
	fpisa_close(f);
	if (c->big_endian)
		reverse(w->recv, c->count, c->f.bytes);
	return NULL;
}

static void wrong(const struct member *w, size_t i, const char *what)
{
	const struct cases_call *c = &w->trial->call;
	char name[32];

	fail_msg("%s %s, %u workers%s%s%s: rank %u element %zu: %s", cases_format(c->format), cases_name(c, name),
		 c->workers, c->reciprocal ? ", reciprocal" : "", w->trial->big_endian ? ", big-endian" : "",
		 w->trial->in_place ? ", in place" : "", w->rank, i, what);
}

/* Check one element, or one block, of all ranks in their order of arrival. */
static void check(const struct member *w, size_t i, const uint32_t *rank_at, uint32_t *flags)
{
	const struct trial *c = w->trial;
	const struct oracle_call call = cases_oracle(&c->call);
	struct oracle_mx blocks[CASES_WORKERS], block;
	uint64_t words[CASES_WORKERS] = {0}, got = 0;

	if (!c->f.shared) {
		for (uint32_t k = 0; k < c->call.workers; k++)
			memcpy(&words[k], elements_of(c, rank_at[k]) + i * c->f.bytes, c->f.bytes);
		memcpy(&got, w->recv + i * c->f.bytes, c->f.bytes);
		if (got != oracle_result(&call, c->call.workers, words, NULL, flags))
			wrong(w, i, "value");
		return;
	}
	if (i % FPISA_BLOCK)
		return;
	for (uint32_t k = 0; k < c->call.workers; k++) {
		blocks[k].scale = c->round.in[rank_at[k]][i / FPISA_BLOCK];
		memcpy(blocks[k].k, elements_of(c, rank_at[k]) + i, FPISA_BLOCK);
	}
	oracle_result_mx(&call, c->call.workers, blocks, &block, NULL, flags);
	if (w->recv[SCALES_AT + i / FPISA_BLOCK] != block.scale)
		wrong(w, i, "scale");
	if (memcmp(w->recv + i, block.k, FPISA_BLOCK))
		wrong(w, i, "block");
}

static void check_member(const struct member *w)
{
	const struct trial *c = w->trial;
	size_t end = c->count * c->f.bytes + (c->f.shared ? BLOCKS : 0);
	uint32_t flags = 0;

	for (size_t chunk = 0; chunk * ELEMENTS < c->count; chunk++) {
		uint32_t rank_at[FPISA_ORDER_WORKERS], seen = 0;

		if (!arrivals(w->chunk[chunk].order, (1ull << c->call.workers) - 1, rank_at))
			wrong(w, chunk * ELEMENTS, "order of arrival");
		for (size_t i = chunk * ELEMENTS; i < c->count && i < (chunk + 1) * ELEMENTS; i++)
			check(w, i, rank_at, &seen);
		if (w->chunk[chunk].flags != seen)
			wrong(w, chunk * ELEMENTS, "flags of the chunk");
		flags |= seen;
	}
	if (w->flags != flags)
		wrong(w, 0, "flags");
	for (size_t i = end; i < sizeof(w->recv); i++)
		if (w->recv[i] != 0xa5)
			wrong(w, i, "written after the array");
}

static void make_mem(struct trial *c)
{
	const struct fpisa_mem_options o = {
		.size = sizeof(o),
		.workers = c->call.workers,
		.elements = ELEMENTS,
		.window = 2,
		.mode = c->call.mode,
		.rounding = c->call.rounding,
		.pipeline = c->seed % 2 ? FPISA_PIPELINE_FUSED : FPISA_PIPELINE_STAGED,
		.format = c->call.format,
		.flags = (uint8_t)((c->call.reciprocal ? FPISA_JOB_RECIPROCAL : 0) |
				   (c->big_endian ? FPISA_JOB_BIG_ENDIAN : 0)),
	};

	if (fpisa_mem_create(&c->m, &o))
		fail_msg("%s", fpisa_error());
}

static void one_call(struct trial *c, struct member *w)
{
	make_mem(c);
	for (uint32_t r = 0; r < c->call.workers; r++) {
		w[r] = (struct member){.trial = c, .rank = r};
		assert_int_equal(pthread_create(&w[r].thread, NULL, work, &w[r]), 0);
	}
	for (uint32_t r = 0; r < c->call.workers; r++)
		pthread_join(w[r].thread, NULL);
	fpisa_mem_destroy(c->m);
	for (uint32_t r = 0; r < c->call.workers; r++) {
		if (w[r].rc)
			wrong(&w[r], 0, w[r].error);
		check_member(&w[r]);
	}
}

static void all_combinations(void **state)
{
	struct vectors_rng rng = {vectors_seed()};
	struct member *w = calloc(CASES_WORKERS, sizeof(*w));
	struct trial *c = calloc(1, sizeof(*c));
	int combinations = 0;

	(void)state;
	for (uint8_t format = FPISA_FORMAT_FP32; format < FPISA_FORMAT_END; format++) {
		for (unsigned int i = 0; cases_combination(format, i, &c->call); i++) {
			cases_choose(&rng, &c->call);
			c->f = fpisa_format_of(format);
			c->big_endian = c->f.bytes > 1 && vectors_below(&rng, 2);
			c->in_place = vectors_below(&rng, 2);
			c->count = c->f.shared ? COUNT : COUNT - vectors_below(&rng, FPISA_BLOCK);
			c->seed = vectors_next(&rng);
			cases_random(&rng, &c->call, COUNT, &c->round);
			one_call(c, w);
			combinations++;
		}
	}
	/* Six float formats have 3 modes x 6 operations and 5 in mode exact, int32 has 3, and mxint8 has 4 x 3. */
	assert_int_equal(combinations, 6 * 23 + 3 + 12);
	free(c);
	free(w);
}

/* -- arguments ----------------------------------------------------------------- */

static struct fpisa *alone(struct fpisa_mem **m, uint8_t format, uint8_t mode)
{
	const struct fpisa_mem_options o = {
		.size = sizeof(o),
		.workers = 1,
		.elements = ELEMENTS,
		.window = 2,
		.format = format,
		.mode = mode,
	};
	struct fpisa *f = NULL;

	if (fpisa_mem_create(m, &o) || fpisa_mem_connect(&f, *m, 0, NULL))
		fail_msg("%s", fpisa_error());
	return f;
}

static int call(struct fpisa *f, uint8_t format, int op, double factor)
{
	uint64_t values[FPISA_BLOCK * 2] = {0};

	return fpisa_allreduce_op(f, values, values, FPISA_BLOCK, (enum fpisa_dtype)format, (enum fpisa_operation)op,
				  factor, NULL);
}

static void refused(struct fpisa *f, uint8_t format, int op, double factor, const char *says)
{
	assert_int_equal(call(f, format, op, factor), -EINVAL);
	if (!strstr(fpisa_error(), says) || strchr(fpisa_error(), '\n'))
		fail_msg("format %u op %d factor %g: %s", format, op, factor, fpisa_error());
}

/* Check that combinations outside cases_combination() are refused, and that the handle still works. */
static void operations_refused(void **state)
{
	(void)state;
	for (uint8_t format = FPISA_FORMAT_FP32; format < FPISA_FORMAT_END; format++) {
		for (uint8_t mode = FPISA_MODE_FPISA; mode < FPISA_MODE_END; mode++) {
			bool offered[FPISA_OP_END] = {false};
			struct cases_call c;
			struct fpisa_mem *m;
			struct fpisa *f;

			for (unsigned int i = 0; cases_combination(format, i, &c); i++)
				if (c.mode == mode)
					offered[c.op] = true;
			if (!offered[FPISA_OP_SUM])
				continue;
			f = alone(&m, format, mode);
			for (int op = FPISA_OP_SUM; op < FPISA_OP_END; op++) {
				if (offered[op])
					assert_int_equal(call(f, format, op, 2), 0);
				else
					refused(f, format, op, 2, "is not supported");
			}
			refused(f, format, 0, 2, "is not supported");
			refused(f, format, FPISA_OP_END, 2, "is not supported");
			refused(f, format, FPISA_OP_SUM + 256, 2, "is not supported");
			assert_int_equal(call(f, format, FPISA_OP_SUM, NAN), 0);
			fpisa_close(f);
			fpisa_mem_destroy(m);
		}
	}
}

static void factors(void **state)
{
	static const double never[] = {0, -0.0, INFINITY, -INFINITY, NAN};
	static const double doubles[] = {0.1, 1e300, 0x1.0000001p0, 0x1p-1074};
	static const double floats[] = {2, -0.5, (double)0.1f, 0x1.fffffep127, 0x1p-149, 0x1p-1022};
	struct fpisa_mem *m, *m64;
	struct fpisa *f = alone(&m, FPISA_FORMAT_FP32, 0), *f64 = alone(&m64, FPISA_FORMAT_FP64, 0);

	(void)state;
	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++) {
		refused(f, FPISA_FORMAT_FP32, FPISA_SCALE, never[i], "finite and not zero");
		refused(f64, FPISA_FORMAT_FP64, FPISA_SCALE, never[i], "finite and not zero");
	}
	for (size_t i = 0; i < 3; i++) {
		refused(f, FPISA_FORMAT_FP32, FPISA_SCALE, doubles[i], "a value that float32 can represent");
		assert_int_equal(call(f64, FPISA_FORMAT_FP64, FPISA_SCALE, doubles[i]), 0);
	}
	for (size_t i = 0; i < sizeof(floats) / sizeof(floats[0]); i++)
		assert_int_equal(call(f, FPISA_FORMAT_FP32, FPISA_SCALE, floats[i]), 0);
	fpisa_close(f);
	fpisa_close(f64);
	fpisa_mem_destroy(m);
	fpisa_mem_destroy(m64);
}

/* Check that arrays of mxint8 are longer than their elements. */
static void arrays_of_blocks(void **state)
{
	enum { N = 2 * ELEMENTS + FPISA_BLOCK, SIZE = N + N / FPISA_BLOCK };
	uint8_t a[2 * SIZE] = {0};
	struct fpisa_mem *m;
	struct fpisa *f = alone(&m, FPISA_FORMAT_MXINT8, 0);

	(void)state;
	for (size_t count = 1; count < N; count++) {
		int rc = fpisa_allreduce(f, a, a, count, FPISA_MXINT8, NULL);

		assert_int_equal(rc, count % FPISA_BLOCK ? -EINVAL : 0);
	}
	assert_int_equal(fpisa_allreduce(f, a, a + N, N, FPISA_MXINT8, NULL), -EINVAL);
	assert_int_equal(fpisa_allreduce(f, a, a + SIZE - 1, N, FPISA_MXINT8, NULL), -EINVAL);
	assert_int_equal(fpisa_allreduce(f, a + SIZE - 1, a, N, FPISA_MXINT8, NULL), -EINVAL);
	assert_int_equal(fpisa_allreduce(f, a, a + SIZE, N, FPISA_MXINT8, NULL), 0);
	assert_int_equal(fpisa_allreduce(f, a + SIZE, a, N, FPISA_MXINT8, NULL), 0);
	fpisa_close(f);
	fpisa_mem_destroy(m);
}

/* -- ranks that disagree ----------------------------------------------------------- */

/* Check that both ranks get an error long before the deadline, and that neither gets a result. */
static void disagree(int op0, double factor0, int op1, double factor1)
{
	struct trial *c = calloc(2, sizeof(*c));
	struct member *w = calloc(2, sizeof(*w));
	int told = 0;

	for (int r = 0; r < 2; r++) {
		c[r].call = (struct cases_call){
			.format = FPISA_FORMAT_FP32,
			.mode = FPISA_MODE_FPISA,
			.rounding = FPISA_ROUND_DOWN,
			.op = (uint8_t)(r ? op1 : op0),
			.factor = r ? factor1 : factor0,
			.workers = 2,
		};
		c[r].f = fpisa_format_of(FPISA_FORMAT_FP32);
		c[r].count = 100;
		c[r].timeout_ms = 500;
	}
	make_mem(&c[0]);
	c[1].m = c[0].m;
	for (uint32_t r = 0; r < 2; r++) {
		w[r] = (struct member){.trial = &c[r], .rank = r};
		assert_int_equal(pthread_create(&w[r].thread, NULL, work, &w[r]), 0);
	}
	for (uint32_t r = 0; r < 2; r++)
		pthread_join(w[r].thread, NULL);
	fpisa_mem_destroy(c[0].m);
	for (int r = 0; r < 2; r++) {
		if (w[r].rc == -EPROTO && strstr(w[r].error, "the ranks made different calls"))
			told++;
		else
			fail_msg("ops %d and %d: rank %d: %d: %s", op0, op1, r, w[r].rc, w[r].error);
	}
	assert_int_equal(told, 2);
	free(c);
	free(w);
}

static void ranks_that_disagree(void **state)
{
	(void)state;
	disagree(FPISA_SUM, 0, FPISA_MAX, 0);
	disagree(FPISA_MIN, 0, FPISA_MAX, 0);
	disagree(FPISA_AVG, 0, FPISA_SCALE, 0.5);
	disagree(FPISA_SCALE, 2, FPISA_SCALE, 2.5);
	disagree(FPISA_SCALE, 2, FPISA_SCALE, -2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_combinations), cmocka_unit_test(operations_refused),  cmocka_unit_test(factors),
		cmocka_unit_test(arrays_of_blocks), cmocka_unit_test(ranks_that_disagree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
