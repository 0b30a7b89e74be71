/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Groups that do not fit into memory. The server sorts the groups and keeps them in temporary files. */
#include "fdw.h"
#include "catalog/pg_operator_d.h"
#include "catalog/pg_type_d.h"
#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/tuplesort.h"

#define LEAST_KB 64 /* the minimum of tuplesort */

/*
 * Return the memory for groups in bytes, which is two thirds of a hash table's memory. One third remains for the sort.
 */
size_t fdw_spill_groups_most(void)
{
	return get_hash_memory_limit() / 3 * 2;
}

static int put(void *arg, const void *record, size_t size)
{
	struct fdw_scan *s = arg;
	size_t most_kb = get_hash_memory_limit() / 3 / 1024;
	MemoryContext before = MemoryContextSwitchTo(s->memory);
	bytea *bytes = palloc(VARHDRSZ + size);

	if (!s->spill.sort)
		s->spill.sort =
			tuplesort_begin_datum(BYTEAOID, ByteaLessOperator, InvalidOid, false,
					      (int)Min(Max(most_kb, LEAST_KB), MAX_KILOBYTES), NULL, TUPLESORT_NONE);
	SET_VARSIZE(bytes, VARHDRSZ + size);
	memcpy(VARDATA(bytes), record, size);
	tuplesort_putdatum(s->spill.sort, PointerGetDatum(bytes), false);
	pfree(bytes);
	MemoryContextSwitchTo(before);
	s->spill.records++;
	return 0;
}

static bool get(Tuplesortstate *sort, Datum *record)
{
	bool is_null;

#if PG_VERSION_NUM >= 160000
	return tuplesort_getdatum(sort, true, true, record, &is_null, NULL);
#else
	return tuplesort_getdatum(sort, true, record, &is_null, NULL);
#endif
}

static int take(void *arg, void *record, size_t size)
{
	struct fdw_scan *s = arg;
	MemoryContext before = MemoryContextSwitchTo(s->memory);
	Datum datum;
	bool is_there;

	if (!s->spill.sorted)
		tuplesort_performsort(s->spill.sort);
	s->spill.sorted = true;
	is_there = get(s->spill.sort, &datum);
	if (is_there) {
		memcpy(record, VARDATA_ANY(DatumGetPointer(datum)), size);
		pfree(DatumGetPointer(datum));
	}
	MemoryContextSwitchTo(before);
	return is_there;
}

void fdw_spill_forget(void *arg)
{
	struct fdw_scan *s = arg;

	if (s->spill.sort)
		tuplesort_end(s->spill.sort);
	s->spill.sort = NULL;
	s->spill.sorted = false;
}

const struct fpisa_query_spill fdw_spill = {.put = put, .take = take, .forget = fdw_spill_forget};
