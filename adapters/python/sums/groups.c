/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Sums by groups. Each group has a cell of two limbs in a unit that all groups share. If a value lies within SUMS_RANGE
 * powers of two, one vector addition adds it to the cell (kernel.h). Other values, infinities and NaN are added to a
 * superaccumulator, which only the groups with such values have. If the cells do not fit into a cache, the values are
 * first sorted into blocks by parts of the groups. Then the cells of one part stay in the cache while the part's values
 * are added.
 */
#include <stdint.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "internal.h"

/* powers of two in SUMS_RANGE that are reserved for values larger than those of the first block */
#define MARGIN 3
#define ADDS (1ull << 18)   /* number of adds to a cell between calls of settle() */
#define SETTLED (1ll << 61) /* upper limbs are below this value after settle() */
#define SOME 128	    /* number of values whose limbs fit into the L1 cache together */
/* copies of each cell if there are few groups, because an add waits for the previous add to the same cell */
#define COPIES 4
#define FEW 256 /* up to this number of groups there are copies of cells */
/* minimum number of bits in a group's number within a part; the cells of such a part take half a megabyte */
#define PART_BITS 15
#define MOST_PARTS_BITS 6    /* log2 of the maximum number of parts; the ends of so many parts fit into the L1 cache */
#define PARTS_FROM (1 << 17) /* number of groups from which on values are sorted by parts */
#define PAIRS 336	     /* number of values in a block */
#define AHEAD 128	     /* distance between a prefetch and its use in bytes of a block */
#define MOST_BLOCKS 7680     /* 30 MB; more blocks are not faster */
#define LINE 64		     /* size of a cache line in bytes */
#define HUGE_PAGE (2ul << 20)

_Static_assert(ADDS << SUMS_LIMB <= 1ull << 62, "lower limbs do not overflow");
_Static_assert(ADDS << (53 + SUMS_RANGE - SUMS_LIMB) <= SETTLED, "upper limbs do not overflow");

/* Values that have not been added yet, and the numbers of their groups. */
struct block {
	double x[PAIRS];
	__u32 code[PAIRS];
	__u32 next; /* index of the part's next block */
	__u32 space[15];
};

_Static_assert(sizeof(struct block) == 4096, "a page, so that an address in it tells the block and the place");

static __always_inline struct block *block_of(const char *at)
{
	return (struct block *)((uintptr_t)at & ~(uintptr_t)(sizeof(struct block) - 1));
}

static __always_inline size_t place_of(const char *at)
{
	return ((uintptr_t)at & (sizeof(struct block) - 1)) / sizeof(double);
}

/* A range of groups, whose numbers differ only in the lower `shift` bits. */
struct part {
	char *at;    /* place of the next value in the last block */
	__u32 first; /* index of the first block */
	__u64 adds;  /* number of adds since settle() */
};

struct sums_groups {
	__s64 n;
	int low;   /* exponent field that determines the unit of the cells */
	int fixed; /* nonzero if `low` must not change */
	sums_cell *cell;
	__u64 *rows; /* number of values in each group; NULL if not counted */
	/* [n] superaccumulators, with NULL for groups that have not spilt; NULL if no group has spilt */
	struct fpisa_superacc **spill;
	const struct sums_kernels *kernels;
	int shift; /* shift of a group's number that gives the number of its part */
	__u32 parts, blocks, used;
	struct part *part;
	struct block *block; /* NULL if values are added to their cells immediately */
};

/*
 * Allocate zeroed memory. Use huge pages if possible, because most adds would miss
 * the TLB otherwise. Return NULL if there is no memory.
 */
static void *zeros(size_t bytes)
{
	const size_t page = HUGE_PAGE, whole = (bytes + 2 * page) & ~(page - 1);
	char *p, *at;

	if (bytes < page)
		return calloc(1, bytes + 1);
	p = mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	at = p + (-(uintptr_t)p & (page - 1));
	if (at > p)
		(void)munmap(p, (size_t)(at - p));
	(void)munmap(at + whole, (size_t)(p + page - at));
	(void)madvise(at, whole, MADV_HUGEPAGE);
	return at;
}

