/* SPDX-License-Identifier: GPL-2.0-only */
/* Text and JSON on stdout */
#ifndef FPISA_CLI_PRINT_H
#define FPISA_CLI_PRINT_H

#include <stdbool.h>
#include <stdint.h>
#include <linux/types.h>

#include "fpisa/ranks.h"
#include "lib/base/address.h"

#define ADDRESS_LEN FPISA_ADDRESS_LEN
#define ENDPOINT_LEN FPISA_ENDPOINT_LEN
#define RANKS_LEN 256
#define CPUS_LEN 512

/* Write "10.0.0.1" or "2001:db8::1". */
const char *address_text(struct fpisa_address a, char buf[ADDRESS_LEN]);

/* Write "10.0.0.1:18000" or "[2001:db8::1]:18000". The port is in network order. */
const char *endpoint_text(struct fpisa_address a, __be16 port, char buf[ENDPOINT_LEN]);

/*
 * Write "0,2-5" for a bitmap of a job's ranks, or for ranks of a group. The text of a group's ranks ends with "..." if it
 * is too long. Return "-" if there are none.
 */
const char *ranks_text(uint64_t ranks, char buf[RANKS_LEN]);
const char *group_ranks_text(const struct fpisa_ranks *s, char buf[RANKS_LEN]);

/* Write "0,1". */
const char *cpus_text(const __u32 *cpu, __u32 n, char buf[CPUS_LEN]);

/* Print `text` from column `column` on, wrapped before column 80, and end the line. */
void print_wrapped(int column, const char *text);

/*
 * Check that all output was written. Return 0, or a negative errno. The first call that finds output lost writes
 * "MESSAGE: strerror" to stderr. A failed write loses what stdout had buffered, so a later flush alone does not notice.
 * main() calls this last, for verbs that do not.
 */
__attribute__((format(printf, 1, 2))) int flush_stdout(const char *fmt, ...);

/*
 * Say in that message that this verb has made its changes. Call this after the changes and before the report is
 * printed. json_done() does so too. `verb` stays valid.
 */
void note_done(const char *verb);

/* Print and release a JSON value: in one line, or indented. */
struct json_object;
int print_json(struct json_object *o, bool one_line);

/*
 * Return the start of a verb's report of changes, {"done": VERB}, to which the caller adds the objects before printing
 * it.
 */
struct json_object *json_done(const char *verb);

/* Return a string. If the text is not UTF-8, which JSON requires, each byte that is not ASCII is '?'. */
struct json_object *json_text(const char *text);

/* Add a member to a JSON object; a string may be NULL. */
void json_add_string(struct json_object *o, const char *key, const char *value);
void json_add_number(struct json_object *o, const char *key, uint64_t value);

/* Return a number with nine digits, or null for a value that JSON cannot represent. */
struct json_object *json_double(double x);
void json_add_double(struct json_object *o, const char *key, double x);

/*
 * Return a decimal number with all of its digits, even for .5, 1., +1 or 007, which C and SQL allow. NaN, Infinity and
 * -Infinity, in any spelling, become strings, and so does a text that is not a number.
 */
struct json_object *json_decimal(const char *text);

/* Return a JSON array of the ranks in a bitmap, or of ranks of a group. */
struct json_object *ranks_json(uint64_t ranks);
struct json_object *group_ranks_json(const struct fpisa_ranks *s);

#endif
