/* SPDX-License-Identifier: GPL-2.0-only */
/* Test the library's calls on each type of value: sums, padding, refusals, and the settings for overflow. */
#include "values/pack.h"
#include "workers.h"

#define COUNT 777

static const struct {
	const char *name;
	enum fpisa_dtype type;
} types[] = {
	{"float32", FPISA_FLOAT32}, {"float16", FPISA_FLOAT16}, {"bfloat16", FPISA_BFLOAT16},
	{"float64", FPISA_FLOAT64}, {"e4m3", FPISA_E4M3},	{"e5m2", FPISA_E5M2},
};

#define TYPES ((int)(sizeof(types) / sizeof(types[0])))

static struct fpisa_format format_of(enum fpisa_dtype type)
{
	return fpisa_format_of((uint8_t)type);
}

/* One call by two ranks with the same vector. The second rank is a thread. */
struct call {
	struct fpisa_mem *m;
	struct fpisa_options options;
	enum fpisa_dtype type;
	const void *send;
	size_t count;
	void *recv;
	int rc[2];
	uint32_t flags;
	int polled;	 /* rank 0 calls fpisa_test() */
	int again;	 /* result of one more call, of zeros, by rank 0 */
	char error[512]; /* error message of rank 0 */
};

static void rank_call(struct call *c, uint32_t rank)
{
	static const char zeros[8];
	struct fpisa_request *r = NULL;
	uint64_t scratch[COUNT];
	struct fpisa *f = NULL;
	char rest[8];
	int done = 0;

	c->rc[rank] = fpisa_mem_connect(&f, c->m, rank, &c->options);
	if (c->rc[rank])
		return;
	if (rank) {
		c->rc[1] = fpisa_allreduce(f, c->send, scratch, c->count, c->type, NULL);
		fpisa_allreduce(f, zeros, rest, 1, c->type, NULL);
	} else {
		c->rc[0] = fpisa_allreduce_start(f, c->send, c->recv, c->count, c->type, &r);
		while (c->polled && !c->rc[0] && !done)
			c->rc[0] = fpisa_test(&r, &done, &c->flags);
		if (!c->polled && !c->rc[0])
			c->rc[0] = fpisa_wait(&r, &c->flags);
		snprintf(c->error, sizeof(c->error), "%s", fpisa_error());
		c->again = r ? -EBUSY : c->polled && !done ? -EAGAIN : 0;
		if (!c->again)
			c->again = fpisa_allreduce(f, zeros, rest, 1, c->type, NULL);
	}
	fpisa_close(f);
}

static void *rank_one(void *arg)
{
	rank_call(arg, 1);
	return NULL;
}

static void run(struct call *c, uint8_t mode)
{
	const struct fpisa_mem_options o = {
		.size = sizeof(o), .workers = 2, .window = 2, .format = (uint8_t)c->type, .mode = mode};
	pthread_t thread;

	if (!c->options.size)
		c->options.size = sizeof(c->options);
	c->flags = 0;
	assert_int_equal(fpisa_mem_create(&c->m, &o), 0);
	assert_int_equal(pthread_create(&thread, NULL, rank_one, c), 0);
	rank_call(c, 0);
	pthread_join(thread, NULL);
	fpisa_mem_destroy(c->m);
}

/*
 * Check small whole numbers, which are exact in every type, with a count that is not a multiple of a block. Bytes after
 * the array do not change.
 */
static void sums(void **state)
{
	(void)state;
	for (int t = 0; t < TYPES; t++) {
		for (uint8_t mode = FPISA_MODE_FPISA; mode < FPISA_MODE_END; mode++) {
			const struct fpisa_format f = format_of(types[t].type);
			uint64_t send[COUNT], recv[COUNT + 1];
			struct call c = {.type = types[t].type, .send = send, .recv = recv, .count = COUNT};

			memset(recv, 0xa5, sizeof(recv));
			for (int i = 0; i < COUNT; i++)
				fpisa_put_word(send, i, f, pack_value(f, i % 7 - 3));
			c.options.loss = 0.1;
			run(&c, mode);
			if (c.rc[0] || c.rc[1] || c.flags || c.again)
				fail_msg("%s mode %d: %d %d, flags %x: %s", types[t].name, mode, c.rc[0], c.rc[1],
					 c.flags, c.error);
			for (int i = 0; i < COUNT; i++)
				if (unpack_value(f, fpisa_get_word(recv, i, f)) != 2 * (i % 7 - 3))
					fail_msg("%s mode %d element %d", types[t].name, mode, i);
			for (size_t at = COUNT * f.bytes; at < sizeof(recv); at++)
				assert_int_equal(((unsigned char *)recv)[at], 0xa5);
		}
	}
}

