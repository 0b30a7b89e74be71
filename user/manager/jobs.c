// SPDX-License-Identifier: GPL-2.0-only
/*
 * The life of a group's job. All ranks ask for the same job. When all have asked, the job gets slots and UDP ports. The
 * ranks bind the ports, the datapath creates the job, and all ranks are told. If any step fails, all ranks get the same
 * refusal. group.h and jobs.h have the contracts.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/names.h"
#include "jobs.h"
#include "lib/base/address.h"
#include "members.h"
#include "remote.h"

#define MOST_TRIES 16 /* attempts to find free UDP ports */

static struct manager_group_job *job_of(struct manager_group *g, __u32 index, struct group_job **record)
{
	*record = &g->record.job[index];
	return &g->job[index];
}

/* -- refusals --------------------------------------------------------------- */

static struct fpisa_manager_message refusal_of(const struct manager_group *g, __u32 index)
{
	const struct manager_group_job *j = &g->job[index];
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_REFUSED);

	msg.refusal = (struct fpisa_manager_refusal){.reason = (__u16)j->reason, .index = index};
	fpisa_manager_name_ranks(&msg.refusal, &j->ranks);
	snprintf(msg.refusal.text, sizeof(msg.refusal.text), "%s", j->text);
	return msg;
}

static void tell_refusal(struct manager *m, struct manager_group *g, __u32 index, __u32 rank)
{
	const struct fpisa_manager_message msg = refusal_of(g, index);

	manager_tell_rank(m, g, rank, &msg);
}

/* Log the refusal once, for the first of these ranks that is connected. */
static void say_refused(struct manager *m, const struct manager_group *g, const struct fpisa_ranks *ranks,
			enum fpisa_manager_reason reason, const char *text)
{
	FPISA_EACH_RANK(r, ranks)
		if (g->caller[r]) {
			m->ops->refused(m->arg, g->caller[r], reason, text);
			return;
		}
}

/*
 * Refuse a rank's request for a second job with an index. The rank has the first job, or will have it. That job stays,
 * and the other ranks are not told.
 */
static void tell_refusal_of_another(struct manager *m, struct manager_group *g, __u32 index, __u32 rank)
{
	const struct fpisa_ranks own = fpisa_ranks_one(rank);
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_REFUSED);

	msg.refusal = (struct fpisa_manager_refusal){.reason = FPISA_MANAGER_R_differs, .index = index};
	fpisa_manager_name_ranks(&msg.refusal, &own);
	snprintf(msg.refusal.text, sizeof(msg.refusal.text),
		 "group %s: job %u is not the job that this rank asks for now; it asked for that one earlier",
		 g->record.name, index);
	say_refused(m, g, &own, FPISA_MANAGER_R_differs, msg.refusal.text);
	manager_tell_rank(m, g, rank, &msg);
}

/*
 * Drop a job that the datapath does not have. A job that the datapath has, or is about to have, stays until the group
 * ends.
 */
static void drop(struct manager *m, struct manager_group *g, __u32 index)
{
	struct group_job *record;
	struct manager_group_job *j = job_of(g, index, &record);
	int recorded = record->state != FPISA_GROUP_JOB_NONE;

	j->state = FPISA_GROUP_JOB_REFUSED;
	memset(record, 0, sizeof(*record));
	if (recorded)
		manager_record(m, g);
}

/*
 * Refuse a job, and tell all ranks now, also ranks that have not asked yet. By the time they ask, the others may have
 * left or died because of the refusal.
 */
__attribute__((format(printf, 6, 7))) static void refuse_job(struct manager *m, struct manager_group *g, __u32 index,
							     enum fpisa_manager_reason reason,
							     const struct fpisa_ranks *ranks, const char *format, ...)
{
	struct group_job *record;
	struct manager_group_job *j = job_of(g, index, &record);
	struct fpisa_manager_message msg;
	struct fpisa_ranks culprits;
	va_list ap;

	va_start(ap, format);
	vsnprintf(j->text, sizeof(j->text), format, ap);
	va_end(ap);
	m->count.refused[reason]++;
	j->reason = reason;
	j->ranks = ranks ? *ranks : FPISA_NO_RANKS;
	if (j->state != FPISA_GROUP_JOB_MAKING && j->state != FPISA_GROUP_JOB_MADE)
		drop(m, g, index);
	culprits = fpisa_ranks_and(&j->ranks, &j->asked);
	say_refused(m, g, fpisa_ranks_any(&culprits) ? &culprits : &j->asked, reason, j->text);
	msg = refusal_of(g, index);
	manager_tell_all(m, g, &msg);
}

