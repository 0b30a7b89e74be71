/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The nine functions in the order of block.h, with constants for formats, modes and roundings. reference.h documents
 * the function.
 */
#include "reference.h"

#include "fpisa/mau.h"

static const char *const names[LANES] = {
	"fp32 fpisa down", "fp32 fpisa nearest", "fp32 fpisa-a down", "fp32 fpisa-a nearest",
	"fp16 fpisa down", "fp16 fpisa nearest", "fp16 fpisa-a down", "fp16 fpisa-a nearest",
	"bf16 fpisa down", "bf16 fpisa nearest", "bf16 fpisa-a down", "bf16 fpisa-a nearest",
};

static __always_inline struct fpisa_format format_of(int lane)
{
	return fpisa_format_of((__u8)(FPISA_FORMAT_FP32 + lane / 4));
}

static __always_inline enum fpisa_mode mode_of(int lane)
{
	return lane / 2 % 2 ? FPISA_MODE_FPISA_A : FPISA_MODE_FPISA;
}

static __always_inline enum fpisa_rounding rounding_of(int lane)
{
	return lane % 2 ? FPISA_ROUND_NEAREST : FPISA_ROUND_DOWN;
}

struct reference_lane reference_describe(int lane)
{
	struct fpisa_format f = format_of(lane);

	return (struct reference_lane){f.ebits, f.mbits, mode_of(lane), rounding_of(lane), names[lane]};
}

static uint8_t event_bits(__u64 events)
{
	uint8_t bits = 0;

	for (int i = 0; i < 4; i++) {
		__u32 n = fpisa_event_count(events, 16 * i);

		if (n > 1)
			return 0xff;
		bits |= (uint8_t)(n << i);
	}
	return bits;
}

static __always_inline void add(struct reference *slot, int first, uint32_t word, struct reference_result *out,
				struct fpisa_format f, enum fpisa_mode mode, enum fpisa_rounding rounding)
{
	struct fpisa_lane l = {.word = word};
	__u32 lz;

	fpisa_mau0_extract(&l, f);
	fpisa_mau1_implied_one(&l, f);
	if (first) {
		slot->e = fpisa_mau2_first(&l);
		slot->m = l.m;
	} else {
		slot->e = fpisa_mau2_exponent(&l, slot->e, f, mode);
		fpisa_mau3_align(&l, f, mode);
		slot->m = fpisa_mau4_add(&l, slot->m, f, mode);
	}
	out->events = event_bits(l.events);

	struct fpisa_lane r = {.m = slot->m, .e = slot->e};

	fpisa_mau5_sign(&r);
	lz = fpisa_clz32_bits((__u64)r.m);
	fpisa_mau6_normalise(&r, f, lz);
	fpisa_mau7_exponent(&r, f, lz);
	fpisa_mau8_assemble(&r, f, rounding);
	out->word = (uint32_t)r.word;
	out->flags = (uint8_t)r.flags;
}

#define LANE(i)                                                                        \
	case i:                                                                        \
		add(slot, first, word, out, format_of(i), mode_of(i), rounding_of(i)); \
		break

void reference_add(int lane, struct reference *slot, int first, uint32_t word, struct reference_result *out)
{
	switch (lane) {
		LANE(0);
		LANE(1);
		LANE(2);
		LANE(3);
		LANE(4);
		LANE(5);
		LANE(6);
		LANE(7);
		LANE(8);
		LANE(9);
		LANE(10);
		LANE(11);
	}
}