static void drop(void *p, size_t bytes)
{
	const size_t page = HUGE_PAGE;

	if (bytes < page)
		free(p);
	else if (p)
		(void)munmap(p, (bytes + 2 * page) & ~(page - 1));
}

static int copies(const struct sums_groups *g)
{
	return g->n <= FEW ? COPIES : 1;
}

static size_t bytes_of_cells(const struct sums_groups *g)
{
	return (size_t)g->n * (size_t)copies(g) * sizeof(*g->cell);
}

struct sums_groups *sums_groups_new(__s64 groups, int count)
{
	struct sums_groups *g = calloc(1, sizeof(*g));

	if (!g || groups < 0 || groups >= 1ll << 40)
		goto fail;
	g->n = groups;
	g->low = 1;
	g->kernels = sums_kernels();
	while (g->shift < PART_BITS || groups >> g->shift >> MOST_PARTS_BITS)
		g->shift++;
	g->parts = groups < PARTS_FROM || groups >> 32 ? 1 : (__u32)((groups - 1) >> g->shift) + 1;
	g->part = calloc(g->parts, sizeof(*g->part));
	g->cell = zeros(bytes_of_cells(g));
	g->rows = count ? zeros((size_t)groups * sizeof(*g->rows)) : NULL;
	if (!g->part || !g->cell || (count && !g->rows))
		goto fail;
	return g;
fail:
	sums_groups_free(g);
	return NULL;
}

static void free_blocks(struct sums_groups *g)
{
	drop(g->block, g->blocks * sizeof(*g->block));
	g->block = NULL;
}

void sums_groups_free(struct sums_groups *g)
{
	if (!g)
		return;
	for (__s64 i = 0; g->spill && i < g->n; i++)
		free(g->spill[i]);
	free(g->spill);
	drop(g->rows, (size_t)g->n * sizeof(*g->rows));
	drop(g->cell, bytes_of_cells(g));
	free(g->part);
	free_blocks(g);
	free(g);
}

/* -- values that do not fit into cells ------------------------------------------------------ */

static int enlarge(struct fpisa_superacc **a, struct fpisa_superacc_window w)
{
	struct fpisa_superacc *larger = realloc(*a, fpisa_superacc_size(w.limbs));

	if (!larger)
		return -ENOMEM;
	*a = larger;
	fpisa_superacc_move(larger, w);
	return 0;
}

/*
 * Return the place of the group's superaccumulator, and create the superaccumulator if necessary. Return NULL if there
 * is no memory.
 */
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

static __int128 value_of(sums_cell c)
{
	return (__int128)c[1] * (1ll << SUMS_LIMB) + c[0];
}

/*
 * Move a cell into the group's superaccumulator. Do not convert the cell to doubles, because a sum beyond 2^1024 would
 * become infinite.
 */
static int spill_cell(struct sums_groups *g, __s64 group)
{
	struct fpisa_superacc **a = spilt(g, group);
	union fpisa_superacc_full full;

	if (!a)
		return -ENOMEM;
	sums_init(&full);
	sums_add_scaled(&full, value_of(g->cell[group]), g->low - 1075);
	fpisa_superacc_narrow(&full.acc);
	while (fpisa_superacc_merge(*a, &full.acc))
		if (enlarge(a, fpisa_superacc_cover(*a, &full.acc, sums_format())))
			return -ENOMEM;
	g->cell[group] = (sums_cell){0};
	return 0;
}

/* Add the copies of each cell to one cell. */
static void fold(struct sums_groups *g)
{
	for (__s64 i = g->n; i < g->n * copies(g); i++) {
		g->cell[i % g->n] += g->cell[i];
		g->cell[i] = (sums_cell){0};
	}
}

/* Carry the lower limbs of a part's cells into the upper limbs. Afterwards the cells can take ADDS more adds. */
static int settle(struct sums_groups *g, __u32 part)
{
	const __s64 first = (__s64)part << g->shift;
	const __s64 end = g->parts > 1 && first + (1ll << g->shift) < g->n ? first + (1ll << g->shift) : g->n;

	fold(g);
	for (__s64 i = first; i < end; i++) {
		sums_cell *c = &g->cell[i];
		__s64 carry = (*c)[0] >> SUMS_LIMB;

		*c += (sums_cell){-(carry * (1ll << SUMS_LIMB)), carry};
		if (fpisa_unlikely((*c)[1] >= SETTLED || (*c)[1] <= -SETTLED) && spill_cell(g, i))
			return -ENOMEM;
	}
	g->part[part].adds = 0;
	return 0;
}

