// SPDX-License-Identifier: GPL-2.0-only
/* fpisa config check, config apply: [FILE] */
#include <stdio.h>

#include "config/config.h"
#include "verbs.h"

/* The one operand, or the default. */
static int parse_file(int argc, char **argv, struct common *c, const char **file)
{
	if (bare_options(c, argc, argv))
		return BAD_USAGE;
	if (argc - optind > 1)
		return refuse(BAD_USAGE, "config: give one file");
	if (optind < argc && !*argv[optind])
		return refuse(BAD_USAGE, "config: the file's name is empty");
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
		err = config_look(c, true);
	if (!err)
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
		err = config_apply(c, common.pin ?: c->common.pin);
	config_free(c);
	return err;
}
