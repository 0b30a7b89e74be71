// SPDX-License-Identifier: GPL-2.0-only
/* The process beside the manager that makes and removes jobs; helper.h has the contract. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "cli/report.h"
#include "helper.h"
#include "host/privilege.h"
#include "job/job.h"

#define CLAIM_S 20 /* the helper of a manager that was killed first ends what it does */

struct worker {
	int fd; /* to the manager */
	const struct manager_policy *policy;
	struct datapath dp;
	struct datapath_groups groups;
	int errors, stderr_fd; /* what is reported goes to the first, and from there to the second */
};

/* -- what was reported, for who asked ---------------------------------------- */

/* The first message, without "fpisa: "; all of it goes where it would have gone. */
static void take_errors(struct worker *w, char text[FPISA_MANAGER_TEXT])
{
	char all[2048], *line = all, *end;
	ssize_t n = pread(w->errors, all, sizeof(all) - 1, 0);

	if (ftruncate(w->errors, 0) || n < 0)
		n = 0;
	lseek(w->errors, 0, SEEK_SET);
	all[n] = 0;
	if (n && write(w->stderr_fd, all, (size_t)n) != n)
		n = 0;
	while (!strncmp(line, "fpisa: warning", 14) && (end = strchr(line, '\n')))
		line = end + 1;
	if (!strncmp(line, "fpisa: ", 7))
		line += 7;
	line[strcspn(line, "\n")] = 0;
	for (char *c = line; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	snprintf(text, FPISA_MANAGER_TEXT, "%.*s", FPISA_MANAGER_TEXT - 1, *line ? line : "of an unknown cause");
}

/* What goes wrong on a way that is tried again is nobody's concern. */
static void forget_errors(struct worker *w)
{
	if (!ftruncate(w->errors, 0))
		lseek(w->errors, 0, SEEK_SET);
}

/* -- jobs -------------------------------------------------------------------- */

static bool is_ours(const struct worker *w, __u32 number, __u64 token)
{
	return number < FPISA_MAX_JOBS && token && w->dp.jobs[number].active && w->dp.jobs[number].token == token;
}

/* Slots of the jobs that records say are the manager's. */
static int slots_given(const struct worker *w, __u32 *slots)
{
	struct group_record r;
	int err = 0;

	*slots = 0;
	for (__u32 i = 0; !err && i < GROUPS; i++) {
		err = datapath_group_get(&w->groups, i, &r);
		for (int k = 0; !err && r.id && k < FPISA_MANAGER_JOBS; k++)
			if (r.job[k].state == GROUP_JOB_MADE && is_ours(w, r.job[k].number, r.job[k].token))
				*slots += w->dp.jobs[r.job[k].number].window;
	}
	return err;
}

/* The manager has looked at all of this; should it no longer be itself, it gets no more than the policy gives. */
static int check_make(struct worker *w, const struct manager_make *o, struct group_record *r)
{
	__u8 format = o->spec.format ?: FPISA_FORMAT_FP32, mode = o->spec.mode ?: FPISA_MODE_FPISA;
	__u32 slots;
	int err;

	if (o->place >= GROUPS || o->index >= FPISA_MANAGER_JOBS || !o->workers || o->workers > w->policy->size ||
	    format >= FPISA_FORMAT_END || mode >= FPISA_MODE_END || !(w->policy->formats >> format & 1) ||
	    !(w->policy->modes >> mode & 1) || !o->spec.window || o->spec.window > w->policy->slots)
		return refuse(-EACCES, "a job that the manager may not ask for");
	err = datapath_group_get(&w->groups, o->place, r);
	if (err)
		return err;
	if (r->id != o->id || r->job[o->index].state != GROUP_JOB_MAKING || r->job[o->index].token != o->token ||
	    !o->token)
		return refuse(-EACCES, "a job that no record announces");
	for (__u32 k = 0; k < o->workers; k++)
		if (!manager_network_allowed(w->policy, o->address[k]))
			return refuse(-EACCES, "a job for hosts that the manager may not serve");
	err = slots_given(w, &slots);
	if (!err && slots + o->spec.window > w->policy->slots)
		return refuse(-ENOSPC, "the manager has given %u of its %u slots (slots)", slots, w->policy->slots);
	return err;
}

static void fill_spec(const struct manager_make *o, struct job_spec *s)
{
	*s = (struct job_spec){ .workers = NULL };
	s->job.workers = o->workers;
	s->job.token = o->token;
	s->job.address = o->local;
	s->job.format = o->spec.format;
	s->job.mode = o->spec.mode;
	s->job.rounding = o->spec.rounding;
	s->job.pipeline = o->spec.pipeline;
	s->job.elements = o->spec.elements;
	s->job.window = o->spec.window;
	for (__u32 r = 0; r < o->workers; r++) {
		s->job.rank[r].addr = o->address[r];
		s->job.rank[r].port = htons(o->port[r]);
	}
}

/* Where nobody said how many elements a frame has, they are as many as the MTUs carry. */
static int resolve(struct worker *w, const struct manager_make *o, struct job_spec *s, __u32 number)
{
	int err = job_spec_resolve(s, number);

	while (err == -EMSGSIZE && !o->spec.elements && s->job.elements > FPISA_BLOCK) {
		forget_errors(w);
		s->job.elements -= FPISA_BLOCK;
		err = job_spec_resolve(s, number);
	}
	return err;
}

static int make_job(struct worker *w, const struct manager_make *o, struct manager_made *made)
{
	struct group_record r;
	struct job_spec s;
	int err = check_make(w, o, &r);

	made->number = 0;
	while (!err) {
		while (made->number < FPISA_MAX_JOBS &&
		       (w->dp.jobs[made->number].active || !(w->policy->jobs & o->pool & 1ull << made->number)))
			made->number++;
		if (made->number == FPISA_MAX_JOBS)
			return refuse(-ENOENT, "no number of a job is free on the aggregator");
		fill_spec(o, &s);
		err = job_complete(&s.job, made->number);
		if (!err)
			err = datapath_job_check(made->number, &s.job);
		if (!err)
			err = resolve(w, o, &s, made->number);
		if (err)
			return err > 0 ? -EINVAL : err;
		job_spec_warn(&s, &w->dp, made->number);
		err = datapath_job_add(&w->dp, made->number, &s.job, s.ifindex);
		/* Somebody was faster: the next number. */
		if (err != -EEXIST)
			break;
		forget_errors(w);
		err = 0;
	}
	if (err)
		return err;
	made->spec = (struct fpisa_manager_spec){ .format = s.job.format,
						  .mode = s.job.mode,
						  .rounding = s.job.rounding,
						  .pipeline = s.job.pipeline,
						  .elements = s.job.elements,
						  .window = s.job.window };
	r.job[o->index].state = GROUP_JOB_MADE;
	r.job[o->index].number = made->number;
	r.job[o->index].made = made->spec;
	err = datapath_group_put(&w->groups, o->place, &r);
	if (err)
		datapath_job_del(&w->dp, made->number);
	return err;
}

static int remove_job(struct worker *w, __u32 number, __u64 token)
{
	struct group_record r;

	for (__u32 i = 0; i < GROUPS; i++) {
		int err = datapath_group_get(&w->groups, i, &r);

		if (err)
			return err;
		for (int k = 0; r.id && k < FPISA_MANAGER_JOBS; k++)
			if (r.job[k].token == token && is_ours(w, number, token))
				return datapath_job_del(&w->dp, number);
	}
	return 0;
}

/* -- records ------------------------------------------------------------------ */

/* Does the group have all the jobs that its record says? Somebody may have deleted one. */
static bool is_whole(const struct worker *w, const struct group_record *r)
{
	for (int k = 0; k < FPISA_MANAGER_JOBS; k++)
		if (r->job[k].state == GROUP_JOB_MADE && !is_ours(w, r->job[k].number, r->job[k].token))
			return false;
	return true;
}

static int look(struct worker *w, struct helper_answer *a)
{
	struct group_record r;
	int err = 0;

	for (__u32 i = 0; !err && i < GROUPS; i++) {
		err = datapath_group_get(&w->groups, i, &r);
		if (!err)
			err = datapath_group_to_kill(&w->groups, i, &a->kill[i]);
		if (!err && r.id && !is_whole(w, &r))
			a->kill[i] = r.id;
	}
	return err;
}

/* Of a job whose making was begun nobody has heard. */
static int clean(struct worker *w, __u32 place, struct group_record *r)
{
	bool changed = false, whole = is_whole(w, r);
	int err = 0;

	for (int k = 0; !err && k < FPISA_MANAGER_JOBS; k++) {
		struct group_job *j = &r->job[k];

		if (j->state == GROUP_JOB_NONE || (whole && j->state == GROUP_JOB_MADE))
			continue;
		for (__u32 n = 0; !err && n < FPISA_MAX_JOBS; n++)
			if (is_ours(w, n, j->token))
				err = datapath_job_del(&w->dp, n);
		memset(j, 0, sizeof(*j));
		changed = true;
	}
	if (!whole)
		memset(r, 0, sizeof(*r));
	return err ?: changed || !whole ? datapath_group_put(&w->groups, place, r) : 0;
}

/* -- the process -------------------------------------------------------------- */

static int answer(const struct worker *w, const struct helper_answer *a)
{
	return send(w->fd, a, sizeof(*a), MSG_NOSIGNAL) == sizeof(*a) ? 0 : -errno;
}

static int tell_found(struct worker *w)
{
	struct helper_answer a = { .what = HELPER_FOUND };
	int err = 0;

	for (a.place = 0; !err && a.place < GROUPS; a.place++) {
		err = datapath_group_get(&w->groups, a.place, &a.record);
		if (!err && a.record.id)
			err = clean(w, a.place, &a.record);
		if (!err && a.record.id)
			err = answer(w, &a);
	}
	a = (struct helper_answer){ .what = HELPER_READY, .port = w->dp.control->port ?: FPISA_PORT };
	return err ?: answer(w, &a);
}

static int take(struct worker *w, const struct helper_request *q)
{
	struct helper_answer a = { .what = q->what, .place = q->place };
	char text[FPISA_MANAGER_TEXT];

	if (q->place >= GROUPS)
		return refuse(-EPROTO, "fpisa serve: a request for place %u", q->place);
	switch ((enum helper_what)q->what) {
	case HELPER_RECORD:
		return datapath_group_put(&w->groups, q->place, &q->record);
	case HELPER_REMOVE:
		return remove_job(w, q->remove.number, q->remove.token);
	case HELPER_LOOK:
		return look(w, &a) ?: answer(w, &a);
	case HELPER_MAKE:
		a.made = (struct manager_made){ .place = q->place, .index = q->make.index, .id = q->make.id };
		a.made.err = make_job(w, &q->make, &a.made);
		take_errors(w, text);
		if (a.made.err)
			memcpy(a.made.text, text, sizeof(text));
		/* A datapath that was unloaded has no groups either. */
		return answer(w, &a) ?: a.made.err == -ESTALE ? a.made.err : 0;
	default:
		return refuse(-EPROTO, "fpisa serve: a request of kind %u", q->what);
	}
}

static int open_datapath(struct worker *w, const char *pin)
{
	struct timespec pause = { .tv_nsec = 20000000 };
	int err = datapath_open(&w->dp, pin);
	pid_t pid;

	if (err)
		return err;
	err = privilege_check(PRIVILEGE_LOAD, "serve") ?: datapath_groups_open(&w->dp, true, &w->groups);
	for (int i = 0; !err && i < CLAIM_S * 50; i++) {
		err = datapath_groups_claim(&w->dp, &w->groups, &pid);
		if (err != -EBUSY)
			break;
		nanosleep(&pause, NULL);
		err = i + 1 < CLAIM_S * 50 ? 0 :
			      refuse(-EBUSY, "%s: another manager serves this datapath, process %d", w->dp.pin, pid);
	}
	return err ?: privilege_keep_load(false);
}

static int run(struct worker *w, const char *pin)
{
	char text[FPISA_MANAGER_TEXT];
	struct helper_request q;
	int err = open_datapath(w, pin);

	if (err)
		return err;
	w->errors = memfd_create("fpisa-errors", MFD_CLOEXEC);
	w->stderr_fd = dup(STDERR_FILENO);
	if (w->errors < 0 || w->stderr_fd < 0 || dup2(w->errors, STDERR_FILENO) < 0)
		return fail(-errno, NULL, "serve");
	err = tell_found(w);
	while (!err) {
		ssize_t n = recv(w->fd, &q, sizeof(q), 0);

		if (n != sizeof(q))
			break;
		err = take(w, &q);
		if (lseek(w->errors, 0, SEEK_CUR))
			take_errors(w, text);
	}
	take_errors(w, text);
	return err;
}

int helper_start(struct helper *h, const char *pin, const struct manager_policy *policy, __u16 *port,
		 void (*found)(void *arg, __u32 place, const struct group_record *r), void *arg)
{
	int pair[2], room = 8 << 20;
	struct helper_answer a;
	ssize_t n;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return fail(-errno, NULL, "serve");
	if (setsockopt(pair[0], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)))
		setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	h->pid = fork();
	if (h->pid < 0)
		return fail(-errno, NULL, "serve");
	if (!h->pid) {
		struct worker w = { .fd = pair[1], .policy = policy };

		close(pair[0]);
		/* It ends when the manager does, after what it has begun. */
		signal(SIGINT, SIG_IGN);
		signal(SIGTERM, SIG_IGN);
		signal(SIGHUP, SIG_IGN);
		prctl(PR_SET_NAME, "fpisa-helper");
		_exit(run(&w, pin) ? 1 : 0);
	}
	close(pair[1]);
	h->fd = pair[0];
	while ((n = recv(h->fd, &a, sizeof(a), 0)) == sizeof(a) && a.what == HELPER_FOUND)
		found(arg, a.place, &a.record);
	/* Else it has said why. */
	if (n != sizeof(a) || a.what != HELPER_READY)
		return -ECHILD;
	*port = a.port;
	return 0;
}

int helper_ask(const struct helper *h, const struct helper_request *q)
{
	if (send(h->fd, q, sizeof(*q), MSG_NOSIGNAL) != sizeof(*q))
		return fail(-EPIPE, "it has said why", "serve: the process that makes jobs is gone");
	return 0;
}

int helper_answer(const struct helper *h, struct helper_answer *a)
{
	ssize_t n = recv(h->fd, a, sizeof(*a), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n != sizeof(*a))
		return fail(-EPIPE, "it has said why", "serve: the process that makes jobs is gone");
	return 1;
}
