/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Records of the manager's groups, in maps of their own. Only user space reads and writes them. They live as long as
 * the datapath, so that a restarted manager finds its predecessor's jobs.
 *
 * 	fpisa_groups	a record for each group
 * 	fpisa_aggs	a record for each aggregator that has registered
 * 	fpisa_manager	words: for each place the id of the group that is to end, by `fpisa group kill`; then the manager's
 * 			process, and struct manager_counts
 */
#ifndef FPISA_DATAPATH_GROUPS_H
#define FPISA_DATAPATH_GROUPS_H

#include "datapath.h"
#include "lib/manager/protocol.h"
#include "lib/manager/psk.h"

#define GROUPS 64      /* most groups at a time */
#define AGGREGATORS 64 /* registered aggregators; one that is gone keeps its place until another needs the place */

struct group_job {
	__u32 state;  /* enum fpisa_group_job: NONE, MAKING or MADE */
	__u16 number; /* set once the job is made */
	__u16 refused; /* enum fpisa_manager_reason, or 0: some of the aggregators have the job, and no rank may use it */
	__u64 token;   /* identifies the job before it has a number */
	__u64 token_high;
	struct fpisa_manager_spec asked, made;
	__u8 at[FPISA_MAX_SHARDS];     /* job numbers at the group's aggregators */
	__u16 port[FPISA_MAX_WORKERS]; /* UDP port of each rank */
};

struct group_record {
	__u64 id;     /* 0: the entry is free */
	__u64 secret; /* proves that a returning rank was in the group */
	__u64 since;  /* seconds since 1970; while ranks are still joining, the time when the first rank joined */
	__u64 joined; /* bitmap of ranks; if some are missing, the group is incomplete, and a restarted manager does not restore it */
	__u64 left, gone; /* bitmaps of ranks */
	__u32 cause;	  /* enum fpisa_manager_cause of the rank that was given up last */
	__u32 size;
	__be32 local;	   /* this datapath's address for its jobs */
	__u32 elsewhere;   /* 1: the group's jobs are not on this datapath */
	__u32 aggregators; /* 0: ranks are still joining */
	struct fpisa_manager_aggregator aggregator[FPISA_MAX_SHARDS];
	char name[FPISA_MANAGER_NAME];
	char owner[FPISA_PSK_NAME]; /* name of the group's key; "" without a key */
	__be32 address[FPISA_MAX_WORKERS];
	__u64 calls[FPISA_MAX_WORKERS]; /* calls completed by ranks that have left */
	struct group_job job[FPISA_MANAGER_JOBS];
};

struct aggregator_record {
	__u64 since;	/* when it registered, seconds since 1970 */
	__be32 address; /* address for frames; 0: a free place or, with a port, an agent's own entry */
	__be32 host;	/* host that it registered from */
	__u32 port;	/* UDP port of its datapath */
	__u32 rate;	/* rate of the aggregator's link, Mbit/s; 0: unknown */
	__u32 slots;	/* slots that it may assign */
	__u32 gone;	/* enum fpisa_manager_cause; 0: it is present */
	char owner[FPISA_PSK_NAME];
};

/* Counts of events since the datapath was loaded; refused[] by enum fpisa_manager_reason */
struct manager_counts {
	__u64 groups; /* groups that became complete */
	__u64 jobs;   /* jobs that were created */
	__u64 gone;   /* ranks that ended without leaving, or did not reconnect */
	__u64 refused[FPISA_MANAGER_R_END];
};

static inline bool group_gathers(const struct group_record *r)
{
	return r->joined != fpisa_manager_all(r->size);
}

struct datapath_groups {
	int groups_fd, words_fd, aggregators_fd;
	bool made; /* the maps were created when they were opened */
};

/*
 * Open the maps of groups of an open datapath; with `make`, create them if they do not exist. Return -ENOENT, not
 * reported, if no manager has run.
 */
int datapath_groups_open(struct datapath *dp, bool make, struct datapath_groups *g);
void datapath_groups_close(struct datapath_groups *g);

/* Remove the pins if opening created them. */
void datapath_groups_unmake(struct datapath *dp, const struct datapath_groups *g);

int datapath_group_get(const struct datapath_groups *g, __u32 place, struct group_record *r);
int datapath_group_put(const struct datapath_groups *g, __u32 place, const struct group_record *r);

int datapath_aggregator_get(const struct datapath_groups *g, __u32 place, struct aggregator_record *r);
int datapath_aggregator_put(const struct datapath_groups *g, __u32 place, const struct aggregator_record *r);

/* Find the name of the group whose job this is, or "" if the job belongs to no group. */
int datapath_group_of(struct datapath *dp, const struct fpisa_job *j, char name[FPISA_MANAGER_NAME]);

/* Find the id of the group at this place that is to end, or 0 if it continues; _kill() sets it. */
int datapath_group_to_kill(const struct datapath_groups *g, __u32 place, __u64 *id);
int datapath_group_kill(const struct datapath_groups *g, __u32 place, __u64 id);

int datapath_groups_counts(const struct datapath_groups *g, struct manager_counts *c);
/* Add to the counters. Only the manager may call this. */
int datapath_groups_count(const struct datapath_groups *g, const struct manager_counts *more);

/* Find the process that manages groups, or 0 if no manager runs. */
int datapath_groups_manager(const struct datapath_groups *g, pid_t *pid);

/*
 * Register this process as the manager until it ends. Return -EBUSY, not reported, with *pid, if another process is the
 * manager.
 */
int datapath_groups_claim(struct datapath *dp, const struct datapath_groups *g, pid_t *pid);

#endif
