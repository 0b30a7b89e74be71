// SPDX-License-Identifier: GPL-2.0-only
/*
 * The verb `fpisa query data DIR`, which writes the tables of the Big Data benchmark as files of workers
 * (doc/query-data.md).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bigdata.h"
#include "cli/options.h"
#include "cli/print.h"
#include "cli/progress.h"
#include "verbs.h"

#define WORKERS_MOST 1024
#define BUFFER (1 << 20)
#define LOOK 1024 /* number of rows between two updates of the terminal */

struct options {
	const char *directory;
	uint64_t workers;
	struct bigdata data;
	uint64_t written; /* number of rows in all files */
	bool json;
};

/* The signal that asks this program to end, or 0. The program first removes the file that it is writing. */
static volatile sig_atomic_t asked;

static void on_signal(int sig)
{
	asked = sig;
}

static void take_signals(void (*handler)(int))
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction is, take = {.sa_handler = handler, .sa_flags = SA_RESTART};

	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		if (!sigaction(signals[i], NULL, &is) && is.sa_handler != SIG_IGN)
			sigaction(signals[i], &take, NULL);
}

static int parse(struct options *o, int argc, char **argv)
{
	enum { OPT_PAGES = OPT_VERB, OPT_VISITS, OPT_WORKERS, OPT_SEED };
	static const struct option options[] = {COMMON_OPTIONS,
						JSON_OPTION,
						{"pages", required_argument, NULL, OPT_PAGES},
						{"visits", required_argument, NULL, OPT_VISITS},
						{"workers", required_argument, NULL, OPT_WORKERS},
						{"seed", required_argument, NULL, OPT_SEED},
						{0}};
	struct common c = COMMON_INIT;
	int opt, err = 0;

	*o = (struct options){.workers = 2, .data = {.seed = 1, .pages = 1800000, .visits = 3000000}};
	while (!err && (opt = next_option(argc, argv, options)) != -1) {
		if (opt == OPT_PAGES)
			err = parse_number("--pages", optarg, 1, BIGDATA_PAGES_MOST, &o->data.pages);
		else if (opt == OPT_VISITS)
			err = parse_number("--visits", optarg, 1, 1ull << 40, &o->data.visits);
		else if (opt == OPT_WORKERS)
			err = parse_number("--workers", optarg, 1, WORKERS_MOST, &o->workers);
		else if (opt == OPT_SEED)
			err = parse_number("--seed", optarg, 0, UINT64_MAX, &o->data.seed);
		else
			err = common_option(&c, opt);
	}
	if (!err && argc - optind != 1)
		err = refuse(BAD_USAGE, "query data requires one directory");
	if (!err)
		o->directory = argv[optind];
	o->json = c.json;
	return err;
}

static int make_directory(const char *path)
{
	return mkdir(path, 0777) && errno != EEXIST ? fail(-errno, NULL, "%s", path) : 0;
}

/* Write rows first, first + step, ... of the table. If step is 0, write the table's schema. */
static int write_rows(FILE *f, struct options *o, const struct bigdata_table *t, uint64_t first, uint64_t step)
{
	const struct bigdata *d = &o->data;
	const uint64_t rows = t->rows(d);
	char row[BIGDATA_ROW];

	if (!step)
		return fputs(t->schema, f) < 0 ? -EIO : 0;
	if (fputs(t->header, f) < 0)
		return -EIO;
	for (uint64_t i = first; i < rows; i += step) {
		if (fwrite(row, t->row(d, i, row), 1, f) != 1)
			return -EIO;
		if (asked)
			return -EINTR;
		if (++o->written % LOOK == 0)
			progress_share("writing rows", o->written, d->pages + d->visits);
	}
	return 0;
}

/* Write a file. After an error the file does not exist. */
static int write_file(struct options *o, const struct bigdata_table *t, uint64_t worker, uint64_t step)
{
	char *path = NULL, *part = NULL;
	FILE *f = NULL;
	int err = -ENOMEM;

	if (asprintf(&path, "%s/%llu/%s.%s", o->directory, (unsigned long long)worker, t->name,
		     step ? "csv" : "schema") < 0 ||
	    asprintf(&part, "%s.part", path) < 0)
		goto out;
	f = access(path, F_OK) ? fopen(part, "wx") : NULL;
	if (!f) {
		err = access(path, F_OK) ? -errno : -EEXIST;
		goto out;
	}
	setvbuf(f, NULL, _IOFBF, BUFFER);
	errno = 0;
	err = write_rows(f, o, t, worker, step);
	if (fclose(f) && !err)
		err = -EIO;
	if (err == -EIO && errno)
		err = -errno;
	if (!err && link(part, path))
		err = -errno;
	unlink(part);
out:
	if (err == -EEXIST)
		fail(err, "remove it, or name another directory", "%s", access(path, F_OK) ? part : path);
	else if (err == -EINTR)
		refuse(err, "%s: interrupted; the file was not created", path);
	else if (err)
		fail(err, NULL, "%s", path ?: o->directory);
	free(path);
	free(part);
	return err;
}

static int write_worker(struct options *o, uint64_t worker)
{
	char *path;
	int err;

	if (asprintf(&path, "%s/%llu", o->directory, (unsigned long long)worker) < 0)
		return fail(-ENOMEM, NULL, "%s", o->directory);
	err = make_directory(path);
	free(path);
	for (int i = 0; !err && i < BIGDATA_TABLES; i++) {
		err = write_file(o, &bigdata_tables[i], worker, o->workers);
		if (!err)
			err = write_file(o, &bigdata_tables[i], worker, 0);
	}
	return err;
}

static int print_made(const struct options *o)
{
	struct json_object *j = json_done("query data");

	json_add_string(j, "directory", o->directory);
	json_add_number(j, "pages", o->data.pages);
	json_add_number(j, "visits", o->data.visits);
	json_add_number(j, "workers", o->workers);
	json_add_number(j, "seed", o->data.seed);
	return print_json(j, false);
}

int verb_query_data(int argc, char **argv)
{
	struct options o;
	int err = parse(&o, argc, argv);

	if (err)
		return err;
	err = make_directory(o.directory);
	if (err)
		return err;
	progress_step("drawing the links between %llu pages", (unsigned long long)o.data.pages);
	err = bigdata_open(&o.data);
	if (err)
		return fail(err, "try fewer --pages", "%llu pages", (unsigned long long)o.data.pages);
	take_signals(on_signal);
	for (uint64_t worker = 0; !err && worker < o.workers; worker++)
		err = write_worker(&o, worker);
	progress_end();
	take_signals(SIG_DFL);
	if (asked)
		raise(asked);
	if (!err)
		note_done("query data");
	if (!err && o.json)
		err = print_made(&o);
	else if (!err)
		printf("%s: rankings of %llu rows, uservisits of %llu, over %llu workers, seed %llu\n", o.directory,
		       (unsigned long long)o.data.pages, (unsigned long long)o.data.visits,
		       (unsigned long long)o.workers, (unsigned long long)o.data.seed);
	bigdata_close(&o.data);
	return err;
}
