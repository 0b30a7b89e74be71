/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The configuration file, which lists the interfaces to load and the jobs to create.
 *
 *	[datapath]		keys: pin, and the options of load except mode
 *	port = 18000
 *	[interface eth0]	keys: mode
 *	[job 7]			keys: the options of job add
 *	workers = 10.0.0.11,10.0.0.12
 *	[manager]		keys: see manager/policy.c; limits for `fpisa serve`
 *	[key train]		keys: the same; limits for the groups of a key
 *	[rack A]		hosts of a rack, for the trees of groups
 *	hosts = 10.0.1.0/24
 *
 * A key is an option without its dashes, and the verb's own parser parses its value. The value of an option without an
 * argument is yes or no. parser.c reads and checks the file. apply.c examines the machine and creates missing objects.
 * role.c decides which host is the manager. load.c has the options of load, for the verb too.
 */
#ifndef FPISA_CONFIG_H
#define FPISA_CONFIG_H

#include "cli/options.h"
#include "datapath/datapath.h"
#include "job/job.h"
#include "manager/policy.h"

#define CONFIG_FILE "/etc/fpisa/fpisa.conf"
#define CONFIG_PLACE_LEN (PATH_MAX + 16) /* size of "FILE:LINE" */

struct config_interface {
	int line;
	const char *name;
	char place[IF_NAMESIZE];   /* config apply: interface to which the datapath attaches: datapath_place() */
	struct datapath_load load; /* load options, of which only the mode is used */
	bool runs;		   /* config apply: the interface already runs as described in the file */
};

struct config_job {
	int line;
	__u32 number;
	struct job_spec spec; /* complete job, except for values from routing */
	int wrong;	      /* nonzero: the job does not fit this machine */
	bool runs;	      /* config apply: the job already runs as described in the file */
};

/* Options of `fpisa serve`, which override the file, even when the file is read again. 0 or NULL: not given. */
struct config_given {
	const char *manager, *colocated;
	struct fpisa_address address, other;
	__u32 rate;
};

struct config {
	const char *file;
	char *text;		       /* text of the file; names and values point into it */
	int datapath_line;	       /* line of [datapath]; 0: no such section */
	struct datapath_load load;     /* port, group and CPUs of [datapath] */
	struct common common;	       /* pin of [datapath] */
	int manager_line;	       /* line of [manager]; 0: no such section */
	struct manager_policy manager; /* policy of [manager], changed by config_give() */
	struct config_given given;
	int interfaces, jobs;
	struct config_interface interface[DATAPATH_MAX_INTERFACES];
	struct config_job job[FPISA_MAX_JOBS];
};

/*
 * Read and check a file. Report every error with FILE:LINE. Return 0, -EINVAL, or the error of opening the file. Do not
 * examine interfaces, routes or the kernel. The caller must release *c, even after an error.
 */
int config_read(struct config **c, const char *file);
void config_free(struct config *c);

/*
 * Check interfaces, routes and addresses. This needs no privilege. In a draft, only warn about missing parts, because
 * these parts may be added later or belong to another machine. Return 0 or -EINVAL.
 */
int config_look(struct config *c, bool draft);

/*
 * Create the objects of the file that are missing, and print them on stdout, as JSON if `json`. If an object cannot be
 * created, remove the new objects again. `pin` may be NULL. Return 0 or -errno.
 */
int config_apply(struct config *c, const char *pin, bool json);

/*
 * Override the section [manager], which must exist, by the options of the command line. The strings of the options must
 * stay valid. Return 0, or report an error and return BAD_USAGE.
 */
int config_give(struct config *c, const struct config_given *given);

/*
 * Return whether this host is an aggregator of a manager on another host. If the hosts of the workers are the
 * aggregators, all hosts have the same file. In this case, with `colocated`, the manager is the host in `manager`. A
 * name that cannot be resolved belongs to another host.
 */
bool config_manager_elsewhere(const struct config *c);

/* -- load.c: the options of fpisa load --------------------- */

/* The options of load. Values from OPT_VERB on are options of load only, and lower values are options of all verbs. */
extern const struct option load_options[];

/* Process an option that getopt_long() has returned, with its argument in optarg. Return 0, BAD_USAGE or -errno. */
int load_option(struct datapath_load *o, int opt, struct common *c);

/* -- functions for parser.c and apply.c ---------------------------------------------------- */

/* Make all following messages refer to this line. The caller owns `place`, which must stay valid. */
void config_at(const struct config *c, int line, char place[CONFIG_PLACE_LEN]);

#endif
