/* SPDX-License-Identifier: GPL-2.0-only */
/* Jobs for the verbs: from words to a job, and printing. */
#ifndef FPISA_USER_JOB_H
#define FPISA_USER_JOB_H

#include <getopt.h>

#include "datapath/datapath.h"

struct common;
struct json_object;

/* -- job_add.c: from words to a job, for the verb and for config.c ------ */

/* What was said of a job; 0 where nothing was. Zeroed before the first option. */
struct job_wish {
	char *workers; /* the list, until job_wish_complete() cuts it */
	struct fpisa_job job;
	bool foreign_address;	      /* job.address need not be this machine's */
	bool draft;		      /* what this machine lacks is worth a warning; it may come, or be another's */
	char *dev[FPISA_MAX_WORKERS]; /* into the list; NULL: routing tells */
	__u32 ifindex[FPISA_MAX_WORKERS];
};

/* From OPT_VERB on an option is the job's, below one of every verb. */
extern const struct option job_add_options[];

/* Takes one option as getopt_long() leaves it: its argument in optarg, which must stay. 0 or BAD_USAGE. */
int job_wish_option(struct job_wish *w, int opt, struct common *c);

/* Fills what was not said, without a look at this machine; w->workers is not NULL. 0 or BAD_USAGE. */
int job_wish_complete(struct job_wish *w, __u32 job);

/*
 * Ports and address by this machine's routes; the ports carry the job's
 * frames. Of a draft ifindex[r] is 0 where the port is not there.
 */
int job_wish_resolve(struct job_wish *w, __u32 job);

/* Warns of ports without our program, which hear no worker, and of those behind which no worker hears results. */
void job_wish_warn(const struct job_wish *w, const struct datapath *dp, __u32 job);

/* -- faults.c: faults that the job asks of its workers ------------------- */

/* "drop=0.01,seed=7", which is cut. 0 or BAD_USAGE. */
int job_parse_faults(char *s, struct fpisa_job_faults *f);

/* The line of `job show`, if there are any; the same for JSON, else NULL. */
void job_print_faults(const struct fpisa_job_faults *f);
struct json_object *job_faults_json(const struct fpisa_job_faults *f);

/* " --debug-faults ...", which gives these faults, or "". */
#define FAULTS_OPTION_LEN 192
void job_faults_option(const struct fpisa_job_faults *f, char text[FAULTS_OPTION_LEN]);

/* -- printing --------------------------------------------------------------- */

/* `job show --json` of an active job; job_show.c. */
int job_print_json(const struct datapath *dp, __u32 job);
/* Bytes of a frame as the MTU counts them. */
unsigned int job_frame_bytes(const struct fpisa_job *j);

int job_print_text(const struct datapath *dp, __u32 job);

/* Ranks that are in the job's current generation. */
__u64 job_joined(const struct fpisa_job *j, const struct fpisa_session *s);

/* Is the entry a round of generation `generation` that is not complete? */
static inline bool job_round_open(const struct fpisa_slot *s, __u32 generation)
{
	return generation && s->generation == generation && s->bitmap && !s->done;
}

/*
 * Live ranks that have not contributed to the oldest open round, whose chunk
 * it is; 0 if no round is open. What `slots` shows of the lowest chunk, and
 * what a worker names whose deadline passes.
 */
int job_missing(const struct datapath *dp, __u32 job, __u64 *missing, __u64 *chunk);

/* Seconds since the datapath last heard the rank, HUGE_VAL if never since the job was made. */
int job_silence(const struct datapath *dp, __u32 job, __u32 rank, double *seconds);

/* Of the ranks that one silent the longest: "; rank 2 silent for 12 s", "; rank 2 never heard", or "" of no rank. */
#define SILENCE_LEN 48
int job_silence_text(const struct datapath *dp, __u32 job, __u64 ranks, char text[SILENCE_LEN]);

#endif
