/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The configuration file: the interfaces to load, and the jobs to make.
 *
 * 	[datapath]		keys: pin, and load's options but mode
 * 	port = 18000
 * 	[interface eth0]	keys: mode
 * 	[job 7]			keys: the options of job add
 * 	workers = 10.0.0.11,10.0.0.12
 * 	[manager]		keys: manager/policy.c; what `fpisa serve` may give away
 * 	[key train]		keys: the same; what the groups of a key may have
 *
 * A key is an option without its dashes, and goes through the verb's own parser. An option without an argument takes
 * yes or no. read.c reads and checks; apply.c examines the machine and makes what is missing; role.c decides which host
 * is the manager; load.c has load's options, which the verb shares.
 */
#ifndef FPISA_CONFIG_H
#define FPISA_CONFIG_H

#include "cli/options.h"
#include "datapath/datapath.h"
#include "job/job.h"
#include "manager/policy.h"

#define CONFIG_FILE "/etc/fpisa/fpisa.conf"
#define CONFIG_PLACE_LEN (PATH_MAX + 16) /* "FILE:LINE" */

struct config_interface {
	int line;
	const char *name;
	struct datapath_load load; /* only its mode */
	bool runs;		   /* config apply: runs already, as the file says */
};

struct config_job {
	int line;
	__u32 number;
	struct job_spec spec; /* complete, except what routing tells */
	int wrong;	      /* wrong on this machine */
	bool runs;	      /* config apply: runs already, as the file says */
};

/* Options of `fpisa serve`, which go over the file's, also when that is read again; 0, NULL: not given. */
struct config_given {
	const char *manager, *colocated;
	__be32 address;
	__u32 rate;
};

struct config {
	const char *file;
	char *text;		       /* that names and values point into */
	int datapath_line;	       /* 0: no [datapath] */
	struct datapath_load load;     /* its port, group and CPUs */
	struct common common;	       /* its pin */
	int manager_line;	       /* 0: no [manager] */
	struct manager_policy manager; /* as config_give() left it */
	struct config_given given;
	int interfaces, jobs;
	struct config_interface interface[DATAPATH_MAX_INTERFACES];
	struct config_job job[FPISA_MAX_JOBS];
};

/*
 * Read and check a file. Report every error with FILE:LINE. Return 0, -EINVAL, or the error of opening the file. Do not
 * examine interfaces, routes or the kernel. The caller has to release *c in any case.
 */
int config_read(struct config **c, const char *file);
void config_free(struct config *c);

/*
 * Check interfaces, routes and addresses, without privilege. In a draft, warn of what is missing, because it may come,
 * or belong to another machine. Return 0 or -EINVAL.
 */
int config_look(struct config *c, bool draft);

/*
 * Make what is missing and print it on stdout, as JSON if `json`: all of the file or nothing. `pin` may be NULL. Return
 * 0 or -errno.
 */
int config_apply(struct config *c, const char *pin, bool json);

/* Put the options of the command line over [manager] of the file, which has one. Their texts must stay. 0 or BAD_USAGE, reported. */
int config_give(struct config *c, const struct config_given *given);

/*
 * Return whether this host is an aggregator of a manager elsewhere, not a manager itself. If workers' hosts are the
 * aggregators, all have one file: with `colocated` the manager is the host that `manager` names. A name that cannot be
 * looked up belongs to another host.
 */
bool config_manager_elsewhere(const struct config *c);

/* -- load.c: the options of fpisa load, for the verb too --------------------- */

/* The options of load: from OPT_VERB on its own options, below that the options of every verb */
extern const struct option load_options[];

/* Take one option as getopt_long() leaves it, with its argument in optarg. Return 0, BAD_USAGE or -errno. */
int load_option(struct datapath_load *o, int opt, struct common *c);

/* -- for read.c and apply.c ---------------------------------------------------- */

/* Make messages refer to this line from here on. `place` belongs to the caller and must stay valid. */
void config_at(const struct config *c, int line, char place[CONFIG_PLACE_LEN]);

#endif
