/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The format of frames. A frame consists of Ethernet, IPv4 without options or IPv6 without extension headers, UDP, an
 * FPISA header of 76 bytes and a payload. doc/wire.md describes every byte for writers of clients. The datapath and the library compile this
 * file.
 *
 * Every field is little-endian, except the addresses in WELCOME. A reply reuses the frame that caused it, so requests
 * and replies share one header.
 */
#ifndef FPISA_WIRE_H
#define FPISA_WIRE_H

#include "address.h"
#include "block.h"

#define FPISA_MAGIC 0x5046 /* the bytes 'F' 'P' */
#define FPISA_VERSION 3	   /* frames of other versions are refused; version 2 sent the token in HELLO and had no tags */
#define FPISA_PORT 18000   /* default UDP port of aggregator and workers, 0x4650 */

#define FPISA_MAX_WORKERS 64   /* ranks of a job, with one bit each in a 64-bit bitmap */
#define FPISA_ORDER_WORKERS 16 /* results have the order of arrival in jobs of up to this number of workers */
#define FPISA_MAX_PORTS 16     /* UDP ports of a job at the aggregator */

enum fpisa_type {
	FPISA_TYPE_HELLO = 1,	/* from a worker: join the job and ask for its parameters */
	FPISA_TYPE_WELCOME = 2, /* from the aggregator: struct fpisa_hello, filled in */
	FPISA_TYPE_ADD = 3,	/* from a worker: one chunk of its vector */
	FPISA_TYPE_RESULT = 4,	/* from the aggregator: the chunk, summed over all ranks */
	FPISA_TYPE_STATUS = 5,	/* from the aggregator: ranks that have contributed so far; no payload */
	FPISA_TYPE_ERROR = 6,	/* from the aggregator: the reason why it dropped a frame; no payload */
};

/* Values of fpisa_hdr.flags. */
#define FPISA_F_RETRANSMIT 0x01 /* ADD: a retransmission; RESULT: a retransmission completed the round */
#define FPISA_F_PROBE 0x02	/* ADD: answer with STATUS if the round is not complete */
#define FPISA_F_PENDING 0x04	/* WELCOME: some ranks have not joined yet */
#define FPISA_F_RESENT 0x08	/* RESULT: a kept result, sent again on request */
#define FPISA_F_CHALLENGE 0x10	/* WELCOME: repeat HELLO with this secret; the rank has not joined */
#define FPISA_F_ABOVE 0x20	/* WELCOME, STATUS of a leaf: the missing ranks belong to other leaves */
#define FPISA_F_MARKED 0x40	/* RESULT: a contribution to the round had a congestion mark (ECN CE) */
#define FPISA_F_FEWER 0x80	/* partial sum, RESULT of a tree: a rank was removed from its job */

struct fpisa_hdr {
	__le16 magic;	     /*	 0 FPISA_MAGIC */
	__u8 version;	     /*	 2 FPISA_VERSION */
	__u8 type;	     /*	 3 enum fpisa_type */
	__u8 flags;	     /*	 4 FPISA_F_* */
	__u8 result_flags;   /*	 5 RESULT: FPISA_OVERFLOW and others of format.h; else 0 */
	__u8 format;	     /*	 6 enum fpisa_format_id */
	__u8 op;	     /*	 7 enum fpisa_op */
	__le32 job;	     /*	 8 job number */
	__le32 generation;   /* 12 from WELCOME; 0 in HELLO */
	__le32 slot;	     /* 16 slot << 1 | version */
	__le16 rank;	     /* 20 rank of the sender; HELLO: 0xffff; RESULT: the ranks that keep it, see below */
	__le16 count;	     /* 22 elements in the payload, a multiple of 32 up to the job's */
	__le64 chunk;	     /* 24 number of this chunk since the generation began; HELLO: a nonce */
	__le64 digest;	     /* 32 digest of all calls of the generation up to this call: fpisa_digest() */
	__le32 call;	     /* 40 number of the call since the generation began */
	__le16 contributors; /* 44 RESULT: number of ranks in the sum; STATUS: number of ranks so far; ADD: see below */
	__le16 reason; /* 46 ERROR: enum fpisa_verdict; RESULT: up to 16 workers, ranks with a lost contribution to the previous chunk; partial sum: FPISA_PART_* */
	__le64 secret; /* 48 see below */
	__le64 bitmap; /* 56 RESULT, STATUS: ranks that contributed; WELCOME: live ranks; PENDING: ranks that wait; see below */
	__le64 aux;	 /* 64 see below */
	__le32 checksum; /* 72 covers all fields before it and the payload; 0 in frames with a tag */
} __attribute__((packed, aligned(4)));

