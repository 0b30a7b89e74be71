/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The units MAU0..8 over a payload, fused or staged. The fused form runs block by block with the PHV in registers.
 * Modes, roundings and the widths of a family are constants that the compiler folds. The staged form runs each unit
 * over all blocks before the next unit, with the PHV in memory, as the nine programs do. The staged form evaluates all
 * parameters at run time. Jobs with pipeline `staged` and jobs without a fused body use the staged form.
 */
#include <string.h>
#include "blocks.h"
#include "fpisa/wire.h"
#include "clz.h"

/*
 * Parameters of a loop: a format with constant widths, and the number of limbs of an element in mode exact, otherwise
 * 0.
 */
struct shape {
	struct fpisa_format f;
	int limbs;
};

static __always_inline struct fpisa_format widths(struct fpisa_format f, __u8 bytes, __u8 rbits)
{
	f.bytes = bytes;
	f.rbits = rbits;
	return f;
}

/*
 * In family 0 the whole format of floats is constant. In the other families the widths of lane and register are
 * constant.
 */
#define CONSTANTS(f, number, bytes, rbits) ((number) ? widths(f, bytes, rbits) : FPISA_FP32)

static __always_inline size_t block_size(struct shape s)
{
	return FPISA_BLOCK * (s.limbs ? (size_t)s.limbs * 8 : s.f.rbits / 8u);
}

#define EACH_BLOCK for (uint32_t b = 0; b < blocks; b++)
#define LANES(p) ((char *)(p) + (s.f.shared ? FPISA_SCALES : 0) + (size_t)b * FPISA_BLOCK * s.f.bytes)
#define SCALE(p) ((uint8_t *)(p) + b)
#define MANTISSAS ((void *)((char *)r.m + b * block_size(s)))
#define LIMBS64 ((struct fpisa_limbs64_block *)MANTISSAS)
#define CLZ(x) (s.f.rbits == 32 ? fpisa_clz32_bits(x) : fpisa_clz64_bits(x))
#define MATCH(x) fpisa_soft_clz(x, clz, s.f)

/* -- fused ------------------------------------------------------------- */

static __always_inline uint64_t add_fused(const void *in, struct fpisa_soft_registers r, uint32_t blocks,
					  struct shape s, enum fpisa_mode mode, int first)
{
	uint64_t events = 0;

	EACH_BLOCK {
		if (s.limbs == FPISA_LIMBS64 && first)
			fpisa_exact64_set(LANES(in), &r.e[b], LIMBS64, s.f);
		else if (s.limbs == FPISA_LIMBS64)
			fpisa_exact64_add(LANES(in), &r.e[b], LIMBS64, s.f);
		else if (s.limbs && first)
			fpisa_exact_set(LANES(in), &r.e[b], MANTISSAS, s.limbs, s.f);
		else if (s.limbs)
			fpisa_exact_add(LANES(in), &r.e[b], MANTISSAS, s.limbs, s.f);
		else if (first)
			fpisa_block_set(LANES(in), &r.e[b], MANTISSAS, s.f);
		else
			events += fpisa_block_add(LANES(in), &r.e[b], MANTISSAS, s.f, mode);
	}
	return events;
}

static __always_inline uint32_t read_fused(void *out, struct fpisa_soft_registers r, uint32_t blocks, struct shape s,
					   enum fpisa_rounding rounding)
{
	uint32_t flags = 0;

	EACH_BLOCK {
		if (s.limbs == FPISA_LIMBS64)
			flags |= fpisa_exact64_read(LANES(out), &r.e[b], LIMBS64, s.f, rounding, CLZ,
						    fpisa_exact64_mau5);
		else if (s.limbs)
			flags |= fpisa_exact_read(LANES(out), &r.e[b], MANTISSAS, s.limbs, s.f, rounding, CLZ,
						  fpisa_exact_mau5);
		else
			flags |= fpisa_block_read(LANES(out), &r.e[b], MANTISSAS, s.f, rounding, CLZ);
	}
	return flags;
}

/* -- staged ------------------------------------------------------------ */

/* A PHV for mantissas of either width. */
struct phv {
	struct fpisa_phv64_block b[FPISA_MAX_BLOCKS];
};

#define PHV FPISA_PHV(&p.b[b])

/* Run MAU0..4 of an add whose operation is `op`. */
static uint64_t add_staged(uint32_t op, const void *in, struct fpisa_soft_registers r, uint32_t blocks, struct shape s,
			   enum fpisa_mode mode, int first)
{
	int encoded = fpisa_encoded(s.f, op);
	uint64_t events = 0;
	struct phv p;

