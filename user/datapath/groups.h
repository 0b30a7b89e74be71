/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Records of the manager's groups, in separate maps that only user space uses. The records exist as long as the
 * datapath, so that a restarted manager finds the jobs of its predecessor.
 *
 *	fpisa_groups	a record for each group, without its ranks
 *	fpisa_ranks	64 ranks of a group; the key is place of the group * GROUP_BLOCKS + rank / 64
 *	fpisa_aggs	a record for each aggregator that has registered
 *	fpisa_manager	words: for each place the id of the group that `fpisa group kill` ends; then the manager's
 *			process, and struct manager_counts
 */
#ifndef FPISA_DATAPATH_GROUPS_H
#define FPISA_DATAPATH_GROUPS_H

#include "datapath.h"
#include "lib/manager/protocol.h"
#include "lib/manager/psk.h"

#define GROUPS 64 /* maximum number of groups at the same time */
/* maximum number of registered aggregators; an aggregator that is gone keeps its place until another needs the place */
#define AGGREGATORS 64
#define GROUP_AGGREGATORS (1 + FPISA_MAX_WORKERS) /* of one group: the roots and the leaves of a tree */
#define GROUP_BLOCKS (FPISA_MAX_RANKS / 64)

struct group_job {
	__u32 state;  /* enum fpisa_group_job: NONE, MAKING or MADE */
	__u16 number; /* number of the job, set once the job is created */
	/* nonzero: enum fpisa_manager_reason for which no rank may use the job, although some aggregators have it */
	__u16 refused;
	__u64 token; /* token, which identifies the job before it has a number */
	__u64 token_high;
	struct fpisa_manager_spec asked, made;
	/* numbers of the job at the group's aggregators; at a leaf, that of the job below the first root */
	__u8 at[GROUP_AGGREGATORS];
	/* numbers, as a bitmap, of further jobs on this datapath: of a leaf beside the root, or of a leaf below further roots */
	__u64 further;
};

struct group_rank {
	struct fpisa_address address;
	__u64 calls;			/* number of calls that the rank completed before it left */
	__u16 port[FPISA_MANAGER_JOBS]; /* UDP port in each job of the group */
	/*
	 * Index of the aggregator that is the rank's leaf, or 0 if the group does not have a tree. In a tree, the roots
	 * precede the leaves, which are in the order of their lowest ranks.
	 */
	__u32 leaf;
	__u32 no_results; /* how many of the last calls ended without results */
};

struct group_record {
	__u64 id;     /* id of the group; 0: the entry is free */
	__u64 secret; /* secret by which a returning rank proves that it was in the group */
	/* time of completion in seconds since 1970, or while ranks are joining the time of the first rank */
	__u64 since;
	struct fpisa_ranks joined;     /* a restarted manager does not restore an incomplete group */
	struct fpisa_ranks left, gone; /* ranks that have left, and dead ranks */
	__u32 cause;		       /* enum fpisa_manager_cause of the last dead rank */
	__u32 size;
	struct fpisa_address local; /* address of this datapath for rank 0 and all ranks of its family */
	struct fpisa_address other; /* address of this datapath for the ranks of the other family; ::: none */
	__u32 elsewhere;	    /* nonzero: the jobs of the group are not on this datapath */
	__u32 aggregators;	    /* number of aggregators; 0: ranks are still joining */
	struct fpisa_manager_aggregator aggregator[GROUP_AGGREGATORS];
	char rack[GROUP_AGGREGATORS][FPISA_PSK_NAME]; /* name of each aggregator's rack; "": not in a rack */
	char name[FPISA_MANAGER_NAME];
	char owner[FPISA_PSK_NAME]; /* name of the group's key; "" without a key */
	struct group_job job[FPISA_MANAGER_JOBS];
	struct group_rank rank[FPISA_MAX_RANKS]; /* must be the last member; `size` elements are used */
};

struct aggregator_record {
	__u64 since;		      /* time of registration in seconds since 1970 */
	struct fpisa_address address; /* address for frames; ::: the place is free or, with a port, is an agent's own entry */
	struct fpisa_address other; /* address for frames of the other family; ::: none */
	struct fpisa_address host;  /* host from which the aggregator registered */
	__u32 port;		    /* UDP port of the aggregator's datapath */
	__u32 rate;		    /* rate of the aggregator's interface in Mbit/s; 0: unknown */
	__u32 slots;		    /* number of slots that the manager may use */
	__u32 gone;		    /* enum fpisa_manager_cause; 0: the aggregator is present */
	char owner[FPISA_PSK_NAME];
};

