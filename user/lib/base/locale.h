/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Numbers with a decimal point in any locale of the program. Between fpisa_locale_enter() and fpisa_locale_leave(),
 * printf() of this thread writes a decimal point. Pass FPISA_LOCALE to strtof_l() and strtod_l().
 */
#ifndef FPISA_LOCALE_H
#define FPISA_LOCALE_H

#include <locale.h>

/* glibc and musl return a constant object, so freeing it is not necessary and errors cannot occur. */
#define FPISA_LOCALE newlocale(LC_ALL_MASK, "C", (locale_t)0)

static inline locale_t fpisa_locale_enter(void)
{
	return uselocale(FPISA_LOCALE);
}

static inline void fpisa_locale_leave(locale_t before)
{
	uselocale(before);
}

#endif
