// SPDX-License-Identifier: GPL-2.0-only
/* Output of the soak, which is a list of figures as a table or as JSON. */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "cli/names.h"
#include "cli/print.h"
#include "cli/report.h"
#include "soak.h"

/* Add up the figures of all ranks. Add rounds and joins of ranks in groups to *in_groups. */
static struct soak_rank sum_of(const struct soak *s, struct soak_rank *in_groups, const char **message)
{
	struct soak_rank sum = {0};

	for (uint32_t job = 0; job < s->o.jobs; job++)
		for (uint32_t r = 0; r < s->job[job].ranks; r++) {
			const struct soak_rank *w = &s->shared->rank[job][r];

			sum.rounds += w->rounds;
			for (int i = 0; i < FPISA_OP_END; i++)
				sum.by_op[i] += w->by_op[i];
			for (int i = 0; i < FPISA_FORMAT_END; i++)
				sum.by_format[i] += w->by_format[i];
			for (int i = 0; i < SOAK_COMPLETIONS; i++)
				sum.by_completion[i] += w->by_completion[i];
			sum.computed += w->computed;
			sum.in_place += w->in_place;
			sum.restored += w->restored;
			sum.xsk += w->xsk;
			sum.chunks += w->chunks;
			sum.elements += w->elements;
			sum.retransmits += w->retransmits;
			sum.bad += w->bad;
			sum.errors += w->errors;
			sum.unexpected += w->unexpected;
			sum.mismatches += w->mismatches;
			sum.joins += w->joins;
			sum.broadcasts += w->broadcasts;
			sum.barriers += w->barriers;
			if (soak_in_groups(s, job)) {
				in_groups->rounds += w->rounds;
				in_groups->joins += w->joins;
			}
			if (w->longest_ns > sum.longest_ns)
				sum.longest_ns = w->longest_ns;
			if (*w->message && !*message)
				*message = w->message;
		}
	return sum;
}

static void add_object(struct json_object *o, const char *key, const char *const *names, const double *values, int n)
{
	struct json_object *e = json_object_new_object();

	for (int i = 0; i < n; i++)
		json_add_double(e, names[i], values[i]);
	json_object_object_add(o, key, e);
}

/* Add counts. The keys are the names of the numbers. */
static void add_counts(struct json_object *o, const char *key, const struct name *names, const uint64_t *counts)
{
	struct json_object *e = json_object_new_object();

	for (; names->name; names++)
		json_add_number(e, names->name, counts[names->id]);
	json_object_object_add(o, key, e);
}

/* Print a table. Members of nested objects are printed as "outer.name". */
static void print_table(struct json_object *o, const char *prefix)
{
	json_object_object_foreach(o, key, value)
	{
		char name[64];

		snprintf(name, sizeof(name), "%s%s%s", prefix, *prefix ? "." : "", key);
		if (json_object_is_type(value, json_type_object))
			print_table(value, name);
		else
			printf("%-24s %s\n", name, json_object_get_string(value));
	}
}

int soak_report(const struct soak *s, const struct soak_leaks *l, double seconds)
{
	static const char *const faults[] = {FPISA_FAULT_NAMES(FPISA_NAMED, )};
	static const char *const left[] = {"processes", "namespaces", "pins",  "map_entries",
					   "fds",	"objects",    "groups"};
	static const struct name completions[] = {
		{SOAK_BLOCKING, "blocking"}, {SOAK_WAITING, "waiting"}, {SOAK_POLLING, "polling"}, {0}};
	const struct fpisa_fault_rates *r = &s->o.rates;
	const double rates[] = {r->drop, r->duplicate, r->reorder, r->delay, r->corrupt};
	const double leaked[] = {(double)l->processes, (double)l->namespaces, (double)l->pins,	(double)l->map_entries,
				 (double)l->fds,       (double)l->objects,    (double)l->groups};
	const uint64_t leaks = l->processes + l->namespaces + l->pins + l->map_entries + l->fds + l->objects + l->groups;
	const struct soak_counts *c = &s->count;
	struct json_object *o = json_object_new_object();
	double counted[5];
	const char *message = NULL;
	struct soak_rank in_groups = {0}, sum = sum_of(s, &in_groups, &message);
	uint64_t workers = 0;
	bool passed;
	int err = 0;

	for (int i = 0; i < 5; i++)
		counted[i] = (double)s->shared->impair_faults[i];
	for (uint32_t job = 0; job < s->o.jobs; job++)
		workers += s->job[job].ranks;
	passed = sum.rounds && !sum.mismatches && !c->hangs && !leaks && !sum.unexpected;
	json_add_number(o, "seed", s->o.seed);
	json_add_double(o, "seconds", seconds);
	add_object(o, "rates", faults, rates, 5);
	json_add_number(o, "jobs", s->o.jobs);
	json_add_number(o, "workers", workers);
	json_add_number(o, "rounds", sum.rounds);
	add_counts(o, "operations", op_names, sum.by_op);
	add_counts(o, "formats", format_names, sum.by_format);
	add_counts(o, "completions", completions, sum.by_completion);
	json_add_number(o, "computed", sum.computed);
	json_add_number(o, "xsk", sum.xsk);
	json_add_number(o, "in_place", sum.in_place);
	json_add_number(o, "restored", sum.restored);
	json_add_number(o, "results", sum.chunks);
	json_add_number(o, "elements", sum.elements);
	json_add_number(o, "retransmits", sum.retransmits);
	json_add_number(o, "frames", s->shared->impair_frames);
	add_object(o, "faults", faults, counted, 5);
	json_add_number(o, "forged", s->shared->forged);
	json_add_number(o, "bad_frames", sum.bad);
	json_add_number(o, "joins", sum.joins);
	json_add_number(o, "group_joins", in_groups.joins);
	json_add_number(o, "group_rounds", in_groups.rounds);
	json_add_number(o, "broadcasts", sum.broadcasts);
	json_add_number(o, "barriers", sum.barriers);
	json_add_number(o, "errors", sum.errors);
	json_add_double(o, "longest_call_s", (double)sum.longest_ns / 1e9);
	json_add_number(o, "kills", c->kills);
	json_add_number(o, "restarts", c->restarts);
	json_add_number(o, "loader_kills", c->loader_kills);
	json_add_number(o, "loader_restarts", c->loader_restarts);
	json_add_number(o, "upgrades", c->upgrades);
	json_add_number(o, "reloads", c->reloads);
	json_add_number(o, "links_down", c->links_down);
	json_add_number(o, "jobs_deleted", c->jobs_deleted);
	json_add_number(o, "shrinks", c->shrinks);
	json_add_number(o, "groups_ended", c->groups_ended);
	json_add_number(o, "manager_kills", c->manager_kills);
	json_add_number(o, "unexpected", sum.unexpected);
	json_add_number(o, "mismatches", sum.mismatches);
	json_add_number(o, "hangs", c->hangs);
	json_add_number(o, "leaks", leaks);
	add_object(o, "leaked", left, leaked, 7);
	json_object_object_add(o, "passed", json_object_new_boolean(passed));
	if (message)
		refuse(0, "soak: %s", message);
	if (s->o.json) {
		err = print_json(o, false);
	} else {
		print_table(o, "");
		json_object_put(o);
	}
	return err ?: passed ? 0 : -EBADMSG;
}
