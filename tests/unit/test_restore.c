/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Over the transport `mem`, options.restore restores the arrays of failed in-place calls. Without the option, summing
 * these arrays again is refused.
 */
#include <sys/mman.h>
#include "lib/api.h"
#include "lib/handle.h"
#include "lib/unclean.h"
#include "small_chunks.h"

#define LONG (3 * WINDOW * ELEMENTS)

static const struct fpisa_options keeping = {.size = sizeof(keeping), .timeout_ms = 100, .restore = 1};

static struct fpisa *join_keeping(struct joiner *j, struct fpisa_mem *m)
{
	join_all_with(j, 2, m, &keeping);
	return j[0].f;
}

static void fill(float *v, size_t n, float plus)
{
	for (size_t i = 0; i < n; i++)
		v[i] = (float)i + plus;
}

static void assert_filled(const float *v, size_t n, float plus)
{
	for (size_t i = 0; i < n; i++)
		if (v[i] != (float)i + plus)
			fail_msg("element %zu: %g instead of %g", i, (double)v[i], (double)i + (double)plus);
}

/*
 * Check that a retry in place gives right sums if rank 1 stopped when both ranks had the results of the first window.
 */
static void retried_in_place(void **state)
{
	struct fpisa_mem *m = make_mem(2);
	struct joiner j[2] = {0};
	struct fpisa_request *r[2];
	static float v[2][LONG];
	int done, changed = 0;

	(void)state;
	join_keeping(j, m);
	for (int i = 1; i >= 0; i--) {
		fill(v[i], LONG, (float)(i + 1));
		assert_int_equal(fpisa_allreduce_start(j[i].f, v[i], v[i], LONG, FPISA_FLOAT32, &r[i]), 0);
	}
	assert_int_equal(fpisa_test(&r[1], &done, NULL), 0);
	for (size_t i = 0; i < LONG; i++)
		changed += v[1][i] != (float)i + 2;
	assert_int_equal(changed, WINDOW * ELEMENTS);
	/* Rank 1 has sent the second window, but not the third. */
	assert_int_equal(fpisa_wait(&r[0], NULL), -ETIMEDOUT);
	assert_filled(v[0], LONG, 1);
	join_keeping(j, m);
	assert_filled(v[1], LONG, 2);
	assert_int_equal(fpisa_wait(&r[1], NULL), -ECANCELED);
	assert_filled(v[1], LONG, 2);
	for (int i = 0; i < 2; i++)
		assert_int_equal(fpisa_allreduce_start(j[i].f, v[i], v[i], LONG, FPISA_FLOAT32, &r[i]), 0);
	for (int left = 2; left;) {
		for (int i = 0; i < 2; i++) {
			if (!r[i])
				continue;
			assert_int_equal(fpisa_test(&r[i], &done, NULL), 0);
			left -= done;
		}
	}
	for (size_t i = 0; i < LONG; i++)
		assert_true(v[0][i] == (float)(2 * i + 3) && v[1][i] == v[0][i]);
	fpisa_close(j[0].f);
	fpisa_close(j[1].f);
	fpisa_mem_destroy(m);
}

/*
 * Check several requests when the handle fails. Finished requests keep their results, and the other arrays have their
 * old values.
 */
static void restored_in_a_row(void **state)
{
	struct fpisa_mem *m = make_mem(2);
	struct joiner j[2] = {0};
	struct fpisa_request *r[3], *other;
	static float v[3][LONG], w[LONG];

	(void)state;
	join_keeping(j, m);
	for (int i = 0; i < 3; i++)
		fill(v[i], LONG, (float)i);
	fill(w, LONG, 0);
	assert_int_equal(fpisa_allreduce_start(j[0].f, v[0], v[0], ELEMENTS, FPISA_FLOAT32, &r[0]), 0);
	for (int i = 1; i < 3; i++)
		assert_int_equal(fpisa_allreduce_start(j[0].f, v[i], v[i], LONG, FPISA_FLOAT32, &r[i]), 0);
	assert_int_equal(fpisa_allreduce_start(j[1].f, w, w, ELEMENTS, FPISA_FLOAT32, &other), 0);
	assert_int_equal(fpisa_wait(&other, NULL), 0);
	assert_int_equal(fpisa_allreduce_start(j[1].f, w, w, LONG, FPISA_FLOAT32, &other), 0);
	assert_int_equal(fpisa_wait(&r[1], NULL), -ETIMEDOUT);
	/* The first failure restores all arrays, before the program waits for the other requests. */
	assert_filled(v[1], LONG, 1);
	assert_filled(v[2], LONG, 2);
	assert_int_equal(fpisa_wait(&r[0], NULL), 0);
	for (size_t i = 0; i < ELEMENTS; i++)
		assert_true(v[0][i] == (float)(2 * i));
	assert_int_equal(fpisa_wait(&r[2], NULL), -ETIMEDOUT);
	fpisa_close(j[0].f);
	fpisa_close(j[1].f);
	fpisa_mem_destroy(m);
}

