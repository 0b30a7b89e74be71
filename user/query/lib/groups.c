/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Groups in memory. groups.h documents the functions. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "groups.h"
#include "lib/base/error.h"

static inline struct fpisa_bucket *fpisa_bucket_at(void *table, __u32 i)
{
	struct fpisa_groups *g = table;

	return i <= g->config.bucket_mask ? &g->buckets[i] : NULL;
}

static inline struct fpisa_query_group *fpisa_group_at(void *table, __u32 i)
{
	struct fpisa_groups *g = table;

	return i < g->config.limit ? &g->group[i] : NULL;
}

static inline void fpisa_group_carry(struct fpisa_query_group *g, __u32 from)
{
	fpisa_carry(g, from);
}

/* Groups at the master do not have a filter before them. */
static inline struct fpisa_filter_block *fpisa_filter_at(void *filter, __u32 i)
{
	(void)filter;
	(void)i;
	return NULL;
}

#include "fpisa/query/table.h"

#define FIRST FPISA_GROUPS_FIRST /* also the initial number of buckets, each of which has room for eight groups */
#define EPOCH 1
/* flags in fpisa_query_group.pad */
/* the group was in the aggregator's table; except for doubles, the table had all rows of the group's key */
#define FROM_TABLE 1u
#define FURTHER 2u /* a further group of a key of doubles, which is not in a bucket */

static int no_memory(const struct fpisa_groups *g)
{
	return fpisa_fail(-ENOMEM, "not enough memory for more than %u keys; " FPISA_MORE_MEMORY, g->state.used);
}

/* Enter all groups into buckets. Return -ENOSPC if a bucket is full. */
static int fill(struct fpisa_groups *g, struct fpisa_bucket *buckets, uint32_t mask)
{
	for (uint32_t i = 0; i < g->state.used; i++) {
		uint64_t hash = fpisa_hash_key(g->config.seed, g->group[i].key, g->config.key_bytes);
		struct fpisa_bucket *b = &buckets[(uint32_t)(hash >> 16) & mask];
		uint32_t way = 0;

		if (g->group[i].pad & FURTHER)
			continue;
		while (way < FPISA_WAYS && b->way[way])
			way++;
		if (way == FPISA_WAYS)
			return -ENOSPC;
		b->way[way] = (uint64_t)EPOCH << 32 | (uint64_t)i << 8 | hash >> 56;
	}
	return 0;
}

static int too_many(const struct fpisa_groups *g)
{
	return fpisa_fail(-ENOMEM,
			  "the answer has more than %u keys, which do not fit options.memory (%llu bytes); "
			  "raise options.memory, or list fewer columns in options.by",
			  g->state.used, (unsigned long long)g->most);
}

/* Return whether this number of buckets and groups takes too many bytes. */
static int is_over(const struct fpisa_groups *g, uint64_t buckets, uint64_t groups)
{
	return buckets * sizeof(*g->buckets) + groups * sizeof(*g->group) > g->most;
}

/* Double the room for groups, or use all room that is left. */
static int more_groups(struct fpisa_groups *g)
{
	uint64_t limit = 2ull * g->config.limit, taken = (g->config.bucket_mask + 1ull) * sizeof(*g->buckets);
	struct fpisa_query_group *group;

	if (g->config.limit >= FPISA_MAX_LIMIT_TABLE)
		return fpisa_fail(-ENOMEM,
				  "more than %u keys are not supported; list fewer columns in options.by, or add a "
				  "condition",
				  g->config.limit);
	if (limit > FPISA_MAX_LIMIT_TABLE)
		limit = FPISA_MAX_LIMIT_TABLE;
	if (is_over(g, g->config.bucket_mask + 1ull, limit))
		limit = g->most > taken ? (g->most - taken) / sizeof(*group) : 0;
	if (limit <= g->config.limit)
		return too_many(g);
	group = realloc(g->group, limit * sizeof(*group));
	if (!group)
		return no_memory(g);
	g->group = group;
	g->config.limit = (uint32_t)limit;
	return 0;
}

/* Double the number of buckets until no bucket is full. */
static int more_buckets(struct fpisa_groups *g)
{
	uint32_t n = g->config.bucket_mask + 1;
	struct fpisa_bucket *buckets;
	int rc;

	do {
		n *= 2;
		if (is_over(g, n, g->config.limit))
			return too_many(g);
		buckets = calloc(n, sizeof(*buckets));
		if (!buckets)
			return no_memory(g);
		rc = fill(g, buckets, n - 1);
		if (rc)
			free(buckets);
	} while (rc);
	free(g->buckets);
	g->buckets = buckets;
	g->config.bucket_mask = n - 1;
	return 0;
}