/*
 * fpisa_hdr.chunk
 *	HELLO	a random number for this incarnation. The WELCOME repeats the number, so a late WELCOME can be
 *		recognised, and only a host that saw the HELLO can send a valid WELCOME
 *
 * fpisa_hdr.secret (secret.h)
 *	HELLO	the rank's cookie for this incarnation, or 0 before the rank has a cookie
 *	WELCOME	with CHALLENGE the rank's cookie, otherwise the secret of the HELLO
 *	ADD	the cookie
 *	RESULT	the generation's secret, as in the WELCOME's payload
 *	STATUS, ERROR	the secret of the ADD
 *	In jobs with a token ADD, RESULT, STATUS and ERROR have their tag in this field (tag.h).
 *
 * fpisa_hdr.bitmap
 *	ADD, ERROR	in jobs with a token the cookie; else 0
 *
 * fpisa_hdr.aux
 *	HELLO	the sender's incarnation, increasing over its restarts (ns since 1970), below 2^63
 *	WELCOME	the incarnation that the aggregator holds for this rank
 *	ADD	operation scale: the factor, bits of an IEEE binary64; else 0
 *	RESULT	up to 16 workers: 4 bits for each rank, its position in the order of arrival; above: ranks whose
 *		contribution to the previous chunk was lost
 *	STATUS	the live ranks of the job
 *	ROWS, ACK	number of the copy of the rows, given by their worker (doc/query-wire.md)
 */

/*
 * fpisa_hdr.contributors in an ADD of a rank, and fpisa_hdr.rank in a RESULT: the ranks that keep the result, of which the
 * numbers of the first and the last are in bits 0 to 5 and 6 to 11. No rank keeps the result if the last is below the first.
 * The other ranks get a RESULT with count 0 and without payload. With any other value all ranks keep the result. Such
 * values are 0 in an ADD and FPISA_KEEPERS_ALL in a RESULT.
 */
#define FPISA_KEEPERS 0x8000
#define FPISA_KEEPERS_ALL 0xffff

/*
 * fpisa_hdr.reason in an ADD that is a part of a leaf's partial sum. The member has the plane of digits in the payload,
 * and the number of parts. With FPISA_PART_PACKED, the payload has packed blocks (packed.h), and the place of the plane
 * has the number of the part. With FPISA_PART_VALUES, the payload has values of the job's format instead (min, max, int32), and
 * is the only part. `contributors` is the number of ranks in the partial sum. `result_flags` is the rank of the leaf
 * that gets a STATUS or an ERROR in answer to this frame, FPISA_PART_ASKS, and FPISA_PART_OVERFLOW.
 */
#define FPISA_PART_PLANE 0x007f
#define FPISA_PART_COUNT 0x3f80
#define FPISA_PART_COUNT_SHIFT 7
#define FPISA_PART_PACKED 0x4000
#define FPISA_PART_VALUES 0x8000
#define FPISA_PART_ASKER 0x3f	 /* result_flags: the rank */
#define FPISA_PART_ASKS 0x40	 /* result_flags: the rank wants a STATUS */
#define FPISA_PART_OVERFLOW 0x80 /* result_flags: a sum of integers saturated at the leaf */

/*
 * Faults that the workers of a job inject into their own frames in each direction, to simulate a bad network. Each
 * value is a share of the frames in 1/65536. If all values are 0, no faults are injected.
 */
enum fpisa_fault {
	FPISA_FAULT_DROP,
	FPISA_FAULT_DUPLICATE,
	FPISA_FAULT_REORDER,
	FPISA_FAULT_DELAY,
	FPISA_FAULT_CORRUPT,
	FPISA_FAULTS,
};

#define FPISA_FAULT_SCALE 65536

