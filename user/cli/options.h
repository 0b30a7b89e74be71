/* SPDX-License-Identifier: GPL-2.0-only */
/* Options that verbs share, and strict parsing of their arguments */
#ifndef FPISA_CLI_OPTIONS_H
#define FPISA_CLI_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <linux/types.h>

#include "fpisa/address.h"
#include "report.h"

/* Options that every verb takes */
struct common {
	const char *pin; /* --pin, else $FPISA_PIN, else NULL */
	bool json;
};

enum {
	OPT_PIN = 0x100,
	OPT_JSON,
	OPT_VERBOSE,
	OPT_VERB, /* first of a verb's own options */
};

#define COMMON_OPTIONS                                    \
	{"pin", required_argument, NULL, OPT_PIN},        \
	{                                                 \
		"verbose", no_argument, NULL, OPT_VERBOSE \
	}
#define JSON_OPTION                                 \
	{                                           \
		"json", no_argument, NULL, OPT_JSON \
	}

#define COMMON_INIT                  \
	{                            \
		.pin = default_pin() \
	}
const char *default_pin(void);

/* Call getopt_long(), but return '?', reported, for an option that is given twice or whose name is abbreviated. */
int next_option(int argc, char **argv, const struct option *options);

/* Take a common option, or '?' after next_option() has reported an error. Return 0 or BAD_USAGE. */
int common_option(struct common *c, int opt);

/* Parse the options of a verb that takes --json and no option of its own. Leave optind at the operands. */
int common_options(struct common *c, int argc, char **argv);

/* Call common_options() for a verb that does not take --json either. */
int bare_options(struct common *c, int argc, char **argv);

/* Check, after the options of a verb, that no operand follows. Return 0 or BAD_USAGE. */
int no_operands(const char *verb, int argc, char **argv);

/*
 * Parse a whole string as a decimal number, min..max. If it is not valid, report an error about `what`, and return
 * BAD_USAGE with 0 in *out.
 */
int parse_number(const char *what, const char *s, uint64_t min, uint64_t max, uint64_t *out);

/* Parse a share of frames, for fault injection: 0 to 0.9. */
int parse_share(const char *what, const char *s, double *out);

/* Parse 1 to 16 hexadecimal digits, with an optional 0x before them. */
int parse_hex(const char *what, const char *s, uint64_t *out);

/* Parse a list such as "0,2-5", for example of CPUs: each number once, at most `max` numbers, in this order. */
int parse_numbers(const char *what, const char *thing, const char *s, __u32 *number, __u32 max, __u32 *n);
int parse_cpus(const char *what, const char *s, __u32 *cpu, __u32 max, __u32 *n);

/* Parse an address of either family, or of IPv4 alone. */
int parse_address(const char *what, const char *s, struct fpisa_address *out);

/* Parse an address on which to listen. Refuse link-local addresses. */
int parse_listen(const char *what, const char *s, struct fpisa_address *out);
int parse_ipv4(const char *what, const char *s, __be32 *out);

/* Parse "10G", "2.5G", "100M" into bits per second. */
int parse_rate(const char *what, const char *text, double *bits);

/* Return whether other machines can reach the address: it is not multicast, broadcast or loopback. */
bool is_machine(const struct fpisa_address *a);
int parse_machine(const char *what, const char *s, struct fpisa_address *out);
/* Parse "ADDR", or "ADDR,ADDR" with an address of each family. *other is :: without a second address. */
int parse_machines(const char *what, const char *s, struct fpisa_address *out, struct fpisa_address *other);
int parse_machine_ipv4(const char *what, const char *s, __be32 *out);

#endif
