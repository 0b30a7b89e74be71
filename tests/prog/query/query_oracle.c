/* SPDX-License-Identifier: GPL-2.0-only */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "query_oracle.h"

int query_order(float a, float b)
{
	if (isnan(a) || isnan(b))
		return isnan(a) - isnan(b);
	return (a > b) - (a < b);
}

void query_oracle_init(struct query_oracle *o)
{
	memset(o, 0, sizeof(*o));
	for (int k = 0; k < ORACLE_GROUPS; k++)
		mpz_init(o->g[k].sum);
}

void query_oracle_clear(struct query_oracle *o)
{
	for (int k = 0; k < ORACLE_GROUPS; k++) {
		struct oracle_group *g = &o->g[k];

		g->nan = g->pinf = g->ninf = g->any = false;
		g->count = 0;
		g->min = g->max = 0;
		mpz_set_ui(g->sum, 0);
	}
}

void query_oracle_free(struct query_oracle *o)
{
	for (int k = 0; k < ORACLE_GROUPS; k++)
		mpz_clear(o->g[k].sum);
}

static void order(struct oracle_group *g, float value)
{
	if (!g->any || query_order(value, g->min) < 0)
		g->min = value;
	if (!g->any || query_order(value, g->max) > 0)
		g->max = value;
	g->any = true;
}

void query_oracle_row(struct query_oracle *o, uint32_t key, float value, uint32_t count)
{
	struct oracle_group *g = &o->g[key];
	mpz_t v;

	g->count += count & FPISA_ROW_COUNT;
	if (!(count & FPISA_ROW_NO_ORDER))
		order(g, value);
	if (count & FPISA_ROW_NO_SUM)
		return;
	if (isnan(value)) {
		g->nan = true;
	} else if (isinf(value)) {
		*(value > 0 ? &g->pinf : &g->ninf) = true;
	} else {
		/* The value is below 2^277 and has 24 bits, so a double holds it. */
		mpz_init_set_d(v, ldexp((double)value, 149));
		mpz_add(g->sum, g->sum, v);
		mpz_clear(v);
	}
}

/* Return the value for a key, in the order of FP32 that doc/query-wire.md gives. */
static float value_of(uint32_t key)
{
	uint32_t bits = key == 0xffffffff ? 0x7fc00000 : key >> 31 ? key - 0x80000000u : 0xffffffffu - key;
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

void query_oracle_merge(struct query_oracle *o, uint32_t key, const struct fpisa_query_group *in)
{
	struct oracle_group *g = &o->g[key];
	mpz_t limb;

	mpz_init(limb);
	for (int i = 0; i < FPISA_GROUP_LIMBS; i++) {
		mpz_set_si(limb, in->limb[i]);
		mpz_mul_2exp(limb, limb, 32 * i);
		mpz_add(g->sum, g->sum, limb);
	}
	mpz_clear(limb);
	g->count += in->count;
	g->nan |= in->specials & 1;
	g->pinf |= in->specials >> 1 & 1;
	g->ninf |= in->specials >> 2 & 1;
	if (in->min > in->max)
		return;
	order(g, value_of(in->min));
	order(g, value_of(in->max));
}

bool query_oracle_equal(const struct query_oracle *a, const struct query_oracle *b)
{
	for (int k = 0; k < ORACLE_GROUPS; k++) {
		const struct oracle_group *x = &a->g[k], *y = &b->g[k];
		const char *what = x->nan != y->nan || x->pinf != y->pinf || x->ninf != y->ninf ? "specials" :
				   x->count != y->count						? "count" :
				   x->any != y->any || (x->any && query_order(x->min, y->min))	? "least" :
				   x->any && query_order(x->max, y->max)			? "greatest" :
				   mpz_cmp(x->sum, y->sum)					? "sum" :
												  NULL;

		if (!what)
			continue;
		fprintf(stderr, "group %d: %s differs: counts %llu, %llu; greatest %a, %a\n", k, what,
			(unsigned long long)x->count, (unsigned long long)y->count, (double)x->max, (double)y->max);
		return false;
	}
	return true;
}

float query_value(uint64_t r, uint32_t kind, uint32_t i)
{
	static const float hard[] = {0.0f,    -0.0f,	1e30f,	1.0f,	 -1e30f,
				     3.4e38f, -3.4e38f, 1e-45f, -1e-45f, 1.17549435e-38f};
	uint32_t bits = (uint32_t)(r >> 32);
	float f;

	switch (kind) {
	case 0: /* uniform values */
		return (float)(bits >> 8) * 0x1p-24f;
	case 1: /* few values, so that there are equal values */
		return (float)(bits % 4);
	case 2: /* all magnitudes and both signs */
		return ldexpf((float)(int32_t)bits, (int)(r % 250) - 156);
	case 3: /* ascending values */
		return (float)i;
	case 4: /* equal values */
		return 2.5f;
	case 5: /* random bits, including NaNs, infinities and subnormals */
		memcpy(&f, &bits, sizeof(f));
		return f;
	case 6: /* subnormals */
		bits &= 0x807fffff;
		memcpy(&f, &bits, sizeof(f));
		return f;
	default: /* 1e30 + 1 - 1e30, and the ends of the range */
		return r % 16 == 15 ? (r & 16 ? NAN : r & 32 ? INFINITY : -INFINITY) : hard[r % 10];
	}
}
