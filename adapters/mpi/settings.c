// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* Read the settings of the service from the environment. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "fpisa/format.h"
#include "fpisa/names.h"
#include "shim.h"

#define DEFAULT_PORT 18000
#define DEFAULT_TIMEOUT_MS 60000
#define VARIABLE (32 + MPI_MAX_OBJECT_NAME) /* longest variable name */
/* from this size on the datapath was faster than MPI; see bench/README.md */
#define DEFAULT_MIN_BYTES 8192

#define DEFAULT_MODE FPISA_MODE_FPISA64 /* the mode whose sums are at least as accurate as MPI's, for all types */

struct name {
	const char *name;
	uint8_t id;
};

/*
 * Return the id of the variable's value in the list, which a NULL name ends.
 * Return `otherwise` if the variable is unset or empty.
 */
static uint8_t read_name(struct offer *o, const char *variable, const struct name *names, const char *all,
			 uint8_t otherwise)
{
	const char *text = getenv(variable);

	if (!text || !*text)
		return otherwise;
	for (; names->name; names++)
		if (!strcmp(text, names->name))
			return names->id;
	snprintf(o->why_not, sizeof(o->why_not), "%s is '%.40s'; it must be %s", variable, text, all);
	return otherwise;
}

static void read_mode(struct offer *o)
{
#define MODE(id, name) {name, FPISA_MODE_##id},
	static const struct name names[] = {FPISA_MODE_NAMES(MODE, ){0}};

	o->mode = read_name(o, "FPISA_MODE", names, FPISA_MODE_NAMES(FPISA_NAME, " or "), DEFAULT_MODE);
}

static void read_fanout(struct offer *o)
{
#define FANOUT(id, name) {name, FPISA_FANOUT_##id},
	static const struct name names[] = {FPISA_FANOUT_NAMES(FANOUT, ){0}};

	o->fanout = read_name(o, "FPISA_FANOUT", names, FPISA_FANOUT_NAMES(FPISA_NAME, " or "), 0);
}

/*
 * Parse the variable as a number of base `base` that is at most `most`. Return `otherwise` if the variable is not set.
 */
static uint64_t read_number(struct offer *o, const char *variable, const char *what, int base, uint64_t most,
			    uint64_t otherwise)
{
	const char *text = getenv(variable);
	uint64_t n;
	char *end;

	if (!text || !*text)
		return otherwise;
	errno = 0;
	n = strtoull(text, &end, base);
	if ((errno || n > most || *end || *text == '-' || *text == '+' || *text == ' ') && !o->why_not[0])
		snprintf(o->why_not, sizeof(o->why_not), "%s is '%.40s'; it must be %s", variable, text, what);
	return n;
}

/* -- static jobs ----------------------------------------------------------------- */

/* Parse "JOB[:PORT],...". */
static int parse_jobs(struct offer *o, const char *text)
{
	for (const char *at = text; o->jobs < MAX_JOBS; at++) {
		unsigned int job, port = DEFAULT_PORT;
		int n = 0, m = 0;

		if (*at < '0' || *at > '9' || sscanf(at, "%2u%n", &job, &n) != 1 ||
		    (at[n] == ':' &&
		     (at[n + 1] < '0' || at[n + 1] > '9' || sscanf(at + n + 1, "%5u%n", &port, &m) != 1)) ||
		    !port || port > 65535)
			return -EINVAL;
		o->job[o->jobs].job = (uint16_t)job;
		o->job[o->jobs++].port = (uint16_t)port;
		at += n + (m ? 1 + m : 0);
		if (!*at)
			return 0;
		if (*at != ',')
			return -EINVAL;
	}
	return -EINVAL;
}

/*
 * Set `variable` to the name of the environment variable that lists the jobs of a communicator. MPI_COMM_WORLD has its
 * own variable.
 */
static void jobs_variable(char variable[VARIABLE], const char *name)
{
	int world = !strcmp(name, "MPI_COMM_WORLD");

	snprintf(variable, VARIABLE, "FPISA_JOBS%s%s", world ? "" : "_", world ? "" : name);
}

static void read_jobs(struct offer *o, const char *variable, const char *jobs)
{
	const char *aggregator = getenv("FPISA_AGGREGATOR");

	if (parse_jobs(o, jobs)) {
		snprintf(o->why_not, sizeof(o->why_not),
			 "%s is '%.40s'; it must be a list of at most %d JOB or JOB:PORT, separated by commas; PORT "
			 "is the UDP port of the first rank of each host, default %d",
			 variable, jobs, MAX_JOBS, DEFAULT_PORT);
		return;
	}
	if (!aggregator || !*aggregator || strlen(aggregator) >= sizeof(o->host)) {
		snprintf(o->why_not, sizeof(o->why_not),
			 "%s is set, but FPISA_AGGREGATOR is not; set it to the host "
			 "of these jobs",
			 variable);
		return;
	}
	strcpy(o->host, aggregator);
	o->token = read_number(o, "FPISA_TOKEN", "the jobs' token, a hexadecimal number", 16, UINT64_MAX, 0);
	o->timeout_ms = (uint32_t)read_number(o, "FPISA_TIMEOUT_MS", "milliseconds, 4294967295 at most", 10, UINT32_MAX,
					      DEFAULT_TIMEOUT_MS);
	if (!o->timeout_ms)
		o->timeout_ms = DEFAULT_TIMEOUT_MS;
}

/* -- groups ---------------------------------------------------------------------- */

static void read_manager(struct offer *o)
{
	const char *manager = getenv("FPISA_MANAGER");
	uint64_t number[2];

	if (!manager || !*manager) {
		snprintf(o->why_not, sizeof(o->why_not), "FPISA_MANAGER is not set; set it to the host of fpisa serve");
		return;
	}
	if (strlen(manager) >= sizeof(o->host)) {
		snprintf(o->why_not, sizeof(o->why_not),
			 "FPISA_MANAGER is too long for a host name; set it to the host of fpisa serve");
		return;
	}
	strcpy(o->host, manager);
	if (getrandom(number, sizeof(number), 0) != (ssize_t)sizeof(number)) {
		snprintf(o->why_not, sizeof(o->why_not),
			 "cannot get a random number for the group's name: %s; allow this process to call "
			 "getrandom()",
			 strerror(errno));
		return;
	}
	snprintf(o->name, sizeof(o->name), "mpi-%016llx%016llx", (unsigned long long)number[0],
		 (unsigned long long)number[1]);
	read_mode(o);
	if (!o->why_not[0])
		read_fanout(o);
}

void offer_make(struct offer *o, const char *name)
{
	char variable[VARIABLE];
	const char *jobs;

	jobs_variable(variable, name);
	jobs = getenv(variable);
	*o = (struct offer){0};
	if (jobs && *jobs)
		read_jobs(o, variable, jobs);
	else
		read_manager(o);
	o->min_bytes = read_number(o, "FPISA_MIN_BYTES", "a number of bytes", 10, UINT64_MAX, DEFAULT_MIN_BYTES);
	o->two_levels = read_number(o, "FPISA_TWO_LEVELS", "0 or 1", 10, 1, 0) == 1;
}
