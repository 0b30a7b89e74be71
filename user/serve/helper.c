// SPDX-License-Identifier: GPL-2.0-only
/* The manager's second process, which creates and removes jobs; helper.h has the contract. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/report.h"
#include "fpisa.h"
#include "helper.h"
#include "helper_jobs.h"
#include "host/privilege.h"

/*
 * Number of descriptors for a map of ports for each job, for the maps of the datapath, and for an object while it is
 * being loaded.
 */
#define DESCRIPTORS (FPISA_MAX_JOBS + 96)
#define CLAIMS_A_SECOND 50
#define CLAIM_S 20 /* time for the helper of a killed manager to finish its work */

/* -- reported errors, for the client --------------------------------------------- */

static __u64 now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (__u64)t.tv_sec * 1000 + (__u64)t.tv_nsec / 1000000;
}

/* Take the first message that is not a warning, without "fpisa: ". Log all messages. */
static void take_errors(struct helper_state *w, char text[FPISA_MANAGER_TEXT])
{
	char all[2048], *rest = all, *line, *first = NULL;
	ssize_t n = pread(w->errors, all, sizeof(all) - 1, 0);

	if (ftruncate(w->errors, 0) || n < 0)
		n = 0;
	lseek(w->errors, 0, SEEK_SET);
	all[n] = 0;
	while ((line = strsep(&rest, "\n")) && *line) {
		log_line(&w->log, now_ms(), "%s", line);
		if (!first && strncmp(line, "fpisa: warning", 14))
			first = line + (strncmp(line, "fpisa: ", 7) ? 0 : 7);
	}
	for (char *c = first; c && *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	snprintf(text, FPISA_MANAGER_TEXT, "%.*s", FPISA_MANAGER_TEXT - 1, first ?: "unknown cause");
}

/* -- the process -------------------------------------------------------------- */

/*
 * Send an answer. Ignore an error if the manager was killed, and finish its earlier requests, because the next manager
 * uses the records.
 */
static int answer(const struct helper_state *w, const struct helper_answer *a)
{
	const size_t bytes = helper_answer_bytes(a);

	if (send(w->fd, a, bytes, MSG_NOSIGNAL) == (ssize_t)bytes || errno == EPIPE || errno == ECONNRESET)
		return 0;
	return -errno;
}

static int tell_found(struct helper_state *w)
{
	struct helper_answer a = {.what = HELPER_FOUND};
	int err = 0;

	for (a.place = 0; !err && a.place < GROUPS; a.place++) {
		err = datapath_group_get(&w->groups, a.place, &a.record);
		if (!err && a.record.id)
			err = helper_clean(w, a.place, &a.record);
		if (!err && a.record.id)
			err = answer(w, &a);
	}
	a = (struct helper_answer){.what = HELPER_READY, .ready = {w->dp.control->port ?: FPISA_PORT, w->dp.slots_n}};
	return err ?: answer(w, &a);
}

static bool same_text(const char *a, const char *b)
{
	return !a || !b ? a == b : !strcmp(a, b);
}

/* Warn of settings that a running process cannot change. */
static void warn_fixed(const struct manager_policy *was, const struct config *c)
{
	const struct manager_policy *is = &c->manager;

	if (!fpisa_same_address(&is->listen, &was->listen) || is->port != was->port)
		warning("%s: changes of listen and port take effect when fpisa serve is restarted", c->file);
	if (!same_text(is->manager, was->manager) || !same_text(is->colocated, was->colocated) ||
	    !same_text(is->user, was->user))
		warning("%s: changes of manager, colocated and user take effect when fpisa serve is restarted", c->file);
}

/* Read the configuration and the keys, which the network process may not read. An error changes nothing. */
static int read_again(struct helper_state *w, struct helper_news *news)
{
	struct config *c = NULL;
	int err = config_read(&c, w->config->file);

	if (!err && !c->manager_line)
		err = refuse(-EINVAL, "%s no longer has a section [manager]; add it again", c->file);
	err = err ?: config_give(c, &w->config->given) ?: manager_policy_fit(&c->manager, w->dp.slots_n);
	if (!err && c->manager.key_file && fpisa_psks_read(&news->keys, c->manager.key_file))
		err = refuse(-EINVAL, "serve: %s", fpisa_error());
	if (err) {
		config_free(c);
		return err;
	}
	warn_fixed(w->policy, c);
	news->policy = c->manager;
	/* Clear the pointers, which are not valid in the other process. */
	news->policy.key_file = news->policy.user = news->policy.manager = news->policy.colocated = NULL;
	config_free(w->config);
	w->config = c;
	w->policy = &c->manager;
	return datapath_jobs_prepare(&w->dp, w->policy->jobs);
}

static int take(struct helper_state *w, const struct helper_request *q)
{
	struct helper_answer a = {.what = q->what, .place = q->place};
	char text[FPISA_MANAGER_TEXT];
	int err;

	if (q->place >= GROUPS)
		return refuse(-EPROTO,
			      "serve: invalid request for place %u from the network process; please report "
			      "this bug",
			      q->place);
	switch ((enum helper_what)q->what) {
	case HELPER_RECORD:
		return helper_record(w, q->place, &q->record);
	case HELPER_AGGREGATOR:
		return datapath_aggregator_put(&w->groups, q->place, &q->aggregator);
	case HELPER_REMOVE:
		return helper_remove_job(w, q->remove.number, q->remove.token);
	case HELPER_COUNT:
		return datapath_groups_count(&w->groups, &q->counts);
	case HELPER_LOOK:
		log_turn(&w->log, now_ms());
		return helper_look(w, a.kill) ?: answer(w, &a);
	case HELPER_READ:
		a.news.err = read_again(w, &a.news);
		take_errors(w, text);
		err = answer(w, &a);
		explicit_bzero(&a, sizeof(a));
		return err;
	case HELPER_MAKE:
		a.made = (struct manager_made){.place = q->place, .index = q->make.index, .id = q->make.id};
		a.made.err = helper_make_job(w, &q->make, &a.made);
		take_errors(w, text);
		if (a.made.err)
			memcpy(a.made.text, text, sizeof(text));
		/* A datapath that was unloaded has no groups either. */
		return answer(w, &a) ?: a.made.err == -ESTALE ? a.made.err : 0;
	default:
		return refuse(-EPROTO,
			      "serve: invalid request of kind %u from the network process; please report "
			      "this bug",
			      q->what);
	}
}

/* Return whether the manager was killed before it began, so that there are no requests to finish. */
static bool manager_is_gone(const struct helper_state *w)
{
	struct pollfd p = {.fd = w->fd};

	return poll(&p, 1, 0) > 0 && p.revents & POLLHUP;
}

static int raise_descriptors(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files))
		return fail(-errno, NULL, "serve: cannot raise its limit of open files");
	files.rlim_cur = files.rlim_max;
	if (files.rlim_max < DESCRIPTORS)
		return refuse(
			-EMFILE,
			"serve: the process that creates jobs needs %d descriptors, but its limit is %llu; run ulimit "
			"-n %d, or set LimitNOFILE=%d in the unit",
			DESCRIPTORS, (unsigned long long)files.rlim_max, DESCRIPTORS, DESCRIPTORS);
	return setrlimit(RLIMIT_NOFILE, &files) ? fail(-errno, NULL, "serve: cannot raise its limit of open files") : 0;
}