int fpisa_groups_init(struct fpisa_groups *g, uint32_t key_bytes, uint32_t form, uint64_t most)
{
	*g = (struct fpisa_groups){
		.config = {.key_bytes = key_bytes, .form = form, .limit = FIRST, .bucket_mask = FIRST - 1},
		.most = most ? most : ~0ull};
	g->state.epoch = EPOCH;
	g->of_doubles = (struct fpisa_query_config){.key_bytes = key_bytes, .form = FPISA_FORM_DOUBLE};
	g->buckets = calloc(FIRST, sizeof(*g->buckets));
	g->group = malloc(FIRST * sizeof(*g->group));
	if (!g->buckets || !g->group)
		return no_memory(g);
	/* Keys come from other hosts, which must not be able to choose keys of the same bucket. */
	if (getrandom(&g->config.seed, sizeof(g->config.seed), 0) != sizeof(g->config.seed))
		return fpisa_fail(-EIO, "cannot get random numbers: %s; allow this process to call getrandom()",
				  strerror(errno));
	return 0;
}

void fpisa_groups_free(struct fpisa_groups *g)
{
	free(g->buckets);
	free(g->group);
	free(g->order);
	*g = (struct fpisa_groups){0};
}

static int spill_failed(int rc)
{
	return fpisa_fail(rc, "cannot write the keys that do not fit options.memory: %s", fpisa_why(rc));
}

/*
 * Spill a group as a record. A record begins with the key, which is padded with zeros, so that sorting puts the records
 * of one key next to each other.
 */
static int put_record(struct fpisa_groups *g, const struct fpisa_query_group *group)
{
	struct fpisa_query_group record = *group;
	int rc;

	memset((char *)record.key + g->config.key_bytes, 0, sizeof(record.key) - g->config.key_bytes);
	record.pad &= FROM_TABLE;
	if (fpisa_groups_config(g, record.key)->form == FPISA_FORM_DOUBLE)
		record.next = 0;
	rc = g->spill->put(g->spill_arg, &record, sizeof(record));
	return rc ? spill_failed(rc) : 0;
}

static int spill(struct fpisa_groups *g)
{
	int rc = 0;

	for (uint32_t i = 0; !rc && i < g->state.used; i++)
		rc = put_record(g, &g->group[i]);
	g->state.used = 0;
	memset(g->recent, 0xff, sizeof(g->recent));
	memset(g->buckets, 0, (g->config.bucket_mask + 1ull) * sizeof(*g->buckets));
	g->spilled = 1;
	return rc;
}

/* Return where the group of a key may be noted. Other hosts can choose keys with equal hashes, which only costs time. */
static uint32_t *recent(struct fpisa_groups *g, const __u64 *key)
{
	__u64 hash = key[0] + key[1] * 0x9e3779b97f4a7c15ull + key[2] * 0xbf58476d1ce4e5b9ull +
		     key[3] * 0x94d049bb133111ebull;

	return &g->recent[hash * 0xd6e8feb86659fd93ull >> 32 & (FPISA_GROUPS_RECENT - 1)];
}

/* Return the group of the row's key if it is noted, or NULL. */
static inline struct fpisa_query_group *find_noted(struct fpisa_groups *g, const struct fpisa_row *r)
{
	uint32_t i = g->state.used <= FPISA_GROUPS_RECENT ? *recent(g, r->key) : g->state.used;

	return i < g->state.used && fpisa_key_equal(&g->config, g->group[i].key, r->key) ? &g->group[i] : NULL;
}

/*
 * Return the group of the row's key, and set *is_new if the group is new. Return NULL and set *rc if the group cannot
 * be created. Note the group.
 */
static __attribute__((noinline)) struct fpisa_query_group *find(struct fpisa_groups *g, const struct fpisa_row *r,
								int *is_new, int *rc)
{
	uint32_t before = g->state.used;
	struct fpisa_query_group *at;

	*rc = *is_new = 0;
	while (!(at = fpisa_table_find(&g->state, &g->config, g, r))) {
		*rc = g->state.used == g->config.limit ? more_groups(g) : more_buckets(g);
		if (*rc == -ENOMEM && g->spill && g->state.used)
			*rc = spill(g);
		if (*rc)
			return NULL;
		before = g->state.used;
	}
	*is_new = g->state.used != before;
	if (before <= FPISA_GROUPS_RECENT)
		*recent(g, r->key) = (uint32_t)(at - g->group);
	return at;
}

