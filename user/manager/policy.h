/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Resources that the manager may give away, and the clients that may have them: [manager] and [key NAME] of the
 * configuration file, as numbers. policy.c parses the keys of these sections; `fpisa config check` and `fpisa serve`
 * share the options.
 */
#ifndef FPISA_MANAGER_POLICY_H
#define FPISA_MANAGER_POLICY_H

#include <getopt.h>
#include <pwd.h>
#include <stdbool.h>

#include "fpisa/job.h"
#include "lib/base/address.h"
#include "lib/manager/protocol.h"
#include "lib/manager/psk.h"

#define MANAGER_NETWORKS 32
#define MANAGER_RACKS 64
#define MANAGER_RACK_NETWORKS 256 /* of all racks */
#define MANAGER_KEYS 64
#define MANAGER_AGGREGATOR_KEYS 16
/*
 * Connections that are not in a group yet. The ranks of the largest group may connect at the same time. One more
 * connection ends the oldest connection of the host that has the most.
 */
#define MANAGER_WAITING FPISA_MAX_RANKS
#define MANAGER_CLOSING 256 /* connections that were refused or whose ranks have left; one more ends the oldest */

struct manager_network {
	struct fpisa_address address;
	unsigned int bits; /* length of the prefix; of an IPv4 network 96 more */
};

/* Limits for all groups of a key together */
struct manager_quota {
	__u32 groups, jobs, slots;
};

struct manager_key {
	char name[FPISA_PSK_NAME];
	struct manager_quota quota; /* 0: the limit for every key */
};

struct manager_policy {
	__u64 jobs;		   /* numbers of jobs, as a bitmap */
	__u32 slots;		   /* for all groups; 0: all slots of the datapath, until manager_policy_fit() */
	__u32 exact_slots;	   /* slots of the datapath that have superaccumulators; manager_policy_fit() sets it */
	__u32 size;		   /* maximum number of ranks of a group */
	__u16 port;		   /* TCP port; 0: the number of the datapath's UDP port */
	__u16 udp_first, udp_last; /* ports of ranks */
	__u32 formats, modes;	   /* bitmaps by number */
	bool unicast;		   /* jobs fan out by unicast, even where multicast is possible */
	struct fpisa_address listen; /* ::: all addresses of both families */
	bool without_key;
	bool leaves; /* groups use trees, in which each rack or host of their ranks has a leaf, where that is possible */
	__u32 roots;	       /* of a tree, if that many hosts are spare */
	const char *key_file;  /* valid in the process that has read the configuration */
	bool keyed;	       /* there is a key file */
	const char *user;      /* account of the process that talks to the network; NULL: the user nobody */
	const char *manager;   /* host of the manager that this is an aggregator of; NULL: this is a manager itself */
	const char *colocated; /* interface by which this aggregator's host also has ranks; NULL: it has no ranks */
	struct fpisa_address address; /* address of this aggregator for frames; ::: that of the connection to the manager */
	struct fpisa_address other; /* its address of the other family; ::: none */
	__u32 rate;		    /* rate of this aggregator's link, Mbit/s; 0: as the interface says */
	int aggregator_keys;	    /* number of the names of keys by which aggregators register */
	char aggregator_key[MANAGER_AGGREGATOR_KEYS][FPISA_PSK_NAME];
	int networks; /* 0: all networks may connect */
	struct manager_network network[MANAGER_NETWORKS];
	int racks;
	char rack[MANAGER_RACKS][FPISA_PSK_NAME];
	int rack_networks; /* networks of all racks, which do not overlap */
	struct {
		struct manager_network network;
		int rack; /* index in rack[] */
	} rack_network[MANAGER_RACK_NETWORKS];
	struct manager_quota quota; /* limits of each key; slots 0: as for all groups */
	int keys;
	struct manager_key key[MANAGER_KEYS];
};

/* Set the default policy: everything, for every client that has a key. */
void manager_policy_init(struct manager_policy *p);

/* Return the limits of the key of that name; "" stands for clients without a key. */
struct manager_quota manager_quota_of(const struct manager_policy *p, const char *name);

/*
 * Return the window of a new job that wants `wanted` slots, a power of two. `free` slots are left, and `others` more
 * jobs may follow. The window is at most a quarter of the free slots, unless this is the last job. It also leaves each
 * of the other jobs the smallest window if there are enough slots for that. The job gets at least the smallest window,
 * or 0 if even that is not free.
 */
__u32 manager_window(__u32 wanted, __u32 free, __u32 others);

/* Return whether a host of this address may connect. */
bool manager_network_allowed(const struct manager_policy *p, const struct fpisa_address *address);

/* Return the index of the rack of the host that has this address, or -1 if the host is not in a rack. */
int manager_rack_of(const struct manager_policy *p, const struct fpisa_address *address);

/* Return whether a job of this specification has superaccumulators, for which the datapath has fewer slots. */
bool manager_is_exact(const struct fpisa_manager_spec *s);

/*
 * Return whether a client with the key of that name ("": without a key) may register an aggregator, which sees the
 * values of all groups.
 */
bool manager_may_add(const struct manager_policy *p, const char *owner);

/* -- keys of the configuration file ---------------------------------------- */

/* Options of [manager], of [key NAME], and of [rack NAME], in the format of getopt_long() */
extern const struct option manager_options[], manager_key_options[], manager_rack_options[];

/* Take an option with its argument `arg`, which must stay valid. Return 0 or BAD_USAGE. */
int manager_option(struct manager_policy *p, int opt, const char *arg);
int manager_key_option(struct manager_quota *q, int opt, const char *arg);

/* Add a section [key NAME]; *q is its quota, to be filled. Return 0 or BAD_USAGE. */
int manager_key_add(struct manager_policy *p, const char *name, struct manager_quota **q);

/* Add a section [rack NAME], and then its hosts, a list of addresses and networks. Return 0 or BAD_USAGE. */
int manager_rack_add(struct manager_policy *p, const char *name);
int manager_rack_hosts(struct manager_policy *p, const char *list);

/*
 * Fit the policy to a datapath with that many slots. All of them are given away unless the policy limits them. Return
 * 0, or -EINVAL, reported, if the policy sets more.
 */
int manager_policy_fit(struct manager_policy *p, __u32 slots);

/*
 * Return the TCP port of a manager; 0: the number of the datapath's UDP port. Colocated hosts have one file: it is the port at which `manager`
 * lets the agents find it, FPISA_PORT if it has none.
 */
__u16 manager_policy_port(const struct manager_policy *p);

/* Parse a rate such as "10G" into Mbit/s. Return 0 or BAD_USAGE. */
int manager_parse_rate(const char *arg, __u32 *rate);

/* Check rules that depend on the whole section. Return 0 or BAD_USAGE. */
int manager_policy_check(const struct manager_policy *p);

/*
 * Find the account of the process that talks to the network. It must exist on this machine and not be root. Return
 * NULL, reported, if it is not valid.
 */
const struct passwd *manager_user(const struct manager_policy *p);

#endif
