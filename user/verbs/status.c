// SPDX-License-Identifier: GPL-2.0-only
/* fpisa status: the loaded datapath, its place, and its contents */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/names.h"
#include "cli/options.h"
#include "cli/print.h"
#include "cli/report.h"
#include "datapath/datapath.h"
#include "group_view.h"
#include "verbs.h"

struct bank {
	int filled;
	bool stages; /* each slot has a program of its own; otherwise the entry replaces it */
};

static struct bank count_bank(const struct datapath_program *stage)
{
	struct bank b = {.stages = true};

	for (int k = 0; k < FPISA_STAGES; k++) {
		b.filled += !!stage[k].id;
		if (stage[k].id && !strcmp(stage[k].name, "fpisa"))
			b.stages = false;
	}
	return b;
}

static __u64 memory(const struct datapath_status *s)
{
	__u64 bytes = 0;

	for (int i = 0; i < s->maps; i++)
		bytes += s->map[i].bytes;
	return bytes;
}

/* Count the slots that jobs have taken; queries have none. */
static __u32 slots_taken(const struct datapath *dp)
{
	__u32 slots = 0;

	for (int i = 0; i < FPISA_MAX_JOBS; i++)
		if (dp->jobs[i].active && !fpisa_is_query(&dp->jobs[i]))
			slots += dp->jobs[i].window;
	return slots;
}

/* -- the manager and its groups ------------------------------------------------ */

static void print_holder(const struct group_record *r)
{
	const struct fpisa_ranks here = group_here(r), missing = group_missing(r);
	char ranks[RANKS_LEN];
	bool first = true;

	printf("%-11s %s, key %s: size %u, joined ranks %s", "", r->name, *r->owner ? r->owner : "none", r->size,
	       group_ranks_text(&here, ranks));
	for (int k = 0; k < FPISA_MANAGER_JOBS; k++)
		if (r->job[k].state == FPISA_GROUP_JOB_MADE) {
			printf("%s%u", first ? ", job numbers " : ",", group_job_number(r, k));
			first = false;
		}
	if (group_gathers(r))
		printf(", waits for ranks %s", group_ranks_text(&missing, ranks));
	putchar('\n');
	group_print_aggregators(r, "              ");
}

/* Print that this datapath is an aggregator of another host's manager. */
static void print_agent(const struct manager_view *v)
{
	char a[ENDPOINT_LEN], b[ENDPOINT_LEN];
	const bool two = fpisa_is_address(&v->own.other);

	printf("aggregator  of another host's manager: process %d, ", v->pid);
	if (fpisa_is_address(&v->own.address))
		printf("registered as %s%s%s", fpisa_endpoint_text(&v->own.address, (__u16)v->own.port, a),
		       two ? " and " : "", two ? fpisa_endpoint_text(&v->own.other, (__u16)v->own.port, b) : "");
	else
		printf("not registered");
}

static int print_manager(const struct manager_view *v)
{
	struct aggregator_record a;
	struct group_record r;
	int err;

	if (v->pid && v->agent)
		print_agent(v);
	else if (v->pid)
		printf("manager     process %d", v->pid);
	else
		printf("manager     %s", v->any ? "not running any longer; start fpisa serve" : "never started");
	if (v->any)
		printf("; groups: %u, ranks: %u, jobs: %u", v->now_groups, v->now_ranks, v->now_jobs);
	putchar('\n');
	for (__u32 i = 0; (i = manager_view_next(v, i, NULL, &r, &err)) < GROUPS; i++)
		print_holder(&r);
	for (__u32 i = 0; !err && !v->agent && (i = manager_view_aggregator(v, i, &a, &err)) < AGGREGATORS; i++)
		aggregator_print(&a, i ? "" : "aggregators");
	return err;
}

