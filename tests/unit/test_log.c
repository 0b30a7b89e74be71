/* SPDX-License-Identifier: GPL-2.0-only */
/* Test the log of a server with fast and slow readers, and progress, which appears only on a terminal. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#undef fail /* cmocka and the program both define fail() */
#include "cli/log.h"
#include "cli/progress.h"
#include "cli/report.h"

#define WRITERS 4
#define STUCK_S 120 /* SIGALRM ends the test if a log waits for a reader */

/* Read all available bytes as a string. */
static const char *read_now(int fd, char *text, size_t size)
{
	ssize_t n;

	fcntl(fd, F_SETFL, O_NONBLOCK);
	n = read(fd, text, size - 1);
	text[n > 0 ? n : 0] = 0;
	return text;
}

static void fill(int fd)
{
	static const char bytes[4096];
	int flags = fcntl(fd, F_GETFL);

	fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	while (write(fd, bytes, sizeof(bytes)) > 0)
		;
	while (write(fd, bytes, 1) > 0)
		;
	fcntl(fd, F_SETFL, flags);
}

static void empty(int fd)
{
	static char bytes[65536];

	fcntl(fd, F_SETFL, O_NONBLOCK);
	while (read(fd, bytes, sizeof(bytes)) > 0)
		;
}

static void a_flood_is_short(void **state)
{
	char text[8192];
	struct log l;
	int end[2];

	(void)state;
	assert_false(pipe(end));
	log_open(&l, end[1]);
	l.hint = "they are counted";
	for (int i = 0; i < 1000; i++)
		log_line(&l, 0, "line %d", i);
	read_now(end[0], text, sizeof(text));
	assert_memory_equal(text, "line 0\nline 1\n", 14);
	assert_string_equal(strstr(text, "line 19"), "line 19\n");
	/* Lines are written again after the pause, and the number of omitted lines is written once. */
	log_turn(&l, LOG_PAUSE_MS - 1);
	assert_string_equal(read_now(end[0], text, sizeof(text)), "");
	log_line(&l, LOG_PAUSE_MS, "one\tmore\n");
	assert_string_equal(read_now(end[0], text, sizeof(text)),
			    "980 lines were dropped; they are counted\none?more?\n");
	log_line(&l, LOG_PAUSE_MS, "too many");
	log_turn(&l, 2 * LOG_PAUSE_MS);
	assert_string_equal(read_now(end[0], text, sizeof(text)), "1 line was dropped; they are counted\n");
	log_turn(&l, 100 * LOG_PAUSE_MS);
	assert_string_equal(read_now(end[0], text, sizeof(text)), "");
	close(l.fd);
	close(end[0]);
	close(end[1]);
}

/* Check a log that is written to `to` while its other end, `from`, is not read. */
static void nobody_reads(int from, int to)
{
	char text[4096];
	int flags = fcntl(to, F_GETFL);
	struct log l;

	alarm(STUCK_S);
	fill(to);
	log_open(&l, to);
	for (int i = 0; i < 100; i++)
		log_line(&l, 0, "line %d", i);
	/* The kernel makes room in a terminal without a reader. */
	if (!isatty(to)) {
		assert_int_equal(l.left_out, 100);
		empty(from);
		log_line(&l, 0, "heard");
		read_now(from, text, sizeof(text));
		assert_non_null(strstr(text, "100 lines were dropped"));
		assert_non_null(strstr(text, "heard"));
	}
	/* The descriptor still blocks for other users. */
	assert_int_equal(fcntl(to, F_GETFL), flags);
	if (l.fd != to)
		close(l.fd);
	alarm(0);
}

static void readers_that_do_not_read(void **state)
{
	int end[2], terminal;

	(void)state;
	assert_false(pipe(end));
	nobody_reads(end[0], end[1]);
	close(end[0]);
	close(end[1]);
	assert_false(socketpair(AF_UNIX, SOCK_STREAM, 0, end));
	nobody_reads(end[0], end[1]);
	close(end[0]);
	close(end[1]);
	terminal = posix_openpt(O_RDWR | O_NOCTTY);
	assert_true(terminal >= 0 && !grantpt(terminal) && !unlockpt(terminal));
	end[1] = open(ptsname(terminal), O_RDWR | O_NOCTTY);
	assert_true(end[1] >= 0);
	nobody_reads(terminal, end[1]);
	close(terminal);
	close(end[1]);
}

