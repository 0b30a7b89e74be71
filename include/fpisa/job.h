/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A job, its session of ranks, the contents of a slot, and the family of programs that serves a job. User space
 * writes jobs and the datapath reads them. The datapath writes sessions when workers send HELLO.
 */
#ifndef FPISA_JOB_H
#define FPISA_JOB_H

#include "tag.h"

#define FPISA_MAX_JOBS 64 /* job numbers are 0..63 */
#define FPISA_DEFAULT_WINDOW 64
#define FPISA_MAX_REPLY_PORTS 1024 /* interfaces of a network namespace by which replies can leave */
#define FPISA_MAX_WINDOW 1024	   /* slots of a job */

/*
 * Slots of a datapath, which its jobs share: the number given to `fpisa load --slots`, from FPISA_LEAST_SLOTS up to
 * as many as jobs can have. A slot is two versions, each an entry of the maps that are keyed by slot_base + 2 x slot
 * + version. The first of FPISA_EXACT_SHARE parts of the entries have superaccumulators.
 */
#define FPISA_LEAST_SLOTS 64
#define FPISA_DEFAULT_SLOTS 1024
#define FPISA_MAX_SLOTS (FPISA_MAX_JOBS * FPISA_MAX_WINDOW)
#define FPISA_EXACT_SHARE 4

struct fpisa_rank {
	__be32 addr; /* IPv4 source address */
	__be16 port; /* UDP source port */
	__u16 given; /* 1: the administrator named the port; HELLOs come by this port, and answers leave by it without routing */
};

/* fpisa_job.flags */
#define FPISA_JOB_BIG_ENDIAN 0x01 /* payloads are big-endian; the datapath swaps them on the way in and out */
#define FPISA_JOB_RECIPROCAL 0x02 /* avg multiplies by 1/n, as the paper does, instead of dividing */
#define FPISA_JOB_HISTOGRAM 0x04  /* the adds fill fpisa_histogram */
#define FPISA_JOB_UNCOUNTED 0x08  /* do not count events of the adds; results and their flags do not change */
#define FPISA_JOB_LEAVES 0x10	  /* the job's ranks are leaves of a tree, which send partial sums */
#define FPISA_JOB_LEAF 0x20	  /* the aggregator is a leaf, so a parent continues its rounds */

enum fpisa_job_kind {
	FPISA_JOB_SUM = 0,
	FPISA_QUERY_TOPN = 16,	/* rows that may be among the first N pass, others are pruned */
	FPISA_QUERY_TABLE = 17, /* sum, least, greatest and count of the values of each key */
	FPISA_QUERY_JOIN = 18,	/* rows whose join key may be in the filter pass, others are pruned */
};

/* A query's request (query/query.h; fpisa_query_broken() in query/check.h checks it). */
struct fpisa_query_parameters {
	__u32 limit;	   /* topn: N; table: most groups; join: 0 */
	__u8 key_bytes;	   /* bytes of a row's key: 4, 8, 16 or 32 */
	__u8 filter_bytes; /* first bytes of a row's key that are its join key; 0: no filter */
	__u8 filter_log;   /* log2 of the filter's blocks */
	__u8 flags;	   /* order and filter: FPISA_QUERY_ASCENDING and others */
};

/*
 * One job; the key is its number. All members but `live` are written while `active` is 0
 * and constant while it is 1. `live` changes by one aligned 64-bit store
 * (the map is mappable), so the datapath sees the old or the new set.
 */