struct fpisa_job_faults {
	__le32 seed;
	__le16 share[FPISA_FAULTS];
	__le16 reserved; /* zero */
} __attribute__((packed, aligned(4)));

/*
 * The payload of HELLO and WELCOME. In WELCOME, it has the parameters of the job. In HELLO, all members except the
 * proof are zero.
 */
struct fpisa_hello {
	__le32 window;			/*  0 slots, a power of two */
	__le16 elements;		/*  4 elements of a chunk */
	__le16 workers;			/*  6 ranks of the job */
	__le16 rank;			/*  8 rank of the receiver */
	__u8 mode;			/* 10 enum fpisa_mode */
	__u8 rounding;			/* 11 enum fpisa_rounding */
	__u8 format;			/* 12 enum fpisa_format_id */
	__u8 pipeline;			/* 13 enum fpisa_pipeline */
	__u8 clz;			/* 14 enum fpisa_clz */
	__u8 fanout;			/* 15 enum fpisa_fanout */
	__be32 group;			/* 16 multicast address of the results, IPv6: its last 4 bytes; 0 for unicast */
	__be32 address;			/* 20 source of every reply; 0 over IPv6: the destination of the HELLO */
	__le64 live;			/* 24 live ranks, for which rounds wait */
	__u8 flags;			/* 32 FPISA_JOB_* of job.h */
	__u8 ports;			/* 33 K: the job's UDP ports at the aggregator, a power of two; 0: 1 */
	__u8 reserved[2];		/* 34 zero */
	struct fpisa_job_faults faults; /* 36 for tests */
	__u8 group_high[12];		/* 52 IPv6: the first 12 bytes of the multicast address; else zero */
	__le64 proof;	/* 64 proof that the sender knows the job's token (tag.h); 0 if the job has none */
	__le64 results; /* 72 the `secret` of results, or a number from which the key of their tags is derived */
} __attribute__((packed, aligned(4)));

/* The first part of a WELCOME to a query's member (doc/query-wire.md, section 1); the rest is as in struct fpisa_hello. */
struct fpisa_query_welcome {
	__le32 window;	   /*  0 zero */
	__le16 elements;   /*  4 zero, which marks a query */
	__le16 members;	   /*  6 workers and the master */
	__le16 rank;	   /*  8 rank of the receiver */
	__u8 kind;	   /* 10 enum fpisa_job_kind */
	__u8 key_bytes;	   /* 11 bytes of a row's key */
	__u8 format;	   /* 12 FPISA_FORMAT_FP32 */
	__u8 filter_bytes; /* 13 bytes of a join key; 0: no filter */
	__u8 flags;	   /* 14 order and filter */
	__u8 fanout;	   /* 15 enum fpisa_fanout */
	__le32 limit;	   /* 16 topn: N; table: largest number of groups; join: 0 */
} __attribute__((packed, aligned(4)));

#define FPISA_ETH_LEN 14
#define FPISA_VLAN_LEN 4 /* size of a VLAN tag, between the Ethernet addresses and the EtherType */
#define FPISA_MAX_VLAN 4094
#define FPISA_IP_LEN 20
#define FPISA_IPV6_LEN 40
#define FPISA_UDP_LEN 8
#define FPISA_HDR_LEN 76
#define FPISA_OFFSET (FPISA_ETH_LEN + FPISA_IP_LEN + FPISA_UDP_LEN) /* offset of the header in the frame */
#define FPISA_PAYLOAD_OFFSET (FPISA_OFFSET + FPISA_HDR_LEN)

/*
 * The ECN field of IPv4's tos byte and IPv6's traffic class (RFC 3168). Senders set ECT0 to permit congestion marks, and a router sets CE to
 * mark a frame.
 */
#define FPISA_ECN_MASK 3
#define FPISA_ECT0 2
#define FPISA_IS_CE(tos) (((tos)&FPISA_ECN_MASK) == 3)

/*
 * Limits of the elements of a chunk. On a 4 KiB page, XDP can access at most 3520 bytes of a frame directly (veth, one
 * buffer).
 */
