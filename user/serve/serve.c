// SPDX-License-Identifier: GPL-2.0-only
/*
 * fpisa serve [FILE]: events of connections, of the helper and of time go to
 * manager/group.c, and what it wants done goes out again. One thread; it
 * waits for nobody.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "cli/log.h"
#include "cli/options.h"
#include "cli/print.h"
#include "config/config.h"
#include "conn.h"
#include "fpisa.h"
#include "helper.h"
#include "host/privilege.h"
#include "serve.h"

#define TICK_MS 250
#define LOOK_MS 1000

struct serve {
	struct conns_of conns; /* first: conn.c's arg */
	struct manager manager;
	struct helper helper;
	struct fpisa_psks keys;
	struct manager_policy policy;
	struct log news, errors; /* on stdout and stderr */
	int signals;
	int failed;		/* why it cannot go on */
	int found;		/* groups */
	__u64 tick_ms, look_ms; /* the next ones */
};

/* -- what the groups want done -------------------------------------------------- */

static void ask(struct serve *s, const struct helper_request *q)
{
	if (!s->failed)
		s->failed = helper_ask(&s->helper, q);
}

static void make(void *arg, const struct manager_make *m)
{
	ask(arg, &(struct helper_request){.what = HELPER_MAKE, .place = m->place, .make = *m});
}

static void remove_job(void *arg, __u32 number, __u64 token)
{
	ask(arg, &(struct helper_request){.what = HELPER_REMOVE, .remove = {.number = number, .token = token}});
}

static void record(void *arg, __u32 place, const struct group_record *r)
{
	ask(arg, &(struct helper_request){.what = HELPER_RECORD, .place = place, .record = *r});
}

/* What has been counted since the last time, beside the records. */
static void give_counts(struct serve *s)
{
	const struct manager_counts none = {0};

	if (!memcmp(&s->manager.count, &none, sizeof(none)))
		return;
	ask(s, &(struct helper_request){.what = HELPER_COUNT, .counts = s->manager.count});
	s->manager.count = none;
}

static __u64 random_word(void *arg)
{
	struct serve *s = arg;
	__u64 word = 0;

	while (!s->failed && !word)
		if (getrandom(&word, sizeof(word), 0) != sizeof(word))
			s->failed = fail(-EIO, NULL, "serve: random numbers");
	return word ?: 1;
}

static const struct manager_ops ops = {
	.send = conn_send,
	.hang_up = conn_hang_up,
	.refused = conn_refused,
	.make = make,
	.remove = remove_job,
	.record = record,
	.random = random_word,
};

static void found(void *arg, __u32 place, const struct group_record *r)
{
	struct serve *s = arg;

	manager_restore(&s->manager, place, r);
	s->found++;
}

/* -- events ---------------------------------------------------------------------- */

static __u64 now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (__u64)t.tv_sec * 1000 + (__u64)t.tv_nsec / 1000000;
}

/* Connections that are there stay as they are: a key that is gone is refused from now on. */
static void take_news(struct serve *s, const struct helper_news *news)
{
	if (news->err) {
		log_line(&s->errors, s->manager.now_ms, "fpisa: serve: goes on by what the configuration said before");
		return;
	}
	s->policy = news->policy;
	s->keys = news->keys;
	s->conns.keys = news->keyed ? &s->keys : NULL;
	log_line(&s->news, s->manager.now_ms, "configuration read again; keys: %zu", news->keyed ? s->keys.n : 0);
}

static void take_answers(struct serve *s)
{
	struct helper_answer a;
	int rc;

	while ((rc = helper_answer(&s->helper, &a)) > 0) {
		if (a.what == HELPER_MAKE)
			manager_made(&s->manager, &a.made);
		if (a.what == HELPER_READ)
			take_news(s, &a.news);
		for (__u32 i = 0; a.what == HELPER_LOOK && i < GROUPS; i++)
			manager_kill(&s->manager, i, a.kill[i]);
	}
	explicit_bzero(&a, sizeof(a));
	if (rc < 0)
		s->failed = rc;
}

/* True: it is to end. */
static bool take_signal(struct serve *s)
{
	struct signalfd_siginfo i;

	if (read(s->signals, &i, sizeof(i)) != sizeof(i))
		return false;
	if (i.ssi_signo != SIGHUP)
		return true;
	ask(s, &(struct helper_request){.what = HELPER_READ});
	return false;
}

static void time_passes(struct serve *s)
{
	if (s->manager.now_ms >= s->tick_ms) {
		s->tick_ms = s->manager.now_ms + TICK_MS;
		manager_tick(&s->manager);
		conns_tick(&s->conns);
	}
	if (s->manager.now_ms >= s->look_ms) {
		s->look_ms = s->manager.now_ms + LOOK_MS;
		log_turn(&s->news, s->manager.now_ms);
		log_turn(&s->errors, s->manager.now_ms);
		give_counts(s);
		manager_record_gathering(&s->manager);
		ask(s, &(struct helper_request){.what = HELPER_LOOK});
	}
}

/* An event of a connection may end others, of which events are left: those come again. */
static int loop(struct serve *s)
{
	while (!s->failed) {
		struct epoll_event e;
		int n;

		conns_flush(&s->conns);
		n = epoll_wait(s->conns.epoll, &e, 1, TAILQ_EMPTY(&s->conns.dirty) ? TICK_MS : 0);
		s->manager.now_ms = now_ms();
		s->manager.wall_s = (__u64)time(NULL);
		if (n > 0 && e.data.ptr == &s->signals) {
			if (take_signal(s)) {
				give_counts(s);
				return 0;
			}
		} else if (n > 0 && e.data.ptr == &s->helper)
			take_answers(s);
		else if (n > 0 && !e.data.ptr)
			conns_strangers(&s->conns);
		else if (n > 0)
			conn_work(&s->conns, e.data.ptr);
		time_passes(s);
		if (!s->failed)
			s->failed = helper_turn(&s->helper);
	}
	return s->failed;
}

