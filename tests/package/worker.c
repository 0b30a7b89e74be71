// SPDX-License-Identifier: GPL-2.0-only
/*
 * A worker built from the installed packages: ADDRESS JOB STOP. It sums repeatedly until any rank finds the file STOP.
 * The last element of each sum tells all ranks whether a rank has found the file. At the end the worker prints its
 * calls and mismatches.
 */
#include <fpisa.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define COUNT 20000

int main(int argc, char **argv)
{
	struct fpisa_options o = {.size = sizeof(o), .timeout_ms = 60000};
	struct fpisa_info info = {.size = sizeof(info)};
	unsigned long calls = 0, mismatches = 0;
	static float v[COUNT + 1];
	struct fpisa *f;

	if (argc != 4 || fpisa_connect(&f, argv[1], atoi(argv[2]), &o) || fpisa_get_info(f, &info))
		goto failed;
	do {
		int ranks = info.workers * (info.workers + 1) / 2;

		for (int i = 0; i < COUNT; i++)
			v[i] = (info.rank + 1) * (i % 1000 + 1);
		v[COUNT] = !access(argv[3], F_OK);
		if (fpisa_allreduce(f, v, v, COUNT + 1, FPISA_FLOAT32, NULL))
			goto failed;
		for (int i = 0; i < COUNT; i++)
			mismatches += v[i] != ranks * (i % 1000 + 1);
		calls++;
	} while (v[COUNT] == 0);
	fpisa_close(f);
	printf("%lu calls, %lu mismatches\n", calls, mismatches);
	return mismatches != 0;
failed:
	fprintf(stderr, "%s\n", fpisa_error());
	return 1;
}
