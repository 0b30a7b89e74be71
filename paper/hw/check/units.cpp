/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Check the designs with which the pipeline's area is compared. banzai_alu.v
 * and banzai_raw.v are compared in every variant with the descriptions in their
 * headers, and fp32_add.v with this machine's floats. fp_mul.v is compared with
 * the product as a double, rounded once. A double can represent every product
 * exactly.
 *
 * 	units VECTORS
 */
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include "Vunits.h"
#include "verilated.h"

extern "C" {
#include "vectors.h"
}

namespace
{

enum { ALUS = 10, ATOMS = 8 };
enum { ADD, SUB, AND, XOR, OR, EQ, NE, GE, LT, COND, SHL, SHR, SAR, OPCODES };

struct inputs {
	uint32_t a, b, c, constant_0, constant_1, distance, opcode, select;
	bool left;
};

uint64_t wrong;

void expect(const char *what, int variant, const inputs &in, uint32_t want, uint32_t got)
{
	if (want == got)
		return;
	if (wrong++ < 10)
		printf("%s %d: a %08x b %08x opcode %u: should be %08x, is %08x\n", what, variant, in.a, in.b,
		       in.opcode, want, got);
}

uint32_t shift(uint32_t x, uint32_t by, bool left, bool arithmetic)
{
	if (by > 31)
		return arithmetic && !left && x >> 31 ? ~0u : 0;
	return left ? x << by : arithmetic ? (uint32_t)((int32_t)x >> by) : x >> by;
}

uint32_t pick(uint32_t x, uint32_t y, uint32_t z, uint32_t w, uint32_t which)
{
	return (which & 3) == 0 ? x : (which & 3) == 1 ? y : (which & 3) == 2 ? z : w;
}

uint32_t alu(const inputs &in, int variant)
{
	uint32_t k = in.constant_0, s = in.select;
	uint32_t a = pick(in.a, in.b, k, k, s), b = pick(in.a, in.b, k, k, s >> 2);
	uint32_t test = pick(in.a, in.b, in.c, k, s >> 4), yes = pick(in.a, in.b, in.c, k, s >> 6);
	uint32_t no = pick(in.a, in.b, in.c, k, s >> 8), by;

	switch (variant / 2) {
	case 1:
		by = k & 31;
		break;
	case 2:
		by = b & 31;
		break;
	case 3:
		by = in.distance & 31;
		break;
	default:
		by = in.distance;
	}
	switch (in.opcode) {
	case ADD:
		return a + b;
	case AND:
		return a & b;
	case XOR:
		return a ^ b;
	case OR:
		return a | b;
	case EQ:
		return a == b;
	case NE:
		return a != b;
	case GE:
		return a >= b;
	case LT:
		return a < b;
	case COND:
		return test ? yes : no;
	case SHL:
	case SHR:
	case SAR:
		if (variant / 2 && (in.opcode != SAR || variant % 2))
			return shift(a, by, in.opcode == SHL, in.opcode == SAR);
		return a - b;
	default:
		return a - b;
	}
}

uint32_t atom(const inputs &in, int variant, uint32_t state)
{
	uint32_t s = in.select, of = s & 1 ? 0 : state;
	uint32_t with = pick(in.a, in.b, in.constant_0, in.constant_0, s >> 1);
	uint32_t addend = pick(in.a, in.b, in.constant_1, in.constant_1, s >> 4), shifted = state;
	const bool holds[] = {of != with, of<with, of> with, of == with};

	if (variant / 4 && !holds[s >> 6 & 3])
		return state;
	switch (variant % 4) {
	case 1:
		shifted = shift(state, in.b & 31, false, true);
		break;
	case 2:
		shifted = shift(state, in.distance & 63, false, true);
		break;
	case 3:
		shifted = shift(state, in.distance & 63, in.left, true);
		break;
	}
	return (s & 8 ? 0 : shifted) + addend;
}

/* -- floating point ------------------------------------------------------------ */

double value(uint32_t word, int ebits, int mbits)
{
	int e = word >> mbits & ((1 << ebits) - 1), bias = (1 << (ebits - 1)) - 1;
	double m = word & ((1u << mbits) - 1), sign = word >> (ebits + mbits) ? -1 : 1;

	if (e == (1 << ebits) - 1)
		return m ? NAN : sign * INFINITY;
	return sign * ldexp(e ? m + (1u << mbits) : m, (e ? e : 1) - bias - mbits);
}

/* Round to nearest, ties to even. A NaN becomes the quiet NaN without a sign. */
uint32_t rounded(double x, int ebits, int mbits)
{
	int bias = (1 << (ebits - 1)) - 1, e;
	uint32_t sign = (uint32_t)std::signbit(x) << (ebits + mbits), inf = ((1u << ebits) - 1) << mbits;

	if (std::isnan(x))
		return inf | 1u << (mbits - 1);
	if (std::isinf(x))
		return sign | inf;
	if (x == 0)
		return sign;
	frexp(x, &e);
	e = std::max(e - 1 + bias, 1);

	double n = nearbyint(ldexp(fabs(x), bias + mbits - e)); /* at most 2^(M+1), which carries into the exponent */
	uint64_t word = ((uint64_t)(e - 1) << mbits) + (uint64_t)n;

	return sign | (uint32_t)(word < inf ? word : inf);
}

uint32_t product(uint32_t a, uint32_t b, int ebits, int mbits)
{
	return rounded(value(a, ebits, mbits) * value(b, ebits, mbits), ebits, mbits);
}

uint32_t sum(uint32_t a, uint32_t b)
{
	float x, y;
	uint32_t word;

	memcpy(&x, &a, 4);
	memcpy(&y, &b, 4);
	x += y;
	memcpy(&word, &x, 4);
	return x != x ? 0x7fc00000 : word;
}

/*
 * Draw operands. Half of the time exponents are within 30 of each other. Small words, and words at the ends of the
 * range, occur as well.
 */
void draw(vectors_rng *rng, inputs *in)
{
	uint64_t r = vectors_next(rng), s = vectors_next(rng), t = vectors_next(rng), u = vectors_next(rng);

	*in = {(uint32_t)r,
	       (uint32_t)(r >> 32),
	       (uint32_t)s,
	       (uint32_t)(s >> 32),
	       (uint32_t)t,
	       (uint32_t)(t >> 32),
	       (uint32_t)(u % OPCODES),
	       (uint32_t)(u >> 8 & 0x3ff),
	       !!(u >> 20 & 1)};
	switch (u >> 24 & 7) {
	case 0:
	case 1:
	case 2: {
		int e = (int)(in->a >> 23 & 255) + (int)(u >> 32 & 63) - 32;

		in->b = (in->b & 0x807fffff) | (uint32_t)std::min(std::max(e, 0), 255) << 23;
		break;
	}
	case 3: /* products near the smallest value */
		in->b = (in->b & 0x807fffff) |
			(uint32_t)std::max(127 - 12 - (int)(in->a >> 23 & 255) + (int)(u >> 32 & 31), 0) << 23;
		break;
	case 4:
		in->a &= 0x807fffff;
		in->b &= u >> 32 & 1 ? 0x80ffffff : ~0u;
		break;
	case 5:
		in->b = u >> 32 & 1 ? in->a : in->a ^ 0x80000000;
		break;
	case 6:
		in->a |= 0x7f800000;
		in->b = u >> 32 & 1 ? in->b & 0x807fffff : in->b | 0x7f800000;
		if (u >> 33 & 1)
			in->a &= 0xff800000;
		if (u >> 34 & 1)
			in->b &= 0xff800000;
		break;
	}
	if (u >> 40 & 1)
		in->distance %= 40;
	if ((u >> 41 & 3) == 0)
		in->c = 0;
}

} /* namespace */

