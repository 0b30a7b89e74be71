/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* IMPORT FOREIGN SCHEMA imports the tables of the workers. */
#include "fdw.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#define TABLES "fpisa_tables" /* name of the table at each worker that lists the other tables */

/* A query, which libfpisa allocates. A callback of the memory context frees it, even after an error. */
struct asking {
	struct fpisa_query *query;
	MemoryContextCallback at_end;
};

static void end_asking(void *arg)
{
	struct asking *a = arg;

	fpisa_query_close(a->query);
	a->query = NULL;
}

static struct asking *ask(const struct fdw_server *server, const struct fdw_secrets *secrets, const char *table)
{
	const struct fpisa_query_options o = {
		.workers = server->workers,
		.table = table,
		.timeout_ms = server->timeout_ms,
		.pruning = FPISA_PRUNING_NONE,
	};
	struct asking *a = palloc0(sizeof(*a));

	a->at_end = (MemoryContextCallback){.func = end_asking, .arg = a};
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &a->at_end);
	a->query = fdw_ask(&o, secrets);
	return a;
}

/* Check that the answer has a single text column, which lists names. */
static void check_names(struct fpisa_query *query)
{
	const struct fpisa_query_column *c;

	if (fpisa_query_columns(query, &c) != 1 || c->type != FPISA_COLUMN_TEXT || !c->not_null)
		ereport(ERROR, errcode(ERRCODE_FDW_INCONSISTENT_DESCRIPTOR_INFORMATION),
			errmsg("table %s at the workers does not have the single column \"name text not null\"", TABLES),
			errhint("Run one release of fpisa on all hosts."));
}

/* Return the names of the tables of all workers, without duplicates. */
static List *all_tables(const struct fdw_server *server, const struct fdw_secrets *secrets)
{
	struct asking *a = ask(server, secrets, TABLES);
	const char *const *row;
	List *names = NIL;
	int state, rc;

	do {
		state = fdw_wait(a->query);
		while ((rc = fpisa_query_next(a->query, &row)) > 0) {
			bool there = false;
			const char *name;
			ListCell *cell;

			CHECK_FOR_INTERRUPTS();
			check_names(a->query);
			if (!row[0])
				ereport(ERROR, errcode(ERRCODE_NOT_NULL_VIOLATION),
					errmsg("a worker has a table without a name"),
					errhint("Run one release of fpisa on all hosts."));
			name = pg_any_to_server(row[0], (int)strlen(row[0]), PG_UTF8);
			foreach(cell, names) there |= !strcmp(lfirst(cell), name);
			if (!there)
				names = lappend(names, pstrdup(name));
		}
		if (rc < 0)
			fdw_fail(rc);
	} while (state != 2);
	end_asking(a);
	return names;
}

/* -- a table --------------------------------------------------------------------- */

static const char *const types[] = {
	[FPISA_COLUMN_REAL] = "real",	    [FPISA_COLUMN_DOUBLE] = "double precision",
	[FPISA_COLUMN_INT32] = "integer",   [FPISA_COLUMN_INT64] = "bigint",
	[FPISA_COLUMN_TEXT] = "text",	    [FPISA_COLUMN_DATE] = "date",
	[FPISA_COLUMN_DECIMAL] = "numeric", [FPISA_COLUMN_TIMESTAMP] = "timestamp",
};

static char *in_lower_case(const char *name)
{
	char *out = pstrdup(name);

	for (char *p = out; *p; p++)
		*p = (char)pg_tolower((unsigned char)*p);
	return out;
}

/* Return whether the names of all columns differ in lower case. */
static bool lower_differ(const struct fpisa_query_column *c, uint32 n)
{
	for (uint32 i = 0; i < n; i++)
		for (uint32 k = 0; k < i; k++)
			if (!pg_strcasecmp(c[i].name, c[k].name))
				return false;
	return true;
}

static char *statement_of(const struct fdw_server *server, const struct fdw_secrets *secrets, const char *table,
			  const char *local_schema, const char *server_name)
{
	struct asking *a = ask(server, secrets, table);
	const struct fpisa_query_column *c;
	StringInfoData sql;
	bool lowered;
	uint32 n, precision, scale;

	fdw_wait(a->query);
	n = fpisa_query_columns(a->query, &c);
	lowered = lower_differ(c, n);
	initStringInfo(&sql);
	appendStringInfo(&sql, "CREATE FOREIGN TABLE %s.%s (", quote_identifier(local_schema), quote_identifier(table));
	for (uint32 i = 0; i < n; i++) {
		const char *name = lowered ? in_lower_case(c[i].name) : c[i].name;

		appendStringInfo(&sql, "%s%s %s", i ? ", " : "", quote_identifier(name),
				 c[i].type < lengthof(types) ? types[c[i].type] : "text");
		precision = fpisa_query_precision(a->query, i, &scale);
		if (precision)
			appendStringInfo(&sql, "(%u,%u)", precision, scale);
		if (strcmp(name, c[i].name))
			appendStringInfo(&sql, " OPTIONS (column_name %s)", quote_literal_cstr(c[i].name));
		if (c[i].not_null)
			appendStringInfoString(&sql, " NOT NULL");
	}
	appendStringInfo(&sql, ") SERVER %s OPTIONS (table_name %s)", quote_identifier(server_name),
			 quote_literal_cstr(table));
	end_asking(a);
	return sql.data;
}

/* Add a hint to an error about one table while all tables are imported. */
static void say_except(void *table)
{
	if (geterrcode() == ERRCODE_FDW_ERROR || geterrcode() == ERRCODE_FDW_TABLE_NOT_FOUND)
		errhint("To import the others, use EXCEPT (%s).", quote_identifier(table));
}

List *fdw_import(ImportForeignSchemaStmt *statement, Oid server_oid)
{
	struct fdw_server *server = fdw_server_of(server_oid);
	struct fdw_secrets secrets = fdw_secrets_of(GetUserId(), server_oid);
	ErrorContextCallback context = {.callback = say_except, .previous = error_context_stack};
	List *names = NIL, *statements = NIL;
	ListCell *cell;

	if (statement->options)
		ereport(ERROR, errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
			errmsg("IMPORT FOREIGN SCHEMA does not support options for this server"));
	if (statement->list_type == FDW_IMPORT_SCHEMA_LIMIT_TO)
		foreach(cell, statement->table_list) names = lappend(names, ((RangeVar *)lfirst(cell))->relname);
	else
		names = all_tables(server, &secrets);
	foreach(cell, names)
	{
		bool wanted = true;
		ListCell *other;

		if (statement->list_type == FDW_IMPORT_SCHEMA_EXCEPT)
			foreach(other, statement->table_list) wanted &=
				strcmp(((RangeVar *)lfirst(other))->relname, lfirst(cell)) != 0;
		if (!wanted)
			continue;
		context.arg = lfirst(cell);
		error_context_stack = statement->list_type == FDW_IMPORT_SCHEMA_LIMIT_TO ? context.previous : &context;
		statements = lappend(statements, statement_of(server, &secrets, lfirst(cell), statement->local_schema,
							      statement->server_name));
		error_context_stack = context.previous;
	}
	return statements;
}