static int open_datapath(struct helper_state *w, const char *pin)
{
	struct timespec pause = {.tv_nsec = 1000000000 / CLAIMS_A_SECOND};
	int err = raise_descriptors()		     ?:
			  datapath_open(&w->dp, pin) ?:
						       manager_policy_fit(&w->config->manager, w->dp.slots_n);
	pid_t pid;

	if (err)
		return err;
	err = privilege_check(PRIVILEGE_LOAD, "serve") ?: datapath_groups_open(&w->dp, true, &w->groups);
	for (int i = 0; !err && i < CLAIM_S * CLAIMS_A_SECOND; i++) {
		err = datapath_groups_claim(&w->dp, &w->groups, &pid);
		if (err != -EBUSY || manager_is_gone(w))
			break;
		if (i == CLAIMS_A_SECOND)
			warning("%s: process %d still serves this datapath; waiting up to %d s for it to end",
				w->dp.pin, pid, CLAIM_S - 1);
		nanosleep(&pause, NULL);
		err = i + 1 < CLAIM_S * CLAIMS_A_SECOND ?
			      0 :
			      refuse(-EBUSY,
				     "%s: process %d is a manager of this datapath already; end that process, or, in "
				     "the namespace of another host, give --pin DIR",
				     w->dp.pin, pid);
	}
	return err;
}

/* Begin to serve, at the first request. Keep the capability to change the Unix group of new pins. */
static int begin(struct helper_state *w)
{
	const struct aggregator_record none = {0};
	int err = 0;

	w->asked = true;
	/* Remove the aggregators of an earlier manager, which will register again. */
	for (__u32 i = 0; !err && i < AGGREGATORS; i++)
		err = datapath_aggregator_put(&w->groups, i, &none);
	return err ?: datapath_jobs_prepare(&w->dp, w->policy->jobs) ?: privilege_keep_load(true);
}

