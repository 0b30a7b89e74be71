/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The parts that the checks of `fpisa doctor` share. A check looks at one thing and
 * reports one finding about it. What it cannot see it leaves out, or calls ok
 * with the reason, so that a warning always means something to be fixed.
 *
 * 	doctor.c    the verb
 * 	finding.c   findings: a line each, or JSON
 * 	kernel.c    privilege, kernel, JIT, BPF filesystem, tools
 * 	device.c    an interface of the aggregator
 * 	ports.c     its queues, for jobs with several ports
 * 	worker.c    an interface of a worker
 * 	group.c     whether a worker can join groups
 * 	datapath.c  the loaded datapath, and its jobs
 * 	manager.c   the manager of groups
 */
#ifndef FPISA_DOCTOR_H
#define FPISA_DOCTOR_H

#include "datapath/datapath.h"

int verb_doctor(int argc, char **argv);

enum level {
	LEVEL_OK,
	LEVEL_WARN,  /* works, but slower or not for all */
	LEVEL_FAULT, /* something does not work */
	LEVELS,
};

#define FIX_LEN 6144 /* the longest: a job of 64 workers made again */

struct doctor {
	const char *pin;	   /* as given, may be NULL */
	struct json_object *found; /* with --json, else NULL */
	double rate;		   /* of each worker's link, in bits a second; 0: as this machine's */
	int count[LEVELS];
	bool privileged;     /* BPF may be used */
	bool sees;	     /* programs of others, too */
	bool verified;	     /* the tags are this build's */
	__u8 tag[8];	     /* of the entry */
	__u8 steer_tag[8];   /* of this build's fpisa_steer, if what is loaded steers */
	struct datapath *dp; /* what is loaded, NULL if nothing is or it cannot be read */
	char dir[PATH_MAX];  /* where it is pinned */
	int dp_err;	     /* of opening it; -ENOENT: there is none */
};

/* Report a finding about `subject`; `fix` is a shell command, or NULL if no command helps. */
__attribute__((format(printf, 6, 7))) void finding(struct doctor *d, enum level level, const char *subject,
						   const char *check, const char *fix, const char *fmt, ...);

/* The last line, how many of each level, or with --json all findings. 0 or -errno. */
int report_findings(struct doctor *d);

/* " --pin DIR" for fixes, or "" if none was given. Static. */
const char *pin_option(const struct doctor *d);

void doctor_kernel(struct doctor *d);
void doctor_tools(struct doctor *d);

/* Check an interface; `named`: by the user, so that a trial attach is welcome. */
void doctor_device(struct doctor *d, const char *dev, bool named);

/* Check the queues of an interface; report nothing if it has one queue, or if no job has several ports. */
void doctor_ports(struct doctor *d, const char *dev, __u32 ifindex);

/* Check a worker's interface; `dev` NULL: the interface of the route to the aggregator. */
void doctor_worker(struct doctor *d, const char *dev, __be32 aggregator);

/* Check whether a worker can join groups, with the environment of programs here; if FPISA_MANAGER is not set, ask nothing. `aggregator`: as text. */
void doctor_group(struct doctor *d, const char *aggregator);

void doctor_datapath(struct doctor *d);

/* Check the manager by [manager] of `file`, NULL: of the installed configuration; report nothing if there is none. */
void doctor_manager(struct doctor *d, const char *file);

/* Return the command that keeps other users out of the caller's file of keys; NULL: the file is readable by nobody else. */
const char *doctor_key_fix(const char *file, char *fix, size_t size);

#endif