/* -- the beginning ----------------------------------------------------------------- */

/* Nobody, or who the configuration says: who talks to the network owns no pin. */
static int become(const struct manager_policy *policy)
{
	const struct passwd *p;
	int dies = 0; /* by this signal with its parent, which a change of user would take back */

	prctl(PR_GET_PDEATHSIG, &dies);
	if (geteuid())
		return privilege_drop();
	p = manager_user(policy);
	if (!p)
		return -EINVAL;
	if (setgroups(0, NULL) || setresgid(p->pw_gid, p->pw_gid, p->pw_gid) ||
	    setresuid(p->pw_uid, p->pw_uid, p->pw_uid))
		return fail(-errno, NULL, "serve: become user '%s'", p->pw_name);
	if (dies && prctl(PR_SET_PDEATHSIG, dies))
		return fail(-errno, NULL, "serve");
	return privilege_drop();
}

static int watch_events(struct serve *s)
{
	struct epoll_event helper = {.events = EPOLLIN, .data.ptr = &s->helper},
			   signals = {.events = EPOLLIN, .data.ptr = &s->signals};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	s->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (s->signals < 0 || epoll_ctl(s->conns.epoll, EPOLL_CTL_ADD, s->helper.fd, &helper) ||
	    epoll_ctl(s->conns.epoll, EPOLL_CTL_ADD, s->signals, &signals))
		return fail(-errno, NULL, "serve");
	return 0;
}

/* systemd's Type=notify. */
static void tell_systemd(void)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd;

	if (!path || strlen(path) >= sizeof(to.sun_path))
		return;
	strcpy(to.sun_path, path);
	if (*path == '@')
		*to.sun_path = 0;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	sendto(fd, "READY=1", 7, MSG_NOSIGNAL, (struct sockaddr *)&to,
	       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path)));
	close(fd);
}

/* No line, of whatever part of this process, waits for its reader. */
static void open_logs(struct serve *s)
{
	log_open(&s->conns.refusals, STDOUT_FILENO);
	s->conns.refusals.hint = "fpisa status counts refusals by reason";
	log_open(&s->news, STDOUT_FILENO);
	log_open(&s->errors, STDERR_FILENO);
	if (s->errors.fd != STDERR_FILENO)
		dup2(s->errors.fd, STDERR_FILENO);
}

static int start(struct serve *s, struct config *c, const char *pin)
{
	const struct manager_policy *p = &s->policy;
	struct rlimit files = {MANAGER_DESCRIPTORS, MANAGER_DESCRIPTORS};
	struct helper_ready datapath;
	char a[ADDRESS_LEN];
	__u16 port;
	int err;

	open_logs(s);
	s->policy = c->manager;
	s->manager = (struct manager){.policy = p, .ops = &ops, .arg = s, .now_ms = now_ms()};
	s->conns.manager = &s->manager;
	err = helper_start(&s->helper, pin, c, &datapath, found, s);
	if (!err)
		err = manager_policy_fit(&s->policy, datapath.slots);
	if (!err && p->key_file && fpisa_psks_read(&s->keys, p->key_file))
		err = refuse(-EINVAL, "serve: %s", fpisa_error());
	if (err)
		return err;
	s->manager.aggregator_port = (__u16)datapath.port;
	s->conns.keys = p->key_file ? &s->keys : NULL;
	setrlimit(RLIMIT_NOFILE, &files);
	port = p->port ?: s->manager.aggregator_port;
	err = conns_open(&s->conns, p, port) ?: watch_events(s) ?: become(p);
	/* Its memory has the keys. */
	if (!err && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
		err = fail(-errno, NULL, "serve");
	if (err)
		return err;
	/* Nothing is refused any more: what the helper has made stays, however soon this process ends. */
	ask(s, &(struct helper_request){.what = HELPER_LOOK});
	/* Past stdio: a manager whose stdout is closed serves, and ends well. */
	dprintf(STDOUT_FILENO, "serving groups at %s:%u; groups found: %d\n", address_text(p->listen, a), port,
		s->found);
	tell_systemd();
	return 0;
}

int verb_serve(int argc, char **argv)
{
	struct common common = COMMON_INIT;
	struct config *c = NULL;
	struct serve *s;
	const char *file;
	int err;

	if (bare_options(&common, argc, argv))
		return BAD_USAGE;
	if (argc - optind > 1)
		return refuse(BAD_USAGE, "serve: give one file");
	file = optind < argc ? argv[optind] : CONFIG_FILE;
	s = calloc(1, sizeof(*s));
	err = s ? config_read(&c, file) : fail(-ENOMEM, NULL, "serve");
	if (!err && !c->manager_line)
		err = refuse(-EINVAL, "%s: has no section [manager], which says what may be given away; see fpisa(8)",
			     file);
	if (!err) {
		err = start(s, c, common.pin ?: c->common.pin);
		if (err)
			helper_end(&s->helper);
		else
			err = loop(s);
	}
	if (s)
		explicit_bzero(&s->keys, sizeof(s->keys));
	free(s);
	config_free(c);
	return err;
}
