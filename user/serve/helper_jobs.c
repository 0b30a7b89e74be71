// SPDX-License-Identifier: GPL-2.0-only
/* Jobs and records of the manager in the helper; helper_jobs.h has the contracts. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/names.h"
#include "cli/print.h"
#include "cli/report.h"
#include "helper_jobs.h"
#include "host/route.h"
#include "job/job.h"
#include "manager/remote.h"

/* Discard the errors of an attempt that will be repeated. */
static void forget_errors(struct helper_state *w)
{
	if (!ftruncate(w->errors, 0))
		lseek(w->errors, 0, SEEK_SET);
}

/* -- jobs -------------------------------------------------------------------- */

/* Return the number of the job that has the token, or FPISA_MAX_JOBS if no job has it. */
static __u32 job_of(const struct helper_state *w, __u64 token)
{
	__u32 number = 0;

	while (number < FPISA_MAX_JOBS && !datapath_has_job(&w->dp, number, token))
		number++;
	return number;
}

/*
 * Count the slots of the manager's jobs, by token. Use tokens, because a record may list a job as not created although
 * it has been created since.
 */
static int slots_given(const struct helper_state *w, __u32 *slots)
{
	struct group_record r;
	int err = 0;

	*slots = 0;
	for (__u32 i = 0; !err && i < GROUPS; i++) {
		err = datapath_group_get(&w->groups, i, &r);
		for (int k = 0; !err && r.id && k < FPISA_MANAGER_JOBS; k++) {
			for (__u32 n = 0; n < FPISA_MAX_JOBS; n++)
				if (datapath_has_job(&w->dp, n, r.job[k].token))
					*slots += w->dp.jobs[n].window;
		}
	}
	return err;
}

/*
 * Check a limit again that the manager has already checked. So even a manager that an attacker controls gets no more
 * than the policy permits.
 */
static int limited(__u32 *reason, enum fpisa_manager_reason is)
{
	*reason = is;
	return -EACCES;
}

/*
 * Check the job against the policy. If a limit is exceeded, report the key of the limit, set *reason and return
 * -EACCES.
 */
static int check_policy(const struct manager_policy *p, const struct manager_make *o, __u32 *reason)
{
	__u8 format = o->spec.format ?: FPISA_FORMAT_FP32, mode = o->spec.mode ?: FPISA_MODE_FPISA;
	char a[ADDRESS_LEN];

	if (o->workers > p->size) {
		refuse(-EACCES, "the group has %u ranks, but the manager allows %u; raise size in [manager]",
		       o->workers, p->size);
		return limited(reason, FPISA_MANAGER_R_size);
	}
	if (!(p->formats >> format & 1)) {
		refuse(-EACCES, "the manager does not offer format %s; add the format to formats in [manager]",
		       name_of(format_names, format));
		return limited(reason, FPISA_MANAGER_R_format);
	}
	if (!(p->modes >> mode & 1)) {
		refuse(-EACCES, "the manager does not offer mode %s; add the mode to modes in [manager]",
		       name_of(mode_names, mode));
		return limited(reason, FPISA_MANAGER_R_mode);
	}
	for (__u32 k = 0; k < o->workers; k++)
		if (!manager_network_allowed(p, &o->address[k])) {
			refuse(-EACCES,
			       "%s is not in a network that may ask for groups; add the network to networks in [manager]",
			       address_text(o->address[k], a));
			return limited(reason, FPISA_MANAGER_R_network);
		}
	return 0;
}

/* Return whether the job is a leaf whose root is on this datapath. */
static bool is_beside(const struct helper_state *w, const struct manager_make *o)
{
	return fpisa_is_address(&o->parent) && o->parent_port == (w->dp.control->port ?: FPISA_PORT) &&
	       (fpisa_same_address(&o->parent, &o->local) || fpisa_same_address(&o->parent, &o->other));
}

/* Return the number of a job that has the token although it is not recorded, or FPISA_MAX_JOBS. */
static __u32 unexpected_job(const struct helper_state *w, const struct manager_make *o, const struct group_job *j)
{
	const __u64 recorded = o->further ? j->further | 1ull << j->number : 0;
	__u32 number = 0;

	while (number < FPISA_MAX_JOBS && (recorded >> number & 1 || !datapath_has_job(&w->dp, number, o->token)))
		number++;
	return number;
}

