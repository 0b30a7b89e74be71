// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * A worker, which sums a vector with the other workers of a job, and checks the sum.
 *
 *	allreduce ADDRESS JOB [COUNT]
 *
 * Rank r gives r + 1 + i mod 1000 as its element i. All values and sums are
 * integers below 2^24, which float32 represents exactly.
 */
#include <errno.h>
#include <fpisa.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	struct fpisa_options options = {.size = sizeof(options), .timeout_ms = 30000, .restore = 1};
	struct fpisa_info info = {.size = sizeof(info)};
	size_t count = argc > 3 ? strtoull(argv[3], NULL, 10) : 1000000, wrong = 0;
	char *end = NULL;
	unsigned long job = argc > 2 ? strtoul(argv[2], &end, 10) : 0;
	struct fpisa *f = NULL;
	uint32_t flags = 0;
	float *v = NULL;
	double start;
	int status = 1, tries = 3, rc;

	if (argc < 3 || argc > 4 || !count || end == argv[2] || *end) {
		fprintf(stderr, "usage: allreduce ADDRESS JOB [COUNT]\n");
		return 2;
	}
	v = malloc(count * sizeof(*v));
	if (!v) {
		perror("allreduce");
		goto out;
	}
	if (fpisa_connect(&f, argv[1], job, &options) || fpisa_get_info(f, &info))
		goto failed;
	for (size_t i = 0; i < count; i++)
		v[i] = info.rank + 1 + i % 1000;
	start = seconds();
	while ((rc = fpisa_allreduce(f, v, v, count, FPISA_FLOAT32, &flags)) == -ETIMEDOUT && tries--) {
		/* With .restore v has its old contents, so repeat the call as soon as all ranks have joined again. */
		fprintf(stderr, "allreduce: %s; trying again\n", fpisa_error());
		if (fpisa_rejoin(f))
			goto failed;
	}
	if (rc)
		goto failed;
	printf("rank %" PRIu32 " of %" PRIu32 ": %zu elements in %.1f ms, flags %#" PRIx32 "\n", info.rank,
	       info.workers, count, (seconds() - start) * 1e3, flags);
	for (size_t i = 0; i < count; i++)
		wrong += v[i] != info.workers * (info.workers + 1) / 2 + info.workers * (i % 1000);
	printf("%zu wrong\n", wrong);
	status = wrong != 0;
	goto out;
failed:
	fprintf(stderr, "allreduce: %s\n", fpisa_error());
out:
	fpisa_close(f);
	free(v);
	return status;
}
