/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A program's verbs: one table serves dispatch and help; a verb of two words is one entry. cli/report.h defines the
 * arguments and results of a verb.
 *
 * fpisa is three programs: the core, queries and the laboratory. Users type `fpisa VERB` for all of them. A program
 * that does not have the verb itself runs the program that has it, as git does: the file of that name in its own
 * directory, else in ../libexec/fpisa, or, from there, in ../../sbin.
 */
#ifndef FPISA_CLI_VERB_H
#define FPISA_CLI_VERB_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct verb {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *args;
	const char *help;
	const char *more;      /* added by `fpisa help VERB`; may be NULL */
	void (*options)(void); /* prints the options that precede `more`, from a table; may be NULL */
	bool unpinned;	       /* works in its own namespaces, and does not take --pin */
	bool (*is_here)(void); /* the verb exists only if this returns true; NULL: always */
};

/* The program that has the verbs with this first word */
struct program {
	const char *word, *name;
};

struct verbs {
	const struct verb *verb;
	size_t n;
	const struct program *program; /* entries of one program are adjacent */
	size_t programs;
};

#define VERBS(table) .verb = (table), .n = sizeof(table) / sizeof((table)[0])
#define PROGRAMS(table) .program = (table), .programs = sizeof(table) / sizeof((table)[0])

/* Run the verb of main()'s arguments. Return the exit status: 0, 1 for an error that was reported, 2 for wrong usage. */
int verbs_main(const struct verbs *v, int argc, char **argv);

/* Find one of the three programs. Return 0 or -errno, reported. */
int program_path(const char *name, char path[PATH_MAX]);

#endif
