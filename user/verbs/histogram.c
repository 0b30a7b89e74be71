// SPDX-License-Identifier: GPL-2.0-only
/* fpisa histogram JOB: what the adds of a job discarded, by binary exponent (fpisa/discard.h). */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>

#include "cli/options.h"
#include "cli/print.h"
#include "cli/report.h"
#include "datapath/datapath.h"
#include "histogram.h"
#include "values/pack.h"
#include "verbs.h"

/* Bucket b holds magnitudes from 2^(b - offset) on. */
static int offset_of(const struct fpisa_job *j)
{
	struct fpisa_format f = fpisa_job_format(j);

	/* A scale counts from one more (fpisa/mx.h). */
	return format_bias(f) + f.shared + f.mbits + f.guard;
}

void histogram_print(const struct fpisa_histogram *h, const struct fpisa_job *j)
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

struct json_object *histogram_json(const struct fpisa_histogram *h, const struct fpisa_job *j)
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

static int print_buckets_json(__u32 job, const struct fpisa_histogram *h, const struct fpisa_job *j)
{
	struct json_object *o = json_object_new_object();

	json_add_number(o, "job", job);
	json_object_object_add(o, "buckets", histogram_json(h, j));
	return print_json(o, false);
}

int verb_histogram(int argc, char **argv)
{
	static struct fpisa_histogram h;
	struct common c = COMMON_INIT;
	struct datapath dp;
	struct fpisa_job j;
	uint64_t job;
	int err;

	if (common_options(&c, argc, argv))
		return BAD_USAGE;
	if (argc - optind != 1)
		return refuse(BAD_USAGE, "histogram: give one job number");
	err = parse_number("job", argv[optind], 0, FPISA_MAX_JOBS - 1, &job);
	if (err)
		return err;
	err = datapath_open(&dp, c.pin);
	if (err)
		return err;
	err = datapath_job(&dp, job, &j);
	if (!err && !(j.flags & FPISA_JOB_HISTOGRAM))
		err = refuse(-EINVAL, "job %llu: keeps no histogram; make it with --histogram",
			     (unsigned long long)job);
	if (!err)
		err = datapath_histogram(&dp, job, &h);
	if (!err && c.json)
		err = print_buckets_json(job, &h, &j);
	else if (!err)
		histogram_print(&h, &j);
	datapath_close(&dp);
	return err;
}
