// SPDX-License-Identifier: GPL-2.0-only
/*
 * Comparing a configuration file with the running datapath, and applying it; config.h has the contracts. Applying a
 * file creates missing objects and does not change running ones. A job that runs with the parameters of the file keeps
 * its slots. A job that runs with other parameters is an error. All checks precede all changes. If an object cannot be
 * created, the new objects are removed, so the file is applied completely or not at all.
 */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/names.h"
#include "cli/print.h"
#include "cli/report.h"
#include "config.h"

/* -- checks of this machine ------------------------------------------------------------ */

/*
 * Warn of jobs that do not fit into the default number of slots. Without `slots`, the file uses the number of the
 * loaded datapath.
 */
static int look_at_default(struct config *c)
{
	struct fpisa_job *jobs = calloc(FPISA_MAX_JOBS, sizeof(*jobs));
	char place[CONFIG_PLACE_LEN];

	for (int i = 0; jobs && i < c->jobs; i++) {
		struct config_job *j = &c->job[i];
		struct fpisa_job *at = &jobs[j->number];

		*at = j->spec.job;
		at->active = datapath_job_fit(jobs, FPISA_DEFAULT_SLOTS, at);
		config_at(c, j->line, place);
		if (!at->active)
			warning("job %u does not fit the default of %d slots; set slots = N in [datapath], unless "
				"more are loaded",
				j->number, FPISA_DEFAULT_SLOTS);
	}
	report_at(NULL);
	free(jobs);
	return jobs ? 0 : fail(-ENOMEM, NULL, "%s", c->file);
}

int config_look(struct config *c, bool draft)
{
	char place[CONFIG_PLACE_LEN];
	int errors = 0;

	for (int i = 0; i < c->interfaces; i++) {
		const struct config_interface *f = &c->interface[i];

		config_at(c, f->line, place);
		if (if_nametoindex(f->name))
			continue;
		if (draft)
			warning("%s: no such interface on this machine now", f->name);
		else
			errors += !!refuse(-ENODEV, "%s: no such interface; see ip link", f->name);
	}
	for (int i = 0; i < c->jobs; i++) {
		struct config_job *j = &c->job[i];

		config_at(c, j->line, place);
		j->spec.draft = draft;
		j->wrong = job_spec_resolve(&j->spec, j->number);
		errors += !!j->wrong;
	}
	report_at(NULL);
	if (draft && !c->load.slots)
		errors += !!look_at_default(c);
	return errors ? -EINVAL : 0;
}

/* -- checks of the running datapath ------------------------------------------------------ */

/* Check that a running datapath agrees with [datapath]. */
static int check_datapath(const struct config *c, const struct datapath *dp)
{
	__u32 port = dp->control->port ?: FPISA_PORT;
	const struct fpisa_steering *want = &c->load.steering, *now = &dp->steering;
	struct stat st;

	if (c->load.port && c->load.port != port)
		return refuse(-EEXIST,
			      "port: the loaded datapath has port %u; run fpisa unload, then fpisa config apply", port);
	if (c->load.slots && c->load.slots != dp->slots_n)
		return refuse(-EEXIST,
			      "slots: the loaded datapath has %u slots; run fpisa unload, then fpisa config apply",
			      dp->slots_n);
	if (c->load.group != DATAPATH_NO_GROUP && (stat(dp->pin, &st) || st.st_gid != c->load.group))
		return refuse(-EEXIST,
			      "group: the loaded datapath belongs to another Unix group; run fpisa unload, then fpisa "
			      "config apply");
	if (want->cpus && (want->cpus != now->cpus || memcmp(want->cpu, now->cpu, sizeof(want->cpu)) ||
			   (want->queue && want->queue != now->queue)))
		return refuse(-EEXIST,
			      "cpus: the loaded datapath sums on other CPUs; run fpisa unload, then fpisa config apply");
	return 0;
}