static int check_make(struct helper_state *w, const struct manager_make *o, struct group_record *r, __u32 *reason)
{
	__u32 slots;
	int err;

	if (o->place >= GROUPS || o->index >= FPISA_MANAGER_JOBS || !o->workers || o->workers > FPISA_MAX_WORKERS ||
	    o->spec.format >= FPISA_FORMAT_END || o->spec.mode >= FPISA_MODE_END || !o->spec.window ||
	    o->spec.window > w->policy->slots || o->parent_rank >= FPISA_MAX_WORKERS)
		return refuse(-EACCES, "the network process may not request this job; please report this bug");
	err = datapath_group_get(&w->groups, o->place, r);
	if (err)
		return err;
	if (!o->id || r->id != o->id || r->job[o->index].state != FPISA_GROUP_JOB_MAKING ||
	    r->job[o->index].token != o->token || !o->token)
		return refuse(-EACCES, "the record of the group does not announce this job; please report this bug");
	if (unexpected_job(w, o, &r->job[o->index]) < FPISA_MAX_JOBS)
		return refuse(-EACCES, "job %u already has the requested job's token; please report this bug",
			      unexpected_job(w, o, &r->job[o->index]));
	err = check_policy(w->policy, o, reason) ?: slots_given(w, &slots);
	if (!err && slots + o->spec.window > w->policy->slots)
		return refuse(
			-ENOSPC,
			"the job needs %u slots, but the manager has given %u of %u; raise slots in [manager] or end another job",
			o->spec.window, slots, w->policy->slots);
	return err;
}

/* Set the job's address or, for ranks of both families, its two addresses. */
static void fill_addresses(const struct manager_make *o, struct fpisa_job *j)
{
	const bool v6 = fpisa_is_ipv6(&o->local);

	j->address = v6 || !fpisa_is_address(&o->other) ? o->local : o->other;
	if (fpisa_is_address(&o->other))
		j->ipv4 = v6 ? o->other.w[3] : o->local.w[3];
}

static void fill_spec(const struct helper_state *w, const struct manager_make *o, const struct group_job *record,
		      struct job_spec *s)
{
	bool unicast;

	*s = (struct job_spec){.workers = NULL};
	s->job.workers = o->workers;
	s->job.token = o->token;
	s->job.token_high = record->token_high;
	s->job.format = o->spec.format;
	s->job.mode = o->spec.mode;
	s->job.rounding = o->spec.rounding;
	s->job.pipeline = o->spec.pipeline;
	s->job.elements = o->spec.elements;
	s->job.window = o->spec.window;
	/* Choose the fan-out of a job without one. Multicast is preferred if it is possible. */
	/* Frames of a rank on this host arrive through lo, where multicast does not work. */
	for (__u32 r = 0; r < o->workers; r++) {
		__u32 vrf;

		if (!address_here(o->address[r], &vrf))
			continue;
		s->dev[r] = (char *)"lo";
		s->job.fanout = FPISA_FANOUT_UNICAST;
	}
	if (o->leaves) {
		s->job.flags |= FPISA_JOB_LEAVES;
		s->job.fanout = FPISA_FANOUT_UNICAST;
	}
	if (fpisa_is_address(&o->parent)) {
		s->job.flags |= FPISA_JOB_LEAF;
		s->job.parent = (struct fpisa_rank){.addr = o->parent, .port = htons(o->parent_port)};
		s->job.parent_rank = o->parent_rank;
		s->job.parent_job = is_beside(w, o) ? record->number : FPISA_MAX_JOBS;
	}
	unicast = s->job.fanout || (o->spec.fanout ? o->spec.fanout == FPISA_FANOUT_UNICAST : w->policy->unicast);
	s->job.fanout = unicast ? FPISA_FANOUT_UNICAST : 0;
	s->any_fanout = !o->spec.fanout;
	for (__u32 r = 0; r < o->workers; r++) {
		s->job.rank[r].addr = o->address[r];
		s->job.rank[r].port = htons(o->port[r]);
	}
	fill_addresses(o, &s->job);
}

/*
 * Complete the job. If the number of elements is not given, use as many elements as fit into the MTUs. If the given
 * number is too large, the answer contains the number that fits.
 */