	EACH_BLOCK {
		if (encoded)
			fpisa_stage0_encode(LANES(in), PHV, s.f);
		else if (s.f.shared)
			fpisa_mx_stage0(LANES(in), *SCALE(in), PHV, s.f);
		else
			fpisa_stage0(LANES(in), PHV, s.f);
	}
	for (uint32_t b = 0; b < blocks && !encoded; b++) {
		if (s.f.shared)
			fpisa_mx_stage1(PHV, s.f);
		else if (op == FPISA_OP_NORM)
			events += fpisa_stage1_square(PHV, s.f);
		else
			fpisa_stage1(PHV, s.f);
	}
	for (uint32_t b = 0; b < blocks && !encoded; b++) {
		if (s.limbs == FPISA_LIMBS64)
			fpisa_exact64_stage2(PHV, &r.e[b], s.f, first);
		else if (s.limbs)
			fpisa_exact_stage2(PHV, &r.e[b], s.limbs, first);
		else if (first)
			fpisa_stage2_first(PHV, &r.e[b]);
		else
			fpisa_stage2(PHV, &r.e[b], s.f, mode);
	}
	for (uint32_t b = 0; b < blocks && !encoded; b++) {
		if (s.limbs && s.limbs != FPISA_LIMBS64)
			fpisa_exact_stage3(PHV, s.f);
		else if (!first && !s.limbs)
			events += fpisa_stage3(PHV, s.f, mode);
	}
	EACH_BLOCK {
		if (encoded && !first)
			events += fpisa_stage4_combine(PHV, MANTISSAS, s.f, op);
		else if (s.limbs == FPISA_LIMBS64 && !encoded)
			fpisa_exact64_stage4(PHV, LIMBS64, s.f, first, fpisa_exact64_add_limbs);
		else if (s.limbs && !encoded)
			fpisa_exact_stage4(PHV, MANTISSAS, s.limbs, s.f, first);
		else if (first)
			fpisa_stage4_first(PHV, MANTISSAS, s.f);
		else
			events += fpisa_stage4(PHV, MANTISSAS, s.f, mode);
	}
	return events;
}

/* Run MAU5 and the division of a block for an average (op.h), in superaccumulators of several limbs. */
static void average(const struct fpisa_exp_block *e, void *limbs, struct fpisa_phv_ref p, uint64_t divisor,
		    struct shape s)
{
	FPISA_EACH(i) {
		struct fpisa_lane l = {.e = e->e[i]};

		if (s.limbs == FPISA_LIMBS64)
			fpisa_exact64_average(&l, limbs, (uint32_t)i, divisor, s.f, fpisa_exact64_top);
		else
			fpisa_exact_average(&l, fpisa_limbs_of(limbs, i, s.limbs), divisor, s.f, fpisa_exact_mau5);
		p.e[i] = (uint16_t)l.e;
		fpisa_put_man(p.m, i, s.f, l.m);
		p.d[i] = (uint16_t)(l.sign << 15);
	}
}

/* Run MAU5..8 for any operation. */
static uint32_t read_staged(const struct fpisa_final *fin, void *out, struct fpisa_soft_registers r, uint32_t blocks,
			    struct shape s, enum fpisa_rounding rounding, enum fpisa_clz clz)
{
	int encoded = fpisa_encoded(s.f, fin->op), multiplied = s.limbs > 1;
	uint32_t flags = 0;
	struct phv p;

	EACH_BLOCK {
		if (multiplied && fpisa_divides_wide(fin)) {
			average(&r.e[b], MANTISSAS, PHV, fin->divisor, s);
			continue;
		}
		if (encoded)
			fpisa_stage5_encoded(MANTISSAS, PHV, s.f);
		else if (s.limbs == FPISA_LIMBS64)
			fpisa_exact64_stage5(&r.e[b], LIMBS64, PHV, s.f, fin->factor, fpisa_exact64_mau5);
		else if (s.limbs)
			fpisa_exact_stage5(&r.e[b], MANTISSAS, s.limbs, PHV, s.f, fin->factor, fpisa_exact_mau5);
		else
			fpisa_stage5(&r.e[b], MANTISSAS, PHV, s.f);
		if (fin->op != FPISA_OP_SUM && !encoded)
			fpisa_stage5_final(PHV, fin, multiplied, s.f);
	}
	for (uint32_t b = 0; b < blocks && !encoded; b++)
		fpisa_stage6(PHV, s.f, MATCH);
	for (uint32_t b = 0; b < blocks && !encoded; b++) {
		if (s.f.shared)
			fpisa_mx_stage7(PHV, s.f);
		else
			fpisa_stage7(PHV, s.f);
	}
	if (s.f.shared)
		memset((uint8_t *)out + blocks, 0, FPISA_SCALES - blocks);
	EACH_BLOCK {
		if (encoded)
			flags |= fpisa_stage8_decode(PHV, LANES(out), s.f);
		else if (s.f.shared)
			flags |= fpisa_mx_stage8(PHV, (uint8_t *)LANES(out), SCALE(out), s.f, rounding);
		else
			flags |= fpisa_stage8(PHV, LANES(out), s.f, rounding);
	}
	return flags;
}