/* -- adding --------------------------------------------------------------------------- */

/* Choose the unit by the largest finite value. The cells are still zero, so the unit may change. */
static void choose_unit(struct sums_groups *g, const double *x, size_t n, int margin)
{
	const int most = (int)SUMS_INFINITE - 1 - SUMS_RANGE;
	int highest = 0;

	for (size_t i = 0; i < n; i++) {
		int e = (int)sums_exponent(sums_bits(x[i]));

		highest = e > highest && e < (int)SUMS_INFINITE ? e : highest;
	}
	if (!highest)
		return;
	g->fixed = 1;
	highest += margin - SUMS_RANGE;
	g->low = highest < 1 ? 1 : highest > most ? most : highest;
}

/*
 * The group numbers of some values, either from the caller or from blocks. A negative number means that the value does
 * not belong to a group. Another Python thread may write the caller's array, so each use reads a number once and checks
 * it.
 */
struct codes {
	const __s64 *wide;
	const __u32 *narrow; /* used if not NULL; these numbers are below the number of groups */
};

static __always_inline __s64 code_of(struct codes codes, size_t i)
{
	return codes.narrow ? codes.narrow[i] : fpisa_read_once(&codes.wide[i]);
}

/* Spill the values that do not fit into cells. */
static int spill_others(struct sums_groups *g, const double *x, struct codes codes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const __u64 bits = sums_bits(x[i]);
		const __s64 code = code_of(codes, i);

		if ((__u64)code < (__u64)g->n && bits << 1 && sums_exponent(bits) - (__u32)g->low > SUMS_RANGE &&
		    spill(g, code, x[i]))
			return -ENOMEM;
	}
	return 0;
}

/* Add at most SOME values of one part to its cells. */
static __always_inline int add_cells(struct sums_groups *g, __u32 part, const double *x, struct codes codes, size_t n,
				     int copies, int count)
{
	sums_cell limb[SOME];
	const __u64 groups = (__u64)g->n;
	int others;

	if (g->part[part].adds > ADDS - SOME && settle(g, part))
		return -ENOMEM;
	g->part[part].adds += n;
	others = g->kernels->limbs(x, n, g->low, limb);
	for (size_t i = 0; i < n; i++) {
		const __s64 code = code_of(codes, i);
		const __u64 group = (__u64)code;

		if (!codes.narrow && fpisa_unlikely(group >= groups)) {
			if (code >= 0)
				return -ERANGE;
			continue;
		}
		g->cell[group + i % (__u32)copies * groups] += limb[i];
		if (count)
			g->rows[group]++;
	}
	return fpisa_unlikely(others) ? spill_others(g, x, codes, n) : 0;
}

static int add_wide(struct sums_groups *g, const double *x, const __s64 *code, size_t n, int count)
{
	const struct codes codes = {.wide = code};

	if (copies(g) > 1)
		return count ? add_cells(g, 0, x, codes, n, COPIES, 1) : add_cells(g, 0, x, codes, n, COPIES, 0);
	return count ? add_cells(g, 0, x, codes, n, 1, 1) : add_cells(g, 0, x, codes, n, 1, 0);
}

static int add_narrow(struct sums_groups *g, __u32 part, const double *x, const __u32 *code, size_t n, int count)
{
	const struct codes codes = {.narrow = code};

	return count ? add_cells(g, part, x, codes, n, 1, 1) : add_cells(g, part, x, codes, n, 1, 0);
}

static int add_block(struct sums_groups *g, const double *x, const __s64 *code, size_t n, int count)
{
	int rc = 0;

	for (size_t at = 0; at < n && !rc; at += SOME)
		rc = add_wide(g, x + at, code + at, n - at < SOME ? n - at : SOME, count);
	return rc;
}

/* -- parts ------------------------------------------------------------------------------ */