/*
 * Create another group for the key of group *at, and set *at to the new group. Return 0, -ENOMEM or another error.
 * After an error the key's groups may have been spilled.
 */
static int add_further(struct fpisa_groups *g, struct fpisa_query_group **at)
{
	uint32_t last = (uint32_t)(*at - g->group), i = g->state.used;
	int rc = i == g->config.limit ? more_groups(g) : 0;
	struct fpisa_query_group *further;

	if (rc)
		return rc;
	g->state.used++;
	further = &g->group[i];
	fpisa_group_begin(fpisa_groups_config(g, g->group[last].key), further);
	memcpy(further->key, g->group[last].key, sizeof(further->key));
	further->pad = FURTHER;
	g->group[last].next = i + 1;
	*at = further;
	return 0;
}

/* Add a double that does not fit into the limbs of the key's first group. */
static int add_beyond(struct fpisa_groups *g, struct fpisa_query_group *at, const struct fpisa_row *r)
{
	const struct fpisa_query_config *config = fpisa_groups_config(g, r->key);
	int rc = 0;

	while (at->next && !fpisa_group_fits(config, at, r))
		at = &g->group[at->next - 1];
	if (!fpisa_group_fits(config, at, r))
		rc = add_further(g, &at);
	if (rc == -ENOMEM && g->spill) {
		rc = spill(g);
		return rc ? rc : fpisa_groups_add(g, r);
	}
	if (!rc)
		fpisa_group_add(config, at, r);
	return rc;
}

/* Let a new group begin with the form of its values. */
static void begin_new(const struct fpisa_query_config *config, struct fpisa_query_group *at)
{
	struct fpisa_query_group begun;

	fpisa_group_begin(config, &begun);
	memcpy(begun.key, at->key, sizeof(begun.key));
	*at = begun;
}

int fpisa_groups_add(struct fpisa_groups *g, const struct fpisa_row *r)
{
	const struct fpisa_query_config *config = fpisa_groups_config(g, r->key);
	struct fpisa_query_group *at = find_noted(g, r);
	int rc, is_new = 0;

	if (!at)
		at = find(g, r, &is_new, &rc);
	if (!at)
		return rc;
	if (is_new && config != &g->config)
		begin_new(config, at);
	if (!fpisa_group_fits(config, at, r))
		return add_beyond(g, at, r);
	fpisa_group_add(config, at, r);
	return 0;
}

/* Insert a further group of doubles for a key that already exists. */
static int put_further(struct fpisa_groups *g, struct fpisa_query_group *at, const struct fpisa_query_group *group)
{
	int rc;

	for (; at->next && !(at->pad & FROM_TABLE); at = &g->group[at->next - 1])
		;
	if (at->pad & FROM_TABLE)
		return -EEXIST;
	rc = add_further(g, &at);
	if (rc == -ENOMEM && g->spill) {
		rc = spill(g);
		return rc ? rc : fpisa_groups_put(g, group);
	}
	if (rc)
		return rc;
	*at = *group;
	at->pad = FROM_TABLE | FURTHER;
	return 0;
}

int fpisa_groups_put(struct fpisa_groups *g, const struct fpisa_query_group *group)
{
	struct fpisa_row r = {.count = FPISA_ROW_NO_ORDER | FPISA_ROW_NO_SUM};
	struct fpisa_query_group *at;
	int rc, is_new;

	memcpy(r.key, group->key, sizeof(r.key));
	at = find(g, &r, &is_new, &rc);
	if (!at)
		return rc;
	if (!is_new)
		return g->config.form == FPISA_FORM_DOUBLE ? put_further(g, at, group) : -EEXIST;
	*at = *group;
	at->pad = FROM_TABLE;
	return 0;
}

static int by_key(const void *a, const void *b, void *groups)
{
	const struct fpisa_groups *g = groups;
	const uint32_t *x = a, *y = b;

	return memcmp(g->group[*x].key, g->group[*y].key, g->config.key_bytes);
}

static int set_order(struct fpisa_groups *g)
{
	g->order = malloc((g->state.used + 1ull) * sizeof(*g->order));
	if (!g->order)
		return no_memory(g);
	for (uint32_t i = 0; i < g->state.used; i++)
		g->order[i] = i;
	qsort_r(g->order, g->state.used, sizeof(*g->order), by_key, g);
	return 0;
}

