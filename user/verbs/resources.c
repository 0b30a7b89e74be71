// SPDX-License-Identifier: GPL-2.0-only
/*
 * fpisa resources: costs of the datapath, by stage and map; this corresponds to the paper's table of switch resources
 * (table 3).
 */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>

#include "cli/options.h"
#include "cli/print.h"
#include "cli/report.h"
#include "resources.h"
#include "verbs.h"

static void print_text(const struct datapath_resources *r)
{
	unsigned long long total = 0;

	printf("%-8s %-16s %15s %15s %18s\n", "family", "program", "xlated bytes", "jited bytes", "verified insns");
	for (int i = 0; i < r->programs; i++)
		printf("%-8s %-16s %15u %15u %18u\n", r->program[i].family, r->program[i].name,
		       r->program[i].xlated_bytes, r->program[i].jited_bytes, r->program[i].verified_insns);
	printf("\n%-16s %9s %11s %9s %15s\n", "map", "key size", "value size", "entries", "memory bytes");
	for (int i = 0; i < r->maps; i++) {
		printf("%-16s %9u %11u %9u %15llu\n", r->map[i].name, r->map[i].key_size, r->map[i].value_size,
		       r->map[i].max_entries, (unsigned long long)r->map[i].bytes);
		total += r->map[i].bytes;
	}
	printf("%-16s %9s %11s %9s %15llu\n", "total", "", "", "", total);
}

static int print_resources_json(const struct datapath_resources *r)
{
	struct json_object *o = json_object_new_object(), *programs = json_object_new_array(),
			   *maps = json_object_new_array();

	for (int i = 0; i < r->programs; i++) {
		struct json_object *e = json_object_new_object();

		json_add_string(e, "family", r->program[i].family);
		json_add_string(e, "name", r->program[i].name);
		json_add_number(e, "xlated_bytes", r->program[i].xlated_bytes);
		json_add_number(e, "jited_bytes", r->program[i].jited_bytes);
		json_add_number(e, "verified_insns", r->program[i].verified_insns);
		json_object_array_add(programs, e);
	}
	for (int i = 0; i < r->maps; i++) {
		struct json_object *e = json_object_new_object();

		json_add_string(e, "name", r->map[i].name);
		json_add_number(e, "key_size", r->map[i].key_size);
		json_add_number(e, "value_size", r->map[i].value_size);
		json_add_number(e, "max_entries", r->map[i].max_entries);
		json_add_number(e, "bytes", r->map[i].bytes);
		json_object_array_add(maps, e);
	}
	json_object_object_add(o, "programs", programs);
	json_object_object_add(o, "maps", maps);
	return print_json(o, false);
}

int resources_verb(const char *verb, int (*measure)(struct datapath_resources *r), int argc, char **argv)
{
	struct common c = COMMON_INIT;
	struct datapath_resources r;
	int err;

	if (common_options(&c, argc, argv) || no_operands(verb, argc, argv))
		return BAD_USAGE;
	err = measure(&r);
	if (err)
		return err;
	if (c.json)
		return print_resources_json(&r);
	print_text(&r);
	return 0;
}

int verb_resources(int argc, char **argv)
{
	return resources_verb("resources", datapath_resources, argc, argv);
}
