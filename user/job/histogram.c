// SPDX-License-Identifier: GPL-2.0-only
/* The discarded parts of a job's adds, by binary exponent (fpisa/discard.h), as text and as JSON. */
#include <json-c/json.h>
#include <stdio.h>

#include "cli/print.h"
#include "job.h"
#include "values/pack.h"

/* Return the offset of the buckets. Bucket b contains magnitudes from 2^(b - offset) on. */
static int offset_of(const struct fpisa_job *j)
{
	struct fpisa_format f = fpisa_job_format(j);

	/* The exponent of a scale is one more (fpisa/mx.h). */
	return format_bias(f) + f.shared + f.mbits + f.guard;
}

void job_print_histogram(const struct fpisa_histogram *h, const struct fpisa_job *j)
{
	int offset = offset_of(j);
	uint64_t sum = 0, below = 0;

	for (int b = 0; b < FPISA_BUCKETS; b++)
		sum += h->bucket[b];
	printf("%10s  %20s  %s\n", "magnitude", "adds", "share up to here");
	for (int b = 0; b < FPISA_BUCKETS; b++) {
		if (!h->bucket[b])
			continue;
		below += h->bucket[b];
		printf("%6s%-4d  %20llu  %.6f\n", "2^", b - offset, (unsigned long long)h->bucket[b],
		       (double)below / (double)sum);
	}
}

struct json_object *job_histogram_json(const struct fpisa_histogram *h, const struct fpisa_job *j)
{
	struct json_object *buckets = json_object_new_array();
	int offset = offset_of(j);

	for (int b = 0; b < FPISA_BUCKETS; b++) {
		struct json_object *e;

		if (!h->bucket[b])
			continue;
		e = json_object_new_object();
		json_object_object_add(e, "exponent", json_object_new_int(b - offset));
		json_add_number(e, "adds", h->bucket[b]);
		json_object_array_add(buckets, e);
	}
	return buckets;
}
