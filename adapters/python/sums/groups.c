/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Sums by groups. A group has an integer of 128 bits, in a unit that all groups share:
 * a value within 42 powers of two is one multiplication and one add. Values of other
 * magnitudes, and specials, go to a superaccumulator that their group gets then.
 */
#include <stdint.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "inner.h"

#define RANGE 42	       /* 53 bits moved by as many, 2^31 times, stay below 2^126 */
#define MARGIN 6	       /* of these for values larger than the first block's */
#define MOST_ADDS (1ull << 31) /* between drains */
#define AHEAD 24	       /* values between a prefetch and its use */

struct pair {
	double x;
	__s64 code;
};

struct sums_groups {
	__s64 n;
	int low;    /* the exponent field whose unit cells have, 1 or more; 0 before the first value */
	__u64 adds; /* since the last drain */
	__int128 *cell;
	__u64 *rows;		       /* NULL: not counted */
	struct fpisa_superacc **spill; /* n of them, NULL where nothing was spilt; itself NULL if nowhere */
};

/* Memory in huge pages, where there are some: most adds would miss the TLB otherwise. free() takes it. */
static void *huge(size_t bytes)
{
	const size_t page = 2 << 20, whole = (bytes + page - 1) & ~(page - 1);
	void *p = bytes < 2 * page ? malloc(bytes + 1) : aligned_alloc(page, whole);

	if (p && bytes >= 2 * page)
		(void)madvise(p, whole, MADV_HUGEPAGE);
	return p;
}

static void *huge_zeroed(size_t bytes)
{
	void *p = huge(bytes);

	return p ? memset(p, 0, bytes) : NULL;
}

struct sums_groups *sums_groups_new(__s64 groups, int count)
{
	struct sums_groups *g = calloc(1, sizeof(*g));

	if (!g || groups < 0 || groups >= 1ll << 40)
		goto fail;
	g->n = groups;
	g->cell = huge_zeroed((size_t)groups * sizeof(*g->cell));
	g->rows = count ? huge_zeroed((size_t)groups * sizeof(*g->rows)) : NULL;
	if (!g->cell || (count && !g->rows))
		goto fail;
	return g;
fail:
	sums_groups_free(g);
	return NULL;
}

void sums_groups_free(struct sums_groups *g)
{
	if (!g)
		return;
	for (__s64 i = 0; g->spill && i < g->n; i++)
		free(g->spill[i]);
	free(g->spill);
	free(g->rows);
	free(g->cell);
	free(g);
}

/* -- what cells do not take ---------------------------------------------------------- */

static int enlarge(struct fpisa_superacc **a, struct fpisa_superacc_window w)
{
	struct fpisa_superacc *larger = realloc(*a, fpisa_superacc_size(w.limbs));

	if (!larger)
		return -ENOMEM;
	*a = larger;
	fpisa_superacc_move(larger, w);
	return 0;
}

/* Where the group's superaccumulator is, which it gets here. NULL: no memory. */
static struct fpisa_superacc **spilt(struct sums_groups *g, __s64 group)
{
	if (!g->spill)
		g->spill = calloc((size_t)g->n, sizeof(*g->spill));
	if (g->spill && !g->spill[group])
		g->spill[group] = calloc(1, fpisa_superacc_size(0));
	return g->spill && g->spill[group] ? &g->spill[group] : NULL;
}

static int spill(struct sums_groups *g, __s64 group, double x)
{
	struct fpisa_superacc **a = spilt(g, group);

	if (!a)
		return -ENOMEM;
	while (fpisa_superacc_add(*a, sums_bits(x), sums_format(), 0))
		if (enlarge(a, fpisa_superacc_reach(*a, sums_bits(x), sums_format())))
			return -ENOMEM;
	return 0;
}

/* A cell into its superaccumulator. As doubles it would be infinite where it is beyond 2^1024. */
static int spill_cell(struct sums_groups *g, __s64 group)
{
	struct fpisa_superacc **a;
	union fpisa_superacc_full cell;

	if (!g->cell[group])
		return 0;
	a = spilt(g, group);
	if (!a)
		return -ENOMEM;
	sums_init(&cell);
	sums_add_scaled(&cell, g->cell[group], g->low - 1075);
	fpisa_superacc_narrow(&cell.acc);
	while (fpisa_superacc_merge(*a, &cell.acc))
		if (enlarge(a, fpisa_superacc_cover(*a, &cell.acc, sums_format())))
			return -ENOMEM;
	g->cell[group] = 0;
	return 0;
}