static void wrong_type(void **state)
{
	(void)state;
	for (int t = 0; t < TYPES; t++) {
		const struct fpisa_mem_options o = {.size = sizeof(o), .workers = 1, .format = (uint8_t)types[t].type};
		struct fpisa_info info = {.size = sizeof(info)};
		const size_t bytes = format_of(types[t].type).bytes;
		uint64_t v[4] = {0};
		char *at = (char *)v;
		struct fpisa_mem *m;
		struct fpisa *f;

		assert_int_equal(fpisa_mem_create(&m, &o), 0);
		assert_int_equal(fpisa_mem_connect(&f, m, 0, NULL), 0);
		for (int other = 0; other < TYPES; other++) {
			int rc = fpisa_allreduce(f, v, v, 4, types[other].type, NULL);

			assert_int_equal(rc, other == t ? 0 : -EINVAL);
			if (rc) {
				assert_non_null(strstr(fpisa_error(), types[t].name));
				assert_non_null(strstr(fpisa_error(), types[other].name));
			}
		}
		assert_int_equal(fpisa_allreduce(f, v, v, 4, (enum fpisa_dtype)0, NULL), -EINVAL);
		assert_int_equal(fpisa_allreduce(f, v, v, 4, (enum fpisa_dtype)77, NULL), -EINVAL);
		/* The check for overlap compares bytes. */
		assert_int_equal(fpisa_allreduce(f, v, at + 2 * bytes, 2, types[t].type, NULL), 0);
		assert_int_equal(fpisa_allreduce(f, at + 2 * bytes, v, 2, types[t].type, NULL), 0);
		assert_int_equal(fpisa_allreduce(f, v, at + bytes, 2, types[t].type, NULL), -EINVAL);
		assert_int_equal(fpisa_allreduce(f, at + bytes, v, 2, types[t].type, NULL), -EINVAL);
		assert_int_equal(fpisa_get_info(f, &info), 0);
		assert_int_equal(info.format, types[t].type);
		assert_int_equal(info.elements, types[t].type == FPISA_FLOAT64 ? 128 : 256);
		assert_int_equal(info.rounding, FPISA_ROUND_DOWN);
		fpisa_close(f);
		fpisa_mem_destroy(m);
	}
}

/* Check the largest FP16 value when two ranks contribute it. */
static void overflow(uint8_t mode, enum fpisa_overflow policy, size_t size, int polled, int want)
{
	const uint16_t send[2] = {0x7bff, 0x3c00};
	uint16_t recv[2] = {0};
	struct call c = {.type = FPISA_FLOAT16, .send = send, .recv = recv, .count = 2, .polled = polled};

	c.options.size = size;
	c.options.overflow = policy;
	run(&c, mode);
	assert_int_equal(c.rc[0], want);
	assert_int_equal(c.rc[1], want);
	assert_int_equal(c.flags, FPISA_RESULT_OVERFLOW | FPISA_RESULT_INEXACT | FPISA_RESULT_INF);
	assert_int_equal(recv[0], 0x7c00);
	assert_int_equal(recv[1], 0x4000);
	assert_int_equal(c.again, 0);
	if (want)
		assert_non_null(strstr(c.error, "overflow"));
}

static void overflow_policy(void **state)
{
	const size_t size = sizeof(struct fpisa_options), old = offsetof(struct fpisa_options, overflow);

	(void)state;
	for (int polled = 0; polled < 2; polled++) {
		overflow(FPISA_MODE_FPISA, FPISA_OVERFLOW_DEFAULT, size, polled, -ERANGE);
		overflow(FPISA_MODE_EXACT, FPISA_OVERFLOW_DEFAULT, size, polled, -ERANGE);
		overflow(FPISA_MODE_FPISA_A, FPISA_OVERFLOW_DEFAULT, size, polled, 0);
		overflow(FPISA_MODE_FPISA64, FPISA_OVERFLOW_ERROR, size, polled, -ERANGE);
		overflow(FPISA_MODE_FPISA_A, FPISA_OVERFLOW_ERROR, size, polled, -ERANGE);
		overflow(FPISA_MODE_FPISA, FPISA_OVERFLOW_FLAG, size, polled, 0);
	}
	/* Pass the struct of a caller that was built before the option existed. */
	overflow(FPISA_MODE_FPISA, FPISA_OVERFLOW_FLAG, old, 0, -ERANGE);
}

static void bad_policy(void **state)
{
	const struct fpisa_mem_options o = {.size = sizeof(o), .workers = 1};
	const struct fpisa_options options = {.size = sizeof(options), .overflow = FPISA_OVERFLOW_FLAG + 1};
	struct fpisa_mem *m;
	struct fpisa *f;

	(void)state;
	assert_int_equal(fpisa_mem_create(&m, &o), 0);
	assert_int_equal(fpisa_mem_connect(&f, m, 0, &options), -EINVAL);
	fpisa_mem_destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums),
		cmocka_unit_test(wrong_type),
		cmocka_unit_test(overflow_policy),
		cmocka_unit_test(bad_policy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
