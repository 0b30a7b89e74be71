/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The log of a server program: lines on stdout or stderr. A flood of lines does not fill a disk. A reader that does not
 * read, or has gone, does not block the program. Lines that cannot be written are left out and counted.
 */
#ifndef FPISA_CLI_LOG_H
#define FPISA_CLI_LOG_H

#include <stdbool.h>
#include <stdint.h>

#define LOG_AT_ONCE 20
#define LOG_PAUSE_MS 3000 /* pause after which one more line may be written */

struct log {
	int fd;
	bool by_send;	   /* the descriptor is a socket */
	bool must_poll;	   /* the descriptor may block */
	bool cut;	   /* only a part of a line was written */
	int said;	   /* lines written, out of LOG_AT_ONCE */
	uint64_t paid_ms;  /* time up to which pauses have been turned into lines */
	uint64_t left_out; /* lines left out since the last line */
	const char *hint;  /* another counter of the lines that are left out; may be NULL */
};

/*
 * Log to the descriptor `fd`, which stays the caller's. Call this before privilege is dropped: a pipe is opened again,
 * so that writing to it never blocks. Ignore SIGPIPE from now on.
 */
void log_open(struct log *l, int fd);

/*
 * Write a line. The newline is added, and control characters in the line become '?'. Leave the line out if there were
 * too many before now_ms, or if the reader does not accept it. now_ms is the time of any clock that does not go back.
 */
__attribute__((format(printf, 3, 4))) void log_line(struct log *l, uint64_t now_ms, const char *fmt, ...);

/* Write how many lines are left out, if that is possible now. Call this about once a second. */
void log_turn(struct log *l, uint64_t now_ms);

#endif
