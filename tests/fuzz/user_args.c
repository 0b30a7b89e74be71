/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * libFuzzer target: the arguments of the verbs, over stand-ins for the datapath (stand_ins.c). The first byte of the
 * input chooses the verb, and each line is an argument.
 */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include "lab/demo/demo.h"
#include "stand_ins.h"
#include "verbs/verbs.h"

#define MOST 48 /* maximum number of arguments */

static int (*const verbs[])(int argc, char **argv) = {
	verb_job_add, verb_load,  verb_unload, verb_status,	verb_job_list, verb_job_show,
	verb_job_del, verb_stats, verb_slots,  verb_job_shrink, verb_demo,     verb_upgrade,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text, *rest, *argv[MOST + 2] = {"fpisa"}, *word;
	int argc = 1;

	if (!size)
		return 0;
	text = malloc(size);
	CHECK(text);
	memcpy(text, data + 1, size - 1);
	text[size - 1] = 0;
	rest = text;
	while (argc <= MOST && (word = strsep(&rest, "\n")))
		argv[argc++] = word;
	argv[argc] = NULL;
	/* 0 makes getopt forget the previous run. */
	optind = 0;
	stand_in_opens = *data % (sizeof(verbs) / sizeof(verbs[0])) == 0;
	verbs[*data % (sizeof(verbs) / sizeof(verbs[0]))](argc, argv);
	free(text);
	return 0;
}