/* Give each part an empty block. */
static void rewind_parts(struct sums_groups *g)
{
	for (__u32 p = 0; p < g->parts; p++) {
		g->part[p].first = p;
		g->part[p].at = (char *)&g->block[p];
	}
	g->used = g->parts;
}

/* Allocate blocks for at most `values` values. */
static int new_blocks(struct sums_groups *g, __s64 values)
{
	const __u64 want = (__u64)values / PAIRS + 2 * g->parts;
	size_t bytes;

	g->blocks = want < MOST_BLOCKS ? (__u32)want : MOST_BLOCKS;
	bytes = g->blocks * sizeof(*g->block);
	g->block = bytes < HUGE_PAGE ? aligned_alloc(sizeof(*g->block), bytes) : zeros(bytes);
	if (!g->block)
		return -ENOMEM;
	rewind_parts(g);
	return 0;
}

/* Prefetch a part of the next block while the values of this block are added. */
static __always_inline void fetch_ahead(const struct block *next, size_t at)
{
	const char *from = (const char *)next + at * sizeof(*next) / PAIRS;

	for (size_t i = 0; i < sizeof(*next) * SOME / PAIRS; i += LINE)
		__builtin_prefetch(from + i);
}

static int drain_part(struct sums_groups *g, __u32 p, int count)
{
	const struct part *part = &g->part[p];
	const struct block *block = &g->block[part->first];

	for (;; block = &g->block[block->next]) {
		const int is_last = block == block_of(part->at);
		const size_t n = is_last ? place_of(part->at) : PAIRS;

		for (size_t at = 0; at < n; at += SOME) {
			if (!is_last)
				fetch_ahead(&g->block[block->next], at);
			if (add_narrow(g, p, block->x + at, block->code + at, n - at < SOME ? n - at : SOME, count))
				return -ENOMEM;
		}
		if (is_last)
			return 0;
	}
}

/* Add all values in blocks to the cells. */
static int drain(struct sums_groups *g, int count)
{
	for (__u32 p = 0; p < g->parts; p++)
		if (drain_part(g, p, count))
			return -ENOMEM;
	rewind_parts(g);
	return 0;
}

/* Start a new block of a part whose last block is full. */
static int next_block(struct sums_groups *g, struct part *part, int count)
{
	if (g->used == g->blocks)
		return drain(g, count);
	block_of(part->at)->next = g->used;
	part->at = (char *)&g->block[g->used++];
	return 0;
}

static int add_parts(struct sums_groups *g, const double *x, const __s64 *code, size_t n, int count)
{
	struct part *const parts = g->part;
	const __u64 groups = (__u64)g->n;
	const int shift = g->shift;

	for (size_t i = 0; i < n; i++) {
		const __s64 group = fpisa_read_once(&code[i]);
		struct part *part = &parts[(__u64)group >> shift];
		struct block *block;
		size_t place;

		if (fpisa_unlikely((__u64)group >= groups)) {
			if (group >= 0)
				return -ERANGE;
			continue;
		}
		block = block_of(part->at);
		place = place_of(part->at);
		/* The address may be beyond the block, because a prefetch does not fault. */
		__builtin_prefetch((const char *)&block->x[place] + AHEAD, 1);
		__builtin_prefetch((const char *)&block->code[place] + AHEAD, 1);
		block->x[place] = x[i];
		block->code[place] = (__u32)group;
		part->at += sizeof(*block->x);
		if (fpisa_unlikely(place + 1 == PAIRS) && next_block(g, part, count))
			return -ENOMEM;
	}
	return 0;
}

/* -- arrays ------------------------------------------------------------------------------ */

/* Return n values of x as doubles, starting with value `at`. The values are in the array itself or in the buffer. */
static const double *fetch(const struct sums_array *x, double scale, __s64 at, size_t n, double *buffer)
{
	const char *there = x->data + at * x->stride;

	if (x->type == SUMS_FLOAT64 && x->stride == sizeof(double) && !((uintptr_t)there % sizeof(double)))
		return (const double *)there;
	(void)sums_fetch_all(x, at, n, buffer);
	for (size_t i = 0; scale != 1 && i < n; i++)
		buffer[i] *= scale;
	return buffer;
}

