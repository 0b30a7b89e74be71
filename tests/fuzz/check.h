/* SPDX-License-Identifier: GPL-2.0-only */
/* Checks that must hold for any input. libFuzzer reports an abort as a crash, and keeps the input. */
#ifndef FUZZ_CHECK_H
#define FUZZ_CHECK_H

#include <stdlib.h>

#define CHECK(x)                 \
	do {                     \
		if (!(x))        \
			abort(); \
	} while (0)

#endif
