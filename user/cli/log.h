/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The log of a server program: lines on stdout or stderr. A flood of lines fills no disk, and a reader that
 * does not read, or has gone, blocks nobody: such lines are left out and counted.
 */
#ifndef FPISA_CLI_LOG_H
#define FPISA_CLI_LOG_H

#include <stdbool.h>
#include <stdint.h>

#define LOG_AT_ONCE 20
#define LOG_PAUSE_MS 3000 /* after which there may be one more */

struct log {
	int fd;
	bool by_send;	   /* a socket */
	bool must_poll;	   /* the descriptor may block */
	bool cut;	   /* half a line was taken */
	int said;	   /* of LOG_AT_ONCE */
	uint64_t paid_ms;  /* up to when pauses have been turned into lines */
	uint64_t left_out; /* since the last line */
	const char *hint;  /* where the lines that are left out are counted, too; may be NULL */
};

/*
 * Log to the descriptor `fd`, which stays the caller's. Call it before privilege is dropped: a pipe is opened again, so
 * that writing to it never blocks. Ignores SIGPIPE from now on.
 */
void log_open(struct log *l, int fd);

/*
 * Write a line; the newline is added, control characters in the line become '?'. The line is left out if there were too many before
 * now_ms (any clock that does not go back), or if the reader does not take it.
 */
__attribute__((format(printf, 3, 4))) void log_line(struct log *l, uint64_t now_ms, const char *fmt, ...);

/* Say how many lines are left out, if that can be said now. Call it about once a second. */
void log_turn(struct log *l, uint64_t now_ms);

#endif
