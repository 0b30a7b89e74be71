/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Queries in the network, as in the paper's section on databases. This file has the parameters of a query, its frames,
 * its rows, and the state of its programs. doc/query-wire.md describes every byte for writers of clients.
 *
 * A query is a job whose members are the workers and, as the last rank, the master. The members join as the ranks of a
 * job do. A generation of the job is an epoch of the query, during which the query keeps its state.
 */
#ifndef FPISA_QUERY_H
#define FPISA_QUERY_H

#include "../exact.h"
#include "../job.h"

/* Values of fpisa_hdr.type for queries. The entry handles smaller values, which are the types of jobs. */
enum fpisa_query_type {
	/* from a worker: some of its rows; to the master: the rows of the frame that the master must have */
	FPISA_TYPE_ROWS = 16,
	/* to a worker: the rows of one frame have been processed; from the master: an ACK to pass on */
	FPISA_TYPE_ACK = 17,
	FPISA_TYPE_SEAL = 18,	  /* from the master: the last sequence number of each worker; the answer is a STATUS */
	FPISA_TYPE_READ = 19,	  /* from the master: a request for groups from a number on */
	FPISA_TYPE_GROUPS = 20,	  /* to the master: the requested groups */
	FPISA_TYPE_KEYS = 21,	  /* from a worker: join keys for the filter, before its rows */
	FPISA_TYPE_KEYS_ACK = 22, /* to a worker: the keys are in the filter, or the filter is not used */
};

/*
 * In ROWS, this is the worker's last frame, which goes to the master even if no row is left. In KEYS, this is the
 * worker's last frame of keys.
 */
#define FPISA_F_LAST 0x20

#define FPISA_QUERY_ROWS 128  /* largest number of rows or keys in a frame */
#define FPISA_QUERY_WINDOW 64 /* frames that a worker may have in flight */
/* payloads are padded with zeros to a multiple of this size, which is the block size of the checksum */
#define FPISA_QUERY_PAD 32
#define FPISA_KEY_WORDS 4
#define FPISA_MAX_LIMIT_TOPN 65536
#define FPISA_MAX_LIMIT_TABLE (1u << 24) /* a bucket has 24 bits for the number of a group */

/* Values of fpisa_query_parameters.flags. */
#define FPISA_QUERY_ASCENDING 0x01 /* topn: the smallest values come first */
#define FPISA_QUERY_TIES 0x02	   /* topn: rows that equal the last of the N pass too */
#define FPISA_QUERY_BITMAP 0x04	   /* a filter with a bit for each key from 0 on */
#define FPISA_QUERY_BLOOM 0x08	   /* a filter for any keys, with some false positives */
#define FPISA_QUERY_FILTER (FPISA_QUERY_BITMAP | FPISA_QUERY_BLOOM)

/*
 * The parameters for which a program is specialised. User space sets the parameters as constants before it loads the
 * program.
 */
struct fpisa_query_config {
	__u32 job;
	__u32 master;	 /* rank of the master, which is the last rank */
	__u32 key_bytes; /* bytes of a row's key: 4, 8, 16 or 32 */
	__u32 row_bytes;
	__u32 limit;	    /* topn: N; table: largest number of groups */
	__u32 bucket_mask;  /* table: number of buckets, a power of two, minus one */
	__u32 flags;	    /* FPISA_QUERY_* */
	__u32 filter_bytes; /* number of bytes at the start of a row's key that are its join key */
	__u32 filter_mask;  /* number of blocks of the filter, a power of two, minus one */
	__u32 form;	    /* enum fpisa_value_form */
	__u64 seed;	    /* random seed of the hash */
};

/* -- rows -------------------------------------------------------------------- */

/*
 * Type of the values of a query, in `format` of its frames and its WELCOME. The values of a join are reals.
 */
enum fpisa_value_form {
	FPISA_FORM_REAL = FPISA_FORMAT_FP32,   /* 4 bytes */
	FPISA_FORM_DOUBLE = FPISA_FORMAT_FP64, /* 8 bytes */
	FPISA_FORM_INT64 = 16,		       /* 8 bytes, two's complement */
	FPISA_FORM_INT128 = 17,		       /* 16 bytes, two's complement */
};