static void readers_that_go(void **state)
{
	struct log l;
	int end[2];

	(void)state;
	for (int sockets = 0; sockets < 2; sockets++) {
		assert_false(sockets ? socketpair(AF_UNIX, SOCK_STREAM, 0, end) : pipe(end));
		log_open(&l, end[1]);
		close(end[0]);
		log_line(&l, 0, "nobody hears that");
		assert_int_equal(l.left_out, 1);
		if (l.fd != end[1])
			close(l.fd);
		close(end[1]);
	}
}

/* Check that processes that share a pipe do not wait for a slow reader. */
static void many_writers(void **state)
{
	char byte;
	int end[2];

	(void)state;
	assert_false(pipe(end));
	fcntl(end[1], F_SETPIPE_SZ, 4096);
	for (int i = 0; i < WRITERS; i++) {
		if (fork())
			continue;
		struct log l;

		alarm(STUCK_S);
		log_open(&l, end[1]);
		for (uint64_t n = 0; n < 2000; n++)
			log_line(&l, n * LOG_PAUSE_MS, "line of %d bytes %0200d", 200, 0);
		_exit(0);
	}
	for (int i = 0; i < 3000 && read(end[0], &byte, 1) == 1; i++)
		;
	for (int i = 0; i < WRITERS; i++) {
		int how;

		assert_true(wait(&how) > 0 && WIFEXITED(how) && !WEXITSTATUS(how));
	}
	close(end[0]);
	close(end[1]);
}

/* Check that text that others write to the same open file is neither overwritten nor lost. */
static void a_file_is_shared(void **state)
{
	char text[64] = "";
	int fd = memfd_create("log", 0);
	struct log l;

	(void)state;
	log_open(&l, fd);
	dprintf(fd, "a\n");
	log_line(&l, 0, "b");
	dprintf(fd, "c\n");
	assert_int_equal(pread(fd, text, sizeof(text) - 1, 0), 6);
	assert_string_equal(text, "a\nb\nc\n");
	close(fd);
}

static void show(int on)
{
	dup2(on, STDERR_FILENO);
	progress_step("step %d of a verb that does much, %0100d", 1, 0);
	usleep(300000);
	progress_share("share", 1, 3);
	refuse(-1, "wrong");
	_exit(0);
}

static void progress_is_for_terminals(void **state)
{
	char text[1024] = "", want[1024];
	size_t n = 0;
	int end[2], terminal = posix_openpt(O_RDWR | O_NOCTTY), slave;

	(void)state;
	assert_true(terminal >= 0 && !grantpt(terminal) && !unlockpt(terminal));
	slave = open(ptsname(terminal), O_RDWR | O_NOCTTY);
	if (!fork())
		show(slave);
	wait(NULL);
	/* The terminal delivers the written text with a delay. */
	alarm(STUCK_S);
	while (!strstr(text, "wrong\r\n")) {
		ssize_t got = read(terminal, text + n, sizeof(text) - 1 - n);

		assert_true(got > 0);
		n += (size_t)got;
		text[n] = 0;
	}
	alarm(0);
	snprintf(want, sizeof(want), "\r\033[K%.79s\r\r\033[Kshare: 33%%\r\r\033[Kfpisa: wrong\r\n",
		 "step 1 of a verb that does much, 00000000000000000000000000000000000000000000000000000000000");
	assert_string_equal(text, want);
	assert_false(pipe(end));
	if (!fork())
		show(end[1]);
	wait(NULL);
	assert_string_equal(read_now(end[0], text, sizeof(text)), "fpisa: wrong\n");
	close(terminal);
	close(slave);
	close(end[0]);
	close(end[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flood_is_short), cmocka_unit_test(readers_that_do_not_read),
		cmocka_unit_test(readers_that_go),  cmocka_unit_test(many_writers),
		cmocka_unit_test(a_file_is_shared), cmocka_unit_test(progress_is_for_terminals),
	};

	return cmocka_run_group_tests_name("unit/log", tests, NULL, NULL);
}
