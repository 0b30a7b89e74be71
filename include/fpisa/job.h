/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A job, its session of ranks, the contents of a slot, and the family of programs that serves a job. User space
 * writes jobs and the datapath reads them. The datapath writes sessions when workers send HELLO.
 */
#ifndef FPISA_JOB_H
#define FPISA_JOB_H

#include "address.h"
#include "tag.h"

#define FPISA_MAX_JOBS 64 /* jobs of a datapath, with numbers 0..63 */
#define FPISA_DEFAULT_WINDOW 64
#define FPISA_MAX_REPLY_PORTS 1024 /* interfaces of a network namespace through which replies can leave */
#define FPISA_MAX_WINDOW 1024	   /* slots of a job */

/*
 * Slots of a datapath, which its jobs share. `fpisa load --slots` sets the number of slots, from FPISA_LEAST_SLOTS up
 * to the maximum that all jobs together can use. A slot has two versions. Each version is an entry of the maps of
 * slots, with key slot_base + 2 x slot + version. The first 1 / FPISA_EXACT_SHARE of the entries have
 * superaccumulators.
 */
#define FPISA_LEAST_SLOTS 64
#define FPISA_DEFAULT_SLOTS 1024
#define FPISA_MAX_SLOTS (FPISA_MAX_JOBS * FPISA_MAX_WINDOW)
#define FPISA_EXACT_SHARE 4

struct fpisa_rank {
	struct fpisa_address addr; /* source address */
	__be16 port;		   /* UDP source port */
	/*
	 * 1: the administrator named the port; HELLOs arrive at this port, and answers leave through it without routing
	 */
	__u16 given;
	__u32 pad;
};

/* Values of fpisa_job.flags. */
/* payloads are big-endian; the datapath swaps each payload after it arrives and before it leaves */
#define FPISA_JOB_BIG_ENDIAN 0x01
#define FPISA_JOB_RECIPROCAL 0x02 /* avg multiplies by 1/n, as in the paper, and does not divide by n */
#define FPISA_JOB_HISTOGRAM 0x04  /* the adds fill fpisa_histogram */
#define FPISA_JOB_UNCOUNTED 0x08  /* do not count events of the adds; results and their flags do not change */
#define FPISA_JOB_LEAVES 0x10	  /* the job's ranks are leaves of a tree, which send partial sums */
#define FPISA_JOB_LEAF 0x20	  /* the aggregator is a leaf of a tree, so its parent completes the rounds */

enum fpisa_job_kind {
	FPISA_JOB_SUM = 0,
	FPISA_QUERY_TOPN = 16,	/* rows that may be among the first N pass, others are pruned */
	FPISA_QUERY_TABLE = 17, /* sum, minimum, maximum and count of the values of each key */
	FPISA_QUERY_JOIN = 18,	/* rows whose join key may be in the filter pass, others are pruned */
};

/* How a multicast job can send a copy of a result to each rank, for results that only some ranks keep. */
enum fpisa_copies {
	FPISA_COPIES_NONE,  /* it cannot, because some ranks share a port and some do not */
	FPISA_COPIES_PORTS, /* each rank has its own port, so the map of ports has an entry for each rank */
	FPISA_COPIES_ONE_PORT, /* all ranks share one port, for which the map has an entry for each rank; entry 0 is for multicast */
};

/* The parameters of a query (query/query.h). fpisa_query_broken() in query/check.h checks them. */
struct fpisa_query_parameters {
	__u32 limit;	   /* topn: N; table: largest number of groups; join: 0 */
	__u8 key_bytes;	   /* bytes of a row's key: 4, 8, 16 or 32 */
	__u8 filter_bytes; /* number of bytes at the start of a row's key that are its join key; 0: no filter */
	__u8 filter_log;   /* log2 of the filter's blocks */
	__u8 flags;	   /* order and filter: FPISA_QUERY_ASCENDING and others */
};

/*
 * One job; the key is its number. All members except `live` and `below` are written while `active` is 0, and are constant
 * while `active` is 1. `live` changes by one aligned 64-bit store into the mapped map, so the datapath sees either the
 * old or the new set.
 */