/*
 * A row. In a frame, a row consists of the key, the value, and for keys of 8 bytes or more a word with the number of
 * database rows for which the row stands. After this word, a row with a value of 8 bytes or more has another word: in
 * topn the value's short place (order.h), else 0.
 */
struct fpisa_row {
	__u64 key[FPISA_KEY_WORDS]; /* the bytes after the key are zero */
	__u32 value;		    /* the value, if values are reals; for topn of other values, the short place */
	__u32 count;		    /* number of database rows, and FPISA_ROW_* */
	/* the value, if values are doubles or integers of up to 128 bits; the low half comes first */
	__u64 wide[2];
};

/* Flags in fpisa_row.count of rows that a worker has aggregated. */
#define FPISA_ROW_NO_SUM 0x40000000u   /* the value is only for minimum and maximum, not for the sum */
#define FPISA_ROW_NO_ORDER 0x80000000u /* the value is only for the sum, not for minimum and maximum */
#define FPISA_ROW_COUNT 0x3fffffffu

static __always_inline int fpisa_key_bytes_valid(__u32 bytes)
{
	return bytes == 4 || bytes == 8 || bytes == 16 || bytes == 32;
}

/* Return whether the form is one of enum fpisa_value_form. */
static __always_inline int fpisa_form_valid(__u32 form)
{
	return form == FPISA_FORM_REAL || form == FPISA_FORM_DOUBLE || form == FPISA_FORM_INT64 ||
	       form == FPISA_FORM_INT128;
}

static __always_inline int fpisa_form_is_integer(__u32 form)
{
	return form == FPISA_FORM_INT64 || form == FPISA_FORM_INT128;
}

/* Return whether a value of this form has 8 bytes or more. */
static __always_inline int fpisa_form_is_wide(__u32 form)
{
	return form == FPISA_FORM_DOUBLE || fpisa_form_is_integer(form);
}

static __always_inline __u32 fpisa_row_bytes(__u32 key_bytes, __u32 form)
{
	if (fpisa_form_is_wide(form))
		return key_bytes + (form == FPISA_FORM_INT128 ? 24 : 16);
	return key_bytes + (key_bytes == 4 ? 4 : 8);
}

/* Return the size of a payload of `count` items of `bytes` bytes each. */
static __always_inline __u32 fpisa_query_payload(__u32 count, __u32 bytes)
{
	return (count * bytes + FPISA_QUERY_PAD - 1) & ~(FPISA_QUERY_PAD - 1u);
}

/* Load the value of 8 bytes or more at *p, and the word after the value. */
static __always_inline void fpisa_row_load_wide(struct fpisa_row *r, const char *p, __u32 form)
{
	r->wide[0] = fpisa_load64(p);
	if (form == FPISA_FORM_INT128) {
		r->wide[1] = fpisa_load64(p + 8);
		r->count = fpisa_load32(p + 16);
		return;
	}
	r->wide[1] = form == FPISA_FORM_INT64 ? (__u64)((__s64)r->wide[0] >> 63) : 0;
	r->count = fpisa_load32(p + 8);
}

/* Load the row at *p, whose key has `key_bytes` bytes. The key, the value and the word must be within the frame. */
static __always_inline struct fpisa_row fpisa_row_load(const void *p, __u32 key_bytes, __u32 form)
{
	struct fpisa_row r = {.count = 1};

	if (key_bytes == 4) {
		r.key[0] = fpisa_load32(p);
		r.value = fpisa_load32((const char *)p + 4);
		return r;
	}
	r.key[0] = fpisa_load64(p);
	if (key_bytes > 8)
		r.key[1] = fpisa_load64((const char *)p + 8);
	if (key_bytes > 16) {
		r.key[2] = fpisa_load64((const char *)p + 16);
		r.key[3] = fpisa_load64((const char *)p + 24);
	}
	if (fpisa_form_is_wide(form)) {
		fpisa_row_load_wide(&r, (const char *)p + key_bytes, form);
		return r;
	}
	r.value = fpisa_load32((const char *)p + key_bytes);
	r.count = fpisa_load32((const char *)p + key_bytes + 4);
	return r;
}

/* -- state ------------------------------------------------------------------- */

/* The frames of one worker that have been taken. Bit d of `taken` stands for sequence number high - d; see window.h. */
struct fpisa_query_window {
	__u64 high;
	__u64 taken;
};

