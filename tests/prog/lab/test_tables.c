// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel performs the advanced operations through its maps. The bits before and after packing equal those of user
 * space.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <bpf/libbpf.h>

#include "lab/tables/tables.h"
#include "vectors.h"

static struct fpisa_tables_bpf *kernel;

static int quiet(enum libbpf_print_level level, const char *format, va_list args)
{
	return level == LIBBPF_WARN ? vfprintf(stderr, format, args) : 0;
}

static int setup(void **state)
{
	int err;

	(void)state;
	tables_fill();
	libbpf_set_print(quiet);
	err = tables_kernel_open(&kernel);
	if (err && err != -EPERM) {
		fprintf(stderr, "load: %s\n", strerror(-err));
		return -1;
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	tables_kernel_close(kernel);
	return 0;
}

#define NEED_KERNEL()                                                                                \
	do {                                                                                         \
		if (!kernel) {                                                                       \
			print_message("skip: loading BPF programs is not permitted; run as root\n"); \
			skip();                                                                      \
		}                                                                                    \
	} while (0)

static void compare(const struct fpisa_run *operands)
{
	struct fpisa_run k = *operands, u = *operands;

	tables_user_run(&u);
	assert_int_equal(tables_kernel_run(kernel, &k), 0);
	for (uint32_t i = 0; i < k.count; i++)
		if (memcmp(&k.item[i], &u.item[i], sizeof(u.item[i])))
			fail_msg("function %u format %u rounding %u of %x, %x: kernel %x, user space %x", k.function,
				 k.format, k.rounding, operands->item[i].a, operands->item[i].b, k.item[i].a,
				 u.item[i].a);
}

static const __u32 formats[] = {FPISA_FORMAT_FP32, FPISA_FORMAT_FP16, FPISA_FORMAT_BF16, FPISA_FORMAT_E4M3,
				FPISA_FORMAT_E5M2};

#define FORMATS (sizeof(formats) / sizeof(formats[0]))

static void any_word(void **state)
{
	struct vectors_rng rng;

	(void)state;
	NEED_KERNEL();
	rng.state = vectors_seed();
	for (uint32_t k = 0; k < 100 * FORMATS * FPISA_FUNCTIONS; k++) {
		struct fpisa_run r = {.function = k % FPISA_FUNCTIONS,
				      .format = formats[k / FPISA_FUNCTIONS % FORMATS],
				      .rounding = FPISA_ROUND_DOWN + vectors_below(&rng, 2),
				      .count = FPISA_RUN_ITEMS};
		uint32_t all = (uint32_t)((1ull << (8 * fpisa_format_of((__u8)r.format).bytes)) - 1);

		for (uint32_t i = 0; i < r.count; i++) {
			r.item[i].a = (uint32_t)vectors_next(&rng) & all;
			r.item[i].b = (uint32_t)vectors_next(&rng) & all;
		}
		compare(&r);
	}
}

/* Check all words of 8 and 16 bits with the functions that have one operand. */
static void every_word(void **state)
{
	(void)state;
	NEED_KERNEL();
	for (size_t k = 1; k < FORMATS; k++) {
		uint32_t words = 1u << (8 * fpisa_format_of((__u8)formats[k]).bytes);

		for (uint32_t a = 0; a < words * (FPISA_FUNCTIONS - 1); a += FPISA_RUN_ITEMS) {
			struct fpisa_run r = {.function = FPISA_RECIPROCAL + a / words,
					      .format = formats[k],
					      .rounding = FPISA_ROUND_NEAREST,
					      .count = FPISA_RUN_ITEMS};

			for (uint32_t i = 0; i < r.count; i++)
				r.item[i].a = (a + i) % words;
			compare(&r);
		}
	}
}

/* Check that the kernel validates every field that user space sets. */
static void bad_runs(void **state)
{
	struct fpisa_run good = {.function = FPISA_SQRT,
				 .format = FPISA_FORMAT_FP32,
				 .rounding = FPISA_ROUND_NEAREST,
				 .count = 1},
			 r;

	(void)state;
	NEED_KERNEL();
	good.item[0].a = 0x40800000;
	r = good;
	assert_int_equal(tables_kernel_run(kernel, &r), 0);
	assert_int_equal(r.item[0].a, 0x40000000);
	r = good;
	r.function = FPISA_FUNCTIONS;
	assert_int_equal(tables_kernel_run(kernel, &r), -EINVAL);
	r = good;
	r.format = FPISA_FORMAT_FP64;
	assert_int_equal(tables_kernel_run(kernel, &r), -EINVAL);
	r = good;
	r.format = 0x100 + FPISA_FORMAT_FP32;
	assert_int_equal(tables_kernel_run(kernel, &r), -EINVAL);
	r = good;
	r.count = FPISA_RUN_ITEMS + 1;
	assert_int_equal(tables_kernel_run(kernel, &r), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_word),
		cmocka_unit_test(every_word),
		cmocka_unit_test(bad_runs),
	};

	return cmocka_run_group_tests_name("prog/tables", tests, setup, teardown);
}