int fpisa_groups_settle(struct fpisa_groups *g)
{
	int rc = g->spilled ? spill(g) : g->ordered ? set_order(g) : 0;

	if (!g->spilled || rc)
		return rc;
	free(g->buckets);
	free(g->group);
	g->buckets = NULL;
	g->group = NULL;
	rc = g->spill->take(g->spill_arg, &g->ahead, sizeof(g->ahead));
	g->is_ahead = rc > 0;
	return rc < 0 ? spill_failed(rc) : 0;
}

/* -- the answer ----------------------------------------------------------------------------- */

/*
 * Add one record of reals to another. A carried limb has 32 bits, so the sum of two carried limbs has at most 33 bits.
 */
static void merge_reals(struct fpisa_query_group *to, struct fpisa_query_group *from)
{
	fpisa_carry(from, 0);
	for (uint32_t i = 0; i < FPISA_GROUP_LIMBS; i++)
		to->limb[i] += from->limb[i];
	fpisa_carry(to, 0);
	to->min = from->min < to->min ? from->min : to->min;
	to->max = from->max > to->max ? from->max : to->max;
}

static void merge_integers(struct fpisa_query_group *to, const struct fpisa_query_group *from)
{
	uint64_t carry = 0;

	for (int i = 0; i < 3; i++) {
		unsigned __int128 sum = (unsigned __int128)to->sum[i] + from->sum[i] + carry;

		to->sum[i] = (uint64_t)sum;
		carry = (uint64_t)(sum >> 64);
	}
	if (fpisa_below128(from->lowest, to->lowest))
		memcpy(to->lowest, from->lowest, sizeof(to->lowest));
	if (fpisa_below128(to->highest, from->highest))
		memcpy(to->highest, from->highest, sizeof(to->highest));
}

/*
 * Add the limbs of a record to the total. The uppermost limb of a record is not carried, so carry the total
 * immediately.
 */
static void add_limbs(struct fpisa_superacc *total, struct fpisa_query_group *from)
{
	__s64 *limb = total->limb + from->window - 1;

	fpisa_carry(from, FPISA_WIDE_FIRST);
	for (uint32_t i = 0; i < FPISA_WIDE_LIMBS; i++)
		limb[i] = (__s64)((__u64)limb[i] + (__u64)from->limb[FPISA_WIDE_FIRST + i]);
	(void)fpisa_superacc_carry(total);
}

static void merge_doubles(struct fpisa_groups *g, struct fpisa_query_group *from)
{
	struct fpisa_query_group *to = &g->merged;

	if (from->window)
		add_limbs(&g->total.acc, from);
	to->least = from->least < to->least ? from->least : to->least;
	to->most = from->most > to->most ? from->most : to->most;
}

/* Add a record to `merged` of the groups. */
static void merge(struct fpisa_groups *g, struct fpisa_query_group *from)
{
	const uint32_t form = fpisa_groups_config(g, from->key)->form;

	g->merged.count += from->count;
	g->merged.specials |= from->specials;
	if (form == FPISA_FORM_DOUBLE)
		merge_doubles(g, from);
	else if (fpisa_form_is_integer(form))
		merge_integers(&g->merged, from);
	else
		merge_reals(&g->merged, from);
}

/* Set `merged` of the groups to the record. */
static void begin_merged(struct fpisa_groups *g, const struct fpisa_query_group *from)
{
	struct fpisa_query_group first = *from;

	fpisa_group_begin(fpisa_groups_config(g, from->key), &g->merged);
	memcpy(g->merged.key, from->key, sizeof(g->merged.key));
	fpisa_superacc_init(&g->total.acc, sizeof(g->total));
	g->total.acc.limbs = FPISA_SUPERACC_MOST;
	merge(g, &first);
}

static int next_record(struct fpisa_groups *g)
{
	uint32_t from_table;
	int rc = 1;

	if (!g->is_ahead)
		return 0;
	begin_merged(g, &g->ahead);
	from_table = g->ahead.pad & FROM_TABLE;
	while ((rc = g->spill->take(g->spill_arg, &g->ahead, sizeof(g->ahead))) > 0 &&
	       fpisa_key_equal(&g->config, g->merged.key, g->ahead.key)) {
		uint32_t is = g->ahead.pad & FROM_TABLE;

		if (from_table & is || ((from_table | is) && g->config.form != FPISA_FORM_DOUBLE))
			return -EEXIST;
		from_table |= is;
		merge(g, &g->ahead);
	}
	g->is_ahead = rc > 0;
	return rc < 0 ? spill_failed(rc) : 1;
}