struct fpisa_job {
	/* 0: the number is free; its frames are dropped as no_job, or passed if no job has their address */
	__u32 active;
	__u32 workers; /* number of workers, 1..FPISA_MAX_WORKERS */
	__u64 live;    /* ranks that a round waits for */
	/* secret from which the keys of tags are derived; 0: no token, and frames have checksums without a key */
	__u64 token;
	__u64 token_high;	      /* upper half of the token in a job that the manager created */
	struct fpisa_address address; /* destination of the workers' frames, and source of replies */
	struct fpisa_address group;   /* multicast address of the results; none for unicast and queries */
	union {
		struct {	       /* used if kind is FPISA_JOB_SUM */
			__u8 mode;     /* enum fpisa_mode */
			__u8 rounding; /* enum fpisa_rounding */
			__u8 pipeline; /* enum fpisa_pipeline */
			__u8 clz;      /* enum fpisa_clz */
		};
		struct fpisa_query_parameters query; /* used for all other kinds */
	};
	__be16 group_port; /* UDP port of the multicast address: the workers' common port */
	__u16 elements;	   /* elements of a chunk, a multiple of 32 up to FPISA_MAX_ELEMENTS; 0 in a query */
	__u16 vlan;	   /* VLAN ID that its frames carry, 1 to FPISA_MAX_VLAN; 0: frames without a tag */
	/* 1: frames may arrive without the tag, because a network card removes it before XDP; replies have the tag */
	__u8 stripped;
	/* of a multicast job: enum fpisa_copies; user space sets it with the ports of results */
	__u8 copies;
	__u32 window;	 /* W: slots, a power of two; 0 in a query */
	__u32 slot_base; /* key of the job's first entry in the maps of slots; the job has 2W entries */
	__u8 kind;	 /* enum fpisa_job_kind */
	__u8 format;	 /* enum fpisa_format_id */
	__u8 fanout;	 /* enum fpisa_fanout */
	__u8 guard;	 /* G: guard bits of the mantissa register */
	__u8 family;	 /* number of the job's family of programs: fpisa_family() */
	__u8 flags;	 /* FPISA_JOB_* */
	__u8 ports;	 /* K: UDP ports on which the job listens, a power of two up to FPISA_MAX_PORTS; 0: 1 */
	__u8 keyed;	 /* 1: frames except HELLO and WELCOME have tags; see fpisa_wants_tags() */
	struct fpisa_job_faults faults; /* faults that WELCOME announces to workers; the datapath does not use them */
	struct fpisa_key key;		/* random key from which cookies and the secrets of results are derived */
	/* of a leaf: address and first port of the parent; if it is given, the parent is on this host, behind `lo` */
	struct fpisa_rank parent;
	__u32 parent_rank; /* of a leaf: its rank in the parent's job */
	/* of a leaf: number of the parent's job, which is that of the leaf unless the parent is on this host */
	__u32 parent_job;
	/* of a parent: number of its leaf on this host, from 1; 0: there is none. It changes as `live` does */
	__u32 below;
	/*
	 * In a job with ranks of both families, the address for its IPv4 ranks. `address`, an IPv6 address, is then for its
	 * IPv6 ranks. 0: all addresses are of the family of `address`.
	 */
	__be32 ipv4;
	struct fpisa_rank rank[FPISA_MAX_WORKERS];
};

/* Return whether a job may have a window of `window` slots. */
static __always_inline int fpisa_window_valid(__u32 window)
{
	return window && !(window & (window - 1)) && window <= FPISA_MAX_WINDOW;
}

/* Return whether hosts send frames of the job to this address. */
static __always_inline int fpisa_is_own_address(const struct fpisa_job *job, const struct fpisa_address *a)
{
	return fpisa_same_address(&job->address, a) || (job->ipv4 && fpisa_is_ipv4(a) && a->w[3] == job->ipv4);
}

/* Return the job's address for a host at `to`, or for copies of a result, whose destination is :: until they leave. */
static __always_inline struct fpisa_address fpisa_own_address(const struct fpisa_job *job,
							      const struct fpisa_address *to)
{
	return job->ipv4 && fpisa_is_ipv4(to) ? fpisa_ipv4(job->ipv4) : job->address;
}

/* Return whether the job is a query and not a sum. Frames of a query have no elements. */
static __always_inline int fpisa_is_query(const struct fpisa_job *job)
{
	return job->kind != FPISA_JOB_SUM;
}

/*
 * The session: the ranks that have joined. The key is the job number. The datapath writes the members under `lock`,
 * except `broken` (fpisa_break()). User space clears the session before a job becomes active and after the job has
 * ended.
 */
struct fpisa_session {
	__u64 lock;
	__u64 joining;	  /* waiting ranks that have sent HELLO since the HELLO of the last newcomer */
	__u64 members;	  /* ranks whose incarnation is in the current generation */
	__u32 generation; /* generation that contributions must carry; 0: none yet */
	__u32 pad;
	__u64 broken;  /* generation that is broken, and the verdict that is the reason; see fpisa_break() */
	__u64 results; /* secret of the results */
	__u64 incarnation[FPISA_MAX_WORKERS]; /* incarnation of each rank, from its HELLO */
	__u64 secret[FPISA_MAX_WORKERS];      /* cookie of each rank, which its contributions carry */
	/* key of the tags of each rank's contributions; only in jobs with a token */
	struct fpisa_key key[FPISA_MAX_WORKERS];
	struct fpisa_key results_key; /* key of the tags of results; only in jobs with a token */
};