static int resolve(struct helper_state *w, const struct manager_make *o, struct job_spec *s, struct manager_made *made)
{
	int err = job_spec_resolve(s, made->number);
	__u16 carried = err == -EMSGSIZE ? job_spec_elements(s) : 0;

	if (!carried)
		return err;
	forget_errors(w);
	if (!o->spec.elements) {
		s->job.elements = carried;
		return job_spec_resolve(s, made->number);
	}
	made->spec.elements = carried;
	made->reason = FPISA_MANAGER_R_job;
	return refuse(-EMSGSIZE,
		      "%u elements make a frame larger than the MTU of its ports; ask for %u elements or fewer",
		      o->spec.elements, carried);
}

#define WARN_S 10

/*
 * Warn about the ranks' ports. Do not repeat this check for each job of a group, because it examines all network
 * namespaces, which is slow.
 */
static void warn(struct helper_state *w, const struct job_spec *s, __u32 number)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (now.tv_sec < w->warn_s && !memcmp(w->warned, s->ifindex, sizeof(w->warned)))
		return;
	w->warn_s = now.tv_sec + WARN_S;
	memcpy(w->warned, s->ifindex, sizeof(w->warned));
	job_spec_warn(s, &w->dp, number);
}

/*
 * Choose a free number with the smallest sufficient room. If no number has enough room, choose the first free number.
 * Creating the job then waits for a grace period.
 */
static __u32 choose_number(struct helper_state *w, const struct manager_make *o)
{
	__u32 best = FPISA_MAX_JOBS, best_room = FPISA_MAX_WORKERS + 1;

	for (__u32 n = 0; n < FPISA_MAX_JOBS; n++) {
		__u32 room;

		if (w->dp.jobs[n].active || !(w->policy->jobs & o->pool & 1ull << n))
			continue;
		room = datapath_job_room(&w->dp, n);
		if (room >= o->workers && room < best_room) {
			best = n;
			best_room = room;
		} else if (best == FPISA_MAX_JOBS) {
			best = n;
		}
	}
	return best;
}

static void note_number(struct group_job *j, __u32 number, bool further)
{
	j->further = further ? j->further | 1ull << number : 0;
	if (further)
		return;
	j->number = (__u16)number;
	j->at[0] = (__u8)number;
}

int helper_make_job(struct helper_state *w, const struct manager_make *o, struct manager_made *made)
{
	struct group_record r;
	struct job_spec s;
	int err = check_make(w, o, &r, &made->reason);

	while (!err) {
		made->number = choose_number(w, o);
		if (made->number == FPISA_MAX_JOBS) {
			made->reason = FPISA_MANAGER_R_pool;
			return refuse(
				-ENOENT,
				"all %d job numbers of the manager are in use; raise jobs in [manager] or end another job",
				__builtin_popcountll(w->policy->jobs));
		}
		fill_spec(w, o, &r.job[o->index], &s);
		err = job_complete(&s.job, made->number) ?: datapath_job_check(made->number, &s.job);
		if (!err)
			err = resolve(w, o, &s, made);
		if (err)
			return err > 0 ? -EINVAL : err;
		warn(w, &s, made->number);
		err = datapath_job_add(&w->dp, made->number, &s.job, s.ifindex);
		/* Another process has taken the number in the meantime, so use the next number. */
		if (err != -EEXIST)
			break;
		forget_errors(w);
		err = 0;
	}
	if (err)
		return err;
	made->spec = (struct fpisa_manager_spec){.format = s.job.format,
						 .mode = s.job.mode,
						 .rounding = s.job.rounding,
						 .pipeline = s.job.pipeline,
						 .elements = s.job.elements,
						 .window = s.job.window};
	/*
	 * With several aggregators the job stays in state MAKING until the manager knows that all aggregators have
	 * created it.
	 */
	if (r.aggregators <= 1)
		r.job[o->index].state = FPISA_GROUP_JOB_MADE;
	note_number(&r.job[o->index], made->number, o->further);
	r.job[o->index].made = made->spec;
	err = datapath_group_put(&w->groups, o->place, &r);
	if (err)
		datapath_job_end(&w->dp, made->number, o->token);
	return err;
}

int helper_remove_job(struct helper_state *w, __u32 number, __u64 token)
{
	struct group_record r;

	for (__u32 i = 0; i < GROUPS; i++) {
		int err = datapath_group_get(&w->groups, i, &r);

		if (err)
			return err;
		for (int k = 0; r.id && k < FPISA_MANAGER_JOBS; k++)
			if (r.job[k].token == token)
				return datapath_job_end(&w->dp, number, token);
	}
	return 0;
}

/* -- records ------------------------------------------------------------------ */

