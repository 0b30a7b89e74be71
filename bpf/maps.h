/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The maps that all programs share. The maps of a family are in family.h, and those of steering in fpisa_steer.bpf.c.
 * Maps of slots have 2 * FPISA_DEFAULT_SLOTS entries by default; see `fpisa load`. All maps are pinned by name, so that
 * user space can configure a datapath that plain `ip link set dev DEV xdp obj fpisa.o` has loaded. The names have a
 * prefix, because the pin directory may contain the maps of other programs.
 */
#ifndef FPISA_BPF_MAPS_H
#define FPISA_BPF_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "fpisa/discard.h"
#include "fpisa/tree.h"
#ifndef FPISA_ABI
#include "fpisa_abi.h"
#endif

/*
 * Mark a global function. The verifier checks it once, for any arguments of the declared types. A pointer argument is
 * NULL or points to memory of the size of its type.
 */
#define GLOBAL_FN __attribute__((noinline))

/*
 * Use an argument that a global function would not use otherwise. clang passes no value for an unused argument, and the
 * verifier then rejects the call.
 */
#define KEEP_ARGUMENT(x) asm volatile("" : : "r"(x))

/*
 * Return the entry of `key`, or NULL. Up to Linux 6.1 the key must not lie in memory that is an argument of a global
 * function, such as the PHV.
 */
static __always_inline void *lookup(void *map, __u32 key)
{
	return bpf_map_lookup_elem(map, &key);
}

/*
 * The stamp of the types that programs and user space share (abi.py). The stamp is max_entries of this empty map; a
 * trie takes no memory for unused entries. Programs that open the pins compare the stamp. A loader that finds a pinned
 * map with another stamp refuses to share maps.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, FPISA_ABI);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(key_size, 8);
	__uint(value_size, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fpisa_abi SEC(".maps");

/* The exponent registers: one entry, with a vector of exponents, for each slot version (paper, section 3.1). */
struct fpisa_exponents {
	struct fpisa_exp_block b[FPISA_MAX_BLOCKS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * FPISA_DEFAULT_SLOTS);
	__type(key, __u32);
	__type(value, struct fpisa_exponents);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fpisa_exponents SEC(".maps");

/* The signed mantissa registers, with the same keys. */
struct fpisa_mantissas {
	struct fpisa_man_block b[FPISA_MAX_BLOCKS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * FPISA_DEFAULT_SLOTS);
	__type(key, __u32);
	__type(value, struct fpisa_mantissas);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fpisa_mantissas SEC(".maps");

/*
 * Protocol state of a slot version, with the same keys. job.h has the rule of ownership. The map is mappable, because
 * user space takes the locks too.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * FPISA_DEFAULT_SLOTS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct fpisa_slot);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fpisa_slots SEC(".maps");

/* Job configuration; the key is the job number. The map is mappable, so `live` changes by one store. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FPISA_MAX_JOBS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct fpisa_job);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fpisa_jobs SEC(".maps");

/* The session of each job, by job number. The map is mappable, because user space clears sessions. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FPISA_MAX_JOBS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct fpisa_session);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fpisa_sessions SEC(".maps");

/*
 * The NH key (fpisa/tag.h) of each job with a token, by job number. User space writes the NH key before the job becomes
 * active.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FPISA_MAX_JOBS);
	__type(key, __u32);
	__type(value, struct fpisa_nh_key);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fpisa_nh_keys SEC(".maps");

/* The location of each worker, by job * FPISA_MAX_WORKERS + rank. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FPISA_MAX_JOBS *FPISA_MAX_WORKERS);
	__type(key, __u32);
	__type(value, struct fpisa_peer);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fpisa_peers SEC(".maps");

/* The uplink of a leaf to its parent (fpisa/tree.h), by job number. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FPISA_MAX_JOBS);
	__type(key, __u32);
	__type(value, struct fpisa_leaf);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fpisa_leaves SEC(".maps");

/* Time at which each worker was last seen, with the same keys. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FPISA_MAX_JOBS *FPISA_MAX_WORKERS);
	__type(key, __u32);
	__type(value, struct fpisa_last_seen);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fpisa_last_seen SEC(".maps");

/* The route of the answer to the current HELLO, one entry for each CPU. */
struct fpisa_nexthop {
	__u8 mac[6];
	__u8 local_mac[6];
	__u32 ifindex;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fpisa_nexthop);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fpisa_nexthop SEC(".maps");

/*
 * Cursors of unicast fan-out. A cursor has the rank that gets the next copy of the result whose copies are leaving a
 * port. There is a cursor for each CPU and port. The key is the port's ifindex modulo the number of cursors.
 */
#define FPISA_CURSORS 256

struct fpisa_cursor {
	__u64 chunk;
	__u32 generation;
	__u32 job;
	__u32 port; /* ifindex of the port */
	__u32 next; /* first rank to consider */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, FPISA_CURSORS);
	__type(key, __u32);
	__type(value, struct fpisa_cursor);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fpisa_cursors SEC(".maps");

/*
 * Leading zeros by longest prefix match (paper, section 3.2 and figure 5). The entry for n leading zeros has a prefix
 * of n + 1 bits, of which only the last is set. There are 32 entries. Zero matches no entry.
 */
struct fpisa_lpm_key {
	__u32 prefixlen;
	__be32 addr;
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 64);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct fpisa_lpm_key);
	__type(value, __u32);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fpisa_lpm SEC(".maps");

/* Counters, by job number; the counters of frames without a job are at FPISA_MAX_JOBS. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, FPISA_MAX_JOBS + 1);
	__type(key, __u32);
	__type(value, struct fpisa_counters);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fpisa_counters SEC(".maps");

/*
 * Discarded magnitudes by binary exponent (fpisa/discard.h), by job number. Jobs with FPISA_JOB_HISTOGRAM fill this
 * map.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FPISA_MAX_JOBS);
	__type(key, __u32);
	__type(value, struct fpisa_histogram);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fpisa_histogram SEC(".maps");

/* State of the whole datapath; the map has one entry. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct fpisa_control);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fpisa_control SEC(".maps");

/* An array of device maps, one for each job. */
#define PORTS_OF_JOBS(name, inner)                        \
	struct {                                          \
		__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS); \
		__uint(max_entries, FPISA_MAX_JOBS);      \
		__type(key, __u32);                       \
		__uint(pinning, LIBBPF_PIN_BY_NAME);      \
		__array(values, inner);                   \
	} name SEC(".maps")

