/* SPDX-License-Identifier: GPL-2.0-only */
/* The expected output of the pipeline, computed by include/fpisa/mau.h for one lane of lanes.v at a time. */
#ifndef REFERENCE_H
#define REFERENCE_H

#include <stdint.h>

#define LANES 12

#ifdef __cplusplus
extern "C" {
#endif

/* The registers of a slot. */
struct reference {
	uint16_t e;
	int64_t m;
};

struct reference_result {
	uint32_t word;
	uint8_t flags;
	uint8_t events; /* one bit for each event, in the order of FPISA_EV_*; 0xff if one add counted an event twice */
};

struct reference_lane {
	uint8_t ebits, mbits, mode, rounding;
	const char *name;
};

struct reference_lane reference_describe(int lane);

/* Add a word to the lane's slot, and read the slot. */
void reference_add(int lane, struct reference *slot, int first, uint32_t word, struct reference_result *out);

#ifdef __cplusplus
}
#endif

#endif
