/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Partials as bytea: the bytes of include/fpisa/partial.h, which may come from anywhere. */
#include "state.h"

bytea *partial_of(const struct fpisa_superacc *a, struct fpisa_format f)
{
	bytea *bytes = palloc(VARHDRSZ + FPISA_PARTIAL_MOST);

	SET_VARSIZE(bytes, VARHDRSZ + fpisa_partial_write(a, f, (uint8 *)VARDATA(bytes)));
	return bytes;
}

void partial_read(const bytea *bytes, struct fpisa_format f, union fpisa_superacc_full *out)
{
	const char *why;
	int rc = fpisa_partial_read(VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes), f, out, &why);

	if (rc)
		ereport(ERROR,
			errcode(rc == -ERANGE ? ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE : ERRCODE_INVALID_BINARY_REPRESENTATION),
			errmsg("invalid partial of fpisa: %s", why));
}
