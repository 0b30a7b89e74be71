// SPDX-License-Identifier: GPL-2.0-only
/*
 * The verb `fpisa query worker DIR`. The main process waits for masters, and starts a process for each authenticated
 * master. The main process never blocks, neither for a master (newcomers.h) nor for the reader of its log (cli/log.h).
 * The log also has the messages of the other processes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/tcp.h>
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
#include <sys/wait.h>
#include <unistd.h>

#include "cli/options.h"
#include "cli/print.h"
#include "database.h"
#include "engine.h"
#include "fpisa-query.h"
#include "host/listen.h"
#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "newcomers.h"
#include "worker.h"
#include "connection.h"

#define SCANS 64
#define SCANS_MOST 1024
/* a flood may fill the queue while this process has no CPU, and a master would then wait a second */
#define BACKLOG SOMAXCONN
#define TURN 16 /* number of connections accepted in one turn */
#define TICK_MS 250
#define DESCRIPTORS 64 /* number of descriptors in addition to those of masters */

enum { OPT_KEY = OPT_VERB, OPT_LISTEN, OPT_PORT, OPT_SCANS, OPT_DRIVER, OPT_DATABASES };

static const struct option options[] = {
	{"verbose", no_argument, NULL, OPT_VERBOSE},	       {"key", required_argument, NULL, OPT_KEY},
	{"listen", required_argument, NULL, OPT_LISTEN},       {"port", required_argument, NULL, OPT_PORT},
	{"scans", required_argument, NULL, OPT_SCANS},	       {"driver", required_argument, NULL, OPT_DRIVER},
	{"databases", required_argument, NULL, OPT_DATABASES}, {0},
};

struct worker {
	const char *directory, *key;
	struct fpisa_address at; /* ::: all addresses of both families */
	__u16 port;
	int fd, listener, children, ends[2]; /* `ends` of a packet pipe; each packet is a line of the log */
	bool paused;			     /* whether connections cannot be accepted now */
	int served;
	struct newcomers newcomers;
	struct log log;
	struct fpisa_psks keys;
};

static int take_options(struct worker *w, int argc, char **argv)
{
	struct common c = COMMON_INIT;
	uint64_t port = FPISA_CONTROL_PORT, scans = SCANS;
	int opt, err = 0;

	while (!err && (opt = next_option(argc, argv, options)) != -1) {
		if (opt == OPT_KEY)
			w->key = optarg;
		else if (opt == OPT_LISTEN)
			err = parse_listen("--listen", optarg, &w->at);
		else if (opt == OPT_PORT)
			err = parse_number("--port", optarg, 1, 65535, &port);
		else if (opt == OPT_SCANS)
			err = parse_number("--scans", optarg, 1, SCANS_MOST, &scans);
		else if (opt == OPT_DRIVER)
			err = setenv("FPISA_DRIVER", optarg, 1) ? fail(-errno, NULL, "--driver") : 0;
		else if (opt == OPT_DATABASES)
			err = databases_load(optarg) ?
				      refuse(-EINVAL, "query worker: --databases: %s", fpisa_query_error()) :
				      0;
		else
			err = common_option(&c, opt);
	}
	w->port = (__u16)port;
	w->newcomers.scans = (int)scans;
	if (err)
		return err;
	if (argc - optind != 1)
		return refuse(BAD_USAGE, "query worker requires one directory");
	w->directory = argv[optind];
	w->key = w->key ?: getenv("FPISA_KEY");
	return w->key && *w->key ?
		       0 :
		       refuse(BAD_USAGE, "query worker: --key is missing; create a key file with fpisa key new");
}

/* -- start ------------------------------------------------------------------------ */

static int watch(struct worker *w, int *fd)
{
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = fd};

	return epoll_ctl(w->newcomers.epoll, EPOLL_CTL_ADD, *fd, &e) ?
		       fail(-errno, NULL, "query worker: cannot wait for connections (epoll)") :
		       0;
}

static int open_events(struct worker *w)
{
	struct rlimit files;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	w->children = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	w->newcomers.epoll = epoll_create1(EPOLL_CLOEXEC);
	if (w->children < 0 || w->newcomers.epoll < 0 || pipe2(w->ends, O_CLOEXEC | O_DIRECT))
		return fail(-errno, NULL, "query worker: cannot create the descriptors that it waits for");
	fcntl(w->ends[0], F_SETFL, O_NONBLOCK | O_DIRECT);
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		rlim_t want = 2 * NEWCOMERS_MOST + (rlim_t)w->newcomers.scans + DESCRIPTORS;

		want = want < files.rlim_max ? want : files.rlim_max;
		files.rlim_cur = want > files.rlim_cur ? want : files.rlim_cur;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	return watch(w, &w->children) ?: watch(w, &w->ends[0]) ?: watch(w, &w->listener);
}