/* -- ports ------------------------------------------------------------------ */

#define PORT_WORDS (65536 / 64)

/* Return whether one of the ranks from `first` on, before `end`, has this address. */
static bool is_at(const struct manager_group *g, __u32 first, __u32 end, const struct fpisa_address *address)
{
	for (__u32 r = first; r < end; r++)
		if (fpisa_same_address(&g->record.rank[r].address, address))
			return true;
	return false;
}

static void note_port(__u64 taken[PORT_WORDS], __u16 port)
{
	taken[port / 64] |= 1ull << port % 64;
}

/*
 * Collect the ports that jobs have at the addresses of the ranks from `first` on, before `end`, as a bitmap. Looking for
 * each port at each job would stop the manager for a second if there are many jobs.
 */
static void note_ports(const struct manager *m, const struct manager_group *g, __u32 first, __u32 end,
		       __u64 taken[PORT_WORDS])
{
	memset(taken, 0, PORT_WORDS * sizeof(*taken));
	for (int i = 0; i < GROUPS; i++)
		for (int k = 0; k < FPISA_MANAGER_JOBS; k++) {
			const struct manager_group *o = &m->group[i];

			if (!fpisa_group_job_has_ports(o->job[k].state))
				continue;
			for (__u32 r = 0; r < o->record.size; r++)
				if (is_at(g, first, end, &o->record.rank[r].address))
					note_port(taken, o->record.rank[r].port[k]);
		}
}

/* Return the first free port from this port on, or 0 if all are taken. */
static __u16 free_port(const struct manager *m, const __u64 taken[PORT_WORDS], __u32 from)
{
	while (from <= m->policy->udp_last && taken[from / 64] >> from % 64 & 1)
		from++;
	return (__u16)(from <= m->policy->udp_last ? from : 0);
}

/*
 * Choose one port for all ranks, as multicast needs, if every rank has a different address. The ranks of a large group
 * get results from their leaves, and the search would take too long.
 */
static bool common_port(const struct manager *m, const struct manager_group *g, __u32 from, __u16 *port)
{
	__u64 taken[PORT_WORDS];

	if (g->record.size > FPISA_MAX_WORKERS)
		return false;
	for (__u32 r = 1; r < g->record.size; r++)
		if (is_at(g, 0, r, &g->record.rank[r].address))
			return false;
	note_ports(m, g, 0, g->record.size, taken);
	port[0] = free_port(m, taken, from);
	for (__u32 r = 1; r < g->record.size; r++)
		port[r] = port[0];
	return port[0] != 0;
}

/* Choose a port for each rank, host by host. */
static bool own_ports(const struct manager *m, const struct manager_group *g, __u32 from, __u16 *port)
{
	const struct group_rank *rank = g->record.rank;
	__u64 taken[PORT_WORDS];

	for (__u32 r = 0; r < g->record.size; r++) {
		if (port[r])
			continue;
		note_ports(m, g, r, r + 1, taken);
		for (__u32 k = r; k < g->record.size; k++) {
			if (!fpisa_same_address(&rank[k].address, &rank[r].address))
				continue;
			port[k] = free_port(m, taken, from);
			if (!port[k])
				return false;
			note_port(taken, port[k]);
		}
	}
	return true;
}

static void tell_bind(struct manager *m, struct manager_group *g, __u32 index, __u32 rank)
{
	const struct group_rank *r = &g->record.rank[rank];
	const bool tree = manager_is_tree(g, index);
	const __u32 i = tree ? r->leaf : 0;
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_BIND);

	msg.bind = (struct fpisa_manager_bind){.index = index,
					       .port = r->port[index],
					       .address = manager_address_for(m, g, i, rank),
					       .aggregator = g->record.aggregator[i].port,
					       .leaf = tree};
	manager_tell_rank(m, g, rank, &msg);
}