struct fpisa_job {
	__u32 active;  /* 0: the number is free; frames are dropped as no_job, or passed if no job has their address */
	__u32 workers; /* 1..FPISA_MAX_WORKERS */
	__u64 live;    /* ranks that a round waits for */
	__u64 token;   /* secret from which keys of tags follow; 0: no token, and frames have checksums without a key */
	__u64 token_high; /* upper half of the token, of a job that the manager created */
	__be32 address;	  /* destination of the workers' frames, and source of replies */
	union {
		struct {	       /* kind FPISA_JOB_SUM */
			__be32 group;  /* IPv4 multicast address of the results; 0 for unicast */
			__u8 mode;     /* enum fpisa_mode */
			__u8 rounding; /* enum fpisa_rounding */
			__u8 pipeline; /* enum fpisa_pipeline */
			__u8 clz;      /* enum fpisa_clz */
		};
		struct fpisa_query_parameters query; /* every other kind */
	};
	__be16 group_port; /* UDP port of the multicast address: the workers' common port */
	__u16 elements;	   /* a chunk: a multiple of 32, at most FPISA_MAX_ELEMENTS; 0 of a query */
	__u16 vlan;	   /* VLAN ID that its frames carry, 1 to FPISA_MAX_VLAN; 0: frames without a tag */
	__u16 stripped;	 /* 1: a card removes the tag before XDP: frames may arrive without the tag; replies have it */
	__u32 window;	 /* W: slots, a power of two; 0 of a query */
	__u32 slot_base; /* first of its 2W entries of the slot maps */
	__u8 kind;	 /* enum fpisa_job_kind */
	__u8 format;	 /* enum fpisa_format_id */
	__u8 fanout;	 /* enum fpisa_fanout */
	__u8 guard;	 /* G: guard bits of the mantissa register */
	__u8 family;	 /* number of the job's family of programs: fpisa_family() */
	__u8 flags;	 /* FPISA_JOB_* */
	__u8 ports;	 /* K: UDP ports that it listens on, a power of two up to FPISA_MAX_PORTS; 0: 1 */
	__u8 keyed;	 /* 1: its frames have tags, except HELLO and WELCOME: fpisa_wants_tags() */
	struct fpisa_job_faults faults; /* passed on to workers; the datapath does not use them */
	struct fpisa_key key;		/* random; cookies and the results' secrets come from it */
	struct fpisa_rank rank[FPISA_MAX_WORKERS];
};

/* Return whether a job may have a window of `window` slots. */
static __always_inline int fpisa_window_valid(__u32 window)
{
	return window && !(window & (window - 1)) && window <= FPISA_MAX_WINDOW;
}

/* Return whether the job is a query, whose frames have no elements, and not a sum. */
static __always_inline int fpisa_is_query(const struct fpisa_job *job)
{
	return job->kind != FPISA_JOB_SUM;
}

/*
 * The session: the ranks that have joined. The key is the job number. The datapath writes it under `lock`, except
 * `broken` (fpisa_break()). User space also writes it, to clear it before a job becomes active and after the job was
 * active.
 */
struct fpisa_session {
	__u64 lock;
	__u64 joining;	  /* ranks that wait and have sent HELLO since the HELLO of the last newcomer */
	__u64 members;	  /* ranks whose incarnation is in the current generation */
	__u32 generation; /* generation that contributions must carry; 0: none yet */
	__u32 pad;
	__u64 broken;  /* generation that adds nothing more, with the verdict of the reason: fpisa_break() */
	__u64 results; /* secret of the results */
	__u64 incarnation[FPISA_MAX_WORKERS];	 /* incarnation of each rank, from its HELLO */
	__u64 secret[FPISA_MAX_WORKERS];	 /* cookie of each rank, which its contributions carry */
	struct fpisa_key key[FPISA_MAX_WORKERS]; /* key of its contributions' tags; in jobs with a token, as the next */
	struct fpisa_key results_key;		 /* key of the results' tags */
};

/*
 * The location of a worker. The key is job * FPISA_MAX_WORKERS + rank. The location comes from the kernel's routes and
 * neighbours when the worker's HELLO joined or, if the administrator named the port, from the HELLO. Until then the
 * addresses are zero and ifindex is the one that `job add` resolved.
 */
struct fpisa_peer {
	__u8 mac[6];	   /* MAC address of the worker */
	__u8 local_mac[6]; /* MAC address of the port that the worker's frames use */
	__u32 ifindex;	   /* the port that the worker's frames use */
	__u32 vlan_device; /* interface of the kernel's route to the worker, if it is a VLAN device on that port; or 0 */
	__u32 pad;	   /* entries are multiples of 8 bytes */
};

