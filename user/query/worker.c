// SPDX-License-Identifier: GPL-2.0-only
/* fpisa query worker DIR: waits for masters, and gives each a process of its own. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/options.h"
#include "cli/print.h"
#include "fpisa.h"
#include "lib/query/control.h"
#include "query.h"
#include "session.h"

#define MASTERS 64 /* at once */
#define BACKLOG 64
#define REAP_MS 1000

enum { OPT_KEY = OPT_VERB, OPT_LISTEN, OPT_PORT };

static const struct option options[] = {
	{ "verbose", no_argument, NULL, OPT_VERBOSE },
	{ "key", required_argument, NULL, OPT_KEY },
	{ "listen", required_argument, NULL, OPT_LISTEN },
	{ "port", required_argument, NULL, OPT_PORT },
	{ 0 },
};

struct worker {
	const char *directory, *key;
	struct sockaddr_in at;
	int fd, listener, masters;
	struct fpisa_psks keys;
};

static int take_options(struct worker *w, int argc, char **argv)
{
	struct common c = COMMON_INIT;
	uint64_t port = FPISA_CONTROL_PORT;
	int opt, err = 0;

	while (!err && (opt = next_option(argc, argv, options)) != -1) {
		if (opt == OPT_KEY)
			w->key = optarg;
		else if (opt == OPT_LISTEN)
			err = parse_address("--listen", optarg, &w->at.sin_addr.s_addr);
		else if (opt == OPT_PORT)
			err = parse_number("--port", optarg, 1, 65535, &port);
		else
			err = common_option(&c, opt);
	}
	w->at.sin_family = AF_INET;
	w->at.sin_port = htons((__u16)port);
	if (err)
		return err;
	if (argc - optind != 1)
		return refuse(BAD_USAGE, "query worker: give one directory");
	w->directory = argv[optind];
	w->key = w->key ?: getenv("FPISA_KEY");
	return w->key && *w->key ? 0 : refuse(BAD_USAGE, "query worker: --key is missing; fpisa key new makes a file of keys");
}

static int start(struct worker *w)
{
	char a[ADDRESS_LEN];
	int one = 1;

	if (fpisa_psks_read(&w->keys, w->key))
		return refuse(-EINVAL, "query worker: the worker's file of keys: %s", fpisa_error());
	/* Its memory has the keys. */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
		return fail(-errno, NULL, "query worker");
	w->fd = open(w->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (w->fd < 0)
		return fail(-errno, NULL, "query worker: %s", w->directory);
	w->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (w->listener < 0)
		return fail(-errno, NULL, "query worker");
	setsockopt(w->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(w->listener, (struct sockaddr *)&w->at, sizeof(w->at)) || listen(w->listener, BACKLOG))
		return fail(-errno, "give another --port or --listen, or end what listens there", "query worker: %s:%u",
			    address_text(w->at.sin_addr.s_addr, a), ntohs(w->at.sin_port));
	printf("serving %s at %s:%u\n", w->directory, address_text(w->at.sin_addr.s_addr, a), ntohs(w->at.sin_port));
	return fflush(stdout) ? fail(-errno, NULL, "query worker: stdout") : 0;
}

static void serve(struct worker *w, int fd, const struct sockaddr_in *from)
{
	char a[ADDRESS_LEN];
	pid_t parent = getpid(), pid;

	if (w->masters == MASTERS) {
		refuse(-EBUSY, "query worker: master at %s: %d are served already", address_text(from->sin_addr.s_addr, a), MASTERS);
		close(fd);
		return;
	}
	pid = fork();
	if (pid) {
		close(fd);
		w->masters += pid > 0;
		return;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	close(w->listener);
	session_run(fd, from, &w->keys, w->key, w->fd);
	explicit_bzero(&w->keys, sizeof(w->keys));
	_exit(0);
}

static int loop(struct worker *w)
{
	struct pollfd p = { .fd = w->listener, .events = POLLIN };

	for (;;) {
		struct sockaddr_in from;
		socklen_t n = sizeof(from);
		int fd;

		if (poll(&p, 1, REAP_MS) < 0 && errno != EINTR)
			return fail(-errno, NULL, "query worker");
		while (w->masters && waitpid(-1, NULL, WNOHANG) > 0)
			w->masters--;
		fd = accept4(w->listener, (struct sockaddr *)&from, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0)
			serve(w, fd, &from);
	}
}

int verb_query_worker(int argc, char **argv)
{
	struct worker *w = calloc(1, sizeof(*w));
	int err = w ? take_options(w, argc, argv) : fail(-ENOMEM, NULL, "query worker");

	if (!err)
		err = start(w) ?: loop(w);
	free(w);
	return err;
}
