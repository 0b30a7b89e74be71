/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Declarations that the files of the verb `soak` share.
 *
 *	soak.c    options, the order of events, cleaning up
 *	net.c     namespaces and links: worker hosts, the middlebox, the aggregator
 *	impair.c  the process in the middlebox, which does faults to frames
 *	rank.c    one rank's process: sums without end
 *	member.c  the same in a group
 *	check.c   what it contributes, and each result recomputed
 *	events.c  kills, links that go down, jobs made anew, loaders
 *	manager.c the manager of groups
 *	end.c     taking everything down
 *	report.c  what is left, table, JSON
 *
 *	worker host h    middlebox         aggregator
 *	eth0 ----------- a<h> b<h> ----------- w<h>
 *
 * A host is a network namespace that outlives the processes in it: a rank of
 * several jobs runs there, each a process of its own, which may be killed
 * and started again. Parent and children share one struct in memory. The second half of
 * the jobs are groups, each with jobs from the manager for the types of its calls.
 *
 * Functions return 0, or -errno after they have reported the error.
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
#define SOAK_ADDRESS 0x0a4eff01u /* 10.78.255.1, the aggregator's */
#define SOAK_NETWORK 0x0a4e0000u /* 10.78.HOST.1 and .2 are the ends of a host's link */
#define SOAK_PORT "w"		 /* the aggregator's interface towards a host, before its number */
#define SOAK_TIMEOUT_MS 2000	 /* a worker's deadline; in a group calls have none */
#define SOAK_JOIN_MS 4000	 /* of a group */
#define SOAK_GROUP_LEN 16
#define SOAK_TICK_US 3000
#define SOAK_HANG_NS 20000000000ull	  /* in a call for so long: it hangs */
#define SOAK_GROUP_HANG_NS 60000000000ull /* in a group, where a job may wait for a manager, and that for an upgrade */

int verb_soak(int argc, char **argv);
extern const char soak_help[];

struct soak_options {
	uint64_t seconds, seed;
	uint32_t jobs;
	uint32_t ports;			/* of each job at the aggregator; 0: any number */
	struct fpisa_fault_rates rates; /* of the middlebox; every other job injects half of it itself too */
	struct fpisa_steering steering; /* cpus 0: none */
	bool json;
};

/* The way in which a rank completes a call: in the call itself, by fpisa_wait(), by fpisa_test(). */
enum soak_completion { SOAK_BLOCKING, SOAK_WAITING, SOAK_POLLING, SOAK_COMPLETIONS };

/* A rank of one job: written by its process, except stop. Counts go on when the rank is started again. */
struct soak_rank {
	bool stop;	     /* finish the call under way and end */
	uint64_t in_call_ns; /* since when, 0: in none */
	uint64_t longest_ns;
	uint64_t rounds;					   /* all-reduce calls that succeeded */
	uint64_t by_op[FPISA_OP_END], by_format[FPISA_FORMAT_END]; /* those */
	uint64_t by_completion[SOAK_COMPLETIONS], in_place, xsk;   /* those too */
	uint64_t computed;					   /* calls that computed between start and end */
	uint64_t restored;	   /* arrays of calls in place that failed, compared with what they were */
	uint64_t chunks, elements; /* results recomputed, also of calls that then failed */
	uint64_t retransmits, bad;
	uint64_t errors;     /* calls and joins that ended with an error they may end with */
	uint64_t unexpected; /* with another one */
	uint64_t mismatches; /* elements, or flags or members of a chunk, that are wrong */
	uint64_t joins;
	uint64_t broadcasts, barriers; /* calls too, in groups */
	uint64_t leaked_fds;
	char message[256]; /* of the first mismatch or unexpected error */
};

struct soak_shared {
	struct soak_rank rank[SOAK_JOBS][SOAK_RANKS];
	uint64_t taken_out[SOAK_JOBS]; /* ranks, by shrink */
	uint64_t impair_faults[5];     /* as in struct fpisa_faults: dropped .. corrupted */
	uint64_t impair_frames;
	uint64_t disturbed_ns[SOAK_JOBS]; /* when a rank of a group was killed or left last, or the group ended */
	uint64_t manager_killed_ns;
	uint64_t no_job_ns; /* the last time that a job could not be made: of a link, or a loader */
	uint64_t forged;    /* HELLOs that the middlebox made itself */
};