/* Return the next group in memory. */
static struct fpisa_query_group *group_at(const struct fpisa_groups *g)
{
	return &g->group[g->order ? g->order[g->next] : g->next];
}

/* Add up all groups of the next key. Only a key of doubles may have several. */
static int next_key(struct fpisa_groups *g)
{
	struct fpisa_query_group *at, further;

	while (g->next < g->state.used && group_at(g)->pad & FURTHER)
		g->next++;
	if (g->next == g->state.used)
		return 0;
	at = group_at(g);
	g->next++;
	begin_merged(g, at);
	while (at->next) {
		at = &g->group[at->next - 1];
		further = *at;
		merge(g, &further);
	}
	return 1;
}

int fpisa_groups_next(struct fpisa_groups *g, const struct fpisa_query_group **group)
{
	*group = &g->merged;
	if (g->spilled)
		return next_record(g);
	if (g->config.form == FPISA_FORM_DOUBLE || g->doubles)
		return next_key(g);
	if (g->next == g->state.used)
		return 0;
	*group = group_at(g);
	g->next++;
	return 1;
}

static void set_specials(const struct fpisa_query_group *g, struct fpisa_superacc *a)
{
	a->rows = g->count ? g->count : 1;
	a->nan = !!(g->specials & FPISA_GROUP_NAN);
	a->pinf = !!(g->specials & FPISA_GROUP_PINF);
	a->ninf = !!(g->specials & FPISA_GROUP_NINF);
}

static void sum_reals(const struct fpisa_query_group *g, union fpisa_superacc_full *sum)
{
	struct fpisa_superacc *a = &sum->acc;

	fpisa_superacc_init(a, sizeof(*sum));
	a->limbs = (uint16_t)fpisa_superacc_most(fpisa_superacc_format(FPISA_FORMAT_FP32));
	_Static_assert(FPISA_GROUP_LIMBS + 2 <= FPISA_SUPERACC_MOST, "a group's limbs, and their carries");
	memcpy(a->limb, g->limb, sizeof(g->limb));
	(void)fpisa_superacc_carry(a);
	set_specials(g, a);
}

void fpisa_groups_sum(const struct fpisa_groups *g, const struct fpisa_query_group *group,
		      union fpisa_superacc_full *sum)
{
	if (fpisa_groups_config(g, group->key)->form != FPISA_FORM_DOUBLE) {
		sum_reals(group, sum);
		return;
	}
	*sum = g->total;
	set_specials(group, &sum->acc);
}

/*
 * Return the terms of an expansion. If the sum is out of the format's range, return the largest finite value repeatedly
 * until the rest is in range.
 */
int fpisa_group_terms(union fpisa_superacc_full *sum, struct fpisa_format f, __u64 term[FPISA_EXPANSION_TERMS])
{
	struct fpisa_magnitude x;
	int n;

	if (!sum->acc.rows)
		return 0;
	n = fpisa_superacc_expand(&sum->acc, f, term);
	if (n < 0) {
		fpisa_superacc_magnitude(&sum->acc, &x);
		term[0] = (((__u64)x.negative << f.ebits | (__u64)fpisa_exp_ones(f)) << f.mbits) - 1;
		(void)fpisa_superacc_add(&sum->acc, term[0], f, 1);
		sum->acc.rows = 1;
		return 1;
	}
	sum->acc.rows = 0;
	return n;
}

int fpisa_group_term_integer(__u64 sum[3], uint32_t form, __u64 term[2])
{
	const int words = form == FPISA_FORM_INT64 ? 1 : 2;
	const uint64_t sign = (uint64_t)((int64_t)sum[2] >> 63);
	int fits = (uint64_t)((int64_t)sum[words - 1] >> 63) == sign;
	uint64_t borrow = 0;

	if (!(sum[0] | sum[1] | sum[2]))
		return 0;
	for (int i = words; i < 3; i++)
		fits &= sum[i] == sign;
	for (int i = 0; i < 2; i++)
		term[i] = i >= words ? sign : fits ? sum[i] : ~sign ^ (i == words - 1 ? 1ull << 63 : 0);
	for (int i = 0; i < 3; i++) {
		unsigned __int128 left = (unsigned __int128)sum[i] - (i < 2 ? term[i] : sign) - borrow;

		sum[i] = (uint64_t)left;
		borrow = (uint64_t)(left >> 64) & 1;
	}
	return 1;
}