/*
 * Check whether the interface runs the datapath as described in the file. An interface without the datapath must be
 * free.
 */
static int look_at_interface(const struct datapath *dp, const char *pin, struct config_interface *i)
{
	struct datapath_interface now = {.name = ""};
	char off[DETACH_LEN];
	__u32 ifindex = if_nametoindex(datapath_place(i->name, i->load.mode, i->place));
	int got;

	if (!ifindex) /* the error has been reported already */
		return 0;
	got = dp ? datapath_attached(dp, ifindex, &now) : datapath_program_on(ifindex, &now);
	if (got < 0)
		return fail(got, NULL, "%s: cannot query the XDP program", i->place);
	if (got && now.mode != i->load.mode)
		return refuse(-EEXIST,
			      "%s: the datapath runs in mode %s, but the configuration has %s; run %s, then fpisa config "
			      "apply",
			      i->place, name_of(xdp_mode_names, now.mode), name_of(xdp_mode_names, i->load.mode),
			      datapath_detach_text(i->place, now.mode, off));
	if (!got && now.program.id)
		return datapath_refuse_program(i->place, &now, pin);
	i->runs = got;
	return 0;
}

/* Return whether the parameters are the same, except those that the datapath and `fpisa job shrink` set. */
static bool same_parameters(const struct fpisa_job *now, const struct fpisa_job *want)
{
	struct fpisa_job a = *now, b = *want;

	a.active = b.active = 0;
	a.live = b.live = 0;
	a.slot_base = b.slot_base = 0;
	a.copies = b.copies = 0;
	a.below = b.below = 0;
	a.keyed = b.keyed = 0;
	a.key = b.key = (struct fpisa_key){0};
	return !memcmp(&a, &b, sizeof(a));
}

/*
 * Check that the ports of the job exist. The kernel removes a deleted interface from the job's device map, even if
 * another interface of the same name is created.
 */
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
				      "job %u: its interface towards rank %u is gone; run fpisa job del %u, then fpisa "
				      "config apply",
				      job, r, job);
	}
	return 0;
}

/* Return whether the fan-out of the job has an entry for this port. With unicast, the entry must be that of `rank`. */
static bool has_port(const struct datapath *dp, __u32 job, const struct fpisa_job *now, __u32 rank, __u32 ifindex)
{
	bool unicast = now->fanout == FPISA_FANOUT_UNICAST;
	__u32 port = 0, egress;

	for (__u32 r = unicast ? rank : 0; r < (unicast ? rank + 1 : now->workers); r++)
		if (!datapath_port(dp, job, r, &port, &egress) && port == ifindex)
			return true;
	return false;
}

/*
 * Check that results leave through the interfaces in the file. With multicast, each of these interfaces must have an
 * entry, and no other interface may have one.
 */
static int check_devices(const struct datapath *dp, const struct config_job *j, const struct fpisa_job *now)
{
	const struct job_spec *s = &j->spec;
	__u32 port, egress;
	bool all = true;

	for (__u32 r = 0; r < now->workers; r++) {
		if (!(now->live >> r & 1))
			continue;
		all &= !!s->dev[r];
		if (s->dev[r] && !has_port(dp, j->number, now, r, s->ifindex[r]))
			return refuse(-EEXIST,
				      "job %u does not reach rank %u through %s; run fpisa job del %u, then fpisa config "
				      "apply",
				      j->number, r, s->dev[r], j->number);
	}
	for (__u32 k = 0; all && k < now->workers; k++) {
		bool named = now->fanout == FPISA_FANOUT_UNICAST || datapath_port(dp, j->number, k, &port, &egress);

		for (__u32 r = 0; !named && r < now->workers; r++)
			named = now->live >> r & 1 && s->ifindex[r] == port;
		if (!named)
			return refuse(-EEXIST,
				      "job %u sends results to an interface that leads to no rank; run fpisa job del "
				      "%u, then fpisa config apply",
				      j->number, j->number);
	}
	return 0;
}

