// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Agree whether the datapath serves a communicator, and for which types. Each rank makes an attempt, and all ranks
 * share the result.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include "shim.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int said_that_none; /* protected by lock */

static const char *const type_names[TYPES] = {
	[FPISA_FLOAT32] = "float", [FPISA_FLOAT16] = "16-bit float", [FPISA_FLOAT64] = "double"};
static const char all_are_mpi_s[] = "MPI performs all reductions";

static void say(const struct comm *m, const char *what, const char *why)
{
	fprintf(stderr, "fpisa: %s of %d ranks: %s: %s\n", m->name, m->size, what, why);
}

/* Report an error in the settings only once per process, because all communicators share the settings. */
static void say_once(const struct comm *m, const char *what, const char *why)
{
	int said;

	pthread_mutex_lock(&lock);
	said = said_that_none;
	said_that_none = 1;
	pthread_mutex_unlock(&lock);
	if (!said)
		say(m, what, why);
}

/* An attempt of this rank to join or to probe, and its result. */
struct attempt {
	struct comm *m;
	enum fpisa_dtype type;
	uint32_t rank, size, local;
	int rc;
	char error[TEXT];
};

static int some_are_dead(void *arg)
{
	const struct comm *m = arg;

	return service_lost(m->service);
}

/*
 * Return whether the attempt succeeded on all ranks. If it failed, one rank reports the reason. A rank that only timed
 * out waiting for other ranks reports its reason only if no rank has another reason.
 *
 * If a rank is dead, MPI would wait forever for its vote. In that case keep the service, so that every call reports
 * the dead rank.
 */
static enum service_state all_well(MPI_Comm c, const struct attempt *a, const char *what)
{
	struct comm *m = a->m;
	int none = 2 * m->size, *vote = m->vote, worst;
	MPI_Request r;

	vote[0] = !a->rc ? none : a->rc == -ETIMEDOUT ? m->size + m->rank : m->rank;
	vote[1] = none;
	if (PMPI_Iallreduce(&vote[0], &vote[1], 1, MPI_INT, MPI_MIN, c, &r))
		return SERVICE_MPI;
	if (!wait_mpi(&r, some_are_dead, m)) {
		comm_get(m); /* keep this reference forever, because MPI still uses the vote */
		return SERVICE_FPISA;
	}
	worst = vote[1];
	if (worst != none && vote[0] == worst)
		say(m, what, a->error);
	return worst == none ? SERVICE_FPISA : SERVICE_MPI;
}

static void finish(struct attempt *a, int rc)
{
	a->rc = rc;
	if (rc)
		snprintf(a->error, sizeof(a->error), "%s", service_error());
}

static void join(void *arg)
{
	struct attempt *a = arg;

	finish(a, service_join(&a->m->service, &a->m->offer, a->rank, a->size, a->local));
}

static void probe(void *arg)
{
	struct attempt *a = arg;

	finish(a, service_probe(a->m->service, a->type));
}

/* Return whether this rank uses the datapath itself. */
static int goes(const struct comm *m)
{
	return !m->offer.two_levels || !m->levels.rank;
}

/* Choose each rank's place, if the ranks' hosts matter. Return nonzero on all ranks if the ranks cannot join. */
static int place(struct attempt *a, MPI_Comm c)
{
	struct comm *m = a->m;

	a->rank = (uint32_t)m->rank;
	a->size = (uint32_t)m->size;
	if (!m->offer.two_levels && !m->offer.jobs)
		return 0;
	if (levels_make(&m->levels, c))
		return 1;
	a->local = (uint32_t)m->levels.rank;
	if (!m->offer.two_levels)
		return 0;
	a->local = 0;
	a->rank = (uint32_t)m->levels.number;
	a->size = (uint32_t)m->levels.hosts;
	if (a->size == 1 && !m->rank)
		say(m, all_are_mpi_s, "FPISA_TWO_LEVELS needs more than one host; unset it");
	return a->size == 1;
}

/* Send rank 0's offer to all ranks. Return nonzero on all ranks if the offer is empty. */
static int spread_offer(struct comm *m, MPI_Comm c)
{
	int inter = 0;

	PMPI_Comm_test_inter(c, &inter);
	if (inter || m->size == 1)
		return 1;
	if (!m->rank)
		offer_make(&m->offer, m->name);
	if (PMPI_Bcast(&m->offer, sizeof(m->offer), MPI_BYTE, 0, c))
		return 1;
	if (m->offer.why_not[0]) {
		if (!m->rank)
			say_once(m, all_are_mpi_s, m->offer.why_not);
		return 1;
	}
	if (m->offer.two_levels && m->offer.mode == MODE_EXACT) {
		if (!m->rank)
			say(m, "FPISA_TWO_LEVELS is not used",
			    "mode exact rounds once, but with FPISA_TWO_LEVELS each host would round first");
		m->offer.two_levels = 0;
	}
	return 0;
}