static int drain(struct sums_groups *g)
{
	for (__s64 i = 0; i < g->n; i++)
		if (spill_cell(g, i))
			return -ENOMEM;
	g->adds = 0;
	return 0;
}

/* -- adding --------------------------------------------------------------------------- */

static void choose_unit(struct sums_groups *g, const double *x, size_t n)
{
	int highest = 0;

	for (size_t i = 0; i < n; i++) {
		int e = (int)sums_exponent(sums_bits(x[i]));

		highest = e > highest && e < (int)SUMS_INFINITE ? e : highest;
	}
	g->low = highest + MARGIN - RANGE > 1 ? highest + MARGIN - RANGE : 1;
}

/* AHEAD pairs behind the last can be read. */
static __always_inline int add_values(struct sums_groups *g, const struct pair *pair, size_t n, int count)
{
	const int low = g->low;
	const __u64 groups = (__u64)g->n;
	__int128 *cell = g->cell;
	__u64 *rows = g->rows;

	for (size_t i = 0; i < n; i++) {
		const __u64 bits = sums_bits(pair[i].x), group = (__u64)pair[i].code;
		const int e = (int)sums_exponent(bits), place = e + !e - low;
		const __s64 sign = (__s64)bits >> 63;

		/* Any address will do: a prefetch does not fault. */
		__builtin_prefetch((const void *)((uintptr_t)cell + sizeof(*cell) * (__u64)pair[i + AHEAD].code), 1);
		if (fpisa_unlikely(group >= groups)) {
			if (pair[i].code >= 0)
				return -ERANGE;
			continue;
		}
		if (count)
			rows[group]++;
		if (fpisa_likely((__u32)place <= RANGE && e != (int)SUMS_INFINITE))
			cell[group] += (__int128)(((__s64)sums_mantissa(bits) ^ sign) - sign) * (1ll << place);
		else if (bits << 1 && spill(g, (__s64)group, pair[i].x))
			return -ENOMEM;
	}
	return 0;
}

static int add_pairs(struct sums_groups *g, const struct pair *pair, size_t n, int count)
{
	g->adds += n;
	return count && g->rows ? add_values(g, pair, n, 1) : add_values(g, pair, n, 0);
}

/* At most SUMS_BLOCK values as pairs; a null is of no group. */
static void fetch_pairs(struct sums_groups *g, const struct sums_array *x, double scale, const __s64 *code, __s64 at,
			size_t n, struct pair *pair)
{
	double buffer[SUMS_BLOCK];

	(void)sums_fetch_all(x, at, n, buffer);
	for (size_t i = 0; scale != 1 && i < n; i++)
		buffer[i] *= scale;
	if (!g->low)
		choose_unit(g, buffer, n);
	for (size_t i = 0; i < n; i++)
		pair[i] = (struct pair){buffer[i], code[at + (__s64)i]};
	for (size_t i = 0; x->valid && i < n; i++)
		if (!sums_is_valid(x, at + (__s64)i))
			pair[i].code = -1;
}

/* x times a power of two. */
static int add_array(struct sums_groups *g, const struct sums_array *x, double scale, int count, const __s64 *code)
{
	struct pair pair[SUMS_BLOCK + AHEAD] = {0};
	int rc = 0;

	for (__s64 at = 0; at < x->n && !rc; at += SUMS_BLOCK) {
		size_t n = x->n - at < SUMS_BLOCK ? (size_t)(x->n - at) : SUMS_BLOCK;

		fetch_pairs(g, x, scale, code, at, n, pair);
		rc = add_pairs(g, pair, n, count);
		if (!rc && g->adds >= MOST_ADDS - SUMS_BLOCK)
			rc = drain(g);
	}
	return rc;
}

int sums_groups_add(struct sums_groups *g, const struct sums_array *x, const __s64 *code)
{
	struct sums_array half[2];
	fenv_t env;
	int rc;

	if (!sums_type_size(x->type) || x->n < 0)
		return -EINVAL;
	(void)fegetenv(&env);
	(void)fesetenv(FE_DFL_ENV);
	if (sums_halves(x, half) == 2) {
		rc = add_array(g, &half[1], SUMS_HALF, 0, code);
		rc = rc ? rc : add_array(g, &half[0], 1, 1, code);
	} else {
		rc = add_array(g, x, 1, 1, code);
	}
	(void)fesetenv(&env);
	return rc;
}

/* -- reading --------------------------------------------------------------------------- */

