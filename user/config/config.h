/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The configuration file, which lists the interfaces to load and the jobs to create.
 *
 * 	[datapath]		keys: pin, and load's options but mode
 * 	port = 18000
 * 	[interface eth0]	keys: mode
 * 	[job 7]			keys: the options of job add
 * 	workers = 10.0.0.11,10.0.0.12
 * 	[manager]		keys: manager/policy.c; what `fpisa serve` may assign
 * 	[key train]		keys: the same; what the groups of a key may have
 *
 * A key is an option without its dashes, and goes through the verb's own parser. An option without an argument takes
 * yes or no. parser.c reads and checks; apply.c examines the machine and creates what is missing; role.c decides which
 * host is the manager; load.c has load's options, which the verb shares.
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
	char place[IF_NAMESIZE];   /* config apply: the interface that is loaded for it: datapath_place() */
	struct datapath_load load; /* only its mode */
	bool runs;		   /* config apply: runs already, as the file says */
};

struct config_job {
	int line;
	__u32 number;
	struct job_spec spec; /* complete, except for values from routing */
	int wrong;	      /* wrong on this machine */
	bool runs;	      /* config apply: runs already, as the file says */
};

/* Options of `fpisa serve`, which override the file's, even when that is read again; 0, NULL: not given. */
struct config_given {
	const char *manager, *colocated;
	__be32 address;
	__u32 rate;
};

struct config {
	const char *file;
	char *text;		       /* the text into which names and values point */
	int datapath_line;	       /* 0: no [datapath] */
	struct datapath_load load;     /* its port, group and CPUs */
	struct common common;	       /* its pin */
	int manager_line;	       /* 0: no [manager] */
	struct manager_policy manager; /* as config_give() set it */
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
 * Check interfaces, routes and addresses. This needs no privilege. In a draft, only warn about missing parts, because
 * they may appear later, or belong to another machine. Return 0 or -EINVAL.
 */
int config_look(struct config *c, bool draft);

/*
 * Create the objects of the file that are missing, and print them on stdout, as JSON if `json`. If one cannot be
 * created, remove the new objects again. `pin` may be NULL. Return 0 or -errno.
 */
int config_apply(struct config *c, const char *pin, bool json);

/*
 * Override [manager] of the file, which must exist, with the options of the command line. Their texts must stay valid.
 * Return 0 or BAD_USAGE, reported.
 */
int config_give(struct config *c, const struct config_given *given);

/*
 * Return whether this host is an aggregator of a manager elsewhere, not a manager itself. If workers' hosts are the
 * aggregators, all have one file: with `colocated` the manager is the host that `manager` names. A name that cannot be
 * resolved belongs to another host.
 */
bool config_manager_elsewhere(const struct config *c);

/* -- load.c: the options of fpisa load, for the verb too --------------------- */

/* The options of load: from OPT_VERB on its own options, below that the options of every verb */
extern const struct option load_options[];

/* Take one option as getopt_long() leaves it, with its argument in optarg. Return 0, BAD_USAGE or -errno. */
int load_option(struct datapath_load *o, int opt, struct common *c);

/* -- for parser.c and apply.c ---------------------------------------------------- */

/* Make messages refer to this line from here on. `place` belongs to the caller and must stay valid. */
void config_at(const struct config *c, int line, char place[CONFIG_PLACE_LEN]);

#endif
