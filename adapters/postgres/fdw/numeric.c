/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Support the type numeric(p,s), which workers call decimal(p,s). */
#include "fdw.h"
#include "catalog/pg_type_d.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

bool fdw_numeric(int32 typmod, int *precision, int *scale)
{
	int p = (typmod - VARHDRSZ) >> 16 & 0xffff, s = (typmod - VARHDRSZ) & 0x7ff;

	if (precision)
		*precision = p;
	if (scale)
		*scale = s;
	/* A negative scale gives a large value of s, which the comparison with p rejects. */
	return typmod >= VARHDRSZ && p <= FPISA_DECIMAL_MOST && s <= p;
}

const char *fdw_numeric_text(const Const *c, int32 typmod)
{
	const char *digits;
	char *text, *point;
	int scale, behind;
	size_t n;

	if (c->consttype != NUMERICOID || !fdw_numeric(typmod, NULL, &scale))
		return NULL;
	text = DatumGetCString(DirectFunctionCall1(numeric_out, c->constvalue));
	n = strlen(text);
	if (strspn(text, "-0123456789.") != n)
		return NULL;
	point = strchr(text, '.');
	while (point && text[n - 1] == '0')
		text[--n] = 0;
	behind = point ? (int)(text + n - point - 1) : 0;
	digits = text + strspn(text, "-0");
	return behind > scale || strcspn(digits, ".") > (size_t)(FPISA_DECIMAL_MOST - scale) ? NULL : text;
}
