// SPDX-License-Identifier: GPL-2.0-only
/* fpisa config check, config apply: [FILE] */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/print.h"
#include "config/config.h"
#include "fpisa.h"
#include "lib/manager/psk.h"
#include "verbs.h"

/* Parse the only operand, or use the default. */
static int parse_file(int argc, char **argv, struct common *c, const char **file)
{
	if (common_options(c, argc, argv))
		return BAD_USAGE;
	if (argc - optind > 1)
		return refuse(BAD_USAGE, "config: more than one configuration file; give one at most");
	if (optind < argc && !*argv[optind])
		return refuse(BAD_USAGE, "config: the name is empty; give a configuration file");
	*file = optind < argc ? argv[optind] : CONFIG_FILE;
	return 0;
}

/* Read the keys as `fpisa serve` will; its user alone may read them. Keys of another machine are not here: then warn. */
static int look_at_keys(const struct config *c)
{
	char place[CONFIG_PLACE_LEN];
	struct fpisa_psks keys = {0};
	int err = 0;

	if (!c->manager_line || !c->manager.key_file)
		return 0;
	config_at(c, c->manager_line, place);
	if (access(c->manager.key_file, F_OK))
		warning("%s: no such key file on this machine now; create one with fpisa key new", c->manager.key_file);
	else if (!access(c->manager.key_file, R_OK) && fpisa_psks_read(&keys, c->manager.key_file))
		err = refuse(-EINVAL, "%s", fpisa_error());
	explicit_bzero(&keys, sizeof(keys));
	report_at(NULL);
	return err;
}

static int look_at_user(const struct config *c)
{
	char place[CONFIG_PLACE_LEN];
	int err = 0;

	if (!c->manager_line)
		return 0;
	config_at(c, c->manager_line, place);
	if (!manager_user(&c->manager))
		err = -EINVAL;
	report_at(NULL);
	return err;
}

static int print_counts(const struct config *c, const char *file)
{
	struct json_object *o = json_done("config check");

	json_add_string(o, "file", file);
	json_add_number(o, "interfaces", c->interfaces);
	json_add_number(o, "jobs", c->jobs);
	return print_json(o, false);
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
		err = config_look(c, true);
	if (!err)
		err = look_at_keys(c) ?: look_at_user(c);
	if (!err && common.json)
		err = print_counts(c, file);
	else if (!err)
		printf("%s: no errors; interfaces: %d, jobs: %d\n", file, c->interfaces, c->jobs);
	config_free(c);
	return err;
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
		err = config_apply(c, common.pin ?: c->common.pin, common.json);
	config_free(c);
	return err;
}