int agree_on_offer(struct comm *m, MPI_Comm c)
{
	if (m->state == SERVICE_UNKNOWN)
		m->state = spread_offer(m, c) ? SERVICE_MPI : SERVICE_OFFERED;
	return m->state != SERVICE_MPI;
}

enum service_state agree(struct comm *m, MPI_Comm c)
{
	struct attempt a = {.m = m};

	if (!agree_on_offer(m, c) || place(&a, c))
		return SERVICE_MPI;
	/* The manager waits only 10 s for ranks. Wait here for the ranks that make this call later. */
	if (PMPI_Barrier(c))
		return SERVICE_MPI;
	if (goes(m))
		wait_aside(&m->mover, join, &a);
	if (all_well(c, &a, all_are_mpi_s) == SERVICE_FPISA)
		return SERVICE_FPISA;
	service_leave(m->service);
	m->service = NULL;
	return SERVICE_MPI;
}

static enum service_state agree_type(struct comm *m, MPI_Comm c, enum fpisa_dtype type)
{
	struct attempt a = {.m = m, .type = type};
	char what[64];

	snprintf(what, sizeof(what), "MPI performs all reductions of %s", type_names[type]);
	/* A group waits as long as its ranks live, but a static job waits only until its deadline. */
	if (m->offer.jobs && PMPI_Barrier(c))
		return SERVICE_MPI;
	if (goes(m))
		wait_aside(&m->mover, probe, &a);
	/* The aggregator sets the mode of a static job. */
	if (goes(m) && !a.rc && m->offer.two_levels && service_is_exact(m->service, type)) {
		a.rc = -EINVAL;
		snprintf(a.error, sizeof(a.error),
			 "mode exact rounds once, but with FPISA_TWO_LEVELS each host would round first");
	}
	return all_well(c, &a, what);
}

/*
 * If the mode is exact, report that MPI serves this request because the ranks have not agreed yet. Mode exact promises
 * the bits of the result, so rank 0 reports this once per type. The mode of static jobs is unknown until the ranks have
 * joined, and say_of_jobs() reports those requests.
 */
static void say_if_exact(struct comm *m, MPI_Comm c, enum fpisa_dtype type)
{
	struct offer o = {0};
	char what[128];
	int inter = 0;

	PMPI_Comm_test_inter(c, &inter);
	if (inter || m->size == 1 || m->rank || m->said[type])
		return;
	m->said[type] = 1;
	offer_make(&o, m->name);
	if (o.why_not[0] || o.jobs || o.mode != MODE_EXACT)
		return;
	snprintf(what, sizeof(what),
		 "MPI performs nonblocking reductions of %s until the next MPI_Allreduce or MPI_Barrier",
		 type_names[type]);
	say(m, what, "a request does not wait for the other ranks to agree on mode exact");
}

static void say_of_jobs(const struct comm *m, enum fpisa_dtype type)
{
	char what[128];

	if (!m->offer.jobs || !m->said[type] || !service_is_exact(m->service, type))
		return;
	snprintf(what, sizeof(what), "MPI performed nonblocking reductions of %s until this call", type_names[type]);
	say(m, what, "a request does not wait for the other ranks to join the job, whose mode is exact");
}

int agree_serves(struct comm *m, MPI_Comm c, enum fpisa_dtype type, uint64_t bytes, int waits)
{
	int small = bytes < m->offer.min_bytes;

	if (!waits && (!comm_has_agreed(m) || (m->state == SERVICE_FPISA && m->type[type] == SERVICE_UNKNOWN))) {
		say_if_exact(m, c, type);
		if (m->wanted[type] < bytes)
			m->wanted[type] = bytes;
		return 0;
	}
	if (m->state != SERVICE_FPISA)
		return 0;
	/* In mode exact the datapath serves calls of any size. The mode is still unknown only for static jobs. */
	if (small && m->offer.mode != MODE_EXACT && !m->offer.jobs)
		return 0;
	if (m->type[type] == SERVICE_UNKNOWN) {
		m->type[type] = agree_type(m, c, type);
		if (m->type[type] == SERVICE_FPISA)
			say_of_jobs(m, type);
	}
	if (m->type[type] != SERVICE_FPISA)
		return 0;
	return !small || (!m->offer.two_levels && service_is_exact(m->service, type));
}

void agree_on_requests(struct comm *m, MPI_Comm c)
{
	for (int type = 0; type < TYPES; type++) {
		uint64_t bytes = m->wanted[type];

		m->wanted[type] = 0;
		if (bytes && !comm_has_agreed(m))
			m->state = agree(m, c);
		/* With two levels, MPI serves all requests. */
		if (bytes && !m->offer.two_levels)
			agree_serves(m, c, type, bytes, 1);
	}
}