#define FPISA_DEFAULT_ELEMENTS 256
#define FPISA_MAX_FRAME 3520
#define FPISA_MAX_BLOCKS 26
#define FPISA_MAX_ELEMENTS (FPISA_MAX_BLOCKS * FPISA_BLOCK)
#define FPISA_MAX_PAYLOAD (FPISA_MAX_ELEMENTS * 4)

_Static_assert(sizeof(struct fpisa_hdr) == FPISA_HDR_LEN, "header layout");
_Static_assert(sizeof(struct fpisa_hello) == 80, "HELLO layout");
_Static_assert(FPISA_PAYLOAD_OFFSET + FPISA_IPV6_LEN - FPISA_IP_LEN + FPISA_VLAN_LEN + FPISA_MAX_PAYLOAD <=
		       FPISA_MAX_FRAME,
	       "a frame fits one XDP buffer");
_Static_assert(FPISA_PAYLOAD_OFFSET + FPISA_MAX_PAYLOAD + FPISA_BLOCK * 4 > FPISA_MAX_FRAME, "no block is wasted");
_Static_assert(FPISA_MAX_ELEMENTS < 1 << 16, "event counts are 16 bits wide");
_Static_assert((FPISA_PAYLOAD_OFFSET + 2) % 8 == 0, "payload aligned where frames start at NET_IP_ALIGN");

/*
 * Size of the scales in a format with shared exponents. The payload begins with one scale byte for each block, padded
 * with zeros. The elements follow.
 */
#define FPISA_SCALES 32

_Static_assert(FPISA_MAX_BLOCKS <= FPISA_SCALES, "a scale for each block");

/*
 * Return the index, 0..K - 1, of the port for contributions to slot `slot` of `window` slots, in a job with K = `ports`
 * ports. Both versions of a slot have the same port. A network card that spreads frames by destination port alone then
 * gives a slot to one queue, and so to one CPU. Runs of 8 neighbouring slots share a port, so that the frames of one
 * send leave in few bursts, and slots in the same cache line have the same port. Runs are shorter if the window would
 * not use every port otherwise.
 */
static __always_inline __u32 fpisa_port_index(__u32 slot, __u32 window, __u32 ports)
{
	__u32 run = (window >= 2 * ports) + (window >= 4 * ports) + (window >= 8 * ports);

	return ports > 1 ? slot >> run & (ports - 1) : 0;
}

static __always_inline __u16 fpisa_keepers(__u32 first, __u32 last)
{
	return (__u16)(FPISA_KEEPERS | last << 6 | first);
}

/* Return whether the value names ranks. Otherwise all ranks keep the result. */
static __always_inline int fpisa_names_keepers(__u16 keepers)
{
	return keepers >> 12 == FPISA_KEEPERS >> 12;
}

static __always_inline int fpisa_keeps(__u16 keepers, __u32 rank)
{
	return !fpisa_names_keepers(keepers) || (rank >= (keepers & 63u) && rank <= (keepers >> 6 & 63u));
}

static __always_inline __u32 fpisa_payload_bytes(struct fpisa_format f, __u32 count)
{
	return count * f.bytes + (f.shared ? FPISA_SCALES : 0);
}

/*
 * Largest number of blocks of a chunk of FP64 in mode exact. Each version of a slot then takes 66,560 bytes
 * (exact64.h).
 */
#define FPISA_MAX_EXACT64_BLOCKS 4

/* Return the largest number of elements that a chunk of a format can have. Pass mode 0 if the mode is not known. */
static __always_inline __u32 fpisa_max_elements(struct fpisa_format f, __u32 mode)
{
	__u32 fit = f.bytes ? FPISA_MAX_PAYLOAD / f.bytes / FPISA_BLOCK * FPISA_BLOCK : 0;

	if (f.bytes == 8 && mode == FPISA_MODE_EXACT)
		return FPISA_MAX_EXACT64_BLOCKS * FPISA_BLOCK;
	return fit < FPISA_MAX_ELEMENTS ? fit : FPISA_MAX_ELEMENTS;
}

/*
 * Return whether a chunk may have `elements` elements. `most` is fpisa_max_elements(), or FPISA_MAX_ELEMENTS if the
 * format is not known yet.
 */
static __always_inline int fpisa_elements_valid(__u32 elements, __u32 most)
{
	return elements && elements % FPISA_BLOCK == 0 && elements <= most;
}