static int manager_json(const struct manager_view *v, struct json_object **out)
{
	struct json_object *o, *list, *refusals, *aggregators;
	struct aggregator_record a;
	struct group_record r;
	int err;

	*out = NULL;
	if (!v->any)
		return 0;
	o = json_object_new_object();
	list = json_object_new_array();
	refusals = json_object_new_object();
	aggregators = json_object_new_array();
	json_object_object_add(o, "pid", v->pid ? json_object_new_int(v->pid) : NULL);
	for (__u32 i = 0; (i = manager_view_next(v, i, NULL, &r, &err)) < GROUPS; i++)
		json_object_array_add(list, group_json(&r, false));
	json_object_object_add(o, "groups", list);
	for (__u32 i = 0; !err && (i = manager_view_aggregator(v, i, &a, &err)) < AGGREGATORS; i++)
		json_object_array_add(aggregators, aggregator_json(&a));
	json_object_object_add(o, "aggregators", aggregators);
	json_add_number(o, "groups_made", v->counts.groups);
	json_add_number(o, "jobs_made", v->counts.jobs);
	json_add_number(o, "ranks_gone", v->counts.gone);
	for (__u32 k = 0; k < FPISA_MANAGER_R_END; k++)
		if (manager_reason_name(k))
			json_add_number(refusals, manager_reason_name(k), v->counts.refused[k]);
	json_object_object_add(o, "refusals", refusals);
	*out = o;
	return err;
}

/* -- the whole status --------------------------------------------------------------- */

static int print_text(const struct datapath *dp, const struct datapath_status *s, const struct manager_view *m)
{
	char cpus[CPUS_LEN];

	printf("pinned      %s\n", dp->pin);
	printf("port        %u\n", dp->control->port ?: FPISA_PORT);
	if (dp->steering.cpus)
		printf("steering    to CPUs %s, %u frames may wait at each\n",
		       cpus_text(dp->steering.cpu, dp->steering.cpus, cpus), dp->steering.queue);
	if (!s->interfaces)
		puts("interfaces  none in this network namespace");
	for (int i = 0; i < s->interfaces; i++)
		printf("%-11s %-15s %-7s program %s, id %u%s\n", i ? "" : "interfaces", s->interface[i].name,
		       name_of(xdp_mode_names, s->interface[i].mode), s->interface[i].program.name,
		       s->interface[i].program.id,
		       datapath_is_entry(s->interface[i].program.name) ?
			       "" :
			       ": the wrong program, not fpisa; see fpisa doctor");
	if (!s->programs)
		puts("programs    none pinned");
	for (int i = 0; i < s->programs; i++)
		printf("%-11s %-15s id %-6u %7u bytes, %u instructions verified\n", i ? "" : "programs",
		       s->program[i].name, s->program[i].id, s->program[i].xlated_bytes, s->program[i].verified_insns);
	for (__u32 b = 0; b < FPISA_BANKS; b++) {
		struct bank n = count_bank(s->stage[b]);

		printf("%-11s bank %u: %d of %d filled%s%s\n", b ? "" : "stages", b, n.filled, FPISA_STAGES,
		       n.filled && !n.stages ? ", by the entry program" : "", dp->control->bank == b ? ", in use" : "");
	}
	printf("trie        %d of 32 entries\n", s->trie_entries);
	printf("jobs        %d of %d\n", s->jobs, FPISA_MAX_JOBS);
	printf("slots       %u of %u\n", slots_taken(dp), dp->slots_n);
	printf("maps        %d, %llu KiB\n", s->maps, (unsigned long long)memory(s) / 1024);
	return print_manager(m);
}

static struct json_object *program_json(const struct datapath_program *p)
{
	struct json_object *o = json_object_new_object();

	json_add_string(o, "name", p->name);
	json_add_number(o, "id", p->id);
	json_add_number(o, "xlated_bytes", p->xlated_bytes);
	json_add_number(o, "jited_bytes", p->jited_bytes);
	json_add_number(o, "verified_insns", p->verified_insns);
	return o;
}

