// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * A rank of a group, which sums a vector with the other ranks, and checks the sum.
 *
 *	group NAME RANK SIZE [COUNT [MODE]]
 *
 * FPISA_MANAGER names the host of `fpisa serve`, and FPISA_KEY names the key file.
 * MODE is fpisa (default), fpisa-a, fpisa64 or exact; all ranks give the same mode. Values are as in allreduce.c.
 */
#include <fpisa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Return the enum fpisa_job_mode of this name, or 0 if there is no such mode. */
static uint8_t mode_of(const char *name)
{
	static const char *const names[] = {[FPISA_JOB_MODE_FPISA] = "fpisa",
					    [FPISA_JOB_MODE_FPISA_A] = "fpisa-a",
					    [FPISA_JOB_MODE_FPISA64] = "fpisa64",
					    [FPISA_JOB_MODE_EXACT] = "exact"};
	uint8_t mode = FPISA_JOB_MODE_EXACT;

	while (mode && strcmp(name, names[mode]) != 0)
		mode--;
	return mode;
}

int main(int argc, char **argv)
{
	struct fpisa_group_options options = {
		.size = sizeof(options), .join_timeout_ms = 30000, .mode = mode_of(argc > 5 ? argv[5] : "fpisa")};
	size_t count = argc > 4 ? strtoull(argv[4], NULL, 10) : 1000000, wrong = 0;
	unsigned int rank = argc > 3 ? (unsigned int)atoi(argv[2]) : 0,
		     size = argc > 3 ? (unsigned int)atoi(argv[3]) : 0;
	struct fpisa_group *g = NULL;
	uint32_t flags = 0;
	float *v = NULL;
	int status = 1;

	if (argc < 4 || argc > 6 || !count || rank >= size || !options.mode) {
		fprintf(stderr, "usage: group NAME RANK SIZE [COUNT [MODE]]\n");
		return 2;
	}
	v = malloc(count * sizeof(*v));
	if (!v) {
		perror("group");
		return 1;
	}
	for (size_t i = 0; i < count; i++)
		v[i] = rank + 1 + i % 1000;
	if (fpisa_group_join(&g, NULL, argv[1], rank, size, &options) ||
	    fpisa_group_allreduce(g, v, v, count, FPISA_FLOAT32, FPISA_SUM, 1, &flags))
		goto failed;
	for (size_t i = 0; i < count; i++)
		wrong += v[i] != size * (size + 1) / 2 + size * (i % 1000);
	printf("rank %u of %u: %zu elements, flags %#x\n%zu wrong\n", rank, size, count, flags, wrong);
	status = wrong != 0;
	goto out;
failed:
	fprintf(stderr, "group: %s\n", fpisa_error());
out:
	fpisa_group_leave(g);
	free(v);
	return status;
}
