/* SPDX-License-Identifier: GPL-2.0-only */
/* The verbs of this directory; cli/report.h describes a verb's arguments and result. */
#ifndef FPISA_VERBS_H
#define FPISA_VERBS_H

int verb_load(int argc, char **argv);
int verb_unload(int argc, char **argv);
int verb_upgrade(int argc, char **argv);
int verb_status(int argc, char **argv);
int verb_job_add(int argc, char **argv);
void job_add_help(void); /* print the verb's options */
int verb_job_list(int argc, char **argv);
int verb_job_show(int argc, char **argv);
int verb_job_del(int argc, char **argv);
int verb_job_shrink(int argc, char **argv);
int verb_config_check(int argc, char **argv);
int verb_config_apply(int argc, char **argv);
int verb_stats(int argc, char **argv);
int verb_slots(int argc, char **argv);
int verb_plan(int argc, char **argv);
int verb_resources(int argc, char **argv);
int verb_histogram(int argc, char **argv);
int verb_key_new(int argc, char **argv);
int verb_group_list(int argc, char **argv);
int verb_group_show(int argc, char **argv);
int verb_group_kill(int argc, char **argv);

#endif