/*
 * Time of a worker's last HELLO, or of its last contribution that passed all checks, including cookie, secret and
 * checksum. The key is that of the location. A CPU that finds that the tick has changed writes both, so a busy rank's
 * entry moves between CPUs once a tick and not with every frame.
 */
struct fpisa_last_seen {
	__u64 ns;   /* CLOCK_MONOTONIC; 0: never */
	__u64 tick; /* the kernel's tick, in jiffies */
};

/*
 * One version of one slot. The key is slot_base + 2 x slot + version. The registers of the version are the entries with
 * this key in the exponent array and the mantissa array.
 *
 * Ownership: a CPU that moves `lock` from 0 to 1 by compare-and-swap owns the entry and its registers until it swaps
 * 0 back, on every way out, even across tail calls. No field is read or written without the lock. A CPU that
 * finds it taken retries FPISA_LOCK_SPINS times, then drops the frame as `busy`, counted; the worker sends it again.
 * User space also takes the lock, to clear the entry for a new job.
 *
 * A finished result has no second copy. The registers are the kept result, and a late reader runs MAU5..8 on them
 * again. The round 2W chunks later overwrites them. A worker starts that round only after every rank has received this
 * result (doc/protocol.md).
 */
struct fpisa_slot {
	__u64 lock;
	__u64 chunk;	  /* the round */
	__u64 bitmap;	  /* ranks whose contributions are in the registers */
	__u64 order;	  /* 4 bits a rank: position in the order of arrival */
	__u64 digest;	  /* from the round's first contribution */
	__u64 operand;	  /* from the round's first contribution; fpisa_hdr.aux of an ADD */
	__u32 generation; /* the entry is empty if this is not the job's generation */
	__u32 call;
	__u16 count;
	__u16 arrivals; /* ranks in bitmap */
	__u8 op;
	__u8 flags; /* result flags that the adds raised, FPISA_F_MARKED and FPISA_F_FEWER */
	__u8 done;
	__u8 pad;
};

_Static_assert(sizeof(struct fpisa_slot) == 64, "slot layout");

#define FPISA_LOCK_SPINS 2048

/*
 * Generation numbers per second of the clock. User space raises the counter to the clock, so the numbers wrap after two
 * years.
 */
#define FPISA_GENERATIONS_S 64

/* Settings net.ipv4.conf.lo.* that a job may need to be switched on (user/datapath/routes.c) */
enum fpisa_lo {
	FPISA_LO_FORWARDING,
	FPISA_LO_ACCEPT_LOCAL,
	FPISA_LO_SETTINGS,
};

/* State of the whole datapath; the map has one entry. */
struct fpisa_control {
	__u16 port;	       /* UDP port of the aggregator, host order; 0: FPISA_PORT */
	__u16 more_ports;      /* number of further ports to accept: K - 1 of the job with the most ports */
	__u32 bank;	       /* half of the program array that new frames use: 0 or 1 */
	__u64 trie_state;      /* 0 empty, 1 being filled, 2 ready */
	__u32 next_generation; /* every job takes the next number; user space raises it to the clock */
	__u32 entry;	       /* id of the program that `fpisa load` attaches; 0: another loader loaded the datapath */
	/* Cookie of the network namespace in which a job found the setting off and switched it on; 0: none */
	__u64 switched_on[FPISA_LO_SETTINGS];
};

/*
 * The program array. A family is the set of programs for one lane width and one register width: nine stages and
 * admission, which the entry calls once a frame has passed its checks. Each family has two banks, so that an upgrade
 * fills the idle one. The entry contains the programs of family 0, FP32 in 32 bits, including its admission.
 */