/*
 * Check a job. jobs[FPISA_MAX_JOBS] are the running jobs and the file's jobs before this one. All of these jobs share
 * `slots` slots.
 */
static int look_at_job(const struct datapath *dp, struct config_job *j, struct fpisa_job *jobs, __u32 slots)
{
	struct fpisa_job *now = &jobs[j->number], *want = &j->spec.job;
	int err;

	if (!now->active) {
		err = datapath_job_check(j->number, want) ?: datapath_job_place(jobs, slots, j->number, want);
		*now = *want;
		now->active = !err;
		return err;
	}
	if (!datapath_job_here(dp, j->number))
		return refuse(-EEXIST,
			      "job %u was created in another network namespace; there, run fpisa config apply, or "
			      "take another number",
			      j->number);
	j->runs = true;
	if (!same_parameters(now, want))
		return refuse(-EEXIST,
			      "job %u runs with different parameters (see fpisa job show %u); run fpisa job del %u, "
			      "then fpisa config apply",
			      j->number, j->number, j->number);
	return check_alive(dp, j->number, now) ?: check_devices(dp, j, now);
}

/*
 * Compare the file with the running datapath. `dp` is NULL if no datapath is loaded. `pin` is the directory for the
 * pins of a new datapath.
 */
static int look_at_datapath(struct config *c, const struct datapath *dp, const char *pin)
{
	struct fpisa_job *jobs = calloc(FPISA_MAX_JOBS, sizeof(*jobs));
	char place[CONFIG_PLACE_LEN];
	int errors = 0;

	if (!jobs)
		return fail(-ENOMEM, NULL, "%s", c->file);
	if (dp) {
		memcpy(jobs, dp->jobs, FPISA_MAX_JOBS * sizeof(*jobs));
		config_at(c, c->datapath_line, place);
		errors += !!check_datapath(c, dp);
	}
	for (int i = 0; i < c->interfaces; i++) {
		config_at(c, c->interface[i].line, place);
		errors += !!look_at_interface(dp, dp ? dp->pin : pin, &c->interface[i]);
	}
	for (int i = 0; i < c->jobs; i++) {
		struct config_job *j = &c->job[i];
		__u32 port = dp && dp->control->port ? dp->control->port : c->load.port ?: FPISA_PORT;
		__u32 slots = dp ? dp->slots_n : c->load.slots ?: FPISA_DEFAULT_SLOTS;

		config_at(c, j->line, place);
		if (!j->wrong)
			errors +=
				!!(datapath_job_ports(port, j->number, &j->spec.job) ?: look_at_job(dp, j, jobs, slots));
	}
	report_at(NULL);
	free(jobs);
	return errors ? -EINVAL : 0;
}

/* -- creation of objects ----------------------------------------------------------------- */

struct made {
	/* number of finished interfaces and jobs, in the order of the file; those that did not run before are new */
	int interfaces, jobs;
};

static int make_interfaces(struct config *c, const char *pin, struct made *m)
{
	char place[CONFIG_PLACE_LEN];
	int err = 0;

	for (; !err && m->interfaces < c->interfaces; m->interfaces += !err) {
		struct config_interface *i = &c->interface[m->interfaces];
		char *name = i->place;
		struct datapath_load o = c->load;

		o.pin = pin;
		o.mode = i->load.mode;
		config_at(c, i->line, place);
		err = i->runs ? 0 : datapath_load(&o, &name, 1);
	}
	return err;
}

static int make_jobs(struct config *c, struct datapath *dp, struct made *m)
{
	char place[CONFIG_PLACE_LEN];
	int err = 0;

	for (; !err && m->jobs < c->jobs; m->jobs += !err) {
		struct config_job *j = &c->job[m->jobs];

		config_at(c, j->line, place);
		err = datapath_interrupted("config apply");
		if (err)
			continue;
		if (j->runs) {
			err = datapath_job_reassert(dp, j->number);
			continue;
		}
		job_spec_warn(&j->spec, dp, j->number);
		job_spec_warn_links(&j->spec, j->number);
		err = datapath_job_add(dp, j->number, &j->spec.job, j->spec.ifindex);
	}
	return err;
}

