/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the manager may give away, and to whom: [manager] and [key NAME] of
 * the configuration file, as numbers. policy.c parses the keys of these sections, whose
 * options `fpisa config check` and `fpisa serve` share.
 */
#ifndef FPISA_MANAGER_POLICY_H
#define FPISA_MANAGER_POLICY_H

#include <getopt.h>
#include <pwd.h>
#include <stdbool.h>

#include "fpisa/job.h"
#include "lib/manager/protocol.h"
#include "lib/manager/psk.h"

#define MANAGER_NETWORKS 32
#define MANAGER_KEYS 64
#define MANAGER_AGGREGATOR_KEYS 16
#define MANAGER_WAITING \
	256 /* connections in no group yet; more, and the oldest of the host with the most of them goes */

/* Limits of what the groups of a key may have at a time. */
struct manager_quota {
	__u32 groups, jobs, slots;
};

struct manager_key {
	char name[FPISA_PSK_NAME];
	struct manager_quota quota; /* 0: as of each key */
};

struct manager_policy {
	__u64 jobs;	   /* numbers of jobs, as a bitmap */
	__u32 slots;	   /* for all groups; 0: all of the datapath's, until manager_policy_fit() */
	__u32 exact_slots; /* those among the datapath's that have superaccumulators; manager_policy_fit() sets it */
	__u32 size;	   /* ranks of a group, at most */
	__u16 port;	   /* TCP; 0: the number of the datapath's UDP port */
	__u16 udp_first, udp_last; /* ports of ranks */
	__u32 formats, modes;	   /* bitmaps by number */
	bool unicast;		   /* jobs fan out by unicast, also where multicast is possible */
	__be32 listen;		   /* address; 0: all */
	bool without_key;
	const char *key_file; /* NULL: none */
	const char *user;     /* account of the process that talks to the network; NULL: nobody */
	const char *manager; /* the host of the manager that this is an aggregator for; NULL: this is a manager itself */
	const char *colocated; /* the interface by which this aggregator's host has ranks too; NULL: it has none */
	__be32 address;	       /* of this aggregator, for frames; 0: the address of the connection to the manager */
	__u32 rate;	       /* of this aggregator's link, Mbit/s; 0: as the interface says */
	int aggregator_keys;   /* names of keys by which aggregators register */
	char aggregator_key[MANAGER_AGGREGATOR_KEYS][FPISA_PSK_NAME];
	int networks; /* 0: all may ask */
	struct {
		__be32 address, mask;
	} network[MANAGER_NETWORKS];
	struct manager_quota quota; /* of each key; its slots as those for all groups */
	int keys;
	struct manager_key key[MANAGER_KEYS];
};

/* Set the default policy: everything, for every client that has a key. */
void manager_policy_init(struct manager_policy *p);

/* Return the limits of the key of that name; "": of clients without a key. */
struct manager_quota manager_quota_of(const struct manager_policy *p, const char *name);

/*
 * Return the window of a new job that wants `wanted` slots, a power of two, where `free` are left and `others` more jobs may follow: at
 * most a quarter of what is free, unless it is the last job, and no more than leaves each of the others the least
 * window, if there is enough for that. The job gets the least window rather than nothing, and 0 if not even that is free.
 */
__u32 manager_window(__u32 wanted, __u32 free, __u32 others);

/* Return whether a host of this address may connect. */
bool manager_network_allowed(const struct manager_policy *p, __be32 address);

/* Return whether a client with the key of that name, "": none, may register an aggregator, which sees the values of all groups. */
bool manager_may_add(const struct manager_policy *p, const char *owner);

/* -- keys of the configuration file ---------------------------------------- */

/* Options of [manager], and of [key NAME], in the format of getopt_long(). */
extern const struct option manager_options[], manager_key_options[];

/* Takes one, its argument in `arg`, which must stay. 0 or BAD_USAGE. */
int manager_option(struct manager_policy *p, int opt, const char *arg);
int manager_key_option(struct manager_quota *q, int opt, const char *arg);

/* A section [key NAME]: *q is its quota, to be filled. 0 or BAD_USAGE. */
int manager_key_add(struct manager_policy *p, const char *name, struct manager_quota **q);

/*
 * Fit the policy to a datapath with that many slots, all of which are given away unless the policy limits them. -EINVAL, reported: the policy sets
 * more.
 */
int manager_policy_fit(struct manager_policy *p, __u32 slots);

/* "10G" in Mbit/s. 0 or BAD_USAGE. */
int manager_parse_rate(const char *arg, __u32 *rate);

/* Check what depends on the whole section. 0 or BAD_USAGE. */
int manager_policy_check(const struct manager_policy *p);

/* Find the account of the process that talks to the network, one of this machine that is not root; NULL, reported. */
const struct passwd *manager_user(const struct manager_policy *p);

#endif