/* Counts of events since the datapath was loaded. The index of refused[] is enum fpisa_manager_reason. */
struct manager_counts {
	__u64 groups; /* groups that became complete */
	__u64 jobs;   /* jobs that were created */
	__u64 gone;   /* ranks that ended without leaving, or did not reconnect */
	__u64 refused[FPISA_MANAGER_R_END];
};

/* Return the number of bytes of the record that are used. */
static inline size_t group_record_bytes(const struct group_record *r)
{
	return offsetof(struct group_record, rank) + r->size * sizeof(r->rank[0]);
}

static inline bool group_gathers(const struct group_record *r)
{
	const struct fpisa_ranks all = fpisa_ranks_all(r->size);

	return !fpisa_ranks_same(&r->joined, &all);
}

/* Return whether some ranks have left or died. */
static inline bool group_ends(const struct group_record *r)
{
	return fpisa_ranks_any(&r->left) || fpisa_ranks_any(&r->gone);
}

/* Return the number of roots of the group's tree, which the first leaf follows, or 0 if the group does not have a tree. */
static inline __u32 group_roots(const struct group_record *r)
{
	return r->rank[0].leaf;
}

static inline bool group_has_tree(const struct group_record *r)
{
	return group_roots(r) != 0;
}

/* Return how many aggregators share each vector: in a tree the roots, which are the first of the list, otherwise all. */
static inline __u32 group_shards(const struct group_record *r)
{
	return group_roots(r) ?: r->aggregators;
}

/* Return whether the group has ranks of both families. */
static inline bool group_is_mixed(const struct group_record *r)
{
	return fpisa_is_address(&r->other);
}

/* Return the address of this datapath for a rank. */
static inline struct fpisa_address group_local(const struct group_record *r, __u32 rank)
{
	return fpisa_is_ipv4(&r->rank[rank].address) == fpisa_is_ipv4(&r->local) ? r->local : r->other;
}

/* Return the ranks of leaf `i` of a group's tree. */
static inline struct fpisa_ranks group_leaf_ranks(const struct group_record *r, __u32 i)
{
	struct fpisa_ranks ranks = FPISA_NO_RANKS;

	for (__u32 k = 0; k < r->size; k++)
		if (r->rank[k].leaf == i)
			fpisa_ranks_add(&ranks, k);
	return ranks;
}

struct datapath_groups {
	int groups_fd, words_fd, aggregators_fd, ranks_fd;
	bool made; /* the maps did not exist before they were opened */
};

/*
 * Open the maps of groups of an open datapath. With `make`, create the maps if they do not exist. Return -ENOENT,
 * without reporting it, if no manager has run.
 */
int datapath_groups_open(struct datapath *dp, bool make, struct datapath_groups *g);
void datapath_groups_close(struct datapath_groups *g);

/* Remove the pins if datapath_groups_open() created them. */
void datapath_groups_unmake(struct datapath *dp, const struct datapath_groups *g);

int datapath_group_get(const struct datapath_groups *g, __u32 place, struct group_record *r);
int datapath_group_put(const struct datapath_groups *g, __u32 place, const struct group_record *r);

int datapath_aggregator_get(const struct datapath_groups *g, __u32 place, struct aggregator_record *r);
int datapath_aggregator_put(const struct datapath_groups *g, __u32 place, const struct aggregator_record *r);

/*
 * Return whether this datapath serves the manager of another host. *r is then the record of its registration, whose
 * address is :: while it is not registered.
 */
bool datapath_is_agent(const struct datapath *dp, const struct datapath_groups *g, struct aggregator_record *r);

/* Find the name of the group to which this job belongs, or "" if it belongs to no group. */
int datapath_group_of(struct datapath *dp, const struct fpisa_job *j, char name[FPISA_MANAGER_NAME]);

/*
 * datapath_group_to_kill() finds the id of the group at this place that must end, or 0 if it continues.
 * datapath_group_kill() sets the id.
 */
int datapath_group_to_kill(const struct datapath_groups *g, __u32 place, __u64 *id);
int datapath_group_kill(const struct datapath_groups *g, __u32 place, __u64 id);

int datapath_groups_counts(const struct datapath_groups *g, struct manager_counts *c);
/* Add to the counters. Only the manager may call this. */
int datapath_groups_count(const struct datapath_groups *g, const struct manager_counts *more);

/* Find the pid of the manager, or 0 if no manager runs. */
int datapath_groups_manager(const struct datapath_groups *g, pid_t *pid);

/*
 * Register this process as the manager until it ends. If another process is the manager, set *pid and return -EBUSY
 * without reporting it.
 */
int datapath_groups_claim(struct datapath *dp, const struct datapath_groups *g, pid_t *pid);

#endif