/* Return whether a record is valid. The verbs and the next manager use records without further checks. */
static bool is_record(const struct group_record *r)
{
	struct fpisa_ranks all, ranks, others;

	if (!r->size || r->size > FPISA_MAX_RANKS)
		return false;
	all = fpisa_ranks_all(r->size);
	ranks = fpisa_ranks_or(&r->left, &r->gone);
	ranks = fpisa_ranks_or(&ranks, &r->joined);
	others = fpisa_ranks_without(&ranks, &all);
	if (fpisa_ranks_any(&others) || r->aggregators > GROUP_AGGREGATORS || !fpisa_manager_name_valid(r->name) ||
	    !memchr(r->owner, 0, sizeof(r->owner)) || (*r->owner && !fpisa_psk_name_valid(r->owner)))
		return false;
	for (int k = 0; k < FPISA_MANAGER_JOBS; k++)
		if (r->job[k].state > FPISA_GROUP_JOB_MADE || r->job[k].number >= FPISA_MAX_JOBS ||
		    r->job[k].refused >= FPISA_MANAGER_R_END)
			return false;
	return true;
}

static bool has_token(const struct group_record *r, __u64 token)
{
	for (int k = 0; k < FPISA_MANAGER_JOBS; k++)
		if (r->id && r->job[k].token == token)
			return true;
	return false;
}

int helper_record(struct helper_state *w, __u32 place, const struct group_record *r)
{
	struct group_record old;
	int err;

	if (r->id && !is_record(r))
		return refuse(-EPROTO,
			      "serve: the network process sent an invalid record of group %u; please report "
			      "this bug",
			      place);
	err = datapath_group_get(&w->groups, place, &old);
	for (int k = 0; !err && old.id && k < FPISA_MANAGER_JOBS; k++)
		if (job_of(w, old.job[k].token) < FPISA_MAX_JOBS && !has_token(r, old.job[k].token))
			err = refuse(-EPROTO,
				     "serve: the network process sent a record of group %u without job %u, which "
				     "still exists; please report this bug",
				     place, job_of(w, old.job[k].token));
	return err ?: datapath_group_put(&w->groups, place, r);
}

/* Return whether a job of a group exists, and its further jobs. */
static bool has_jobs(const struct helper_state *w, const struct group_job *j)
{
	for (__u32 n = 0; n < FPISA_MAX_JOBS; n++)
		if ((n == j->number || j->further >> n & 1) && !datapath_has_job(&w->dp, n, j->token))
			return false;
	return true;
}

/* Return whether the group has all the jobs that its record lists. A user may have deleted one of them. */
static bool is_whole(const struct helper_state *w, const struct group_record *r)
{
	const __u16 port = (__u16)(w->dp.control->port ?: FPISA_PORT);

	for (__u32 k = 0; k < FPISA_MANAGER_JOBS; k++)
		if (r->job[k].state == FPISA_GROUP_JOB_MADE && manager_has_job(r, k, port) && !has_jobs(w, &r->job[k]))
			return false;
	return true;
}

int helper_look(const struct helper_state *w, __u64 kill[GROUPS])
{
	int err = datapath_check_pinned(&w->dp);
	struct group_record r;

	for (__u32 i = 0; !err && i < GROUPS; i++) {
		err = datapath_group_get(&w->groups, i, &r);
		if (!err)
			err = datapath_group_to_kill(&w->groups, i, &kill[i]);
		if (!err && r.id && !is_whole(w, &r))
			kill[i] = r.id;
	}
	return err;
}

int helper_clean(struct helper_state *w, __u32 place, struct group_record *r)
{
	bool changed = false, whole = !group_gathers(r) && is_whole(w, r);
	int err = 0;

	for (int k = 0; !err && k < FPISA_MANAGER_JOBS; k++) {
		struct group_job *j = &r->job[k];

		if (j->state == FPISA_GROUP_JOB_NONE || (whole && j->state == FPISA_GROUP_JOB_MADE))
			continue;
		for (__u32 n = 0; !err && n < FPISA_MAX_JOBS; n++)
			if (datapath_has_job(&w->dp, n, j->token))
				err = datapath_job_end(&w->dp, n, j->token);
		memset(j, 0, sizeof(*j));
		changed = true;
	}
	if (!whole)
		r->id = 0;
	return err ?: changed || !whole ? datapath_group_put(&w->groups, place, r) : 0;
}