/* Remove the new objects. If `before`, a datapath was already pinned, and stays. */
static void take_back(struct config *c, struct datapath *dp, const char *pin, bool before, const struct made *m)
{
	struct datapath_unloaded u;

	for (int i = m->jobs; i--;)
		if (!c->job[i].runs)
			datapath_job_del(dp, c->job[i].number);
	for (int i = m->interfaces; i--;) {
		char *name = c->interface[i].place;

		if (!c->interface[i].runs && before)
			datapath_detach(dp, name);
		else if (!c->interface[i].runs)
			datapath_unload(pin, &name, 1, &u);
	}
}

static void report(const struct config *c, const struct datapath *dp)
{
	char left[RANKS_LEN];

	for (int i = 0; i < c->interfaces; i++)
		printf("%s: %s\n", c->interface[i].name, c->interface[i].runs ? "already loaded" : "loaded");
	for (int i = 0; i < c->jobs; i++) {
		__u32 n = c->job[i].number;

		if (c->job[i].runs)
			printf("job %u: already running, with ranks %s\n", n, ranks_text(dp->jobs[n].live, left));
		else
			printf("job %u: created\n", n);
	}
}

static int report_json(const struct config *c)
{
	struct json_object *o = json_done("config apply"), *interfaces = json_object_new_array(),
			   *jobs = json_object_new_array();

	for (int i = 0; i < c->interfaces; i++)
		if (!c->interface[i].runs)
			json_object_array_add(interfaces, json_text(c->interface[i].name));
	for (int i = 0; i < c->jobs; i++)
		if (!c->job[i].runs)
			json_object_array_add(jobs, json_object_new_int((int)c->job[i].number));
	json_add_string(o, "file", c->file);
	json_object_object_add(o, "interfaces", interfaces);
	json_object_object_add(o, "jobs", jobs);
	return print_json(o, false);
}

static int apply(struct config *c, const char *pin, bool json)
{
	const char *where = c->interfaces ? pin ?: DATAPATH_PIN : pin;
	char dir[PATH_MAX], place[CONFIG_PLACE_LEN];
	bool before = datapath_pinned(where, dir) != -ENOENT, open = false;
	struct datapath dp = {.lock = -1};
	struct made m = {0};
	int err;

	if (!c->interfaces && !c->jobs)
		return json ? report_json(c) : 0;
	err = config_look(c, false);
	config_at(c, c->interfaces ? c->interface[0].line : c->job[0].line, place);
	if (before || !c->interfaces) {
		open = !datapath_open(&dp, where);
		err = open ? err : -EINVAL;
	}
	if (open || !before) {
		int differs = look_at_datapath(c, open ? &dp : NULL, where ?: DATAPATH_PIN);

		if (differs)
			err = differs;
	}
	if (!err)
		err = make_interfaces(c, where, &m);
	if (!err && !open && c->jobs) {
		err = datapath_open(&dp, where);
		open = !err;
	}
	if (!err)
		err = make_jobs(c, &dp, &m);
	report_at(NULL);
	if (!err)
		err = datapath_interrupted("config apply");
	if (err)
		take_back(c, &dp, where, before, &m);
	else
		note_done("config apply");
	if (!err && json)
		err = report_json(c);
	else if (!err)
		report(c, &dp);
	if (open)
		datapath_close(&dp);
	return err;
}

/* A signal that arrives between two steps also waits until the new objects are removed. */
int config_apply(struct config *c, const char *pin, bool json)
{
	int err, lost;

	datapath_hold_signals();
	err = apply(c, pin, json);
	lost = flush_stdout("stdout");
	datapath_release_signals();
	return err ?: lost;
}