int main(int argc, char **argv)
{
	uint64_t n = argc > 1 ? strtoull(argv[1], nullptr, 0) : 0;
	uint32_t want_alu[2][ALUS] = {}, want_fpu[2][2] = {}, state[ATOMS] = {};
	bool known[ATOMS] = {};
	vectors_rng rng = {vectors_seed()};
	Vunits *rtl = new Vunits;
	inputs in = {}, before = {};

	/* Operands and result are registered, so the output belongs to the input of two clocks ago. */
	for (uint64_t i = 0; i < n; i++) {
		draw(&rng, &in);
		rtl->a = in.a;
		rtl->b = in.b;
		rtl->c = in.c;
		rtl->constant_0 = in.constant_0;
		rtl->constant_1 = in.constant_1;
		rtl->distance = in.distance;
		rtl->left = in.left;
		rtl->opcode = (uint8_t)in.opcode;
		rtl->select = (uint16_t)in.select;
		rtl->clk = 0;
		rtl->eval();
		expect("fp32_add", 0, in, sum(in.a, in.b), rtl->sum);
		expect("fp_mul fp32", 0, in, product(in.a, in.b, 8, 23), rtl->product_fp32);
		expect("fp_mul fp16", 0, in, product(in.a & 0xffff, in.b & 0xffff, 5, 10), rtl->product_fp16);
		expect("fp_mul bf16", 0, in, product(in.a & 0xffff, in.b & 0xffff, 8, 7), rtl->product_bf16);
		rtl->clk = 1;
		rtl->eval();
		/* `in` is the contents of the atom's input registers. Compute the state after `before`. */
		for (int v = 0; v < ATOMS && i; v++) {
			uint32_t is = rtl->raw[v];

			if (known[v])
				expect("banzai_raw", v, before, atom(before, v, state[v]), is);
			known[v] = true;
			state[v] = is;
		}
		for (int v = 0; v < ALUS && i >= 1; v++)
			expect("banzai_alu", v, before, want_alu[~i & 1][v], rtl->alu[v]);
		for (int v = 0; v < 2 && i >= 1; v++)
			expect("banzai_alu with FPU", v, before, want_fpu[~i & 1][v],
			       v ? rtl->fpu >> 32 : (uint32_t)rtl->fpu);

		uint32_t k = in.constant_0, a = pick(in.a, in.b, k, k, in.select),
			 b = pick(in.a, in.b, k, k, in.select >> 2);

		for (int v = 0; v < ALUS; v++)
			want_alu[i & 1][v] = alu(in, v);
		want_fpu[i & 1][0] = in.left ? sum(a, b) : alu(in, 2);
		want_fpu[i & 1][1] = in.left ? product(a, b, 8, 23) : alu(in, 2);
		before = in;
	}
	printf("%llu vectors of %d ALUs, %d atoms, 2 FPUs, an adder and 3 multipliers, %llu mismatches\n",
	       (unsigned long long)n, ALUS, ATOMS, (unsigned long long)wrong);
	rtl->final();
	delete rtl;
	return wrong != 0 || !n;
}