/*
 * The location of a worker. The key is job * FPISA_MAX_WORKERS + rank. When the worker joins, the location is taken
 * from the kernel's routes and neighbours, or from the HELLO if the administrator named the port. Before that, the
 * addresses are zero and ifindex is the interface that `fpisa job add` resolved.
 */
struct fpisa_peer {
	__u8 mac[6];	   /* MAC address of the worker */
	__u8 local_mac[6]; /* MAC address of the port that the worker's frames use */
	__u32 ifindex;	   /* the port that the worker's frames use */
	/* interface of the kernel's route to the worker if the interface is a VLAN device on that port; else 0 */
	__u32 vlan_device;
	/* smallest MTU of the path to the worker that a router has reported since the worker joined, in bytes; 0: none */
	__u32 path_mtu;
};

/*
 * Time of a worker's last HELLO, or of its last contribution that passed all checks, including cookie, secret and
 * checksum. The key is that of the location. A CPU writes both members when the tick has changed. So the entry of a
 * busy rank moves between CPUs once per tick, and not with every frame.
 */
struct fpisa_last_seen {
	__u64 ns;   /* time by CLOCK_MONOTONIC; 0: never */
	__u64 tick; /* time in jiffies */
};

/*
 * One version of one slot. The key is slot_base + 2 x slot + version. The registers of the version are the entries with
 * this key in the exponent array and the mantissa array.
 *
 * Ownership: a CPU that changes `lock` from 0 to 1 by compare-and-swap owns the entry and its registers until the CPU
 * writes 0 again. The ownership continues across tail calls, and every path ends it. No member is read or written
 * without the lock. A CPU that cannot take the lock tries FPISA_LOCK_SPINS times, then drops the frame and counts it as
 * `busy`. The worker sends the frame again. User space also takes the lock, to clear the entry for a new job.
 *
 * A finished result has no second copy. The registers are the kept result, and MAU5..8 run again for a rank that asks
 * for the result again. The round of the chunk 2W later overwrites the registers. A worker starts the later round only
 * after every rank has received the kept result (doc/protocol.md).
 */
struct fpisa_slot {
	__u64 lock;
	__u64 chunk;	  /* number of the round's chunk */
	__u64 bitmap;	  /* ranks whose contributions are in the registers */
	__u64 order;	  /* 4 bits for each rank: its position in the order of arrival */
	__u64 digest;	  /* digest of the round's first contribution */
	__u64 operand;	  /* fpisa_hdr.aux of the round's first contribution */
	__u32 generation; /* generation of the round; the entry is empty if the job's generation differs */
	__u32 call;
	__u16 count;
	__u16 keepers; /* ranks that keep the result, FPISA_KEEPERS; 0: all */
	__u8 arrivals; /* number of ranks in bitmap */
	__u8 op;
	__u8 flags; /* result flags of the adds, FPISA_F_MARKED and FPISA_F_FEWER */
	__u8 done;
};

_Static_assert(sizeof(struct fpisa_slot) == 64, "slot layout");

#define FPISA_LOCK_SPINS 2048

/*
 * Generation numbers per second. User space raises the counter of generations to the clock, so the numbers wrap after
 * two years.
 */
#define FPISA_GENERATIONS_S 64

/* Settings net.ipv4.conf.lo.* and net.ipv6.conf.lo.forwarding that a job may need to be switched on (user/datapath/routes.c) */
enum fpisa_lo {
	FPISA_LO_FORWARDING,
	FPISA_LO_FORWARDING6,
	FPISA_LO_ACCEPT_LOCAL,
	FPISA_LO_SETTINGS,
};

/* State of the whole datapath; the map has one entry. */
struct fpisa_control {
	__u16 port; /* UDP port of the aggregator, host order; 0: FPISA_PORT */
	/* number of ports to accept besides the first, which is K - 1 of the job with the largest number of ports */
	__u16 more_ports;
	__u32 bank;	       /* half of the program array that new frames use: 0 or 1 */
	__u64 trie_state;      /* 0 empty, 1 being filled, 2 ready */
	__u32 next_generation; /* next generation number for any job; user space raises it to the clock */
	/* id of the entry program that `fpisa load` attaches; 0: another loader loaded the datapath */
	__u32 entry;
	/* Cookie of the network namespace in which a job switched the setting on; 0: none */
	__u64 switched_on[FPISA_LO_SETTINGS];
};

/*
 * The program array. A family is the set of programs for one lane width and one register width. The programs are nine
 * stages, and admission, which the entry calls after a frame has passed its checks. Each family has two banks, so that
 * an upgrade can fill the idle bank. The entry contains the programs of family 0, FP32 in 32 bits, including its
 * admission.
 */