/* Choose ports that have not been tried, one for each rank, and tell the ranks to bind them. */
static void bind_ports(struct manager *m, struct manager_group *g, __u32 index)
{
	struct manager_group_job *j = &g->job[index];
	__u16 port[FPISA_MAX_RANKS] = {0};

	j->state = FPISA_GROUP_JOB_ASKED; /* the ports that it had before are free */
	if (j->tries++ == MOST_TRIES ||
	    (!common_port(m, g, j->next_port, port) && !own_ports(m, g, j->next_port, port))) {
		refuse_job(
			m, g, index, FPISA_MANAGER_R_ports, NULL,
			"group %s: each UDP port from %u to %u is in use at some rank; set other udp-ports in [manager]",
			g->record.name, m->policy->udp_first, m->policy->udp_last);
		return;
	}
	for (__u32 r = 0; r < g->record.size; r++) {
		g->record.rank[r].port[index] = port[r];
		if (port[r] >= j->next_port)
			j->next_port = port[r] + 1;
	}
	j->bound = FPISA_NO_RANKS;
	j->state = FPISA_GROUP_JOB_BINDING;
	for (__u32 r = 0; r < g->record.size; r++)
		tell_bind(m, g, index, r);
}

/* -- resources left ----------------------------------------------------------- */

static __u32 left(__u32 most, __u32 used)
{
	return most > used ? most - used : 0;
}

/* Check the limits. Shrink the window before refusing the job. */
static bool window_fits(struct manager *m, struct manager_group *g, __u32 index)
{
	struct manager_group_job *j = &g->job[index];
	struct manager_quota quota = manager_quota_of(m->policy, g->record.owner);
	struct manager_quota own = manager_used(m, g->record.owner), all = manager_used(m, NULL);
	__u32 least = j->window < FPISA_MANAGER_LEAST_WINDOW ? j->window : FPISA_MANAGER_LEAST_WINDOW;
	__u32 jobs = (__u32)__builtin_popcountll(m->policy->jobs), of_key, of_all, of_exact = j->window;

	if (own.jobs >= quota.jobs) {
		refuse_job(m, g, index, FPISA_MANAGER_R_quota, NULL,
			   "group %s: key '%s' has reached its limit of %u jobs; raise key-jobs or end a job",
			   g->record.name, g->record.owner, own.jobs);
		return false;
	}
	if (all.jobs >= jobs) {
		refuse_job(
			m, g, index, FPISA_MANAGER_R_pool, NULL,
			"group %s: the manager has given all of its %u job numbers; raise jobs in [manager] or end another job",
			g->record.name, all.jobs);
		return false;
	}
	of_key = manager_window(j->window, left(quota.slots, own.slots), quota.jobs - own.jobs - 1);
	of_all = manager_window(j->window, left(m->policy->slots, all.slots), jobs - all.jobs - 1);
	if (manager_needs_exact_slots(g, index))
		of_exact = manager_window(j->window, left(m->policy->exact_slots, manager_used_exact(m)),
					  jobs - all.jobs - 1);
	j->window = of_key < of_all ? of_key : of_all;
	j->window = of_exact < j->window ? of_exact : j->window;
	if (j->window)
		return true;
	if (!of_all)
		refuse_job(
			m, g, index, FPISA_MANAGER_R_pool, NULL,
			"group %s: the manager has given %u of its %u slots, which leaves too few for a window of %u; raise slots in [manager] or end another job",
			g->record.name, all.slots, m->policy->slots, least);
	else if (!of_key)
		refuse_job(
			m, g, index, FPISA_MANAGER_R_quota, NULL,
			"group %s: key '%s' holds %u of its %u slots, which leaves too few for a window of %u; raise key-slots or end another job",
			g->record.name, g->record.owner, own.slots, quota.slots, least);
	else
		refuse_job(
			m, g, index, FPISA_MANAGER_R_pool, NULL,
			"group %s: the manager has given %u of the %u slots for mode exact, which leaves too few for a window of %u; load with a larger --slots or end another job",
			g->record.name, manager_used_exact(m), m->policy->exact_slots, least);
	return false;
}

