/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Declarations that the files of the verb `soak` share.
 *
 * 	soak.c    options, order of events, and cleaning up
 * 	net.c     namespaces and links of worker hosts, middlebox and aggregator
 * 	impair.c  the middlebox's process, which injects faults into frames
 * 	rank.c    process of a rank of a static job
 * 	member.c  process of a rank of a group
 * 	check.c   contributions of ranks, and the recomputation of results
 * 	events.c  events for processes, links, jobs and loaders
 * 	manager.c the manager of groups
 * 	end.c     removal of all objects
 * 	report.c  remaining objects, table and JSON
 *
 * 	worker host h    middlebox         aggregator
 * 	eth0 ----------- a<h> b<h> ----------- w<h>
 *
 * A host is a network namespace that outlives its processes. Ranks of several jobs
 * run on a host, each in a separate process, which may be killed and started
 * again. Parent and children share one struct in memory. The second half of the
 * jobs are groups. The manager creates a job for each type of a group's calls.
 *
 * Functions return 0, or report the error and return -errno.
 */
#ifndef FPISA_SOAK_H
#define FPISA_SOAK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "datapath/datapath.h"
#include "fpisa.h"
#include "lib/transport/faults.h"
#include "lab/testbed/process.h"
#include "lab/testbed/star.h"

#define SOAK_HOSTS 6
#define SOAK_JOBS 8
#define SOAK_RANKS SOAK_HOSTS
#define SOAK_ADDRESS 0x0a4eff01u /* 10.78.255.1, the address of the aggregator */
#define SOAK_NETWORK 0x0a4e0000u /* 10.78.HOST.1 and .2 are the ends of a host's link */
#define SOAK_PORT "w"		 /* prefix of the aggregator's interface towards a host; the host's number follows */
#define SOAK_TIMEOUT_MS 2000	 /* deadline of a rank of a static job; calls in a group do not have a deadline */
#define SOAK_JOIN_MS 4000	 /* deadline for joining a group */
#define SOAK_GROUP_LEN 16
#define SOAK_TICK_US 3000
#define SOAK_HANG_NS 20000000000ull	  /* a call that takes this long hangs */
#define SOAK_GROUP_HANG_NS 60000000000ull /* the same for a group, which may wait for a manager and an upgrade */

int verb_soak(int argc, char **argv);
extern const char soak_help[];

struct soak_options {
	uint64_t seconds, seed;
	uint32_t jobs;
	uint32_t ports;			/* ports of each job at the aggregator; 0 means any number */
	struct fpisa_fault_rates rates; /* faults of the middlebox; every other job also injects half as many itself */
	struct fpisa_steering steering; /* cpus is 0 without steering */
	bool json;
};

/* How a rank completes a call. The call blocks, or the rank calls fpisa_wait() or fpisa_test(). */
enum soak_completion { SOAK_BLOCKING, SOAK_WAITING, SOAK_POLLING, SOAK_COMPLETIONS };

/*
 * A rank of one job. The rank's process writes all members except `stop`. Counts continue when the process is started
 * again.
 */
struct soak_rank {
	bool stop;	     /* the process should finish the current call and end */
	uint64_t in_call_ns; /* start of the current call; 0 outside of calls */
	uint64_t longest_ns;
	uint64_t rounds;					   /* number of all-reduce calls that succeeded */
	uint64_t by_op[FPISA_OP_END], by_format[FPISA_FORMAT_END]; /* rounds by kind */
	uint64_t by_completion[SOAK_COMPLETIONS], in_place, xsk;   /* rounds by kind */
	uint64_t computed;					   /* number of calls during which the rank computed */
	/* number of arrays of failed in-place calls that were compared with their former contents */
	uint64_t restored;
	uint64_t chunks, elements; /* numbers of recomputed results, including results of calls that failed later */
	uint64_t retransmits, bad;
	uint64_t errors;     /* number of calls and joins that ended with an expected error */
	uint64_t unexpected; /* number of calls and joins that ended with another error */
	uint64_t mismatches; /* number of wrong elements, and of chunks with wrong flags or members */
	uint64_t joins;
	uint64_t broadcasts, barriers; /* numbers of calls in groups */
	uint64_t leaked_fds;
	char message[256]; /* first mismatch or unexpected error */
};

struct soak_shared {
	struct soak_rank rank[SOAK_JOBS][SOAK_RANKS];
	uint64_t taken_out[SOAK_JOBS]; /* bitmap of ranks removed by shrink */
	uint64_t impair_faults[5];     /* counts of struct fpisa_faults, from dropped to corrupted */
	uint64_t impair_frames;
	/* last time that a rank of a group was killed or left, or that the group ended */
	uint64_t disturbed_ns[SOAK_JOBS];
	uint64_t manager_killed_ns;
	uint64_t no_job_ns; /* last time that a job could not be created because of a link or a loader */
	uint64_t forged;    /* number of HELLOs that the middlebox forged */
};

