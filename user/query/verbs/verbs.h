/* SPDX-License-Identifier: GPL-2.0-only */
/* The verbs of queries. cli/report.h describes a verb's arguments and result. */
#ifndef FPISA_QUERY_VERBS_H
#define FPISA_QUERY_VERBS_H

#include <stdbool.h>

int verb_query_add(int argc, char **argv);
void query_add_help(void); /* these functions print the options of a verb */
int verb_query_list(int argc, char **argv);
int verb_query_show(int argc, char **argv);
int verb_query_del(int argc, char **argv);
int verb_query_data(int argc, char **argv);
int verb_query_run(int argc, char **argv);
int verb_query_demo(int argc, char **argv);
bool query_demo_is_here(void); /* whether the script exists, as it does in a source tree */
int verb_query_resources(int argc, char **argv);

#endif
