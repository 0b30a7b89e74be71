/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Errors of queries are those of libfpisa, under a name of their own: libfpisa-query has a copy of it inside. */
#include "fpisa-query.h"
#include "fpisa.h"

const char *fpisa_query_error(void)
{
	return fpisa_error();
}