/*
 * Return the default number of elements of a chunk. This is the default of FP32, or fewer so that a frame is not larger
 * (MTU).
 */
static __always_inline __u32 fpisa_default_elements(struct fpisa_format f)
{
	return f.bytes > 4 ? FPISA_DEFAULT_ELEMENTS * 4 / f.bytes : FPISA_DEFAULT_ELEMENTS;
}

/*
 * The checksum reads header and payload as 64-bit words and splits each word into two 32-bit lanes. Each lane has the
 * sum of its words, and the sum of the running sums as in Fletcher's checksum, which detects swapped words. No sum
 * wraps, so two equal bit flips in two words never cancel. Only the last step folds the sums to 32 bits.
 */
struct fpisa_sum {
	__u64 a_lo, a_hi, b_lo, b_hi;
};

#define FPISA_SUM_HDR_WORDS 9 /* words of the header before the checksum */

/*
 * Add `words` 64-bit words. Callers in BPF pass a constant. To save instructions, the loop computes the sums of whole
 * words, modulo 2^64, and the sums of the upper lanes. A sum of lower lanes, which is far below 2^64, is the sum of
 * whole words minus the part of the upper lanes. In BPF the loop is unrolled, in an order that needs no stack.
 */
static __always_inline void fpisa_sum_words(struct fpisa_sum *s, const void *p, int words)
{
	__u64 a_hi = s->a_hi, b_hi = s->b_hi, a = s->a_lo + (a_hi << 32), b = s->b_lo + (b_hi << 32);

	FPISA_UNROLLED
	for (int i = 0; i < words; i++) {
		/*
		 * Load the upper lane first. Otherwise clang would extract it from the whole word by three
		 * instructions.
		 */
		__u64 hi = fpisa_load32((const char *)p + 8 * i + 4), w = fpisa_load64((const char *)p + 8 * i);

		fpisa_add_to(a_hi, hi);
		fpisa_add_to(b_hi, a_hi);
		fpisa_add_to(a, w);
		fpisa_add_to(b, a);
	}
	s->a_lo = a - (a_hi << 32);
	s->a_hi = a_hi;
	s->b_lo = b - (b_hi << 32);
	s->b_hi = b_hi;
}

static __always_inline __u32 fpisa_sum_fold(const struct fpisa_sum *s)
{
	__u64 x = s->a_lo * 0x9e3779b97f4a7c15ull + s->a_hi * 0xc2b2ae3d27d4eb4full + s->b_lo * 0x165667b19e3779f9ull +
		  s->b_hi * 0xd6e8feb86659fd93ull;

	x ^= x >> 32;
	x *= 0xff51afd7ed558ccdull;
	return (__u32)(x >> 32);
}

/*
 * Return the sum of the 16-bit words for a UDP checksum. The sum is modulo 65535, where 2^16 and 2^32 equal 1, but is
 * not reduced. For a frame the sum is below 2^27.
 */
static __always_inline __u64 fpisa_sum_16(const struct fpisa_sum *s)
{
	__u64 a = s->a_lo + s->a_hi;

	return (a & 0xffff) + (a >> 16);
}

/* Kinds of calls in the digest, numbered as on the wire. */
enum fpisa_call_kind {
	FPISA_CALL_ALLREDUCE = 1,
};

/*
 * Return the digest after one more call. Ranks whose digests are equal have made the same calls in the same order. Each
 * step is a bijection of either argument, so two histories that differ in one word never have equal digests. Other
 * different histories have equal digests with probability 2^-64.
 */
static __always_inline __u64 fpisa_digest_word(__u64 digest, __u64 word)
{
	digest = (digest ^ word) * 0x9e3779b97f4a7c15ull;
	return digest ^ digest >> 32;
}

static __always_inline __u64 fpisa_digest(__u64 before, enum fpisa_call_kind kind, __u8 format, __u8 op, __u64 operand,
					  __u64 elements, __u64 tag)
{
	before = fpisa_digest_word(before, (__u64)kind << 16 | (__u64)format << 8 | op);
	before = fpisa_digest_word(before, operand);
	before = fpisa_digest_word(before, elements);
	return fpisa_digest_word(before, tag);
}

#endif