/* Start an in-place call that scales by 3 and keeps only `part`. */
static int start_part(struct fpisa *f, void *v, size_t count, uint8_t format, enum fpisa_operation op,
		      struct fpisa_part part, struct fpisa_request **r)
{
	const struct fpisa_call c = {.size = sizeof(c),
				     .send = v,
				     .recv = (char *)v + part.first * fpisa_format_of(format).bytes,
				     .count = count,
				     .type = format,
				     .op = op,
				     .factor = 3};
	struct fpisa_parts parts = {.own = part, .end = {count}};

	return fpisa_start_numbered(f, &c, &parts, 0, 0, r);
}

/* Return all elements or, at random, a part of them. Arrays with scales are kept whole. */
static struct fpisa_part draw_part(uint64_t *random, size_t count, struct fpisa_format format)
{
	struct fpisa_part part = {0, count};

	if (format.shared || test_random(random) % 2)
		return part;
	part.first = test_random(random) % (count + 1);
	part.end = part.first + test_random(random) % (count - part.first + 1);
	return part;
}

/*
 * Check the array after an error, a rejoin or a close, in any format, of any length, with results in any order. If only
 * a part is kept, the other elements never change.
 */
static void restored_array(uint64_t *random)
{
	static const uint8_t formats[] = {FPISA_FORMAT_FP32, FPISA_FORMAT_FP64, FPISA_FORMAT_BF16, FPISA_FORMAT_E4M3,
					  FPISA_FORMAT_MXINT8};
	const struct fpisa_mem_options mo = {.size = sizeof(mo),
					     .workers = 1,
					     .elements = ELEMENTS * (1 + (uint32_t)(test_random(random) % 3)),
					     .window = WINDOW,
					     .format = formats[test_random(random) % sizeof(formats)],
					     .mode = FPISA_MODE_FPISA};
	const struct fpisa_options o = {.size = sizeof(o),
					.restore = 1,
					.loss = 0.3,
					.seed = test_random(random),
					.overflow = FPISA_OVERFLOW_FLAG};
	const struct fpisa_format format = fpisa_format_of(mo.format);
	size_t count = ELEMENTS * (1 + test_random(random) % 40),
	       size = count * format.bytes + (format.shared ? count / ELEMENTS : 0);
	const struct fpisa_part part = draw_part(random, count, format);
	const size_t first = part.first * format.bytes, behind = part.end * format.bytes;
	unsigned char *v = malloc(size), *before = malloc(size);
	struct fpisa_request *r;
	struct fpisa_mem *m;
	struct fpisa *f;
	int done = 0, end = (int)(test_random(random) % 3);

	for (size_t i = 0; i < size; i++)
		before[i] = v[i] = (unsigned char)test_random(random);
	assert_int_equal(fpisa_mem_create(&m, &mo), 0);
	assert_int_equal(fpisa_mem_connect(&f, m, 0, &o), 0);
	assert_int_equal(start_part(f, v, count, mo.format, FPISA_SCALE, part, &r), 0);
	for (uint64_t turns = test_random(random) % 12; turns && !done; turns--)
		assert_int_equal(fpisa_test(&r, &done, NULL), 0);
	if (!done && end == 0)
		fpisa_poison(f, fpisa_fail(-ETIMEDOUT, "as if the deadline had passed"));
	else if (end == 1)
		assert_int_equal(fpisa_rejoin(f), 0);
	if (end < 2 && !done)
		assert_true(fpisa_wait(&r, NULL) < 0 || (done = 1));
	fpisa_close(f);
	if (!done && memcmp(v, before, size))
		fail_msg("format %u, %zu elements, end %d: the array is not as before", mo.format, count, end);
	if (part.end < count || part.first) {
		assert_memory_equal(v, before, first);
		assert_memory_equal(v + behind, before + behind, size - behind);
	}
	fpisa_mem_destroy(m);
	free(v);
	free(before);
}