/* Return the group numbers, with -1 for null values. */
static const __s64 *fetch_codes(const struct sums_array *x, const __s64 *code, __s64 at, size_t n, __s64 *buffer)
{
	if (!x->valid)
		return code + at;
	for (size_t i = 0; i < n; i++)
		buffer[i] = sums_is_valid(x, at + (__s64)i) ? code[at + (__s64)i] : -1;
	return buffer;
}

/* Add x, multiplied by a power of two. */
static int add_array(struct sums_groups *g, const struct sums_array *x, double scale, int count, const __s64 *code)
{
	double values[SUMS_BLOCK];
	__s64 codes[SUMS_BLOCK];
	int rc = g->parts > 1 ? new_blocks(g, x->n) : 0;

	count = count && g->rows;
	for (__s64 at = 0; at < x->n && !rc; at += SUMS_BLOCK) {
		size_t n = x->n - at < SUMS_BLOCK ? (size_t)(x->n - at) : SUMS_BLOCK;
		const double *v = fetch(x, scale, at, n, values);
		const __s64 *c = fetch_codes(x, code, at, n, codes);

		if (!g->fixed)
			choose_unit(g, v, n, scale == 1 ? MARGIN : 0); /* the upper halves are the larger ones */
		rc = g->block ? add_parts(g, v, c, n, count) : add_block(g, v, c, n, count);
	}
	if (g->block && !rc)
		rc = drain(g, count);
	free_blocks(g);
	fold(g);
	return rc;
}

int sums_groups_add(struct sums_groups *g, const struct sums_array *x, const __s64 *code)
{
	struct sums_array half[2];
	sums_environment env;
	int rc;

	if (!sums_type_size(x->type) || x->n < 0)
		return -EINVAL;
	env = sums_environment_default();
	if (sums_halves(x, half) == 2) {
		rc = add_array(g, &half[1], SUMS_HALF, 0, code);
		rc = rc ? rc : add_array(g, &half[0], 1, 1, code);
	} else {
		rc = add_array(g, x, 1, 1, code);
	}
	sums_environment_restore(env);
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
	sums_add_scaled(a, value_of(g->cell[group]), g->low - 1075);
	a->acc.rows = had + rows;
	return 0;
}

/*
 * Return the value of a group that has only a cell, which is true for most groups. Any format, and averages, are
 * supported.
 */
static __u64 read_cell(const struct sums_groups *g, __s64 group, struct fpisa_format to, int average)
{
	const __int128 m = value_of(g->cell[group]);
	unsigned __int128 size = m < 0 ? -(unsigned __int128)m : (unsigned __int128)m;
	struct fpisa_magnitude x = {.negative = m < 0, .at = g->low - 1};
	__u32 flags = 0;

	for (; size; size >>= 32)
		x.digit[x.n++] = (__u32)size;
	if (average)
		fpisa_magnitude_divide(&x, g->rows[group]);
	return fpisa_magnitude_round(&x, sums_format(), to, &flags);
}

/*
 * Compute m * 2^e as a float64. The CPU rounds when it converts an integer. Return 0 if the result is not a normal
 * number.
 */
static __always_inline int quick(__int128 m, int e, __u64 *out)
{
	const __s64 sign = (__s64)(m >> 127);
	const unsigned __int128 size = (unsigned __int128)((m ^ sign) - sign);
	const __u64 high = (__u64)(size >> 64), low = (__u64)size;
	const int bits = high ? 128 - __builtin_clzll(high) : low ? 64 - __builtin_clzll(low) : 0;
	const int drop = bits > 63 ? bits - 63 : 0;

	/* The dropped bits are far below half a unit of the result, so only their effect on ties matters. */
	*out = sums_bits((double)(__s64)((__u64)(size >> drop) | (size << 1 << (127 - drop) != 0)));
	if (!bits || e + bits > 1023 || e + bits < -1021)
		return !bits;
	*out += ((__u64)(e + drop) << 52) + ((__u64)sign << 63);
	return 1;
}