#define FPISA_STAGES 9
#define FPISA_ADMISSION 9	       /* index of admission, after MAU0..8 */
#define FPISA_STAND_IN FPISA_ADMISSION /* admission has the whole chain, for stages that are missing */
#define FPISA_BANK_SIZE 16
#define FPISA_BANKS 2
#define FPISA_FAMILIES 16
/*
 * The first index of the queries' programs, which are in the order of query numbers, after the families' programs. Each
 * program is loaded for one query.
 */
#define FPISA_QUERY_PROGRAM (FPISA_FAMILIES * FPISA_BANKS * FPISA_BANK_SIZE)
#define FPISA_PROGRAMS (FPISA_QUERY_PROGRAM + FPISA_MAX_JOBS)

static __always_inline __u32 fpisa_bank_of(__u32 family, __u32 bank)
{
	return ((family & (FPISA_FAMILIES - 1)) * FPISA_BANKS + (bank & 1)) * FPISA_BANK_SIZE;
}

/*
 * Every family, with its number, its name, the bytes of a lane, the bits of the mantissa register, and the limbs of the
 * superaccumulator that mode exact has in place of that register. This list determines the objects that are built, the
 * objects that user space embeds, and the library's loops.
 */
#define FPISA_FURTHER_FAMILIES(X) \
	X(1, w2r32, 2, 32, 0)     \
	X(2, w1r32, 1, 32, 0)     \
	X(3, w8r64, 8, 64, 0)     \
	X(4, w4r64, 4, 64, 0)     \
	X(5, w2r64, 2, 64, 0)     \
	X(6, w1r64, 1, 64, 0)     \
	X(7, w4c8, 4, 64, 8)      \
	X(8, w2c8, 2, 64, 8)      \
	X(9, w2c1, 2, 64, 1)      \
	X(10, w1c1, 1, 64, 1)     \
	X(11, w1c8, 1, 64, 8)     \
	X(12, w8c65, 8, 64, 65)
#define FPISA_EACH_FAMILY(X) X(0, w4r32, 4, 32, 0) FPISA_FURTHER_FAMILIES(X)

/* Return the family that serves a format, or FPISA_FAMILIES if no family does. Integers use family 0. */
static __always_inline __u8 fpisa_family(struct fpisa_format f, enum fpisa_mode mode)
{
	int exact = mode == FPISA_MODE_EXACT;
	/* One limb of 64 bits holds the range of five exponent bits; eight exponent bits span 254 powers of two, eleven span 2046. */
	int of_limbs = !exact ? 0 : f.bytes == 8 ? 65 : f.shared || f.ebits == 8 ? 8 : 1;
	int of_bits = exact ? 64 : f.rbits;

#define X(number, name, bytes_, bits, limbs)                           \
	if (f.bytes == bytes_ && of_bits == bits && of_limbs == limbs) \
		return number;
	FPISA_EACH_FAMILY(X)
#undef X
	return FPISA_FAMILIES;
}

/* Return the limbs of a family's superaccumulators, which have a map of their own; 0 if they have at most one limb. */
static __always_inline __u32 fpisa_family_limbs(__u8 family)
{
#define X(number, name, bytes, bits, limbs) \
	if (family == number)               \
		return limbs > 1 ? limbs : 0;
	FPISA_EACH_FAMILY(X)
#undef X
	return 0;
}

/* Return the job's token as a key. */
static __always_inline struct fpisa_key fpisa_token_of(const struct fpisa_job *j)
{
	return (struct fpisa_key){j->token, j->token_high};
}

/* Return the value of `keyed` for a job. */
static __always_inline __u8 fpisa_wants_tags(const struct fpisa_job *j)
{
	return !!j->token;
}

/* Return the format of a job, as its programs see it. */
static __always_inline struct fpisa_format fpisa_job_format(const struct fpisa_job *j)
{
	struct fpisa_format f = fpisa_format_of(j->format);

	if (j->mode == FPISA_MODE_FPISA64 || j->mode == FPISA_MODE_EXACT)
		f.rbits = 64;
	f.guard = j->guard;
	return f;
}

#endif