static bool allowed(struct manager *m, struct manager_group *g, __u32 index, const struct fpisa_manager_spec *s)
{
	__u8 format = s->format ?: FPISA_FORMAT_FP32, mode = s->mode ?: FPISA_MODE_FPISA;

	if (!(m->policy->formats >> format & 1)) {
		refuse_job(m, g, index, FPISA_MANAGER_R_format, NULL,
			   "group %s: the manager does not offer format %s; add the format to formats in [manager]",
			   g->record.name, name_of(format_names, format));
		return false;
	}
	if (!(m->policy->modes >> mode & 1)) {
		refuse_job(m, g, index, FPISA_MANAGER_R_mode, NULL,
			   "group %s: the manager does not offer mode %s; add the mode to modes in [manager]",
			   g->record.name, name_of(mode_names, mode));
		return false;
	}
	if (g->record.size > FPISA_MAX_WORKERS && !manager_is_tree(g, index)) {
		refuse_job(
			m, g, index, FPISA_MANAGER_R_mode, NULL,
			"group %s: a job of %u ranks needs mode exact, whose sums do not depend on their order, and the fused pipeline; ask for mode exact, or use groups of up to %d ranks",
			g->record.name, g->record.size, FPISA_MAX_WORKERS);
		return false;
	}
	return true;
}

/* -- making ----------------------------------------------------------------- */

/* Create the job at the group's aggregators one after the other. The first aggregator sets the window that fits. */
static void make(struct manager *m, struct manager_group *g, __u32 index)
{
	struct group_job *record;
	struct manager_group_job *j = job_of(g, index, &record);

	record->state = FPISA_GROUP_JOB_MAKING;
	record->token = record->token ?: m->ops->random(m->arg);
	record->token_high = record->token_high ?: m->ops->random(m->arg);
	j->state = FPISA_GROUP_JOB_MAKING;
	j->making_ms = m->now_ms;
	manager_record(m, g);
	/* After a restart of the manager, wait for the aggregator: manager_make_back(). */
	if (!manager_make_next(m, g, index, j->window >> j->halved) && !g->back_ms)
		manager_not_made(m, g, manager_at(g, j->at), "that aggregator is gone");
}

void manager_make_back(struct manager *m, struct manager_group *g, __u32 i)
{
	for (__u32 k = 0; k < FPISA_MANAGER_JOBS; k++)
		if (manager_makes(g, k, i))
			make(m, g, k);
}

/* Write the ranks of leaf `i` into JOB. */
static void put_leaf(const struct manager_group *g, __u32 i, struct fpisa_manager_job *job)
{
	const struct fpisa_ranks ranks = group_leaf_ranks(&g->record, i);

	job->leaf = 0;
	memset(job->rank, 0, sizeof(job->rank));
	FPISA_EACH_RANK(r, &ranks)
		job->rank[job->leaf++] = (__u16)r;
}

/* Tell the job to these ranks. In a tree, tell those of each leaf apart. */
static void tell_job(struct manager *m, struct manager_group *g, __u32 index, const struct fpisa_ranks *ranks)
{
	const struct group_job *record = &g->record.job[index];
	struct fpisa_manager_message msg = fpisa_manager_message(FPISA_MANAGER_JOB);
	__u32 leaf = 0;

	msg.job = (struct fpisa_manager_job){.index = index,
					     .job = record->at[0],
					     .token = record->token,
					     .token_high = record->token_high,
					     .spec = record->made};
	for (__u32 i = 1; i < group_shards(&g->record); i++)
		msg.job.others[i] = record->at[i];
	FPISA_EACH_RANK(r, ranks) {
		if (manager_is_tree(g, index) && g->record.rank[r].leaf != leaf) {
			leaf = g->record.rank[r].leaf;
			msg.job.job = record->at[leaf];
			put_leaf(g, leaf, &msg.job);
		}
		manager_tell_rank(m, g, r, &msg);
	}
}

static bool is_anywhere(const struct manager_group_job *j)
{
	return memchr(j->there, 1, sizeof(j->there)) != NULL;
}

/*
 * Finish creating the job: all aggregators have answered, or one could not create it. Jobs already created stay until
 * the group ends.
 */
