/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * libFuzzer target: files of values, raw and .npy (user/lab/values/gradients.c, npy.c). The first byte chooses the
 * format of a raw file, the second the number of rows, and the other bytes are the file. The target reads every value
 * of an accepted file.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "lab/values/gradients.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gradients g = GRADIENTS_INIT;
	struct fpisa_format raw;
	double sum = 0;
	char path[64];
	int fd;

	if (size < 2)
		return 0;
	raw = fpisa_format_of((uint8_t)(1 + data[0] % (FPISA_FORMAT_END - 1)));
	fd = memfd_create("gradients", MFD_CLOEXEC);
	if (fd < 0 || write(fd, data + 2, size - 2) != (ssize_t)size - 2)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (!gradients_open(&g, path, raw) && !gradients_split(&g, 1 + data[1] % 64u, "--rows"))
		for (uint32_t r = 0; r < g.rows; r++)
			for (uint64_t e = 0; e < g.elements; e++)
				sum += gradients_value(&g, r, e);
	__asm__ volatile("" : : "m"(sum));
	gradients_close(&g);
	close(fd);
	return 0;
}