static int start(struct worker *w)
{
	char a[ENDPOINT_LEN];
	int err;

	/* Load the library before the keys are in memory. */
	engine_prepare();
	if (fpisa_psks_read(&w->keys, w->key))
		return refuse(-EINVAL, "query worker: the worker's key file: %s", fpisa_query_error());
	/* The memory of the process contains keys. */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
		return fail(-errno, NULL, "query worker: cannot lock the memory of the keys");
	w->fd = open(w->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (w->fd < 0)
		return fail(-errno, NULL, "query worker: %s", w->directory);
	w->listener = listen_tcp(w->at, w->port, BACKLOG);
	if (w->listener < 0)
		return fail(w->listener, "give another --port or --listen, or stop the program that listens there",
			    "query worker: %s", listen_text(w->at, w->port, a));
	TAILQ_INIT(&w->newcomers.all);
	w->newcomers.keys = &w->keys;
	w->newcomers.key_file = w->key;
	w->newcomers.log = &w->log;
	if (getrandom(&w->newcomers.spread, sizeof(w->newcomers.spread), 0) != sizeof(w->newcomers.spread))
		return fail(-EIO, NULL, "query worker: cannot get random numbers; allow it to call getrandom()");
	w->newcomers.spread |= 1;
	err = open_events(w);
	if (err)
		return err;
	printf("serving %s at %s\n", w->directory, listen_text(w->at, w->port, a));
	err = flush_stdout("query worker: cannot write to stdout");
	if (err)
		return err;
	log_open(&w->log, STDERR_FILENO);
	return 0;
}

/* -- processes ------------------------------------------------------------------- */

static void run_child(struct worker *w, struct newcomer *n, pid_t parent)
{
	sigset_t set;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	explicit_bzero(&w->keys, sizeof(w->keys));
	sigemptyset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	newcomers_close_others(&w->newcomers, n);
	close(w->listener);
	close(w->children);
	close(w->ends[0]);
	close(w->newcomers.epoll);
	session_run(&n->control, &n->from, w->fd, w->ends[1]);
	_exit(0);
}

static void serve(struct worker *w, struct newcomer *n)
{
	pid_t parent = getpid(), pid = fork();

	if (!pid)
		run_child(w, n, parent);
	if (pid < 0) {
		newcomer_refuse(&w->newcomers, n, fpisa_fail(-errno, "cannot start a process: %s", fpisa_why(-errno)));
		return;
	}
	w->served++;
	newcomer_forget(&w->newcomers, n);
}

static void reap(struct worker *w)
{
	struct signalfd_siginfo ignored;

	while (read(w->children, &ignored, sizeof(ignored)) > 0)
		;
	while (w->served && waitpid(-1, NULL, WNOHANG) > 0)
		w->served--;
}

static void take_lines(struct worker *w)
{
	char line[PIPE_BUF];
	ssize_t n = read(w->ends[0], line, sizeof(line));

	if (n > 0)
		log_line(&w->log, fpisa_now() / 1000000, "fpisa: %.*s", (int)n, line);
}

/* -- the loop ---------------------------------------------------------------------- */

/* Pause while there are no free descriptors. Otherwise a waiting connection would wake the process again and again. */
static void pause_accepting(struct worker *w, bool pause)
{
	struct epoll_event e = {.events = pause ? 0 : EPOLLIN, .data.ptr = &w->listener};

	if (w->paused != pause)
		epoll_ctl(w->newcomers.epoll, EPOLL_CTL_MOD, w->listener, &e);
	w->paused = pause;
}

/*
 * Enable probes, which detect unreachable hosts. Probes do not disconnect a master that leaves its rows unread for a
 * long time.
 */
static void probe(int fd)
{
	static const int values[][3] = {
		{SOL_SOCKET, SO_KEEPALIVE, 1}, {IPPROTO_TCP, TCP_KEEPIDLE, 1}, {IPPROTO_TCP, TCP_KEEPINTVL, 1},
		{IPPROTO_TCP, TCP_KEEPCNT, 4}, {IPPROTO_TCP, TCP_NODELAY, 1},
	};

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		setsockopt(fd, values[i][0], values[i][1], &values[i][2], sizeof(int));
}

static void accept_some(struct worker *w)
{
	for (int i = 0; i < TURN; i++) {
		union fpisa_sockaddr from;
		socklen_t n = sizeof(from);
		struct fpisa_address address;
		int fd = accept4(w->listener, &from.any, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
			log_line(&w->log, fpisa_now() / 1000000,
				 "fpisa: query worker: accept: %s; raise the worker's limit of open files",
				 fpisa_why(-errno));
			pause_accepting(w, !newcomers_make_room(&w->newcomers));
		}
		if (fd < 0)
			return;
		probe(fd);
		address = fpisa_address_from(&from);
		newcomers_add(&w->newcomers, fd, &address);
	}
}

/*
 * Handle events until an error. Handle one event at a time, because an event may end other connections that have
 * pending events. epoll reports events again.
 */
static int loop(struct worker *w)
{
	uint64_t tick_ns = 0;

	for (;;) {
		struct epoll_event e;
		struct newcomer *next;
		int n = epoll_wait(w->newcomers.epoll, &e, 1, TICK_MS);

		if (n < 0 && errno != EINTR)
			return fail(-errno, NULL, "query worker: cannot wait for events");
		if (n > 0 && e.data.ptr == &w->listener)
			accept_some(w);
		else if (n > 0 && e.data.ptr == &w->children)
			reap(w);
		else if (n > 0 && e.data.ptr == &w->ends[0])
			take_lines(w);
		else if (n > 0)
			newcomer_work(&w->newcomers, e.data.ptr);
		while (w->served < w->newcomers.scans && (next = newcomers_next(&w->newcomers)))
			serve(w, next);
		if (fpisa_now() < tick_ns)
			continue;
		tick_ns = fpisa_now() + TICK_MS * 1000000ull;
		newcomers_tick(&w->newcomers);
		log_turn(&w->log, fpisa_now() / 1000000);
		pause_accepting(w, false);
	}
}

int verb_query_worker(int argc, char **argv)
{
	struct worker *w = calloc(1, sizeof(*w));
	int err = w ? take_options(w, argc, argv) : fail(-ENOMEM, NULL, "query worker: cannot start");

	if (!err)
		err = start(w) ?: loop(w);
	free(w);
	return err;
}
