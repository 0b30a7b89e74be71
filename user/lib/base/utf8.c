/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#include <stddef.h>
#include "utf8.h"

bool fpisa_is_utf8(const char *text)
{
	static const struct {
		unsigned char first, last, second, second_last, more;
	} forms[] = {
		{0x01, 0x7f, 0, 0, 0},	     {0xc2, 0xdf, 0x80, 0xbf, 0}, {0xe0, 0xe0, 0xa0, 0xbf, 1},
		{0xe1, 0xec, 0x80, 0xbf, 1}, {0xed, 0xed, 0x80, 0x9f, 1}, {0xee, 0xef, 0x80, 0xbf, 1},
		{0xf0, 0xf0, 0x90, 0xbf, 2}, {0xf1, 0xf3, 0x80, 0xbf, 2}, {0xf4, 0xf4, 0x80, 0x8f, 2},
	};
	const unsigned char *at = (const unsigned char *)text;

	while (*at) {
		size_t i = 0;

		while (i < sizeof(forms) / sizeof(*forms) && (*at < forms[i].first || *at > forms[i].last))
			i++;
		if (i == sizeof(forms) / sizeof(*forms))
			return false;
		at++;
		if (forms[i].second && (*at < forms[i].second || *at > forms[i].second_last))
			return false;
		at += forms[i].second > 0;
		for (int more = forms[i].more; more; more--, at++)
			if ((*at & 0xc0) != 0x80)
				return false;
	}
	return true;
}