static void restored_arrays(void **state)
{
	uint64_t random = test_seed();

	(void)state;
	for (int i = 0; i < 300; i++)
		restored_array(&random);
}

/*
 * Make a call of one rank in place that fails when the first window has its results, without options.restore. It keeps
 * the elements from `first` on.
 */
static void fail_in_place(void *v, size_t count, const struct fpisa_mem_options *mo, enum fpisa_operation op,
			  size_t first)
{
	const struct fpisa_options o = {.size = sizeof(o)};
	struct fpisa_request *r;
	struct fpisa_mem *m;
	struct fpisa *f;
	int done;

	assert_int_equal(fpisa_mem_create(&m, mo), 0);
	assert_int_equal(fpisa_mem_connect(&f, m, 0, &o), 0);
	assert_int_equal(start_part(f, v, count, mo->format, op, (struct fpisa_part){first, count}, &r), 0);
	assert_int_equal(fpisa_test(&r, &done, NULL), 0);
	assert_false(done);
	fpisa_poison(f, fpisa_fail(-ETIMEDOUT, "as if the deadline had passed"));
	assert_int_equal(fpisa_wait(&r, NULL), -ETIMEDOUT);
	fpisa_close(f);
	fpisa_mem_destroy(m);
}

/* Sum in another job, as after leaving and joining again. Return the error. */
static int sum_again(void *v, void *to, size_t count, const struct fpisa_mem_options *mo)
{
	struct fpisa_mem *m;
	struct fpisa *f;
	int rc;

	assert_int_equal(fpisa_mem_create(&m, mo), 0);
	assert_int_equal(fpisa_mem_connect(&f, m, 0, NULL), 0);
	rc = fpisa_allreduce(f, v, to, count, (enum fpisa_dtype)mo->format, NULL);
	assert_true(!rc || (rc == -EUCLEAN && strstr(fpisa_error(), "contain sums of a failed in-place call")));
	fpisa_close(f);
	fpisa_mem_destroy(m);
	return rc;
}

/* Check that the array of a failed call, or a part of it, is refused as input until the program writes it again. */
static void not_summed_twice(void **state)
{
	static const uint8_t formats[] = {FPISA_FORMAT_FP32, FPISA_FORMAT_FP64,	  FPISA_FORMAT_BF16,
					  FPISA_FORMAT_E4M3, FPISA_FORMAT_MXINT8, FPISA_FORMAT_INT32};
	uint64_t random = test_seed();

	(void)state;
	for (int round = 0; round < 200; round++) {
		const uint8_t kind = formats[test_random(&random) % sizeof(formats)];
		const enum fpisa_operation op = kind == FPISA_FORMAT_INT32 ? FPISA_SUM : FPISA_SCALE;
		const struct fpisa_mem_options mo = {.size = sizeof(mo),
						     .workers = 1,
						     .elements = ELEMENTS * (1 + (uint32_t)(test_random(&random) % 3)),
						     .window = WINDOW,
						     .format = kind,
						     .mode = FPISA_MODE_FPISA};
		const struct fpisa_format format = fpisa_format_of(kind);
		const size_t chunks = 2 * WINDOW + test_random(&random) % 9, count = mo.elements * chunks,
			     size = count * format.bytes + (format.shared ? count / ELEMENTS : 0),
			     first = format.shared ? 0 : test_random(&random) % 2 * (test_random(&random) % mo.elements),
			     at = first * format.bytes;
		unsigned char *v = malloc(size), *w = malloc(size), *before = malloc(size);
		size_t changed = 0, last = 0;

		/* Numbers of every format. They are threes and fours, whose sum over one rank is unchanged. */
		for (size_t i = 0; i < size; i++)
			before[i] = v[i] = (unsigned char)(0x33 + (test_random(&random) & 1));
		fail_in_place(v, count, &mo, op, first);
		for (size_t i = 0; i < size; i++) {
			changed += v[i] != before[i];
			last = v[i] != before[i] ? i : last;
		}
		assert_int_equal(changed != 0, op == FPISA_SCALE);
		assert_int_equal(sum_again(v, w, count, &mo), changed ? -EUCLEAN : 0);
		assert_int_equal(sum_again(v, v, count, &mo), changed ? -EUCLEAN : 0);
		if (changed && !format.shared) {
			/* All changed chunks except the last are written again. */
			memcpy(v, before, last - (last - at) % (mo.elements * format.bytes));
			assert_int_equal(sum_again(v, v, count, &mo), -EUCLEAN);
		}
		memcpy(v, before, size);
		assert_int_equal(sum_again(v, v, count, &mo), 0);
		memcpy(v, before, size);
		assert_int_equal(sum_again(v, w, count, &mo), 0);
		free(v);
		free(w);
		free(before);
	}
}

