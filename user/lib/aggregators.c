/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Parsing of a list of aggregators; aggregators.h has the contract. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "address.h"
#include "aggregators.h"
#include "base/error.h"
#include "fpisa/job.h"

/* Parse one aggregator of the list, `n` bytes long. */
static int parse_one(const char *text, size_t n, uint32_t job, struct fpisa_aggregator *a)
{
	char one[64] = "", *star, *slash, end;

	if (n < sizeof(one))
		memcpy(one, text, n);
	a->weight = 1;
	a->job = job;
	star = strchr(one, '*');
	if (star && (star[1] < '0' || star[1] > '9' || sscanf(star + 1, "%3u%c", &a->weight, &end) != 1 || !a->weight ||
		     a->weight > FPISA_MAX_WEIGHT))
		return fpisa_fail(-EINVAL, "'%s': the weight of an aggregator is 1 to %d, as in 10.0.0.1*2", one,
				  FPISA_MAX_WEIGHT);
	if (star)
		*star = 0;
	slash = strchr(one, '/');
	if (slash && (slash[1] < '0' || slash[1] > '9' || sscanf(slash + 1, "%2u%c", &a->job, &end) != 1 ||
		      a->job >= FPISA_MAX_JOBS))
		return fpisa_fail(-EINVAL, "'%s': the job of an aggregator is 0 to %d, as in 10.0.0.1/7", one,
				  FPISA_MAX_JOBS - 1);
	if (slash)
		*slash = 0;
	return fpisa_parse_address(one, &a->address, &a->port);
}

static int is_twice(const struct fpisa_aggregator *a, int n)
{
	for (int i = 0; i < n; i++)
		if (fpisa_same_address(&a[i].address, &a[n].address) && a[i].port == a[n].port && a[i].job == a[n].job)
			return 1;
	return 0;
}

int fpisa_parse_aggregators(const char *text, uint32_t job, struct fpisa_aggregator a[FPISA_MAX_SHARDS])
{
	int n = 0, rc;

	if (!text || !strpbrk(text, ",*/")) {
		a->weight = 1;
		a->job = job;
		rc = fpisa_parse_address(text, &a->address, &a->port);
		return rc ? rc : 1;
	}
	for (;;) {
		size_t len = strcspn(text, ",");

		if (n == FPISA_MAX_SHARDS)
			return fpisa_fail(-EINVAL, "more than %d aggregators are not supported; list fewer",
					  FPISA_MAX_SHARDS);
		rc = parse_one(text, len, job, &a[n]);
		if (rc)
			return rc;
		if (is_twice(a, n))
			return fpisa_fail(-EINVAL,
					  "'%.*s' is in the list of aggregators twice; list each aggregator once",
					  (int)len, text);
		n++;
		if (!text[len])
			return n;
		text += len + 1;
	}
}
