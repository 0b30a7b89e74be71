/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Give libfpisa's errors another name in libfpisa-query, because libfpisa-query contains a copy of libfpisa. */
#include "fpisa-query.h"
#include "fpisa.h"

const char *fpisa_query_error(void)
{
	return fpisa_error();
}