/*
 * State of a query, in a map of one entry. A CPU that changes `lock` from 0 to 1 owns the state, the heap or the table,
 * and the filter, until the CPU writes 0 again. Only `epoch`, `bar`, `filter` and the contents of the filter are read
 * without the lock.
 */
struct fpisa_query_state {
	__u64 lock;
	__u64 bar;    /* topn: one more than the Nth key, in the order of keys; 0: fewer than N rows so far */
	__u32 epoch;  /* generation of the rows in this state; 0: none yet */
	__u32 used;   /* number of keys in the heap, or of groups in the table */
	__u32 sealed; /* table: all rows have been added, and no more are accepted */
	__u32 beyond; /* filter: some key is beyond the end of the bitmap */
	/* epoch << 32 | enum fpisa_filter_state; if the epoch differs, the filter is still being built */
	__u64 filter;
	__u64 built;   /* filter: workers whose keys are all inserted */
	__u64 barrier; /* always 0; an atomic add of 0 to this member orders loads */
	struct fpisa_query_window window[FPISA_MAX_WORKERS]; /* topn uses only `high` */
};

/* Counters of rows on one CPU. */
#define FPISA_QUERY_COUNTERS(X)                                                           \
	X(rows, "rows received, including repeated ones")                                 \
	X(repeated, "rows of repeated frames of a table")                                 \
	X(filtered, "rows whose join key is not in the filter; a table counts each once") \
	X(pruned, "rows that cannot be among the first")                                  \
	X(absorbed, "rows added to the table")                                            \
	X(residue, "rows that did not fit the table, each once")                          \
	X(beyond, "rows among these whose value is outside of its group's window")        \
	X(forwarded, "rows passed on to the master, including repeated ones")             \
	X(keys, "keys received for the filter, including repeated ones")

struct fpisa_query_counters {
#define X(name, text) __u64 name;
	FPISA_QUERY_COUNTERS(X)
#undef X
};

/*
 * A bucket of the table, with the groups whose keys have the same hash. An entry is epoch << 32 | number of the group
 * << 8 | tag of the key.
 */
#define FPISA_WAYS 8

struct fpisa_bucket {
	__u64 way[FPISA_WAYS];
};

/*
 * A block of 256 bits of a filter, with 32 bits in each word. A word is epoch << 32 | bits. A word of another epoch is
 * treated as empty, so a new epoch does not have to clear the filter.
 */
#define FPISA_FILTER_WORDS 8
#define FPISA_FILTER_BLOCK_KEYS 256 /* keys in a block of a bitmap */
#define FPISA_FILTER_BLOOM_KEYS 16  /* a Bloom filter has a block for this many keys or more */
#define FPISA_MAX_FILTER_LOG 20	    /* log2 of the blocks of the largest filter, which takes 64 MB */

struct fpisa_filter_block {
	__u64 word[FPISA_FILTER_WORDS];
};

/* A group has one limb more than a slot, because a job adds at most 64 values, and a group any number. */
#define FPISA_GROUP_LIMBS (FPISA_LIMBS + 1)

/*
 * A group, in the table and in GROUPS.
 *
 * real		the sum is the sum of limb[i] x 2^(32 i - 149)
 * double	the sum is the sum of limb[i + FPISA_WIDE_FIRST] x 2^(32 (i + window - 1) - 1074). The group's first value
 *		that is neither 0 nor special sets the window, for good. A value outside of it goes to the master
 * integers	the sum has 192 bits, in two's complement. Up to 2^64 128-bit values fit
 */
struct fpisa_query_group {
	__u64 key[FPISA_KEY_WORDS];
	__u64 count;
	union {
		struct {
			__u32 min, max; /* for reals, as keys of order.h; without a value, min is above max */
		};
		struct {
			__u32 window; /* for doubles: one more than the place of the lowest limb; 0: not set yet */
			/*
			 * for doubles, only at the master: one more than the number of the next group of the key; 0:
			 * none
			 */
			__u32 next;
		};
	};
	__u32 specials; /* FPISA_GROUP_* */
	__u32 pad;
	union {
		__s64 limb[FPISA_GROUP_LIMBS];
		struct {
			__u64 least, most; /* for doubles, as keys of order.h; without a value, least is above most */
		};
		struct {
			/* for integers: value + 2^127, the low half first; without a value, lowest is above highest */
			__u64 lowest[2], highest[2];
			__u64 sum[3]; /* for integers: sum, the low word first */
		};
	};
};

