// SPDX-License-Identifier: GPL-2.0-only
/* fpisa group list, group show, group kill: the manager's groups, from their records */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/names.h"
#include "cli/options.h"
#include "cli/print.h"
#include "group_view.h"
#include "job/job.h"
#include "verbs.h"

#define KILL_MS 5000

struct view {
	struct datapath dp;
	struct manager_view manager;
};

static int open_view(struct view *v, const char *pin)
{
	int err = datapath_open(&v->dp, pin);

	if (err)
		return err;
	err = manager_view_open(&v->dp, &v->manager);
	if (err)
		datapath_close(&v->dp);
	return err;
}

static void close_view(struct view *v)
{
	manager_view_close(&v->manager);
	datapath_close(&v->dp);
}

static int jobs_of(const struct group_record *r)
{
	int n = 0;

	for (int k = 0; k < FPISA_MANAGER_JOBS; k++)
		n += r->job[k].state == FPISA_GROUP_JOB_MADE;
	return n;
}

/* -- text ------------------------------------------------------------------- */

static void print_row(const struct group_record *r)
{
	const struct fpisa_ranks here = group_here(r), missing = group_missing(r);
	char since[AGE_LEN], ranks[RANKS_LEN];

	job_age_text(group_age(r), since);
	printf("%-24s %-16s %5u %5u %5d  %s", r->name, *r->owner ? r->owner : "-", r->size, fpisa_ranks_count(&here),
	       jobs_of(r), since);
	if (group_gathers(r))
		printf(", waits for %s", group_ranks_text(&missing, ranks));
	putchar('\n');
}

static const char *state_text(const struct group_record *r, __u32 rank)
{
	return !fpisa_ranks_has(&r->joined, rank) ? "has not joined" :
	       fpisa_ranks_has(&r->gone, rank)	  ? fpisa_manager_cause_text(r->cause) :
	       fpisa_ranks_has(&r->left, rank)	  ? "left" :
						    "here";
}

static void print_group(const struct group_record *r)
{
	const struct fpisa_ranks here = group_here(r), missing = group_missing(r);
	char a[ADDRESS_LEN], b[ADDRESS_LEN], ranks[RANKS_LEN], since[AGE_LEN];

	job_age_text(group_age(r), since);
	printf("group       %s\nkey         %s\nranks       %u, here %s\n", r->name, *r->owner ? r->owner : "none",
	       r->size, group_ranks_text(&here, ranks));
	if (group_gathers(r))
		printf("gathers     %s, waits for %s\n", since, group_ranks_text(&missing, ranks));
	else
		printf("lives       %s\naddress     %s%s%s\n", since, address_text(r->local, a),
		       group_is_mixed(r) ? " and " : "", group_is_mixed(r) ? address_text(r->other, b) : "");
	group_print_aggregators(r, "");
	for (int k = 0; k < FPISA_MANAGER_JOBS; k++) {
		const struct fpisa_manager_spec *s = &r->job[k].made;

		if (r->job[k].state == FPISA_GROUP_JOB_MADE)
			printf("job         %u: %s, format %s, window %u; %sfpisa job show %u\n", group_job_number(r, k),
			       name_of(mode_names, s->mode), name_of(format_names, s->format), s->window,
			       r->elsewhere ? "on the first host of its shares, run " : "", group_job_number(r, k));
	}
	printf("\n%4s  %-15s  %s\n", "rank", "address", "state");
	for (__u32 i = 0; i < r->size; i++)
		printf("%4u  %-15s  %s\n", i,
		       fpisa_ranks_has(&r->joined, i) ? address_text(r->rank[i].address, a) : "-", state_text(r, i));
}

/* -- verbs ------------------------------------------------------------------ */

int verb_group_list(int argc, char **argv)
{
	struct common c = COMMON_INIT;
	struct json_object *list;
	struct group_record r;
	struct view v;
	int err;

	if (common_options(&c, argc, argv) || no_operands("group list", argc, argv))
		return BAD_USAGE;
	err = open_view(&v, c.pin);
	if (err)
		return err;
	list = json_object_new_array();
	if (!c.json)
		printf("%-24s %-16s %5s %5s %5s  %s\n", "group", "key", "ranks", "here", "jobs", "lives");
	for (__u32 i = 0; (i = manager_view_next(&v.manager, i, NULL, &r, &err)) < GROUPS; i++)
		if (c.json)
			json_object_array_add(list, group_json(&r, false));
		else
			print_row(&r);
	if (!err && c.json)
		err = print_json(list, false);
	else
		json_object_put(list);
	close_view(&v);
	return err;
}

/* Parse the group's name. If several groups have the name, as with two keys, it stands for all of them. */
static int parse_name_operand(const char *verb, int argc, char **argv, const char **name)
{
	if (argc - optind != 1)
		return refuse(BAD_USAGE, "%s requires one group name", verb);
	*name = argv[optind];
	return 0;
}

int verb_group_show(int argc, char **argv)
{
	struct common c = COMMON_INIT;
	struct json_object *list;
	struct group_record r;
	const char *name = NULL;
	int err, n = 0;
	struct view v;

	if (common_options(&c, argc, argv) || parse_name_operand("group show", argc, argv, &name))
		return BAD_USAGE;
	err = open_view(&v, c.pin);
	if (err)
		return err;
	list = json_object_new_array();
	for (__u32 i = 0; (i = manager_view_next(&v.manager, i, name, &r, &err)) < GROUPS; i++) {
		if (c.json)
			json_object_array_add(list, group_json(&r, true));
		else if (n)
			putchar('\n');
		if (!c.json)
			print_group(&r);
		n++;
	}
	if (!err && !n)
		err = refuse(-ENOENT, "group %s: no such group; see fpisa group list", name);
	if (!err && c.json)
		err = print_json(list, false);
	else
		json_object_put(list);
	close_view(&v);
	return err;
}

/* Wait until the manager has ended the group. */
static int await_end(const struct view *v, __u32 place, const struct group_record *r)
{
	const struct timespec pause = {.tv_nsec = 50000000};
	struct group_record now;
	int err = 0;

	for (int ms = 0; !err && ms < KILL_MS; ms += 50) {
		err = datapath_group_get(&v->manager.groups, place, &now);
		if (now.id != r->id)
			return err;
		nanosleep(&pause, NULL);
	}
	return err ?: refuse(-ETIMEDOUT, "group %s: the manager has not ended it in %d s", r->name, KILL_MS / 1000);
}

int verb_group_kill(int argc, char **argv)
{
	struct common c = COMMON_INIT;
	struct json_object *o;
	struct group_record r;
	const char *name = NULL;
	int err, n = 0;
	struct view v;

	if (common_options(&c, argc, argv) || parse_name_operand("group kill", argc, argv, &name))
		return BAD_USAGE;
	err = open_view(&v, c.pin);
	if (err)
		return err;
	for (__u32 i = 0; !err && (i = manager_view_next(&v.manager, i, name, &r, &err)) < GROUPS; i++, n++) {
		if (!v.manager.pid)
			err = refuse(-ESRCH, "group %s: no manager is running to end it; start fpisa serve", name);
		if (!err)
			err = datapath_group_kill(&v.manager.groups, i, r.id);
		if (!err)
			err = await_end(&v, i, &r);
	}
	if (!err && !n)
		err = refuse(-ENOENT, "group %s: no such group; see fpisa group list", name);
	close_view(&v);
	if (err || !c.json)
		return err;
	o = json_done("group kill");
	json_add_string(o, "group", name);
	json_add_number(o, "groups", (uint64_t)n);
	return print_json(o, false);
}
