/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef FPISA_UTF8_H
#define FPISA_UTF8_H

#include <stdbool.h>

/* Return whether the text is UTF-8, without surrogates, code points above U+10FFFF, and overlong forms. */
bool fpisa_is_utf8(const char *text);

#endif
