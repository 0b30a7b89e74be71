// SPDX-License-Identifier: GPL-2.0-only
/*
 * The faults that the workers of a job inject: the option `job add --debug-faults`, and the output in `job show`. The
 * library of the workers injects the faults.
 */
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/names.h"
#include "cli/options.h"
#include "cli/print.h"
#include "cli/report.h"
#include "job.h"

/* The names are in the order of enum fpisa_fault. The seed is the last. */
static char *const names[] = {FPISA_FAULT_NAMES(FPISA_NAMED, ) "seed", NULL};

int job_parse_faults(char *s, struct fpisa_job_faults *f)
{
	__u32 seen = 0;

	while (*s) {
		uint64_t seed = 0;
		double share = 0;
		char *value;
		int id = getsubopt(&s, names, &value), err;

		if (id < 0)
			return refuse(BAD_USAGE,
				      "--debug-faults: '%s' is not drop=P, duplicate=P, reorder=P, delay=P, "
				      "corrupt=P or seed=S",
				      value);
		if (!value || seen >> id & 1)
			return refuse(BAD_USAGE, "--debug-faults: give %s= once, with a number", names[id]);
		seen |= 1u << id;
		err = id == FPISA_FAULTS ? parse_number("--debug-faults: seed", value, 0, UINT32_MAX, &seed) :
					   parse_share("--debug-faults", value, &share);
		if (err)
			return err;
		if (id == FPISA_FAULTS)
			f->seed = seed;
		else
			f->share[id] = share * FPISA_FAULT_SCALE;
	}
	if (!seen)
		return refuse(BAD_USAGE,
			      "--debug-faults: the list is empty; name the faults, as in drop=0.01,delay=0.01,seed=1");
	return 0;
}

static bool any(const struct fpisa_job_faults *f)
{
	for (int i = 0; i < FPISA_FAULTS; i++)
		if (f->share[i])
			return true;
	return false;
}

static double share_of(const struct fpisa_job_faults *f, int i)
{
	return (double)f->share[i] / FPISA_FAULT_SCALE;
}

void job_print_faults(const struct fpisa_job_faults *f)
{
	if (!any(f))
		return;
	printf("debug       workers inject");
	for (int i = 0; i < FPISA_FAULTS; i++)
		if (f->share[i])
			printf(" %s %.3g,", names[i], share_of(f, i));
	printf(" seed %u\n", f->seed);
}

struct json_object *job_faults_json(const struct fpisa_job_faults *f)
{
	struct json_object *o;

	if (!any(f))
		return NULL;
	o = json_object_new_object();
	for (int i = 0; i < FPISA_FAULTS; i++)
		json_object_object_add(o, names[i], json_object_new_double(share_of(f, i)));
	json_add_number(o, names[FPISA_FAULTS], f->seed);
	return o;
}

void job_faults_text(const struct fpisa_job_faults *f, char text[FAULTS_LEN])
{
	int n = 0;

	*text = 0;
	for (int i = 0; i < FPISA_FAULTS; i++)
		if (f->share[i])
			/* Print the midpoint of all values that are stored as this share. */
			n += snprintf(text + n, FAULTS_LEN - n, "%s=%.7f,", names[i],
				      (f->share[i] + .5) / FPISA_FAULT_SCALE);
	if (n)
		snprintf(text + n, FAULTS_LEN - n, "seed=%u", f->seed);
}