struct soak_job {
	struct fpisa_job config;
	uint32_t host[SOAK_RANKS]; /* of each rank */
	uint32_t ranks;
	struct process process[SOAK_RANKS];
	uint64_t start_ns[SOAK_RANKS]; /* when a killed one comes back, 0: it is not due */
	uint64_t add_ns;	       /* when the job is made anew, 0: it is not due */
	bool present;
};

struct soak_counts {
	uint64_t kills, restarts, loader_kills, loader_restarts, upgrades, reloads, links_down, jobs_deleted, shrinks,
		manager_kills, groups_ended, hangs;
};

/* A loader that runs, and is killed at a random moment or runs to its end. */
struct soak_loader {
	struct process process;
	bool upgrade; /* else: attaches to one port again */
	uint32_t host;
	bool finish;	  /* not to be killed */
	uint64_t kill_ns; /* when, if not */
};

struct soak {
	struct soak_options o;
	uint64_t random;
	uint64_t kinds_taken; /* formats and modes of jobs, in turn from a random one on */
	pid_t parent;
	int home_fd, middlebox_fd, host_fd[SOAK_HOSTS]; /* network namespaces */
	struct process middlebox, manager;
	uint64_t manager_ns; /* when it is started again, 0: it is not due */
	bool keyed;	     /* it and its ranks have a key */
	struct soak_shared *shared;
	struct soak_job job[SOAK_JOBS];
	struct soak_loader loader;
	uint64_t up_ns[SOAK_HOSTS]; /* when the link is up again, 0: it is */
	uint64_t next_ns[8];	    /* of each kind of event */
	struct soak_counts count;
	struct datapath dp;
};

/* -- net.c -------------------------------------------------------------- */

extern const struct star soak_star; /* from the aggregator to the middlebox */

/* Namespaces of hosts and middlebox, links, addresses; we are in the aggregator's namespace. */
int soak_net(struct soak *s);
int soak_link_set(uint32_t host, bool up);

/* Close the namespaces of the hosts, then the middlebox's. Return how many links of each are left after a while. */
int soak_net_close_hosts(struct soak *s);
int soak_net_close_middlebox(struct soak *s);

/* -- impair.c ----------------------------------------------------------- */

/* The process in the middlebox; arg is a const struct soak. */
void soak_impair(void *arg, int control);

/* -- rank.c ------------------------------------------------------------- */

/* The rank of a process. */
struct soak_place {
	const struct soak *s;
	uint32_t job, rank;
};

/* The process of a rank of a static job, in its host's namespace; arg is a struct soak_place. */
void soak_work(void *arg, int control);
int soak_open_fds(void);

/* -- member.c ----------------------------------------------------------- */

/* The same of a rank of a group. */
void soak_member(void *arg, int control);

/* -- events.c ----------------------------------------------------------- */

int soak_events_start(struct soak *s, uint64_t now);

/* Everything that is due now. */
int soak_events(struct soak *s, uint64_t now);

/* Break nothing from here on, and bring up what is down. Nonzero while that takes. */
int soak_events_end(struct soak *s, uint64_t now, bool *done);

/* Return whether the rank uses AF_XDP, which one rank of a host can. */
static inline bool soak_uses_xsk(uint32_t job, uint32_t rank)
{
	return job == 0 && rank % 2 == 0;
}

/* Ends its process at once, as kill -9 does. */
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

/* Open a file with the soak's key that `owner` may read; -1: there is no key. */
int soak_key_open(const struct soak *s, uid_t owner);

int soak_manager_start(struct soak *s);
int soak_manager_kill(struct soak *s, uint64_t back_ns);

/* Let the calls of this job's group fail from now on. */
void soak_disturb(struct soak *s, uint32_t job);

/* End the group as `fpisa group kill` does, or by deleting one of its jobs. */
int soak_group_end(struct soak *s, uint32_t job, bool by_job);

/* Count, after all ranks have left, the groups and jobs that are there after a while; then end the manager. */
uint64_t soak_manager_end(struct soak *s);

/* -- end.c -------------------------------------------------------------- */

struct soak_leaks {
	uint64_t processes, namespaces, pins, map_entries, fds, objects, groups;
};

int soak_take_down(struct soak *s, int fds, struct soak_leaks *l);

/* -- report.c ----------------------------------------------------------- */

/* Prints; -EBADMSG, not reported, if anything is wrong. */
int soak_report(const struct soak *s, const struct soak_leaks *l, double seconds);

#endif
