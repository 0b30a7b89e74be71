// SPDX-License-Identifier: GPL-2.0-only
/*
 * fpisa config check, config apply. Applying makes what is missing and
 * touches nothing that runs: a job that runs with the file's parameters keeps
 * its slots, one with others is an error. What fails does not stop the rest.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "config.h"

/* The one operand, or the default. */
static int parse_file(int argc, char **argv, struct common *c, const char **file)
{
	static const struct option options[] = {COMMON_OPTIONS, {0}};
	int opt;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1)
		if (common_option(c, opt))
			return BAD_USAGE;
	if (argc - optind > 1)
		return refuse(BAD_USAGE, "config: give one file");
	*file = optind < argc ? argv[optind] : CONFIG_FILE;
	return 0;
}

int verb_config_check(int argc, char **argv)
{
	struct common common = COMMON_INIT;
	struct config *c = NULL;
	const char *file;
	int err;

	err = parse_file(argc, argv, &common, &file);
	if (!err)
		err = config_read(&c, file);
	if (!err)
		printf("%s: no errors; interfaces: %d, jobs: %d\n", file, c->interfaces, c->jobs);
	config_free(c);
	return err;
}

/* -- interfaces ----------------------------------------------------------- */

/* A datapath that runs is as [datapath] says. */
static int check_datapath(const struct config *c, const struct datapath *dp)
{
	__u32 port = dp->control->port ?: FPISA_PORT;
	const struct fpisa_steering *want = &c->load.steering, *now = &dp->steering;
	struct stat st;

	if (c->load.port && c->load.port != port)
		return refuse(-EEXIST, "port: runs with %u; fpisa unload, then fpisa config apply", port);
	if (c->load.group != DATAPATH_NO_GROUP && (stat(dp->pin, &st) || st.st_gid != c->load.group))
		return refuse(-EEXIST, "group: runs with another; fpisa unload, then fpisa config apply");
	if (want->cpus && (want->cpus != now->cpus || memcmp(want->cpu, now->cpu, sizeof(want->cpu)) ||
			   (want->queue && want->queue != now->queue)))
		return refuse(-EEXIST, "cpus: runs with others; fpisa unload, then fpisa config apply");
	return 0;
}

/* 1 if the interface runs the datapath as the file says, 0 if it does not run it. */
static int runs(const struct datapath *dp, const struct config_interface *i)
{
	struct datapath_interface now = {.name = ""};
	__u32 ifindex = if_nametoindex(i->name);
	int got = ifindex ? datapath_attached(dp, ifindex, &now) : 0;

	if (got > 0 && now.mode != i->load.mode)
		return refuse(-EEXIST, "%s: runs in mode %s; fpisa unload %s, then fpisa config apply",
			      i->name, name_of(xdp_mode_names, now.mode), i->name);
	return got > 0;
}

static int apply_interface(const struct config *c, const char *pin, const struct config_interface *i)
{
	struct datapath_load o = c->load;
	char *name = (char *)i->name;
	struct datapath dp;
	char dir[PATH_MAX];
	int err = 0;

	if (datapath_pinned(pin, dir) != -ENOENT) {
		err = datapath_open(&dp, pin);
		if (err)
			return err;
		err = check_datapath(c, &dp) ?: runs(&dp, i);
		datapath_close(&dp);
	}
	if (err < 0)
		return err;
	if (!err) {
		o.pin = pin;
		o.mode = i->load.mode;
		err = datapath_load(&o, &name, 1);
		if (!err)
			printf("%s: loaded\n", i->name);
		return err;
	}
	printf("%s: is loaded already\n", i->name);
	return 0;
}

/* -- jobs ------------------------------------------------------------------- */

/* Are these the same parameters, but for what the datapath and job shrink set? */
static bool same_parameters(const struct fpisa_job *now, const struct fpisa_job *wish)
{
	struct fpisa_job a = *now, b = *wish;

	a.active = b.active = 0;
	a.live = b.live = 0;
	a.slot_base = b.slot_base = 0;
	return !memcmp(&a, &b, sizeof(a));
}

/* Its device map forgot an interface that was removed, also if one of that name came back. */
static int check_alive(const struct datapath *dp, __u32 job, const struct fpisa_job *now)
{
	char name[IF_NAMESIZE];

	for (__u32 r = 0; r < now->workers; r++) {
		struct fpisa_peer peer;
		int err = datapath_peer(dp, job, r, &peer);

		if (err)
			return err;
		if (peer.ifindex && !if_indextoname(peer.ifindex, name))
			return refuse(-ENODEV,
				      "job %u: its interface towards rank %u is gone; fpisa job del %u, then "
				      "fpisa config "
				      "apply",
				      job, r, job);
	}
	return 0;
}

static int apply_job(struct datapath *dp, struct config_job *j)
{
	struct job_wish *w = &j->wish;
	struct fpisa_job now = dp->jobs[j->number];
	char left[RANKS_LEN];
	int err;

	err = job_wish_resolve(w, dp, j->number);
	if (err)
		return err;
	if (!now.active) {
		err = datapath_job_add(dp, j->number, &w->job, w->ifindex);
		if (!err)
			printf("job %u: made\n", j->number);
		return err;
	}
	if (!same_parameters(&now, &w->job))
		return refuse(-EEXIST,
			      "job %u: runs with other parameters, see fpisa job show %u; fpisa job del %u, "
			      "then fpisa "
			      "config apply",
			      j->number, j->number, j->number);
	err = check_alive(dp, j->number, &now);
	if (!err)
		printf("job %u: runs already, with ranks %s\n", j->number, ranks_text(now.live, left));
	return err;
}

/* -- both ---------------------------------------------------------------- */

static int apply(struct config *c, const char *pin)
{
	char place[CONFIG_PLACE_LEN];
	struct datapath dp;
	int failed = 0, err;

	for (int i = 0; i < c->interfaces; i++) {
		config_at(c, c->interface[i].line, place);
		failed += !!apply_interface(c, pin ?: DATAPATH_PIN, &c->interface[i]);
	}
	if (c->jobs) {
		config_at(c, c->job[0].line, place);
		err = datapath_open(&dp, c->interfaces ? pin ?: DATAPATH_PIN : pin);
		for (int i = 0; !err && i < c->jobs; i++) {
			config_at(c, c->job[i].line, place);
			failed += !!apply_job(&dp, &c->job[i]);
		}
		failed += !!err;
		if (!err)
			datapath_close(&dp);
	}
	report_at(NULL);
	return failed ? -EINVAL : 0;
}

int verb_config_apply(int argc, char **argv)
{
	struct common common = COMMON_INIT;
	struct config *c = NULL;
	const char *file;
	int err;

	err = parse_file(argc, argv, &common, &file);
	if (!err)
		err = config_read(&c, file);
	if (!err)
		err = apply(c, common.pin ?: c->common.pin);
	config_free(c);
	return err;
}