/*
 * Check that a minimum may be repeated, as may calls that are not in place. An array whose memory was freed no longer
 * counts.
 */
static void may_be_repeated(void **state)
{
	const struct fpisa_mem_options mo = {
		.size = sizeof(mo), .workers = 1, .elements = ELEMENTS, .window = WINDOW, .format = FPISA_FORMAT_FP32};
	float *v = malloc(LONG * sizeof(*v));

	(void)state;
	fill(v, LONG, 1);
	fail_in_place(v, LONG, &mo, FPISA_MIN, 0);
	assert_int_equal(sum_again(v, v, LONG, &mo), 0);
	fail_in_place(v, LONG, &mo, FPISA_SCALE, 0);
	assert_int_equal(sum_again(v, v, ELEMENTS, &mo), -EUCLEAN);
	assert_int_equal(sum_again(v + LONG - ELEMENTS, v + LONG - ELEMENTS, ELEMENTS, &mo), 0);
	memset(v, 0, LONG * sizeof(*v));
	assert_int_equal(sum_again(v, v, LONG, &mo), 0);
	free(v);
}

/*
 * Check that the memory for failed in-place calls, and for calls in progress, is limited. At the limit a call is
 * refused because of its own size, or because of the memory that other calls hold. A failed call counts only the
 * memory between its changed chunks.
 */
static void bounded(void **state)
{
	const uint64_t most = FPISA_UNCLEAN_MOST;
	const struct fpisa_format format = fpisa_format_of(FPISA_FORMAT_FP32);
	const struct fpisa_options restoring = {.size = sizeof(restoring), .restore = 1, .timeout_ms = 1};
	static float v[3 * ELEMENTS];
	struct fpisa_unclean *u[3];
	struct fpisa_request *r;
	struct fpisa_mem *m;
	struct fpisa *f = alone(&m, NULL);
	const size_t size = (most + 1) * ELEMENTS * sizeof(float);
	float *long_one = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	(void)state;
	assert_ptr_not_equal(long_one, MAP_FAILED);
	assert_int_equal(fpisa_allreduce_start(f, long_one, long_one, size / sizeof(float), FPISA_FLOAT32, &r), -ENOMEM);
	assert_non_null(strstr(fpisa_error(), "may have 67108864 together; split the call"));
	munmap(long_one, size);
	v[0] = 1;
	assert_int_equal(fpisa_allreduce(f, v, v, 3 * ELEMENTS, FPISA_FLOAT32, NULL), 0);
	fpisa_close(f);
	for (int k = 0; k < 2; k++)
		assert_int_equal(fpisa_unclean_new(&u[k], v, most / 2 * ELEMENTS, ELEMENTS, format), 0);
	assert_int_equal(fpisa_unclean_new(&u[2], v, ELEMENTS, ELEMENTS, format), -ENOMEM);
	/* an array that must not be read where no chunk is marked */
	fpisa_unclean_mark(u[0], ELEMENTS, ELEMENTS);
	fpisa_unclean_mark(u[0], 2 * ELEMENTS, ELEMENTS);
	fpisa_unclean_remember(u[0]);
	assert_int_equal(fpisa_unclean_new(&u[0], v, (most / 2 - 1) * ELEMENTS, ELEMENTS, format), -ENOMEM);
	assert_int_equal(fpisa_unclean_new(&u[0], v, (most / 2 - 2) * ELEMENTS, ELEMENTS, format), 0);
	fpisa_unclean_free(u[0]);
	fpisa_unclean_free(u[1]);
	assert_int_equal(fpisa_unclean_refuse(v, sizeof(v)), -EUCLEAN);
	assert_int_equal(fpisa_unclean_refuse(v, 2 * ELEMENTS * sizeof(float)), -EUCLEAN);
	assert_int_equal(fpisa_unclean_refuse(v, ELEMENTS * sizeof(float)), 0);
	assert_int_equal(fpisa_unclean_refuse(v + 3 * ELEMENTS, sizeof(v)), 0);
	v[ELEMENTS] = v[2 * ELEMENTS] = 7;
	assert_int_equal(fpisa_unclean_refuse(v, sizeof(v)), 0);
	for (int k = 0; k < 2; k++)
		assert_int_equal(fpisa_unclean_new(&u[k], v, most / 2 * ELEMENTS, ELEMENTS, format), 0);
	/* Restored calls need none of this memory. */
	assert_int_equal(fpisa_mem_connect(&f, m, 0, &restoring), 0);
	assert_int_equal(fpisa_allreduce(f, v, v, 3 * ELEMENTS, FPISA_FLOAT32, NULL), 0);
	fpisa_close(f);
	fpisa_mem_destroy(m);
	fpisa_unclean_free(u[0]);
	fpisa_unclean_free(u[1]);
}