/*
 * Ports of a job's results, by job number. The inner map has one entry for each port or worker (fpisa_job.copies).
 * Each entry has the egress program, which addresses unicast copies. When a job ends, its inner map stays and has no
 * entries.
 */
struct fpisa_ports {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, FPISA_MAX_WORKERS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct bpf_devmap_val));
};

PORTS_OF_JOBS(fpisa_fanout, struct fpisa_ports);

/*
 * Ports through which replies leave, by job number and, in the inner map, by ifindex. Every entry has the egress
 * program, even if a reply does not need it. The kernel runs the program of the first frame on all frames that it
 * queues for a port. Jobs of one network namespace share one inner map.
 */
struct fpisa_reply_ports {
	__uint(type, BPF_MAP_TYPE_DEVMAP_HASH);
	__uint(max_entries, FPISA_MAX_REPLY_PORTS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct bpf_devmap_val));
};

PORTS_OF_JOBS(fpisa_replies, struct fpisa_reply_ports);

/* Declaration of the program array for other objects. fpisa.bpf.c defines and fills the array. */
#define SHARED_STAGES                                  \
	struct {                                       \
		__uint(type, BPF_MAP_TYPE_PROG_ARRAY); \
		__uint(max_entries, FPISA_PROGRAMS);   \
		__uint(key_size, sizeof(__u32));       \
		__uint(value_size, sizeof(__u32));     \
		__uint(pinning, LIBBPF_PIN_BY_NAME);   \
	} fpisa_stages SEC(".maps")

#endif
