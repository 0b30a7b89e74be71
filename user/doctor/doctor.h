/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Declarations shared by the checks of `fpisa doctor`. A check examines one subject and reports one finding about it.
 * If a check cannot see its subject, it reports nothing, or ok with the reason. So a warning always means something to
 * be fixed.
 *
 * 	doctor.c    the verb
 * 	finding.c   findings, as lines or as JSON
 * 	kernel.c    privilege, kernel, JIT, BPF filesystem, tools
 * 	device.c    an interface of the aggregator
 * 	ports.c     the queues of that interface, for jobs with several ports
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
	LEVEL_WARN,  /* works, but slowly or not for all ranks */
	LEVEL_FAULT, /* something does not work */
	LEVELS,
};

#define FIX_LEN 6144 /* the longest fix: a job of 64 workers is recreated */

struct doctor {
	const char *pin;	   /* as the user gave it, may be NULL */
	struct json_object *found; /* with --json, else NULL */
	double rate;		   /* rate of each worker's link, in bits per second; 0: that of this machine's */
	int count[LEVELS];
	bool privileged;     /* BPF may be used */
	bool sees;	     /* programs of other datapaths can be seen */
	bool verified;	     /* the tags are this build's */
	__u8 tag[8];	     /* tag of the entry */
	__u8 steer_tag[8];   /* tag of this build's fpisa_steer, if the loaded datapath steers */
	struct datapath *dp; /* the loaded datapath; NULL if none is loaded or it cannot be read */
	char dir[PATH_MAX];  /* directory in which it is pinned */
	int dp_err;	     /* error of opening it; -ENOENT: none is pinned */
};

/* Report a finding about `subject`. `fix` is a shell command, or NULL if no command helps. */
__attribute__((format(printf, 6, 7))) void finding(struct doctor *d, enum level level, const char *subject,
						   const char *check, const char *fix, const char *fmt, ...);

/* Print the last line with the count of each level, or with --json all findings. Return 0 or -errno. */
int report_findings(struct doctor *d);

/* Return " --pin DIR" for fixes, or "" if the user gave no directory. The text is static. */
const char *pin_option(const struct doctor *d);

void doctor_kernel(struct doctor *d);
void doctor_tools(struct doctor *d);

/* Check an interface; `named`: the user named it, so a trial attachment is permitted. */
void doctor_device(struct doctor *d, const char *dev, bool named);

/* Check the queues of an interface; report nothing if it has one queue, or if no job has several ports. */
void doctor_ports(struct doctor *d, const char *dev, __u32 ifindex);

/* Check a worker's interface; `dev` NULL: the interface of the route to the aggregator. */
void doctor_worker(struct doctor *d, const char *dev, struct fpisa_address aggregator);

/*
 * Check whether a worker can join groups, with the environment of programs here. If FPISA_MANAGER is not set, check
 * nothing. `aggregator` is text.
 */
void doctor_group(struct doctor *d, const char *aggregator);

void doctor_datapath(struct doctor *d);

/*
 * Check the manager by [manager] of `file`, or of the installed configuration if NULL. Report nothing if the file has
 * no such section.
 */
void doctor_manager(struct doctor *d, const char *file);

/*
 * Return the command that makes the caller's key file unreadable for other users, or NULL if it already is.
 */
const char *doctor_key_fix(const char *file, char *fix, size_t size);

#endif