int sums_groups_read(const struct sums_groups *g, int format, int average, void *out)
{
	struct fpisa_format to = fpisa_format_of((__u8)format);
	union fpisa_superacc_full a;
	sums_environment env;

	if (average && !g->rows)
		return -EINVAL;
	to.rbits = 64;
	env = sums_environment_default();
	for (__s64 i = 0; i < g->n; i++) {
		if ((g->spill && g->spill[i]) || (average && !g->rows[i])) {
			sums_init(&a);
			(void)sums_groups_get(g, i, &a);
			(void)sums_store(&a, format, average, out);
		} else {
			__u64 bits;

			if (average || format != FPISA_FORMAT_FP64 || !quick(value_of(g->cell[i]), g->low - 1075, &bits))
				bits = read_cell(g, i, to, average);
			memcpy(out, &bits, to.bytes);
		}
		out = (char *)out + to.bytes;
	}
	sums_environment_restore(env);
	return 0;
}

/* -- rows by groups --------------------------------------------------------------------- */

int sums_places(const __s64 *code, __s64 n, __s64 groups, __s64 *place, __s64 *start)
{
	__s64 *next;

	memset(start, 0, (size_t)(groups + 1) * sizeof(*start));
	for (__s64 i = 0; i < n; i++) {
		if (code[i] >= groups)
			return -ERANGE;
		if (code[i] >= 0)
			start[code[i] + 1]++;
	}
	for (__s64 k = 0; k < groups; k++)
		start[k + 1] += start[k];
	next = malloc((size_t)(groups + 1) * sizeof(*next));
	if (!next)
		return -ENOMEM;
	memcpy(next, start, (size_t)(groups + 1) * sizeof(*next));
	for (__s64 i = 0; i < n; i++)
		place[i] = code[i] < 0 ? -1 : next[code[i]]++;
	free(next);
	return 0;
}

int sums_arrange(const struct sums_array *x, const __s64 *place, void *out, __u8 *valid)
{
	const __u32 size = sums_type_size(x->type);

	if (!size || x->n < 0)
		return -EINVAL;
	for (__s64 i = 0; i < x->n; i++) {
		if (place[i] < 0 || !sums_is_valid(x, i))
			continue;
		memcpy((char *)out + place[i] * size, x->data + i * x->stride, size);
		valid[place[i] >> 3] |= (__u8)(1u << (place[i] & 7));
	}
	return 0;
}

/* -- keys -------------------------------------------------------------------------------- */

struct slot {
	__s64 key, code; /* code + 1, or 0 if the slot is empty */
};

/* A hash table of keys. Each table has a random seed, so that nobody can choose keys that collide. */
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

/* Return the key's slot, or the empty slot in which to insert the key. */
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

	/* If there are no random numbers, use an address, which differs between processes. */
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

/* Number keys whose range has gaps. */
static int number_sparse(const __s64 *key, __s64 n, __s64 least, __u32 range, const __u8 *seen, __s64 *code)
{
	__u32 *rank = malloc(range * sizeof(*rank)), groups = 0;

	if (!rank)
		return -ENOMEM;
	for (__u32 i = 0; i < range; i++) {
		rank[i] = groups;
		groups += seen[i];
	}
	for (__s64 i = 0; i < n; i++)
		code[i] = rank[(__u64)key[i] - (__u64)least];
	free(rank);
	return 0;
}

/* Number keys by their unsigned difference from `least`, so that keys may have either sign. */
__s64 sums_number_near(const __s64 *key, __s64 n, __s64 least, __u32 range, __s64 *code, __s64 *found)
{
	__u8 *seen = calloc(range, 1);
	__s64 groups = 0;
	int rc = 0;

	if (!seen)
		return -ENOMEM;
	for (__s64 i = 0; i < n; i++)
		seen[(__u64)key[i] - (__u64)least] = 1;
	for (__u32 i = 0; i < range; i++)
		if (seen[i])
			found[groups++] = (__s64)((__u64)least + i);
	if (groups < range)
		rc = number_sparse(key, n, least, range, seen, code);
	for (__s64 i = 0; least && groups == range && i < n; i++)
		code[i] = (__s64)((__u64)key[i] - (__u64)least);
	free(seen);
	return rc ? rc : groups;
}
