/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * libFuzzer target: a received partial (include/fpisa/partial.h). The target writes an accepted partial back, reads it
 * again with the same result, and merges it.
 */
#include <stdlib.h>
#include <string.h>
#include "fpisa/partial.h"
#include "../../adapters/python/sums/sums.h"

int LLVMFuzzerTestOneInput(const __u8 *data, size_t size);

static void check(const void *data, size_t size, struct fpisa_format f)
{
	__u8 first[FPISA_PARTIAL_MOST], second[FPISA_PARTIAL_MOST];
	union fpisa_superacc_full read, again;
	__u32 bytes, flags = 0;
	const char *why;
	__u64 sum;

	if (fpisa_partial_read(data, size, f, &read, &why))
		return;
	bytes = fpisa_partial_write(&read.acc, f, first);
	sum = fpisa_superacc_read(&read.acc, f, f, 0, &flags);
	fpisa_superacc_narrow(&read.acc);
	if (fpisa_partial_read(first, bytes, f, &again, &why) || fpisa_superacc_read(&again.acc, f, f, 0, &flags) != sum)
		abort();
	if (fpisa_partial_write(&again.acc, f, second) != bytes || memcmp(first, second, bytes))
		abort();
	if (fpisa_superacc_merge(&again.acc, &read.acc) == -ENOSPC)
		abort();
}

/*
 * Check fpisa.Accumulator.from_bytes(). The sum must equal the value in the bytes, and a sum merged with itself must
 * have twice the rows.
 */
static void check_accumulator(const void *data, size_t size)
{
	__u8 first[FPISA_PARTIAL_MOST], second[FPISA_PARTIAL_MOST];
	union fpisa_superacc_full a, b;
	const char *why;
	__u32 bytes;

	if (sums_parse(&a, data, size, &why))
		return;
	bytes = sums_write(&a, first);
	if (sums_parse(&b, first, bytes, &why) || sums_write(&b, second) != bytes || memcmp(first, second, bytes))
		abort();
	if (!sums_merge(&a, &b) && a.acc.rows != 2 * b.acc.rows)
		abort();
	(void)sums_read(&a, FPISA_FORMAT_FP16, 1);
}

int LLVMFuzzerTestOneInput(const __u8 *data, size_t size)
{
	check(data, size, fpisa_superacc_format(FPISA_FORMAT_FP32));
	check(data, size, fpisa_superacc_format(FPISA_FORMAT_FP64));
	check_accumulator(data, size);
	return 0;
}
