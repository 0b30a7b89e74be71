/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Errors of queries. They are libfpisa's errors under another name, because libfpisa-query contains a copy of libfpisa.
 */
#include "fpisa-query.h"
#include "fpisa.h"

const char *fpisa_query_error(void)
{
	return fpisa_error();
}