#define FPISA_STAGES 9
#define FPISA_ADMISSION 9	       /* index of admission, after MAU0..8 */
#define FPISA_STAND_IN FPISA_ADMISSION /* admission contains all stages and replaces missing ones */
/* Programs of trees, in families for which fpisa_family_has_trees() */
#define FPISA_PART 10  /* a parent takes a part of a leaf's partial sum */
#define FPISA_UP 11    /* a leaf sends a part */
#define FPISA_DOWN 12  /* a leaf takes a frame from its parent */
#define FPISA_GREET 13 /* a leaf takes a HELLO */
#define FPISA_BANK_SIZE 16
#define FPISA_BANKS 2
#define FPISA_FAMILIES 16
/*
 * The first index of the programs of queries, which follow the programs of the families in the order of query numbers.
 * Each program is loaded for one query.
 */
#define FPISA_QUERY_PROGRAM (FPISA_FAMILIES * FPISA_BANKS * FPISA_BANK_SIZE)
#define FPISA_PROGRAMS (FPISA_QUERY_PROGRAM + FPISA_MAX_JOBS)

static __always_inline __u32 fpisa_bank_of(__u32 family, __u32 bank)
{
	return ((family & (FPISA_FAMILIES - 1)) * FPISA_BANKS + (bank & 1)) * FPISA_BANK_SIZE;
}

/*
 * Every family, with its number, its name, the bytes of a lane, the bits of the mantissa register, and the limbs of the
 * superaccumulator that replaces this register in mode exact. The build, the embedded objects of user space, and the
 * loops of the library follow this list.
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
	/*
	 * One limb of 64 bits is enough for five exponent bits. Eight exponent bits span 254 powers of two, and eleven
	 * span 2046.
	 */
	int of_limbs = !exact ? 0 : f.bytes == 8 ? 65 : f.shared || f.ebits == 8 ? 8 : 1;
	int of_bits = exact ? 64 : f.rbits;

#define X(number, name, bytes_, bits, limbs)                           \
	if (f.bytes == bytes_ && of_bits == bits && of_limbs == limbs) \
		return number;
	FPISA_EACH_FAMILY(X)
#undef X
	return FPISA_FAMILIES;
}

/*
 * Return the limbs of a family's superaccumulators, which have a separate map. Return 0 if they have at most one limb.
 */
static __always_inline __u32 fpisa_family_limbs(__u8 family)
{
#define X(number, name, bytes, bits, limbs) \
	if (family == number)               \
		return limbs > 1 ? limbs : 0;
	FPISA_EACH_FAMILY(X)
#undef X
	return 0;
}

/* Return whether the datapath has trees for a family: those of mode exact. */
static __always_inline int fpisa_family_has_trees(__u8 family)
{
#define X(number, name, bytes, bits, limbs) \
	if (family == number)               \
		return limbs > 0;
	FPISA_EACH_FAMILY(X)
#undef X
	return 0;
}

/* Return the number of hosts to which the job sends: its ranks, and after them a leaf's parent. */
static __always_inline __u32 fpisa_places(const struct fpisa_job *j)
{
	return j->workers + !!(j->flags & FPISA_JOB_LEAF);
}

/* Return whether the job is a leaf or a parent of a tree. */
static __always_inline int fpisa_in_tree(const struct fpisa_job *j)
{
	return j->flags & (FPISA_JOB_LEAVES | FPISA_JOB_LEAF);
}

/* Return the job's token as a key. */
static __always_inline struct fpisa_key fpisa_token_of(const struct fpisa_job *j)
{
	return (struct fpisa_key){j->token, j->token_high};
}

/* Return the value of the member `keyed` for a job. */
static __always_inline __u8 fpisa_wants_tags(const struct fpisa_job *j)
{
	return !!j->token;
}

/* Return the format of a job with its register and guard bits. */
static __always_inline struct fpisa_format fpisa_job_format(const struct fpisa_job *j)
{
	struct fpisa_format f = fpisa_format_of(j->format);

	if (j->mode == FPISA_MODE_FPISA64 || j->mode == FPISA_MODE_EXACT)
		f.rbits = 64;
	f.guard = j->guard;
	return f;
}

/* Return whether the sums of a job do not depend on how they are grouped, as a tree requires. */
static __always_inline int fpisa_may_be_in_tree(const struct fpisa_job *j)
{
	return j->mode == FPISA_MODE_EXACT || fpisa_format_of(j->format).integer;
}

/* Return the family that serves a job. In a tree, integers use that of exact FP32, because family 0 has no trees. */
static __always_inline __u8 fpisa_job_family(const struct fpisa_job *j)
{
	const struct fpisa_format f = fpisa_job_format(j);

	return f.integer && fpisa_in_tree(j) ? fpisa_family(FPISA_FP32, FPISA_MODE_EXACT) :
					       fpisa_family(f, (enum fpisa_mode)j->mode);
}

#endif