/*
 * Check that the root's array is refused like an array to be summed if a failed call has changed it. The array of rank
 * 1 is only written.
 */
static void not_broadcast(void **state)
{
	const struct fpisa_mem_options floats = {.size = sizeof(floats),
						 .workers = 1,
						 .elements = ELEMENTS,
						 .window = WINDOW,
						 .format = FPISA_FORMAT_FP32},
				       words = {.size = sizeof(words), .workers = 1, .format = FPISA_FORMAT_INT32};
	static float v[LONG];
	const struct fpisa_call c = {.size = sizeof(c), .count = LONG};
	struct fpisa_request *r = NULL;
	struct fpisa_mem *m;
	struct fpisa *f;

	(void)state;
	fill(v, LONG, 1);
	fail_in_place(v, LONG, &floats, FPISA_SCALE, 0);
	assert_int_equal(fpisa_mem_create(&m, &words), 0);
	assert_int_equal(fpisa_mem_connect(&f, m, 0, NULL), 0);
	assert_int_equal(fpisa_broadcast_start(f, &c, v, sizeof(v), 0, 0, 0, &r), -EUCLEAN);
	assert_null(r);
	assert_int_equal(fpisa_broadcast_start(f, &c, v, sizeof(v), 1, 0, 0, &r), 0);
	assert_int_equal(fpisa_wait(&r, NULL), 0);
	fill(v, LONG, 1);
	assert_int_equal(fpisa_broadcast_start(f, &c, v, sizeof(v), 0, 0, 0, &r), 0);
	assert_int_equal(fpisa_wait(&r, NULL), 0);
	fpisa_close(f);
	fpisa_mem_destroy(m);
}

/*
 * Check that the library keeps no copy of separate arrays, that an overflowed result is delivered, and that older
 * options do not restore.
 */
static void not_restored(void **state)
{
	struct fpisa_options o = {.size = sizeof(o), .restore = 1};
	struct fpisa_mem *m;
	struct fpisa *f = alone(&m, &o);
	struct fpisa_request *r;
	float v[ELEMENTS] = {1}, w[ELEMENTS] = {2};

	(void)state;
	assert_int_equal(fpisa_allreduce_start(f, v, w, ELEMENTS, FPISA_FLOAT32, &r), 0);
	assert_null(r->kept);
	assert_int_equal(fpisa_wait(&r, NULL), 0);
	assert_true(v[0] == 1 && w[0] == 1);
	v[0] = 0x1p127f;
	assert_int_equal(fpisa_allreduce_op(f, v, v, ELEMENTS, FPISA_FLOAT32, FPISA_SCALE, 4, NULL), -ERANGE);
	assert_true(v[0] != 0x1p127f);
	fpisa_close(f);
	o.size = offsetof(struct fpisa_options, restore);
	assert_int_equal(fpisa_mem_connect(&f, m, 0, &o), 0);
	assert_int_equal(fpisa_allreduce_start(f, v, v, ELEMENTS, FPISA_FLOAT32, &r), 0);
	assert_null(r->kept);
	fpisa_close(f);
	fpisa_mem_destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(retried_in_place), cmocka_unit_test(restored_in_a_row),
		cmocka_unit_test(restored_arrays),  cmocka_unit_test(not_summed_twice),
		cmocka_unit_test(may_be_repeated),  cmocka_unit_test(bounded),
		cmocka_unit_test(not_broadcast),    cmocka_unit_test(not_restored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
