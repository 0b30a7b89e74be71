/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The maps that all programs share. A family's maps are in family.h, steering's in fpisa_steer.bpf.c. Maps of slots
 * have 2 * FPISA_DEFAULT_SLOTS entries by default; see `fpisa load`. All are pinned by name, so that plain `ip link
 * set dev DEV xdp obj fpisa.o` leaves a datapath that user space can configure. Names carry the prefix because
 * by-name pins may share a directory with others.
 */
#ifndef FPISA_BPF_MAPS_H
#define FPISA_BPF_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "fpisa/discard.h"
#include "fpisa/frame.h"
#ifndef FPISA_ABI
#include "fpisa_abi.h"
#endif

/*
 * Mark a global function, which is verified once on its own and then called by its type. Its pointer arguments point to
 * memory of their type's size or are NULL.
 */
#define GLOBAL_FN __attribute__((noinline))

/*
 * Use an argument. clang passes no value for an argument that a global function does not use, and verifiers refuse
 * the call.
 */
#define KEEP_ARGUMENT(x) asm volatile("" : : "r"(x))

/*
 * Return an entry by key. Up to 6.1 a key must not lie in memory that is an argument of a global function, such as the
 * PHV.
 */
static __always_inline void *lookup(void *map, __u32 key)
{
	return bpf_map_lookup_elem(map, &key);
}

/*
 * The stamp of the types that programs and user space share (abi.py) is this map's max_entries. The map has no entries,
 * and a trie takes no memory for unused entries. Programs that open the pins read the stamp, and a loader that finds
 * another stamp pinned refuses to share maps.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, FPISA_ABI);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(key_size, 8);
	__uint(value_size, 1);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fpisa_abi SEC(".maps");

/* The exponent registers: one entry for each slot version, with one vector each (paper, section 3.1). */
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

/* The signed mantissa registers, same keys. */
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

/* Protocol state of a slot version, same keys; ownership rule in job.h. Mappable: user space takes its lock too. */
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

/* The ranks that have joined, key: job number. Mappable, as slots are. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FPISA_MAX_JOBS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct fpisa_session);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fpisa_sessions SEC(".maps");

/* The key of NH (fpisa/tag.h) of a job with a token, key: job number. User space writes it before the job becomes active. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FPISA_MAX_JOBS);
	__type(key, __u32);
	__type(value, struct fpisa_nh_key);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fpisa_nh_keys SEC(".maps");

/* The location of each worker, key: job * FPISA_MAX_WORKERS + rank. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FPISA_MAX_JOBS *FPISA_MAX_WORKERS);
	__type(key, __u32);
	__type(value, struct fpisa_peer);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fpisa_peers SEC(".maps");

/* Time at which each worker was last seen, same keys. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FPISA_MAX_JOBS *FPISA_MAX_WORKERS);
	__type(key, __u32);
	__type(value, struct fpisa_last_seen);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fpisa_last_seen SEC(".maps");

/* The route of the answer to the current HELLO; one for each CPU. */
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
 * Cursors of unicast fan-out: for the result whose copies leave a port, the rank of the next copy. One for each CPU and
 * port, key: the port's ifindex mod their number.
 */
#define FPISA_CURSORS 256

struct fpisa_cursor {
	__u64 chunk;
	__u32 generation;
	__u32 job;
	__u32 port; /* ifindex */
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
 * Leading zeros by longest prefix match (paper, section 3.2 and figure 5): the entry for n leading zeros has prefix n
 * + 1 and, of its address, only that bit set. 32 entries; zero matches none.
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

/* Counters, key: job number, or FPISA_MAX_JOBS for frames without a job. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, FPISA_MAX_JOBS + 1);
	__type(key, __u32);
	__type(value, struct fpisa_counters);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} fpisa_counters SEC(".maps");

/* Discarded magnitudes by binary exponent (fpisa/discard.h), key: job number; filled by jobs with FPISA_JOB_HISTOGRAM. */
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
 * Ports of a job's results; the key is the job number. The inner map has one entry for each port (multicast) or worker
 * (unicast), with the egress program, which addresses unicast copies. When a job ends, its inner map stays at the
 * number without entries.
 */
struct fpisa_ports {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, FPISA_MAX_WORKERS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct bpf_devmap_val));
};

PORTS_OF_JOBS(fpisa_fanout, struct fpisa_ports);

/*
 * Ports by which replies go back to one sender. The key is the job number, and in the inner map the ifindex. The kernel
 * runs the program of the first frame on all frames that it queues for a port. So every frame that leaves a port has
 * the egress program, needed or not. Jobs of one network namespace have one inner map.
 */
struct fpisa_reply_ports {
	__uint(type, BPF_MAP_TYPE_DEVMAP_HASH);
	__uint(max_entries, FPISA_MAX_REPLY_PORTS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct bpf_devmap_val));
};

PORTS_OF_JOBS(fpisa_replies, struct fpisa_reply_ports);

/* The program array in objects that share it with fpisa.o, which defines and fills it (fpisa.bpf.c). */
#define SHARED_STAGES                                  \
	struct {                                       \
		__uint(type, BPF_MAP_TYPE_PROG_ARRAY); \
		__uint(max_entries, FPISA_PROGRAMS);   \
		__uint(key_size, sizeof(__u32));       \
		__uint(value_size, sizeof(__u32));     \
		__uint(pinning, LIBBPF_PIN_BY_NAME);   \
	} fpisa_stages SEC(".maps")

#endif
