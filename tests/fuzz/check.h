/* SPDX-License-Identifier: GPL-2.0-only */
/* What must hold whatever the input is: libFuzzer takes an abort for a crash, and keeps the input. */
#ifndef FUZZ_CHECK_H
#define FUZZ_CHECK_H

#include <stdlib.h>

#define CHECK(x)                 \
	do {                     \
		if (!(x))        \
			abort(); \
	} while (0)

#endif