static void end_making(struct manager *m, struct manager_group *g, __u32 index)
{
	struct group_job *record;
	struct manager_group_job *j = job_of(g, index, &record);

	if (!is_anywhere(j)) {
		drop(m, g, index);
		return;
	}
	record->state = FPISA_GROUP_JOB_MADE;
	record->refused = (__u16)j->reason;
	j->state = FPISA_GROUP_JOB_MADE;
	manager_record(m, g);
}

/* Return whether this datapath has created the job. */
static bool is_here(const struct manager *m, const struct manager_group *g, const struct manager_group_job *j)
{
	for (__u32 i = 0; i < g->record.aggregators; i++)
		if (j->there[i] && manager_is_own(m, g, i))
			return true;
	return false;
}

/*
 * Create the job again from the first aggregator on. An agent deletes the job that it has created; this function deletes
 * this datapath's job.
 */
static void make_again(struct manager *m, struct manager_group *g, __u32 index)
{
	struct group_job *record;
	struct manager_group_job *j = job_of(g, index, &record);

	if (is_here(m, g, j))
		manager_remove_job(m, record);
	for (__u32 i = 0; i < g->record.aggregators; i++)
		j->there[i] &= !manager_is_own(m, g, i);
	record->further = 0;
	j->at = 0;
	j->halved = 0;
	make(m, g, index);
}

static void take_number(struct manager *m, struct manager_group *g, __u32 index, const struct manager_made *made)
{
	struct group_job *record;
	struct manager_group_job *j = job_of(g, index, &record);

	const __u32 i = manager_at(g, j->at);

	if (manager_is_own(m, g, i) && is_here(m, g, j))
		record->further |= 1ull << made->number;
	else if (manager_is_own(m, g, i))
		record->number = made->number;
	/* A leaf begins with its job below the first root. */
	if (j->at < group_shards(&g->record) || !(j->at % group_shards(&g->record)))
		record->at[i] = (__u8)made->number;
	if (!j->at) {
		record->made = made->spec;
		j->window >>= j->halved;
	}
	j->there[i] = true;
	j->at++;
	j->halved = 0;
	if (j->reason || group_ends(&g->record)) {
		end_making(m, g, index);
	} else if (manager_is_tree(g, index) && made->spec.window < record->made.window) {
		/* The windows of a tree are equal, and a leaf has no more slots. */
		j->window = made->spec.window;
		make_again(m, g, index);
	} else if (j->at < manager_steps(g, index)) {
		make(m, g, index);
	} else {
		m->count.jobs++;
		end_making(m, g, index);
		tell_job(m, g, index, &j->bound);
	}
}

#define AGGREGATOR_TEXT (FPISA_ADDRESS_LEN + 16)

/* Write "aggregator 10.0.0.2: ", or nothing if the manager's own datapath is the only aggregator. */
static void name_aggregator(const struct manager_group *g, __u32 i, char name[AGGREGATOR_TEXT])
{
	char a[FPISA_ADDRESS_LEN];

	*name = 0;
	if (g->record.aggregators > 1 || g->record.elsewhere)
		snprintf(name, AGGREGATOR_TEXT,
			 "aggregator %s: ", fpisa_address_text(&g->record.aggregator[i].address, a));
}

static enum fpisa_manager_reason reason_of(const struct manager_made *made)
{
	if (made->reason && made->reason < FPISA_MANAGER_R_END)
		return made->reason;
	return made->err == -ENOSPC ? FPISA_MANAGER_R_pool :
	       made->err == -EINVAL ? FPISA_MANAGER_R_job :
				      FPISA_MANAGER_R_datapath;
}

/* Return whether the ranks left the elements to the aggregators, and fewer fit here than at the first aggregator. */
static bool fits_smaller(const struct manager_group *g, __u32 index, const struct manager_made *made)
{
	const struct group_job *record = &g->record.job[index];

	return made->err == -EMSGSIZE && !record->asked.elements && g->job[index].at && made->spec.elements &&
	       made->spec.elements < record->made.elements;
}

/* Have the current aggregator create the job with half the window. All windows of a tree are equal. */
static void halve(struct manager *m, struct manager_group *g, __u32 index)
{
	struct manager_group_job *j = &g->job[index];

	if (manager_is_tree(g, index) && j->at) {
		j->window /= 2;
		make_again(m, g, index);
		return;
	}
	j->halved++;
	make(m, g, index);
}

