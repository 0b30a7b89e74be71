/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Errors: one sentence a thread, which fpisa_error() returns, and the parts that sentences share. */
#ifndef FPISA_ERROR_H
#define FPISA_ERROR_H

#include <stddef.h>
#include <stdint.h>

#define FPISA_MESSAGE_SIZE 512

/* Sets this thread's message; returns `error`. */
int fpisa_fail(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Ranks that this thread's last try to join was waiting for, when there is nobody any more to ask. */
extern __thread uint64_t fpisa_missing_at_join;

/* `hint` of an error, a negative errno; "" where this process or host has no more of something: it would blame another. */
const char *fpisa_hint(int error, const char *hint);

/* -EINVAL if it is NULL. */
int fpisa_given(const void *pointer, const char *name);

/* -EINVAL: what was given as the aggregator's address is no host's. */
int fpisa_no_host(const char *address);

/*
 * A struct of the caller's that begins with its size, at least `least`: an older one is shorter, a newer
 * one longer, and what we do not know of it must be zero. `name` is that of struct fpisa_NAME.
 */
int fpisa_copy_sized(void *to, size_t known, const void *from, size_t least, const char *name);

/* The sentence of a verdict that came in an ERROR frame. */
const char *fpisa_reason(uint16_t verdict);

/* "rank 3, rank 5"; ends with "..." when buf is too small for all. */
const char *fpisa_rank_names(char *buf, size_t size, uint64_t ranks);

#endif
