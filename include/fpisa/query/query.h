/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Queries in the network (the paper's second use, its section on databases): the parameters of a query, its frames,
 * its rows, and the state of its programs. doc/query-wire.md has every byte for writers of clients.
 *
 * A query takes a job's number and a job's members: its workers and, as the last rank, its master. They join as the
 * ranks of a job do, so a generation of that job is one life of the query's state, its epoch.
 */
#ifndef FPISA_QUERY_H
#define FPISA_QUERY_H

#include "../exact.h"
#include "../job.h"

/* Values of fpisa_hdr.type; far from those of jobs, which the entry handles itself. */
enum fpisa_query_type {
	FPISA_TYPE_ROWS = 16,	/* worker: some of its rows; to the master: the rows of the frame that it must have */
	FPISA_TYPE_ACK = 17,	/* to a worker: the rows of one frame are accounted for; from the master: pass it on */
	FPISA_TYPE_SEAL = 18,	/* master: each worker's last sequence; the answer is a STATUS */
	FPISA_TYPE_READ = 19,	/* master: groups, from a number on */
	FPISA_TYPE_GROUPS = 20, /* to the master: those groups */
	FPISA_TYPE_KEYS = 21,	/* worker: join keys for the filter, before its rows */
	FPISA_TYPE_KEYS_ACK = 22, /* to that worker: they are in the filter, or it is not used */
};

/* ROWS: the worker's last frame; it goes to the master even if no row is left in it. KEYS: its last frame of keys. */
#define FPISA_F_LAST 0x20

#define FPISA_QUERY_ROWS 128  /* most in a frame; keys too */
#define FPISA_QUERY_WINDOW 64 /* frames that a worker may have in flight */
#define FPISA_QUERY_PAD 32    /* payloads are multiples of this, the rest zero: the checksum's block */
#define FPISA_KEY_WORDS 4
#define FPISA_MAX_LIMIT_TOPN 65536
#define FPISA_MAX_LIMIT_TABLE (1u << 24) /* numbers of groups have 24 bits in a bucket */

/* fpisa_query_parameters.flags */
#define FPISA_QUERY_ASCENDING 0x01 /* topn: the least values come first */
#define FPISA_QUERY_TIES 0x02	   /* topn: rows that equal the last of the N pass too */
#define FPISA_QUERY_BITMAP 0x04	   /* a filter: a bit for each key from 0 on */
#define FPISA_QUERY_BLOOM 0x08	   /* a filter: of any keys, with some false positives */
#define FPISA_QUERY_FILTER (FPISA_QUERY_BITMAP | FPISA_QUERY_BLOOM)

/* The parameters for which a program is specialised: constants when it is loaded. */
struct fpisa_query_config {
	__u32 job;
	__u32 master;	 /* rank of the master: the last */
	__u32 key_bytes; /* 4, 8, 16 or 32 */
	__u32 row_bytes;
	__u32 limit;	    /* topn: N; table: most groups */
	__u32 bucket_mask;  /* table: buckets - 1, a power of two less one */
	__u32 flags;	    /* FPISA_QUERY_* */
	__u32 filter_bytes; /* first bytes of a row's key that are its join key */
	__u32 filter_mask;  /* blocks of the filter - 1, a power of two less one */
	__u32 form;	    /* enum fpisa_value_form */
	__u64 seed;	    /* random seed of the hash */
};

/* -- rows -------------------------------------------------------------------- */

/* What the values of a query are: `format` of its frames, and of its WELCOME. Only a table has other values than reals. */
enum fpisa_value_form {
	FPISA_FORM_REAL = FPISA_FORMAT_FP32,   /* 4 bytes */
	FPISA_FORM_DOUBLE = FPISA_FORMAT_FP64, /* 8 bytes */
	FPISA_FORM_INT64 = 16,		       /* 8 bytes, two's complement */
	FPISA_FORM_INT128 = 17,		       /* 16 bytes, two's complement */
};

/*
 * A row in a frame: the key, the value, and for keys of 8 bytes or more a word with the number of database rows for
 * which the row stands. A value of 8 bytes or more and that word are followed by 4 bytes of zeros.
 */
struct fpisa_row {
	__u64 key[FPISA_KEY_WORDS]; /* zero beyond its bytes */
	__u32 value;		    /* a real */
	__u32 count;		    /* with FPISA_ROW_* */
	__u64 wide[2];		    /* a double; or an integer of 128 bits, its low half first */
};

/* fpisa_row.count: for rows that a worker has aggregated before. */
#define FPISA_ROW_NO_SUM 0x40000000u   /* the value is only a least or greatest one */
#define FPISA_ROW_NO_ORDER 0x80000000u /* the value is only a term of a sum */
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

/* Return the payload of `count` rows, entries or words of `bytes` bytes each. */
static __always_inline __u32 fpisa_query_payload(__u32 count, __u32 bytes)
{
	return (count * bytes + FPISA_QUERY_PAD - 1) & ~(FPISA_QUERY_PAD - 1u);
}

/* Load the wide value of a row at *p, and the word after it. */
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

/* Load the row at *p, whose key has `key_bytes` bytes; the key, the value and the word are within the frame. */
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

/* Frames of one worker that have been taken: bit d of `taken` is sequence high - d; see window.h. */
struct fpisa_query_window {
	__u64 high;
	__u64 taken;
};

/*
 * State of a whole query, one entry. A CPU that moves `lock` from 0 to 1 owns it, with the heap
 * or the table and the filter, until it swaps 0 back. Only epoch, bar, `filter` and the contents of the filter
 * are read without the lock.
 */
struct fpisa_query_state {
	__u64 lock;
	__u64 bar;     /* topn: one more than the Nth key, in the order of keys; 0: fewer than N so far */
	__u32 epoch;   /* the generation whose rows are counted here; 0: none yet */
	__u32 used;    /* keys in the heap; groups in the table */
	__u32 sealed;  /* table: everything is in, and nothing more is taken */
	__u32 beyond;  /* filter: some key lies beyond the bitmap */
	__u64 filter;  /* the epoch << 32 | enum fpisa_filter_state; in another epoch: the filter is being built */
	__u64 built;   /* filter: workers whose keys are all in */
	__u64 barrier; /* never written; an atomic add of 0 to it orders loads */
	struct fpisa_query_window window[FPISA_MAX_WORKERS]; /* topn: only `high` */
};

/* Rows, on one CPU. */
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

/* Places of the groups whose keys have one hash: the epoch << 32 | number << 8 | tag of the key. */
#define FPISA_WAYS 8

struct fpisa_bucket {
	__u64 way[FPISA_WAYS];
};

/*
 * 256 bits of a filter, 32 a word: the epoch << 32 | bits. A word of another epoch is empty, so a new one begins
 * without clearing.
 */
#define FPISA_FILTER_WORDS 8
#define FPISA_FILTER_BLOCK_KEYS 256 /* keys in a block of a bitmap */
#define FPISA_FILTER_BLOOM_KEYS 16  /* a Bloom filter has a block for this many keys or more */
#define FPISA_MAX_FILTER_LOG 20	    /* blocks: 64 MB */

struct fpisa_filter_block {
	__u64 word[FPISA_FILTER_WORDS];
};

/* One limb more than a slot has: a job adds 64 values at most, a group any number. */
#define FPISA_GROUP_LIMBS (FPISA_LIMBS + 1)

/*
 * A group, in the table and in GROUPS.
 *
 * real		the sum is the sum of limb[i] x 2^(32 i - 149)
 * double	the sum is the sum of limb[i + FPISA_WIDE_FIRST] x 2^(32 (i + window - 1) - 1074). The group's first value
 *		that is neither 0 nor special sets the window, for good. A value outside of it goes to the master
 * integers	the sum has 192 bits, in two's complement. Up to 2^64 values of 128 bits fit
 */
struct fpisa_query_group {
	__u64 key[FPISA_KEY_WORDS];
	__u64 count;
	union {
		struct {
			__u32 min, max; /* reals, order.h; without a value min is above max */
		};
		struct {
			__u32 window; /* doubles: one more than the lowest limb's place; 0: not set yet */
			__u32 next;   /* doubles, only at the master: one more than the key's next group; 0: none */
		};
	};
	__u32 specials; /* FPISA_GROUP_* */
	__u32 pad;
	union {
		__s64 limb[FPISA_GROUP_LIMBS];
		struct {
			__u64 least, most; /* doubles, order.h; without a value least is above most */
		};
		struct {
			__u64 lowest[2], highest[2]; /* integers + 2^127, the low half first; as above */
			__u64 sum[3];		     /* the low word first */
		};
	};
};

_Static_assert(sizeof(struct fpisa_query_group) == 128, "two cache lines, and a multiple of FPISA_QUERY_PAD");

#define FPISA_WIDE_FIRST 2 /* the first limb of a double's sum: least and most are before it */
#define FPISA_WIDE_LIMBS (FPISA_GROUP_LIMBS - FPISA_WIDE_FIRST)
#define FPISA_WIDE_WINDOWS (64 - 2) /* the highest: its middle limb is the last in which a value begins */
/* Limbs in which a value may begin. It reaches into the next one, and the last takes carries. */
#define FPISA_WIDE_PLACES 5

_Static_assert(FPISA_WIDE_PLACES + 2 == FPISA_WIDE_LIMBS, "a limb on top that only carries reach");

/* fpisa_group.specials: special values in the sum */
#define FPISA_GROUP_NAN 1u
#define FPISA_GROUP_PINF 2u
#define FPISA_GROUP_NINF 4u

/*
 * Carry from limb `from` up. A limb takes 2^7 adds of at most 2^55 between two carries (fpisa_limb_full()). The
 * uppermost is not carried: it holds 2^95 of the largest reals, or 2^43 of the largest doubles of a window.
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

/* Fill in *q, except the seed, from the job of a query. */
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

/* -- the filter's state, whose rules filter.h has ------------------------------- */

/* The decision that the first rows of the epoch made. */
enum fpisa_filter_state {
	FPISA_FILTER_BUILDING, /* there have been no rows yet */
	FPISA_FILTER_WHOLE,
	FPISA_FILTER_BEYOND, /* the bitmap is whole, but some keys lie beyond its end: rows with such keys pass */
	FPISA_FILTER_OPEN,   /* some worker's keys were missing: all rows pass */
};

/* Begin an epoch: the filter is empty. The caller holds the lock. */
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

/* Return the workers whose keys are partly missing. */
static __always_inline __u64 fpisa_filter_missing(const struct fpisa_query_state *s, const struct fpisa_query_config *q)
{
	return ((1ull << (q->master & 63)) - 1) & ~s->built;
}

#endif
