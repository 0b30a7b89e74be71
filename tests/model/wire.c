/* SPDX-License-Identifier: GPL-2.0-only */
/* The checksum and one element's sum, for tests/model/check_wire.py. */
#include "fpisa/wire.h"
#include "fpisa/exact.h"

__u32 wire_checksum(const void *datagram, int payload_words)
{
	struct fpisa_sum sum = {};

	fpisa_sum_words(&sum, datagram, FPISA_SUM_HDR_WORDS);
	fpisa_sum_words(&sum, (const char *)datagram + FPISA_HDR_LEN, payload_words);
	return fpisa_sum_fold(&sum);
}

/* MAU6..8 of a lane whose mantissa is a magnitude. */
static __u64 read_out(struct fpisa_lane *l, struct fpisa_format f, int rounding)
{
	__u32 lz = f.rbits == 64 ? fpisa_clz64_bits((__u64)l->m) : fpisa_clz32_bits((__u32)l->m);

	fpisa_mau6_normalise(l, f, lz);
	fpisa_mau7_exponent(l, f, lz);
	fpisa_mau8_assemble(l, f, (enum fpisa_rounding)rounding);
	return l->word;
}

static __u64 exact_sum(const __u64 *words, int n, struct fpisa_format f, int rounding)
{
	int cells = f.ebits == 8 ? FPISA_CELLS : 1;
	__s64 row[FPISA_CELLS];
	struct fpisa_lane l;
	__u32 sticky = 0;

	for (int i = 0; i < n; i++) {
		l = (struct fpisa_lane){ .word = words[i] };
		fpisa_mau0_extract(&l, f);
		fpisa_mau1_implied_one(&l, f);
		fpisa_exact_mau2(&l, cells);
		sticky |= l.e & FPISA_EXP_SPECIAL;
		fpisa_exact_mau3(&l);
		if (i)
			fpisa_exact_mau4(&l, row);
		else
			fpisa_exact_mau4_first(&l, row, cells);
	}
	l = (struct fpisa_lane){ .e = sticky };
	fpisa_exact_mau5(&l, row, cells, 1);
	return read_out(&l, f, rounding);
}

/* The sum of packed `words` in their order, through MAU0..8, in a job of `workers`. */
__u64 wire_sum(const __u64 *words, int n, int format, int mode, int rounding, __u32 workers)
{
	const struct fpisa_format f = fpisa_register((__u8)format, (enum fpisa_mode)mode, workers);
	struct fpisa_lane l = {};
	__s64 m = 0;
	__u16 e = 0;

	if (mode == FPISA_MODE_EXACT)
		return exact_sum(words, n, f, rounding);
	for (int i = 0; i < n; i++) {
		l = (struct fpisa_lane){ .word = words[i] };
		fpisa_mau0_extract(&l, f);
		fpisa_mau1_implied_one(&l, f);
		if (!i) {
			e = fpisa_mau2_first(&l);
			m = l.m;
			continue;
		}
		e = fpisa_mau2_exponent(&l, e, f, (enum fpisa_mode)mode);
		fpisa_mau3_align(&l, f, (enum fpisa_mode)mode);
		m = fpisa_mau4_add(&l, m, f, (enum fpisa_mode)mode);
	}
	l = (struct fpisa_lane){ .m = m, .e = e };
	fpisa_mau5_sign(&l);
	return read_out(&l, f, rounding);
}
