/* SPDX-License-Identifier: GPL-2.0-only */
/* libFuzzer's input, consumed from its beginning */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>

struct input {
	const uint8_t *at;
	size_t left;
};

static inline uint8_t input_byte(struct input *in)
{
	if (!in->left)
		return 0;
	in->left--;
	return *in->at++;
}

/* Take up to `most` bytes and return their number. The remaining bytes of *to do not change. */
size_t input_take(struct input *in, void *to, size_t most);

#endif
