// SPDX-License-Identifier: GPL-2.0-only
/* The verb `fpisa query demo` checks its options and runs bench/query_demo.py of this program's source tree. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/options.h"
#include "verbs.h"

#define SCRIPT "/../bench/query_demo.py"
#define ROWS_MOST (1ull << 40)
#define MBIT_MOST 1000000
#define RUNS_MOST 1000

enum { OPT_ROWS = OPT_VERB, OPT_SCALE, OPT_WORKERS, OPT_LOSS, OPT_MBIT, OPT_RUNS, OPT_SEED, OPT_DUCKDB, OPT_PLOT };

static const struct option options[] = {COMMON_OPTIONS,
					JSON_OPTION,
					{"rows", required_argument, NULL, OPT_ROWS},
					{"scale", required_argument, NULL, OPT_SCALE},
					{"workers", required_argument, NULL, OPT_WORKERS},
					{"loss", required_argument, NULL, OPT_LOSS},
					{"mbit", required_argument, NULL, OPT_MBIT},
					{"runs", required_argument, NULL, OPT_RUNS},
					{"seed", required_argument, NULL, OPT_SEED},
					{"duckdb", no_argument, NULL, OPT_DUCKDB},
					{"plot", required_argument, NULL, OPT_PLOT},
					{0}};

#define OPTIONS (sizeof(options) / sizeof(options[0]))

static int check_scale(const char *s)
{
	char *end;
	double scale = strtod(s, &end);

	if (end == s || *end || !(scale >= 0 && scale <= 1000))
		return refuse(BAD_USAGE, "--scale: '%s' is not a number from 0 to 1000", s);
	return 0;
}

static int check(struct common *c, int opt)
{
	uint64_t n;
	double share;
	int err;

	switch (opt) {
	case OPT_ROWS:
		return parse_number("--rows", optarg, 1, ROWS_MOST, &n);
	case OPT_SCALE:
		return check_scale(optarg);
	case OPT_WORKERS:
		err = parse_number("--workers", optarg, 2, 4, &n);
		return err ?: n == 3 ? refuse(BAD_USAGE, "--workers: 3 workers are not supported; give 2 or 4") : 0;
	case OPT_LOSS:
		return parse_share("--loss", optarg, &share);
	case OPT_MBIT:
		return parse_number("--mbit", optarg, 0, MBIT_MOST, &n);
	case OPT_RUNS:
		return parse_number("--runs", optarg, 1, RUNS_MOST, &n);
	case OPT_SEED:
		return parse_number("--seed", optarg, 0, UINT64_MAX, &n);
	case OPT_DUCKDB:
	case OPT_PLOT:
		return 0;
	default:
		return common_option(c, opt);
	}
}

/* Return the script's argument for an option that getopt has found. Return NULL if there is no memory. */
static char *passed_on(int opt)
{
	const struct option *o = options;
	char *text;

	while (o->val != opt)
		o++;
	return asprintf(&text, "--%s%s%s", o->name, o->has_arg ? "=" : "", o->has_arg ? optarg : "") < 0 ? NULL : text;
}

/*
 * Find the directory of this program, and the script in the source tree. Return false if there is no source tree
 * because the program is installed.
 */
static bool find_script(char here[PATH_MAX], char script[PATH_MAX + sizeof(SCRIPT)])
{
	ssize_t length = readlink("/proc/self/exe", here, PATH_MAX - 1);

	if (length < 0)
		return false;
	here[length] = 0;
	*strrchr(here, '/') = 0;
	snprintf(script, PATH_MAX + sizeof(SCRIPT), "%s" SCRIPT, here);
	return !access(script, R_OK);
}

bool query_demo_is_here(void)
{
	char here[PATH_MAX], script[PATH_MAX + sizeof(SCRIPT)];

	return find_script(here, script);
}

int verb_query_demo(int argc, char **argv)
{
	char here[PATH_MAX], script[PATH_MAX + sizeof(SCRIPT)],
		*all[3 + OPTIONS + 1] = {(char *)"python3", (char *)"-B", script};
	struct common c = COMMON_INIT;
	int opt, err = 0, n = 3;

	while (!err && (opt = next_option(argc, argv, options)) != -1) {
		err = check(&c, opt);
		if (!err && (opt >= OPT_VERB || opt == OPT_JSON) && !(all[n++] = passed_on(opt)))
			err = fail(-ENOMEM, NULL, "query demo: cannot copy its options");
	}
	if (!err && optind != argc)
		err = refuse(BAD_USAGE, "query demo: unexpected argument '%s'; see fpisa help query demo", argv[optind]);
	if (!err && !find_script(here, script))
		err = fail(-errno, NULL, "query demo: cannot find its script");
	if (!err) {
		setenv("FPISA_BUILD", here, 1);
		execv("/usr/bin/python3", all);
		err = fail(-errno, NULL, "/usr/bin/python3");
	}
	while (n > 3)
		free(all[--n]);
	return err;
}
