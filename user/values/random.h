/* SPDX-License-Identifier: GPL-2.0-only */
/* Random numbers that the same seed repeats on every machine */
#ifndef FPISA_RANDOM_H
#define FPISA_RANDOM_H

#include <stdint.h>

/* Return the next random number. Every state is valid, so a seed may be any number. */
static inline uint64_t splitmix64(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* Return a number from 0 to n - 1. n is far below 2^64, so all are nearly equally likely. */
static inline uint64_t random_below(uint64_t *state, uint64_t n)
{
	return splitmix64(state) % n;
}

#endif