struct soak_job {
	struct fpisa_job config;
	uint32_t host[SOAK_RANKS]; /* host of each rank */
	uint32_t ranks;
	struct process process[SOAK_RANKS];
	uint64_t start_ns[SOAK_RANKS]; /* when a killed rank starts again; 0 if not due */
	uint64_t add_ns;	       /* when the job is created again; 0 if not due */
	bool present;
};

struct soak_counts {
	uint64_t kills, restarts, loader_kills, loader_restarts, upgrades, reloads, links_down, jobs_deleted, shrinks,
		manager_kills, groups_ended, hangs;
};

/* A loader process, which is killed at a random moment or runs to its end. */
struct soak_loader {
	struct process process;
	bool upgrade; /* upgrade; if not set, attach to one port again */
	uint32_t host;
	bool finish;	  /* do not kill the process */
	uint64_t kill_ns; /* when to kill, unless `finish` */
};

struct soak {
	struct soak_options o;
	uint64_t random;
	uint64_t kinds_taken; /* number of formats and modes that jobs have used, starting with a random number */
	pid_t parent;
	int home_fd, middlebox_fd, host_fd[SOAK_HOSTS]; /* network namespaces */
	struct process middlebox, manager;
	uint64_t manager_ns; /* when the manager starts again; 0 if not due */
	bool keyed;	     /* whether manager and ranks have a key */
	struct soak_shared *shared;
	struct soak_job job[SOAK_JOBS];
	struct soak_loader loader;
	uint64_t up_ns[SOAK_HOSTS]; /* when the link goes up again; 0 if the link is up */
	uint64_t next_ns[8];	    /* time of the next event of each kind */
	struct soak_counts count;
	struct datapath dp;
};

/* -- net.c -------------------------------------------------------------- */

extern const struct star soak_star; /* the links from the aggregator to the middlebox */

/*
 * Create the namespaces of hosts and middlebox, and links and addresses. The caller is in the aggregator's namespace.
 */
int soak_net(struct soak *s);
int soak_link_set(uint32_t host, bool up);

/* Close the namespaces of the hosts, and of the middlebox. Return the number of links that remain after a while. */
int soak_net_close_hosts(struct soak *s);
int soak_net_close_middlebox(struct soak *s);

/* -- impair.c ----------------------------------------------------------- */

/* Run the process in the middlebox. `arg` is a const struct soak. */
void soak_impair(void *arg, int control);

/* -- rank.c ------------------------------------------------------------- */

/* The rank that a process runs. */
struct soak_place {
	const struct soak *s;
	uint32_t job, rank;
};

/* Run the process of a rank of a static job, in the namespace of the rank's host. `arg` is a struct soak_place. */
void soak_work(void *arg, int control);
int soak_open_fds(void);

/* -- member.c ----------------------------------------------------------- */

/* Run the process of a rank of a group. `arg` is a struct soak_place. */
void soak_member(void *arg, int control);

/* -- events.c ----------------------------------------------------------- */

int soak_events_start(struct soak *s, uint64_t now);

/* Cause all events that are due now. */
int soak_events(struct soak *s, uint64_t now);

/* Stop causing faults, and restore all objects. Set *done when all are restored. Call this function repeatedly. */
int soak_events_end(struct soak *s, uint64_t now, bool *done);

/* Return whether the rank uses AF_XDP. Only one rank of a host can use AF_XDP. */
static inline bool soak_uses_xsk(uint32_t job, uint32_t rank)
{
	return job == 0 && rank % 2 == 0;
}

/* Kill the process of the rank immediately with SIGKILL. */
void soak_kill_rank(struct soak *s, uint32_t job, uint32_t rank);
int soak_start_rank(struct soak *s, uint32_t job, uint32_t rank);
int soak_add_job(struct soak *s, uint32_t job);

/* -- manager.c ---------------------------------------------------------- */

/* Return whether the job is a group. */
static inline bool soak_in_groups(const struct soak *s, uint32_t job)
{
	return 2 * job >= s->o.jobs;
}

static inline void soak_group_name(char name[SOAK_GROUP_LEN], uint32_t job)
{
	snprintf(name, SOAK_GROUP_LEN, "soak-%u", job);
}

/* Open a file with the soak's key that `owner` may read. Return -1 if there is no key. */
int soak_key_open(const struct soak *s, uid_t owner);

int soak_manager_start(struct soak *s);
int soak_manager_kill(struct soak *s, uint64_t back_ns);

/* Allow calls of this job's group to fail from now on. */
void soak_disturb(struct soak *s, uint32_t job);

/* End the group as `fpisa group kill` does, or by deleting one of its jobs. */
int soak_group_end(struct soak *s, uint32_t job, bool by_job);

/* Count the groups and jobs that remain some time after all ranks have left. Then end the manager. */
uint64_t soak_manager_end(struct soak *s);

/* -- end.c -------------------------------------------------------------- */

struct soak_leaks {
	uint64_t processes, namespaces, pins, map_entries, fds, objects, groups;
};

int soak_take_down(struct soak *s, int fds, struct soak_leaks *l);

/* -- report.c ----------------------------------------------------------- */

/* Print the report. Return -EBADMSG without reporting an error if there was a fault. */
int soak_report(const struct soak *s, const struct soak_leaks *l, double seconds);

#endif
