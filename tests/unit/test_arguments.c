/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Over the transport `mem`, the public functions refuse bad arguments. A refused argument is not an error of the
 * handle.
 */
#include "workers.h"

/* Create an aggregator for one rank with 32 elements and window 4. */
static struct fpisa_mem *make_mem(void)
{
	const struct fpisa_mem_options o = {.size = sizeof(o), .workers = 1, .elements = 32, .window = 4};
	struct fpisa_mem *m;

	if (fpisa_mem_create(&m, &o))
		fail_msg("%s", fpisa_error());
	return m;
}

/*
 * Check that options that no job can have are refused before the manager gets a request, so that other ranks are not
 * disturbed.
 */
static void options_of_a_group(void **state)
{
	static const struct {
		uint32_t window;
		uint16_t elements;
		const char *says;
	} cases[] = {
		{3, 0, "options.window is 3; it must be a power of two up to 1024, or 0"},
		{2048, 0, "options.window is 2048; it must be a power of two up to 1024, or 0"},
		{1u << 31, 0, "options.window is 2147483648"},
		{0, 33, "options.elements is 33; it must be a multiple of 32 up to 832, or 0"},
		{64, 864, "options.elements is 864; it must be a multiple of 32 up to 832, or 0"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct fpisa_group_options o = {
			.size = sizeof(o), .window = cases[i].window, .elements = cases[i].elements};
		struct fpisa_group *g;

		assert_int_equal(fpisa_group_join(&g, "127.0.0.1:1", "group", 0, 1, &o), -EINVAL);
		assert_null(g);
		assert_non_null(strstr(fpisa_error(), cases[i].says));
	}
}

/* Check that NULL gives an error and no crash for each pointer that is needed. */
static void null_arguments(void **state)
{
	struct fpisa_mem *m = make_mem(), *bad;
	struct fpisa_call c = {.size = sizeof(c), .count = 1, .type = FPISA_FLOAT32, .op = FPISA_SUM};
	struct fpisa_info info = {.size = sizeof(info)};
	struct fpisa_request *r = NULL;
	struct fpisa *f;
	float v = 1;
	int done;

	(void)state;
	c.send = c.recv = &v;
	assert_int_equal(fpisa_connect(NULL, "127.0.0.1", 0, NULL), -EINVAL);
	assert_int_equal(fpisa_mem_create(NULL, &(struct fpisa_mem_options){.size = 1}), -EINVAL);
	assert_int_equal(fpisa_mem_create(&bad, NULL), -EINVAL);
	assert_null(bad);
	assert_int_equal(fpisa_mem_connect(NULL, m, 0, NULL), -EINVAL);
	assert_int_equal(fpisa_mem_connect(&f, NULL, 0, NULL), -EINVAL);
	assert_null(f);
	assert_int_equal(fpisa_allreduce(NULL, &v, &v, 1, FPISA_FLOAT32, NULL), -EINVAL);
	assert_non_null(strstr(fpisa_error(), "NULL"));
	assert_int_equal(fpisa_allreduce_start(NULL, &v, &v, 1, FPISA_FLOAT32, &r), -EINVAL);
	assert_int_equal(fpisa_start(NULL, &c, &r), -EINVAL);
	assert_int_equal(fpisa_rejoin(NULL), -EINVAL);
	assert_int_equal(fpisa_get_info(NULL, &info), -EINVAL);
	assert_true(fpisa_missing(NULL) == 0);
	assert_int_equal(fpisa_wait(NULL, NULL), -EINVAL);
	assert_int_equal(fpisa_test(NULL, &done, NULL), -EINVAL);
	fpisa_close(NULL);
	fpisa_mem_destroy(NULL);

	assert_int_equal(fpisa_mem_connect(&f, m, 0, NULL), 0);
	assert_int_equal(fpisa_get_info(f, NULL), -EINVAL);
	assert_int_equal(fpisa_start(f, NULL, &r), -EINVAL);
	assert_null(r);
	assert_int_equal(fpisa_start(f, &c, NULL), -EINVAL);
	assert_int_equal(fpisa_start(f, &c, &r), 0);
	assert_int_equal(fpisa_test(&r, NULL, NULL), -EINVAL);
	assert_int_equal(fpisa_wait(&r, NULL), 0);
	fpisa_close(f);
	fpisa_mem_destroy(m);
}

static void arguments(void **state)
{
	struct fpisa_mem *m = make_mem(), *bad;
	struct fpisa_options o = {.size = 3};
	struct fpisa_info info = {.size = sizeof(info)};
	struct fpisa *f, *g;
	static const uint8_t no_flags[] = {FPISA_JOB_HISTOGRAM, 0x10, 0x80, 0xff};
	static const char *const no_host[] = {"239.1.1.1", "224.0.0.1:18000", "255.255.255.255",
					      "0.0.0.0",   "0.0.0.1",	      "240.0.0.1"};
	struct fpisa_request *none = NULL;
	float v[4] = {1, 2, 3, 4};
	int done;

	(void)state;
	assert_int_equal(fpisa_mem_create(&bad, &(struct fpisa_mem_options){.size = sizeof(struct fpisa_mem_options)}),
			 -EINVAL);
	assert_int_equal(fpisa_mem_create(&bad, &(struct fpisa_mem_options){.size = sizeof(struct fpisa_mem_options),
									    .workers = 1,
									    .elements = 33}),
			 -EINVAL);
	assert_int_equal(fpisa_mem_create(&bad, &(struct fpisa_mem_options){.size = sizeof(struct fpisa_mem_options),
									    .workers = 1,
									    .window = 3}),
			 -EINVAL);
	assert_int_equal(fpisa_mem_create(&bad, &(struct fpisa_mem_options){.size = sizeof(struct fpisa_mem_options),
									    .workers = 1,
									    .mode = 9}),
			 -EINVAL);
	for (size_t i = 0; i < sizeof(no_flags); i++)
		assert_int_equal(
			fpisa_mem_create(&bad, &(struct fpisa_mem_options){.size = sizeof(struct fpisa_mem_options),
									   .workers = 1,
									   .flags = no_flags[i]}),
			-EINVAL);
	assert_null(bad);
	assert_int_equal(fpisa_mem_connect(&f, m, 1, NULL), -EINVAL);
	assert_int_equal(fpisa_mem_connect(&f, m, 0, &o), -EINVAL);
	o = (struct fpisa_options){.size = sizeof(o), .loss = 1};
	assert_int_equal(fpisa_mem_connect(&f, m, 0, &o), -EINVAL);
	assert_null(f);
	assert_int_equal(fpisa_connect(&f, "not an address", 0, NULL), -EINVAL);
	assert_int_equal(fpisa_connect(&f, "127.0.0.1:123456", 0, NULL), -EINVAL);
	assert_int_equal(fpisa_connect(&f, "127.0.0.1:", 0, NULL), -EINVAL);
	assert_int_equal(fpisa_connect(&f, NULL, 0, NULL), -EINVAL);
	assert_non_null(strstr(fpisa_error(), "is not an address"));
	for (size_t i = 0; i < sizeof(no_host) / sizeof(no_host[0]); i++) {
		assert_int_equal(fpisa_connect(&f, no_host[i], 0, NULL), -EINVAL);
		assert_non_null(strstr(fpisa_error(), "is not the address of a host"));
	}
	assert_int_equal(fpisa_connect(&f, "127.0.0.1", FPISA_MAX_JOBS, NULL), -EINVAL);
	assert_string_equal(fpisa_error(), "job is 64; it must be in 0..63");

	assert_int_equal(fpisa_mem_connect(&f, m, 0, NULL), 0);
	assert_int_equal(fpisa_mem_connect(&g, m, 0, NULL), -EBUSY);
	assert_int_equal(fpisa_allreduce(f, v, NULL, 1, FPISA_FLOAT32, NULL), -EINVAL);
	assert_int_equal(fpisa_allreduce(f, v, v + 1, 3, FPISA_FLOAT32, NULL), -EINVAL);
	assert_int_equal(fpisa_allreduce(f, NULL, v, 3, FPISA_FLOAT32, NULL), -EINVAL);
	assert_int_equal(fpisa_wait(&none, NULL), -EINVAL);
	assert_int_equal(fpisa_test(&none, &done, NULL), -EINVAL);
	/* The handle still works. */
	assert_int_equal(fpisa_allreduce(f, v, v, 4, FPISA_FLOAT32, NULL), 0);
	assert_true(v[0] == 1 && v[3] == 4);
	assert_int_equal(fpisa_get_info(f, &info), 0);
	assert_int_equal(info.workers, 1);
	assert_int_equal(info.elements, 32);
	assert_int_equal(info.window, 4);
	assert_int_equal(info.mode, FPISA_MODE_FPISA);
	assert_int_equal(info.pipeline, FPISA_PIPELINE_FUSED);
	fpisa_close(f);
	fpisa_close(NULL);
	fpisa_mem_destroy(m);
	fpisa_mem_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arguments),
		cmocka_unit_test(options_of_a_group),
		cmocka_unit_test(null_arguments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
