/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Error messages. Each thread has a message, which fpisa_error() returns. This file also has common parts of messages.
 */
#ifndef FPISA_ERROR_H
#define FPISA_ERROR_H

#include <stddef.h>
#include <stdint.h>
#include "fpisa/ranks.h"

#define FPISA_MESSAGE_SIZE 512

/* Set this thread's message. Return `error`. */
int fpisa_fail(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Ranks for which this thread's last attempt to join was waiting, if the handle no longer exists. */
extern __thread struct fpisa_ranks fpisa_missing_at_join;

/* hint if memory is exhausted */
#define FPISA_MORE_MEMORY "free some memory, or raise the process's limit"

/*
 * Return `hint` for an error, a negative errno. If a resource of this process or host is exhausted, return a hint for
 * that instead.
 */
const char *fpisa_hint(int error, const char *hint);

/*
 * Return strerror() for an error, a negative errno, and a hint if a resource of this process or host is exhausted.
 * The text is valid until this thread's next call.
 */
const char *fpisa_why(int error);

/* Return -EINVAL, with the message set, if `pointer` is NULL. */
int fpisa_given(const void *pointer, const char *name);

/* Set the message that the address of the aggregator is not the address of a host. Return -EINVAL. */
int fpisa_no_host(const char *address);

/*
 * Copy a caller's struct that begins with its size, at least `least`. The struct of an older version is shorter. That
 * of a newer version is longer, and its additional members must be zero. `name` is the NAME of struct fpisa_NAME.
 */
int fpisa_copy_sized(void *to, size_t known, const void *from, size_t least, const char *name);

/* Return the sentence for a verdict that came in an ERROR frame. */
const char *fpisa_reason(uint16_t verdict);

/* Write the ranks as "rank 3, rank 5". The text ends with "..." if `buf` is too small for all ranks. */
const char *fpisa_rank_names(char *buf, size_t size, const struct fpisa_ranks *ranks);

#endif