/* Try again to create a job that an aggregator could not create, in another way. Return false if there is none. */
static bool make_otherwise(struct manager *m, struct manager_group *g, __u32 index, const struct manager_made *made)
{
	struct group_job *record;
	struct manager_group_job *j = job_of(g, index, &record);

	if (made->err == -ENOSPC && j->window >> j->halved >= 2 * FPISA_MANAGER_LEAST_WINDOW) {
		halve(m, g, index);
		return true;
	}
	if (fits_smaller(g, index, made)) {
		/* An aggregator after the first cannot carry as many elements in a frame. */
		j->elements = made->spec.elements;
		make_again(m, g, index);
		return true;
	}
	if (manager_is_tree(g, index) && j->at >= group_roots(&g->record) && made->err == -ENOENT &&
	    made->reason == FPISA_MANAGER_R_pool) {
		/* A leaf uses the number for another job. */
		j->used |= 1ull << record->at[j->at % group_roots(&g->record)];
		make_again(m, g, index);
		return true;
	}
	return false;
}

static void take_failure(struct manager *m, struct manager_group *g, __u32 index, const struct manager_made *made)
{
	struct manager_group_job *j = &g->job[index];
	char name[AGGREGATOR_TEXT];

	if (!j->reason && !group_ends(&g->record) && make_otherwise(m, g, index, made))
		return;
	if (!j->reason) {
		name_aggregator(g, manager_at(g, j->at), name);
		refuse_job(m, g, index, reason_of(made), NULL, "group %s: %s%s", g->record.name, name, made->text);
	}
	end_making(m, g, index);
}

void manager_made_at(struct manager *m, __u32 i, const struct manager_made *made)
{
	struct manager_group *g = &m->group[made->place];

	if (g->record.id != made->id || !manager_makes(g, made->index, i))
		return;
	if (made->err)
		take_failure(m, g, made->index, made);
	else
		take_number(m, g, made->index, made);
	manager_end_if_empty(m, g);
}

/* Take the answer of this datapath, which a tree may have as a leaf. */
void manager_made(struct manager *m, const struct manager_made *made)
{
	const struct manager_group *g = &m->group[made->place];
	__u32 i = 0;

	while (i + 1 < g->record.aggregators && !manager_is_own(m, g, i))
		i++;
	manager_made_at(m, i, made);
}

void manager_not_made(struct manager *m, struct manager_group *g, __u32 i, const char *why)
{
	struct manager_made made = {.place = manager_place(m, g), .id = g->record.id, .err = -EIO};

	snprintf(made.text, sizeof(made.text), "%s", why);
	for (made.index = 0; made.index < FPISA_MANAGER_JOBS && g->record.id == made.id; made.index++)
		manager_made_at(m, i, &made);
}

/* -- asking ----------------------------------------------------------------- */

void manager_ask(struct manager *m, struct manager_group *g, __u32 rank, const struct fpisa_manager_ask *ask)
{
	struct group_job *record;
	struct manager_group_job *j = job_of(g, ask->index, &record);
	const struct fpisa_ranks mine = fpisa_ranks_one(rank);

	if (j->state == FPISA_GROUP_JOB_NONE) {
		record->asked = ask->spec;
		j->next_port = m->policy->udp_first;
		j->window = ask->spec.window ?: FPISA_DEFAULT_WINDOW;
		j->state = FPISA_GROUP_JOB_ASKED;
	}
	fpisa_ranks_add(&j->asked, rank);
	if (j->reason) {
		tell_refusal(m, g, ask->index, rank);
		return;
	}
	if (memcmp(&record->asked, &ask->spec, sizeof(ask->spec))) {
		if (!fpisa_group_job_awaited(j->state)) {
			tell_refusal_of_another(m, g, ask->index, rank);
			return;
		}
		refuse_job(m, g, ask->index, FPISA_MANAGER_R_differs, &mine,
			   "group %s: rank %u asks for a different job from the ranks before it; all ranks must use "
			   "formats and modes in the same order",
			   g->record.name, rank);
		return;
	}
	if (fpisa_ranks_any(&g->record.left)) {
		manager_job_without(m, g, fpisa_ranks_next(&g->record.left, 0));
		return;
	}
	if (j->state == FPISA_GROUP_JOB_ASKED) {
		if (allowed(m, g, ask->index, &ask->spec) && fpisa_ranks_count(&j->asked) == g->record.size &&
		    window_fits(m, g, ask->index))
			bind_ports(m, g, ask->index);
		return;
	}
	/* The rank has come back, and asks again. */
	fpisa_ranks_remove(&j->bound, rank);
	tell_bind(m, g, ask->index, rank);
}