/* -- by job -------------------------------------------------------------- */

static __always_inline uint64_t add(const struct fpisa_job *j, const void *in, struct fpisa_soft_registers r,
				    uint32_t blocks, int first, struct shape s)
{
	if (first)
		return add_fused(in, r, blocks, s, FPISA_MODE_FPISA, 1);
	if (!s.limbs && j->mode == FPISA_MODE_FPISA_A)
		return add_fused(in, r, blocks, s, FPISA_MODE_FPISA_A, 0);
	return add_fused(in, r, blocks, s, FPISA_MODE_FPISA, 0);
}

static __always_inline uint32_t read_out(const struct fpisa_job *j, void *out, struct fpisa_soft_registers r,
					 uint32_t blocks, struct shape s)
{
	if (j->rounding == FPISA_ROUND_NEAREST)
		return read_fused(out, r, blocks, s, FPISA_ROUND_NEAREST);
	return read_fused(out, r, blocks, s, FPISA_ROUND_DOWN);
}

static void swap(const struct fpisa_job *j, void *payload, uint32_t blocks)
{
	const struct fpisa_format f = fpisa_job_format(j);

	if (!(j->flags & FPISA_JOB_BIG_ENDIAN))
		return;
	for (uint32_t b = 0; b < blocks; b++)
		fpisa_swap_block((char *)payload + (size_t)b * FPISA_BLOCK * f.bytes, f);
}

#define SHAPE(format, limbs) ((struct shape){format, limbs})

/* Return the parameters of the job's loops, as values at run time. */
static struct shape shape_of(const struct fpisa_job *j)
{
	struct shape s = {.f = fpisa_job_format(j)};

	switch (fpisa_family(s.f, (enum fpisa_mode)j->mode)) {
#define X(family, name, bytes, rbits, n) \
	case family:                     \
		s.limbs = n;             \
		break;
		FPISA_EACH_FAMILY(X)
#undef X
	}
	return s;
}

size_t fpisa_soft_block_size(const struct fpisa_job *j)
{
	return block_size(shape_of(j));
}

static int has_fused_body(const struct fpisa_job *j, struct fpisa_format f, uint32_t op)
{
	return j->pipeline == FPISA_PIPELINE_FUSED && !f.shared && !fpisa_encoded(f, op) && op != FPISA_OP_NORM;
}

/*
 * Return whether the fused body is usable. With the trie, the round is read out unit by unit, which gives the same
 * bits.
 */
static int fused_read(const struct fpisa_job *j, const struct fpisa_final *fin)
{
	return fin->op == FPISA_OP_SUM && j->clz != FPISA_CLZ_LPM &&
	       has_fused_body(j, fpisa_job_format(j), FPISA_OP_SUM);
}

uint64_t fpisa_soft_add(const struct fpisa_job *j, uint32_t op, void *in, struct fpisa_soft_registers r,
			uint32_t blocks, int first)
{
	const struct fpisa_format f = fpisa_job_format(j);

	swap(j, in, blocks);
	if (!has_fused_body(j, f, op))
		return add_staged(op, in, r, blocks, shape_of(j), (enum fpisa_mode)j->mode, first);
	switch (fpisa_family(f, (enum fpisa_mode)j->mode)) {
#define X(family, name, bytes, rbits, limbs) \
	case family:                         \
		return add(j, in, r, blocks, first, SHAPE(CONSTANTS(f, family, bytes, rbits), limbs));
		FPISA_EACH_FAMILY(X)
#undef X
	}
	return 0;
}

uint32_t fpisa_soft_read(const struct fpisa_job *j, const struct fpisa_final *fin, void *out,
			 struct fpisa_soft_registers r, uint32_t blocks)
{
	const struct fpisa_format f = fpisa_job_format(j);
	uint32_t flags = 0;

	if (!fused_read(j, fin)) {
		flags = read_staged(fin, out, r, blocks, shape_of(j), (enum fpisa_rounding)j->rounding,
				    (enum fpisa_clz)j->clz);
		swap(j, out, blocks);
		return flags;
	}
	switch (fpisa_family(f, (enum fpisa_mode)j->mode)) {
#define X(family, name, bytes, rbits, limbs)                                                           \
	case family:                                                                                   \
		flags = read_out(j, out, r, blocks, SHAPE(CONSTANTS(f, family, bytes, rbits), limbs)); \
		break;
		FPISA_EACH_FAMILY(X)
#undef X
	}
	swap(j, out, blocks);
	return flags;
}
