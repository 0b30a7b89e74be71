// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* The service of a communicator: either a group at the manager, or static jobs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "shim.h"

#define PROBE_VALUES 32

struct service {
	struct fpisa_group *group;
	struct fpisa *job[TYPES]; /* static jobs, by type */
	uint8_t mode[TYPES];
	/* names the dead rank, if a rank died before the group could be used; then there is no group */
	char lost[TEXT];
};

static _Thread_local char own_error[TEXT];

const char *service_error(void)
{
	return own_error[0] ? own_error : fpisa_error();
}

static int join_group(struct service *s, const struct offer *o, uint32_t rank, uint32_t size)
{
	const struct fpisa_group_options options = {.size = sizeof(options),
						    .mode = o->mode,
						    .fanout = o->fanout,
						    .overflow = FPISA_OVERFLOW_FLAG,
						    .share = 1};

	for (int type = 0; type < TYPES; type++)
		s->mode[type] = o->mode;
	return fpisa_group_join(&s->group, o->host, o->name, rank, size, &options);
}

/* Join a static job. The aggregator reports the job's format, which is the type of its values. */
static int join_job(struct service *s, const struct offer *o, int k, uint32_t size, uint32_t local)
{
	const struct fpisa_options options = {.size = sizeof(options),
					      .local_port = (uint16_t)(o->job[k].port + local),
					      .token = o->token,
					      .timeout_ms = o->timeout_ms,
					      .overflow = FPISA_OVERFLOW_FLAG,
					      .progress = 1,
					      .all_ranks = 1};
	struct fpisa_info info = {.size = sizeof(info)};
	struct fpisa *f;
	int rc = fpisa_connect(&f, o->host, o->job[k].job, &options);

	if (!rc)
		rc = fpisa_get_info(f, &info);
	else
		return rc;
	if (!rc && info.workers != size) {
		snprintf(own_error, sizeof(own_error),
			 "job %u has %u ranks, but the communicator needs %u; create the job with as many "
			 "--workers",
			 o->job[k].job, info.workers, size);
		rc = -EINVAL;
	} else if (!rc && (info.format >= TYPES || s->job[info.format])) {
		snprintf(own_error, sizeof(own_error),
			 "job %u has a format that MPI calls do not use, or the format of another job in "
			 "FPISA_JOBS; list at most one job each of fp16, fp32 and fp64",
			 o->job[k].job);
		rc = -EINVAL;
	}
	if (rc) {
		fpisa_close(f);
		return rc;
	}
	s->job[info.format] = f;
	s->mode[info.format] = info.mode;
	return 0;
}

int service_join(struct service **out, const struct offer *o, uint32_t rank, uint32_t size, uint32_t local)
{
	struct service *s = calloc(1, sizeof(*s));
	int rc = 0;

	own_error[0] = 0;
	if (!s) {
		snprintf(own_error, sizeof(own_error), "not enough memory to join; give the process more memory");
		return -ENOMEM;
	}
	if (!o->jobs)
		rc = join_group(s, o, rank, size);
	for (int k = 0; !rc && k < o->jobs; k++)
		rc = join_job(s, o, k, size, local);
	if (rc == -ECONNRESET && !o->jobs)
		snprintf(s->lost, sizeof(s->lost), "%s", fpisa_error());
	if (rc && !s->lost[0])
		service_leave(s);
	else
		*out = s;
	return rc;
}

int service_lost(const struct service *s)
{
	return s && (s->lost[0] || (s->group && fpisa_group_ended(s->group) == -ECONNRESET));
}

static int refuse_lost(const struct service *s)
{
	snprintf(own_error, sizeof(own_error), "%s", s->lost);
	return s->lost[0] ? -ECONNRESET : 0;
}

int service_start(struct service *s, const struct fpisa_call *call, struct fpisa_request **r)
{
	int rc = refuse_lost(s);

	if (rc)
		return rc;
	return s->group ? fpisa_group_start(s->group, call, r) : fpisa_start(s->job[call->type], call, r);
}

int service_start_scatter(struct service *s, const struct fpisa_call *call, const size_t *counts,
			  struct fpisa_request **r)
{
	int rc = refuse_lost(s);

	return rc ? rc : fpisa_group_reduce_scatter_start(s->group, call, counts, r);
}

int service_probe(struct service *s, enum fpisa_dtype type)
{
	uint64_t zeros[PROBE_VALUES] = {0};
	const struct fpisa_call call = {
		.size = sizeof(call), .send = zeros, .recv = zeros, .count = PROBE_VALUES, .type = type, .op = FPISA_SUM};
	struct fpisa_request *r;
	int rc;

	own_error[0] = 0;
	if (!s->group && !s->job[type] && !s->lost[0]) {
		snprintf(own_error, sizeof(own_error), "no job of FPISA_JOBS has this format; add one");
		return -EINVAL;
	}
	rc = service_start(s, &call, &r);
	return rc ? rc : fpisa_wait(&r, NULL);
}

int service_is_exact(const struct service *s, enum fpisa_dtype type)
{
	return s->mode[type] == MODE_EXACT;
}

void service_leave(struct service *s)
{
	if (!s)
		return;
	fpisa_group_leave(s->group);
	for (int type = 0; type < TYPES; type++)
		fpisa_close(s->job[type]);
	free(s);
}