/* Return whether a message of `n` bytes is as long as its request. */
static bool is_request(const struct helper_request *q, ssize_t n)
{
	if (n < (ssize_t)offsetof(struct helper_request, record) ||
	    (q->what == HELPER_RECORD &&
	     (n < (ssize_t)offsetof(struct helper_request, record.rank) || q->record.size > FPISA_MAX_RANKS)))
		return false;
	return n == (ssize_t)helper_request_bytes(q);
}

static int serve(struct helper_state *w, const char *pin)
{
	static struct helper_request q;
	char text[FPISA_MANAGER_TEXT];
	int err = open_datapath(w, pin), own = -1;

	if (err)
		return err;
	w->errors = memfd_create("fpisa-errors", MFD_CLOEXEC);
	own = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
	log_open(&w->log, own);
	if (w->errors < 0 || own < 0 || dup2(w->errors, STDERR_FILENO) < 0)
		return fail(-errno, NULL, "serve: cannot redirect stderr");
	err = tell_found(w);
	while (!err) {
		ssize_t n = recv(w->fd, &q, sizeof(q), MSG_TRUNC);

		if (n <= 0)
			break;
		if (!w->asked)
			err = begin(w);
		if (err)
			break;
		err = is_request(&q, n) ?
			      take(w, &q) :
			      refuse(-EPROTO,
				     "serve: invalid request of %zd bytes from the network process; please report "
				     "this bug",
				     n);
		if (lseek(w->errors, 0, SEEK_CUR))
			take_errors(w, text);
	}
	w->log.said = 0; /* make sure that the reason for the end is reported */
	take_errors(w, text);
	return err;
}

static int run(struct helper_state *w, const char *pin)
{
	int err = serve(w, pin);

	if (!w->asked)
		datapath_groups_unmake(&w->dp, &w->groups);
	return err;
}

int helper_start(struct helper *h, const char *pin, struct config *c, struct helper_ready *ready,
		 void (*found)(void *arg, __u32 place, const struct group_record *r), void *arg)
{
	int pair[2], room = 8 << 20;
	static struct helper_answer a;
	ssize_t n;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return fail(-errno, NULL, "serve: cannot create a socket for the helper process");
	if (setsockopt(pair[0], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)))
		setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	h->pid = fork();
	if (h->pid < 0)
		return fail(-errno, NULL, "serve: cannot start the helper process");
	if (!h->pid) {
		struct helper_state w = {.fd = pair[1], .config = c, .policy = &c->manager};

		close(pair[0]);
		/* Ignore signals. The helper ends when the manager has ended and its requests are finished. */
		signal(SIGINT, SIG_IGN);
		signal(SIGTERM, SIG_IGN);
		signal(SIGHUP, SIG_IGN);
		prctl(PR_SET_NAME, "fpisa-helper");
		_exit(run(&w, pin) ? 1 : 0);
	}
	h->fd = pair[0];
	requests_open(&h->requests, pair[0]);
	close(pair[1]);
	while ((n = recv(h->fd, &a, sizeof(a), 0)) > 0 && a.what == HELPER_FOUND)
		found(arg, a.place, &a.record);
	/* Otherwise the helper has reported its error. */
	if (n != (ssize_t)helper_answer_bytes(&a) || a.what != HELPER_READY)
		return -ECHILD;
	*ready = a.ready;
	return 0;
}

void helper_end(struct helper *h)
{
	if (h->pid <= 0)
		return;
	close(h->fd);
	waitpid(h->pid, NULL, 0);
}

static int report(int err)
{
	if (err == -ETIMEDOUT)
		return refuse(err,
			      "serve: the process that creates jobs has not taken a request for %d s; see what blocks "
			      "it, "
			      "and start fpisa serve again",
			      REQUESTS_MS / 1000);
	if (err == -ENOMEM)
		return fail(err, NULL, "serve: cannot store a request to the process that creates jobs");
	return err ? fail(err, "see its message above", "serve: the process that creates jobs is gone") : 0;
}

int helper_ask(struct helper *h, const struct helper_request *q)
{
	return report(requests_send(&h->requests, q, helper_request_bytes(q), now_ms()));
}

int helper_turn(struct helper *h)
{
	return report(requests_turn(&h->requests, now_ms()));
}

int helper_answer(const struct helper *h, struct helper_answer *a)
{
	ssize_t n = recv(h->fd, a, sizeof(*a), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0 || n != (ssize_t)helper_answer_bytes(a))
		return fail(-EPIPE, "see its message above", "serve: the process that creates jobs is gone");
	return 1;
}
