// SPDX-License-Identifier: GPL-2.0-only
/* Write log lines without waiting for the reader. log.h has the contracts. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"

#define LINE 1024 /* bytes; with the notices before it, less than a pipe accepts at once */
#define BEFORE 256

/*
 * Open a log. O_NONBLOCK applies to every process that shares the open file, for example the user's shell. So open a
 * pipe or a terminal again for this process alone. For a socket, pass a flag with each write. A regular file never
 * blocks, and a second descriptor of the file would have its own offset.
 */
void log_open(struct log *l, int fd)
{
	char path[32];
	struct stat st;
	int own;

	*l = (struct log){.fd = fd};
	signal(SIGPIPE, SIG_IGN);
	if (fstat(fd, &st))
		return;
	l->by_send = S_ISSOCK(st.st_mode);
	if (!S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode))
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	l->must_poll = own < 0;
	l->fd = own < 0 ? fd : own;
}

static bool may_say(struct log *l, uint64_t now_ms)
{
	uint64_t pauses = (now_ms - l->paid_ms) / LOG_PAUSE_MS;

	l->paid_ms += pauses * LOG_PAUSE_MS;
	l->said = pauses < (uint64_t)l->said ? l->said - (int)pauses : 0;
	return l->said < LOG_AT_ONCE;
}

/* Write a text, whole or not at all. If only a part of a line was written, begin the next line on a new line. */
static bool put(struct log *l, const char *text, size_t n)
{
	struct pollfd p = {.fd = l->fd, .events = POLLOUT};
	ssize_t got;

	if (l->must_poll && (poll(&p, 1, 0) != 1 || !(p.revents & POLLOUT)))
		return false;
	got = l->by_send ? send(l->fd, text, n, MSG_DONTWAIT | MSG_NOSIGNAL) : write(l->fd, text, n);
	l->cut = got > 0 ? (size_t)got < n : l->cut;
	return got == (ssize_t)n;
}

static void clean(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 127)
			*text = '?';
}

/* Write the pending notices, and `line` after them; "": only the notices. */
static bool say(struct log *l, const char *line)
{
	char text[BEFORE + LINE + 2];
	size_t n = 0;

	if (l->cut)
		text[n++] = '\n';
	if (l->left_out)
		n += (size_t)snprintf(text + n, BEFORE, "%llu line%s dropped%s%s\n", (unsigned long long)l->left_out,
				      l->left_out == 1 ? " was" : "s were", l->hint ? "; " : "", l->hint ? l->hint : "");
	if (*line)
		n += (size_t)sprintf(text + n, "%s\n", line);
	if (!put(l, text, n))
		return false;
	l->said++;
	l->left_out = 0;
	return true;
}

void log_line(struct log *l, uint64_t now_ms, const char *fmt, ...)
{
	char line[LINE];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	clean(line);
	if (!may_say(l, now_ms) || !say(l, line))
		l->left_out++;
}

void log_turn(struct log *l, uint64_t now_ms)
{
	if (l->left_out && may_say(l, now_ms))
		say(l, "");
}