static struct json_object *bank_json(const struct datapath_program *stage, bool in_use)
{
	struct json_object *o = json_object_new_object(), *ids = json_object_new_array();
	struct bank n = count_bank(stage);

	for (int k = 0; k < FPISA_STAGES; k++)
		json_object_array_add(ids, stage[k].id ? json_object_new_int64(stage[k].id) : NULL);
	json_add_number(o, "filled", n.filled);
	json_object_object_add(o, "stage_programs", json_object_new_boolean(n.filled && n.stages));
	json_object_object_add(o, "in_use", json_object_new_boolean(in_use));
	json_object_object_add(o, "program_ids", ids);
	return o;
}

static int print_status_json(const struct datapath *dp, const struct datapath_status *s, const struct manager_view *m)
{
	struct json_object *o = json_object_new_object(), *interfaces = json_object_new_array(),
			   *programs = json_object_new_array(), *banks = json_object_new_array(),
			   *maps = json_object_new_array(), *cpus = json_object_new_array(), *manager;
	int err = manager_json(m, &manager);

	for (__u32 i = 0; i < dp->steering.cpus; i++)
		json_object_array_add(cpus, json_object_new_int64(dp->steering.cpu[i]));
	for (int i = 0; i < s->interfaces; i++) {
		struct json_object *e = json_object_new_object();

		json_add_string(e, "name", s->interface[i].name);
		json_add_number(e, "ifindex", s->interface[i].ifindex);
		json_add_string(e, "mode", name_of(xdp_mode_names, s->interface[i].mode));
		json_add_number(e, "program_id", s->interface[i].program.id);
		json_object_array_add(interfaces, e);
	}
	for (int i = 0; i < s->programs; i++)
		json_object_array_add(programs, program_json(&s->program[i]));
	for (__u32 b = 0; b < FPISA_BANKS; b++)
		json_object_array_add(banks, bank_json(s->stage[b], dp->control->bank == b));
	for (int i = 0; i < s->maps; i++) {
		struct json_object *e = json_object_new_object();

		json_add_string(e, "name", s->map[i].name);
		json_add_number(e, "id", s->map[i].id);
		json_add_number(e, "bytes", s->map[i].bytes);
		json_object_array_add(maps, e);
	}
	json_add_string(o, "pinned", dp->pin);
	json_add_number(o, "port", dp->control->port ?: FPISA_PORT);
	json_object_object_add(o, "cpus", cpus);
	json_add_number(o, "cpu_queue", dp->steering.queue);
	json_object_object_add(o, "interfaces", interfaces);
	json_object_object_add(o, "programs", programs);
	json_object_object_add(o, "banks", banks);
	json_add_number(o, "trie_entries", s->trie_entries);
	json_add_number(o, "jobs", s->jobs);
	json_add_number(o, "slots", dp->slots_n);
	json_add_number(o, "slots_taken", slots_taken(dp));
	json_object_object_add(o, "maps", maps);
	json_add_number(o, "map_bytes", memory(s));
	json_object_object_add(o, "manager", manager);
	return print_json(o, false) ?: err;
}

int verb_status(int argc, char **argv)
{
	struct common c = COMMON_INIT;
	struct datapath_status *s;
	struct manager_view m = {.any = false};
	struct datapath dp;
	int err;

	if (common_options(&c, argc, argv) || no_operands("status", argc, argv))
		return BAD_USAGE;
	s = calloc(1, sizeof(*s));
	if (!s)
		return fail(-ENOMEM, NULL, "status: cannot store the state");
	err = datapath_open(&dp, c.pin);
	if (err)
		goto out;
	err = datapath_status(&dp, s) ?: manager_view_open(&dp, &m);
	if (!err)
		err = c.json ? print_status_json(&dp, s, &m) : print_text(&dp, s, &m);
	manager_view_close(&m);
out:
	datapath_close(&dp);
	free(s);
	return err;
}