int sums_groups_get(const struct sums_groups *g, __s64 group, union fpisa_superacc_full *a)
{
	__u64 had = a->acc.rows, rows;

	if (group < 0 || group >= g->n)
		return -ERANGE;
	rows = g->rows ? g->rows[group] : 0;
	if ((had + rows) >> 63)
		return -ERANGE;
	if (g->spill && g->spill[group])
		(void)fpisa_superacc_merge(&a->acc, g->spill[group]);
	if (g->cell[group])
		sums_add_scaled(a, g->cell[group], g->low - 1075);
	a->acc.rows = had + rows;
	return 0;
}

/* A cell alone, which is what most groups have: nothing but its 128 bits is looked at. */
static __u64 read_cell(const struct sums_groups *g, __s64 group, struct fpisa_format to, int average)
{
	const __int128 m = g->cell[group];
	unsigned __int128 size = m < 0 ? -(unsigned __int128)m : (unsigned __int128)m;
	struct fpisa_magnitude x = {.negative = m < 0, .at = g->low - 1};
	__u32 flags = 0;

	for (; size; size >>= 32)
		x.digit[x.n++] = (__u32)size;
	if (average)
		fpisa_magnitude_divide(&x, g->rows[group]);
	return fpisa_magnitude_round(&x, sums_format(), to, &flags);
}

int sums_groups_read(const struct sums_groups *g, int format, int average, void *out)
{
	struct fpisa_format to = fpisa_format_of((__u8)format);
	union fpisa_superacc_full a;

	if (average && !g->rows)
		return -EINVAL;
	to.rbits = 64;
	for (__s64 i = 0; i < g->n; i++) {
		if ((g->spill && g->spill[i]) || (average && !g->rows[i])) {
			sums_init(&a);
			(void)sums_groups_get(g, i, &a);
			(void)sums_store(&a, format, average, out);
		} else {
			__u64 bits = read_cell(g, i, to, average);

			memcpy(out, &bits, to.bytes);
		}
		out = (char *)out + to.bytes;
	}
	return 0;
}

/* -- keys -------------------------------------------------------------------------------- */

struct slot {
	__s64 key, code; /* code + 1; 0: empty */
};

/* The seed is another one for each table, so nobody can choose keys that collide. */
struct table {
	struct slot *slots;
	int bits;
	__u64 seed[2];
};

static __always_inline __u64 hash(const struct table *t, __s64 key)
{
	unsigned __int128 h = (unsigned __int128)((__u64)key ^ t->seed[0]) * t->seed[1];

	return ((__u64)h ^ (__u64)(h >> 64)) * 0x9e3779b97f4a7c15 >> (64 - t->bits);
}

/* The key's slot, or the empty one where it belongs. */
static __always_inline struct slot *find(const struct table *t, __s64 key)
{
	__u64 at = hash(t, key);

	while (t->slots[at].code && t->slots[at].key != key)
		at = (at + 1) & ((1ull << t->bits) - 1);
	return &t->slots[at];
}

static void twice(struct table *t)
{
	struct table larger = *t;

	larger.bits++;
	larger.slots = calloc(1ull << larger.bits, sizeof(*larger.slots));
	for (__u64 i = 0; larger.slots && i < 1ull << t->bits; i++)
		if (t->slots[i].code)
			*find(&larger, t->slots[i].key) = t->slots[i];
	free(t->slots);
	*t = larger;
}

static struct table new_table(void)
{
	struct table t = {.bits = 10};

	/* Without a source of randomness the addresses of the process have to do. */
	if (getrandom(t.seed, sizeof(t.seed), 0) != sizeof(t.seed))
		t.seed[0] = t.seed[1] = (uintptr_t)&t * 0xd6e8feb86659fd93;
	t.seed[1] |= 1;
	t.slots = calloc(1ull << t.bits, sizeof(*t.slots));
	return t;
}

__s64 sums_number(const __s64 *key, __s64 n, __s64 *code, __s64 *first)
{
	struct table t = new_table();
	__s64 groups = 0;

	for (__s64 i = 0; t.slots && i < n; i++) {
		struct slot *s = find(&t, key[i]);

		if (!s->code) {
			first[groups] = i;
			*s = (struct slot){key[i], ++groups};
		}
		code[i] = s->code - 1;
		if (2 * (__u64)groups >= 1ull << t.bits)
			twice(&t);
	}
	free(t.slots);
	return t.slots ? groups : -ENOMEM;
}