_Static_assert(sizeof(struct fpisa_query_group) == 128, "two cache lines, and a multiple of FPISA_QUERY_PAD");

#define FPISA_WIDE_FIRST 2 /* index of the first limb of a sum of doubles, after `least` and `most` */
#define FPISA_WIDE_LIMBS (FPISA_GROUP_LIMBS - FPISA_WIDE_FIRST)
/* highest value of `window`; the middle limb of this window is the last limb in which a value begins */
#define FPISA_WIDE_WINDOWS (64 - 2)
/*
 * Number of limbs of a window in which a value may begin. A value reaches into the next limb, and the last limb takes
 * carries.
 */
#define FPISA_WIDE_PLACES 5

_Static_assert(FPISA_WIDE_PLACES + 2 == FPISA_WIDE_LIMBS, "a limb on top that only carries reach");

/* Special values in the sum, in fpisa_group.specials. */
#define FPISA_GROUP_NAN 1u
#define FPISA_GROUP_PINF 2u
#define FPISA_GROUP_NINF 4u

/*
 * Propagate carries from limb `from` up. A limb can take 2^7 adds of at most 2^55 between two carries
 * (fpisa_limb_full()). The uppermost limb needs no carry, because it can hold 2^95 of the largest reals, or 2^43 of the
 * largest doubles of a window.
 */
static __always_inline void fpisa_carry(struct fpisa_query_group *g, __u32 from)
{
	FPISA_ROLLED
	for (__u32 i = 0; i < FPISA_GROUP_LIMBS - 1; i++) {
		__s64 v = g->limb[i];

		if (i < from)
			continue;
		g->limb[i] = (__u32)v;
		g->limb[i + 1] += v >> 32;
	}
}

static __always_inline int fpisa_below128(const __u64 *a, const __u64 *b)
{
	return a[1] < b[1] || (a[1] == b[1] && a[0] < b[0]);
}

/* Return whether any row of the group has a value that is not NULL. */
static __always_inline int fpisa_group_has_values(const struct fpisa_query_config *q, const struct fpisa_query_group *g)
{
	if (q->form == FPISA_FORM_DOUBLE)
		return g->least <= g->most;
	if (fpisa_form_is_integer(q->form))
		return !fpisa_below128(g->highest, g->lowest);
	return g->min <= g->max;
}

/* Fill in *q from the job of a query, except the seed. */
static __always_inline void fpisa_query_of(const struct fpisa_job *job, __u32 number, struct fpisa_query_config *q)
{
	*q = (struct fpisa_query_config){
		.job = number,
		.master = job->workers - 1,
		.key_bytes = job->query.key_bytes,
		.row_bytes = fpisa_row_bytes(job->query.key_bytes, job->format),
		.limit = job->query.limit,
		.flags = job->query.flags,
		.form = job->format,
		.filter_bytes = job->query.filter_bytes,
		.filter_mask = job->query.flags & FPISA_QUERY_FILTER ? (1u << (job->query.filter_log & 31)) - 1 : 0,
	};
}

/* -- state of the filter (filter.h has the rules) ------------------------------- */

/* State of the filter, which the first rows of the epoch fix. */
enum fpisa_filter_state {
	FPISA_FILTER_BUILDING, /* no rows have arrived yet */
	FPISA_FILTER_WHOLE,
	FPISA_FILTER_BEYOND, /* the bitmap is complete, but some keys are beyond its end; rows with such keys pass */
	FPISA_FILTER_OPEN,   /* the keys of some worker were missing, so all rows pass */
};

/* Begin an epoch with an empty filter. The caller holds the lock. */
static __always_inline void fpisa_filter_begin(struct fpisa_query_state *s)
{
	s->built = 0;
	s->beyond = 0;
}

/* Return the state of the epoch's filter; `word` is fpisa_query_state.filter, read once. */
static __always_inline __u32 fpisa_filter_state(__u64 word, __u32 epoch)
{
	return word >> 32 == epoch ? (__u32)word : FPISA_FILTER_BUILDING;
}

/* Return the workers whose keys are not complete. */
static __always_inline __u64 fpisa_filter_missing(const struct fpisa_query_state *s, const struct fpisa_query_config *q)
{
	return ((1ull << (q->master & 63)) - 1) & ~s->built;
}

#endif