void manager_bound(struct manager *m, struct manager_group *g, __u32 rank, const struct fpisa_manager_bind *b)
{
	struct manager_group_job *j = &g->job[b->index];
	const struct fpisa_ranks mine = fpisa_ranks_one(rank);

	/* Ignore an answer to an earlier try, or about a job that was refused meanwhile. */
	if (j->reason || !fpisa_group_job_has_ports(j->state) || b->port != g->record.rank[rank].port[b->index])
		return;
	if (b->taken && j->state == FPISA_GROUP_JOB_BINDING) {
		bind_ports(m, g, b->index);
		return;
	}
	if (b->taken)
		return;
	fpisa_ranks_add(&j->bound, rank);
	if (j->state == FPISA_GROUP_JOB_MADE)
		tell_job(m, g, b->index, &mine);
	else if (j->state == FPISA_GROUP_JOB_BINDING && fpisa_ranks_count(&j->bound) == g->record.size)
		make(m, g, b->index);
}

void manager_failed(struct manager *m, struct manager_group *g, __u32 rank, const struct fpisa_manager_refusal *r)
{
	const struct fpisa_ranks own = fpisa_ranks_one(rank);

	if (!g->job[r->index].reason)
		refuse_job(m, g, r->index, r->reason, &own, "group %s: rank %u cannot continue: %s", g->record.name,
			   rank, r->text);
}

void manager_job_tick(struct manager *m, struct manager_group *g)
{
	for (__u32 k = 0; k < FPISA_MANAGER_JOBS; k++) {
		const struct manager_group_job *j = &g->job[k];

		if (j->state == FPISA_GROUP_JOB_MAKING && !j->reason &&
		    m->now_ms >= j->making_ms + FPISA_MANAGER_MAKING_MS)
			refuse_job(m, g, k, FPISA_MANAGER_R_datapath, NULL,
				   "group %s: the aggregator did not create the job within %d s; see the log of fpisa "
				   "serve",
				   g->record.name, FPISA_MANAGER_MAKING_MS / 1000);
	}
}

void manager_job_without(struct manager *m, struct manager_group *g, __u32 rank)
{
	const struct fpisa_ranks own = fpisa_ranks_one(rank);

	for (__u32 k = 0; k < FPISA_MANAGER_JOBS; k++)
		if (fpisa_group_job_awaited(g->job[k].state))
			refuse_job(m, g, k, FPISA_MANAGER_R_gone, &own, "group %s: rank %u has left the group",
				   g->record.name, rank);
}

void manager_tell_refusals(struct manager *m, struct manager_group *g, __u32 rank)
{
	for (__u32 k = 0; k < FPISA_MANAGER_JOBS; k++)
		if (g->job[k].reason)
			tell_refusal(m, g, k, rank);
}

void manager_restore_jobs(struct manager_group *g)
{
	for (int k = 0; k < FPISA_MANAGER_JOBS; k++) {
		struct group_job *record;
		struct manager_group_job *j = job_of(g, (__u32)k, &record);

		if (record->state != FPISA_GROUP_JOB_MADE) {
			memset(record, 0, sizeof(*record));
			continue;
		}
		memset(g->unheld, true, manager_aggregators_of(g, (__u32)k));
		j->state = FPISA_GROUP_JOB_MADE;
		j->reason = record->refused;
		if (j->reason)
			snprintf(j->text, sizeof(j->text),
				 "group %s: job %d was refused before the manager was restarted", g->record.name, k);
		j->asked = fpisa_ranks_all(g->record.size);
		j->at = manager_steps(g, (__u32)k);
		j->window = record->made.window;
	}
}
