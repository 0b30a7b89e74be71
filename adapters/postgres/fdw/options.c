/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Options of servers, user mappings, tables and columns. */
#include "fdw.h"
#include "access/htup_details.h"
#include "access/reloptions.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/varlena.h"

/*
 * Default sizes of a row's place and of a key, in bytes. The default size of a key is also that of `fpisa query add`,
 * for every kind of query.
 */
#define KEY_BYTES_TOPN 8
#define KEY_BYTES_TABLE 4
#define UDP_PORT 18000

static const struct option {
	Oid catalog;
	const char *name;
} known[] = {
	{ForeignServerRelationId, "workers"}, {ForeignServerRelationId, "aggregator"},
	{ForeignServerRelationId, "queries"}, {ForeignServerRelationId, "timeout"},
	{UserMappingRelationId, "key"},	      {UserMappingRelationId, "key_file"},
	{UserMappingRelationId, "token"},     {ForeignTableRelationId, "table_name"},
	{ForeignTableRelationId, "rows"},     {AttributeRelationId, "column_name"},
	{AttributeRelationId, "bytes"},
};

/* -- values -------------------------------------------------------------------- */

static _Noreturn void bad_value(const char *option, const char *value, const char *wanted)
{
	ereport(ERROR, errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
		errmsg("invalid value for option \"%s\": \"%s\"", option, value), errhint("%s", wanted));
}

static uint64 number(const char *option, const char *text, uint64 least, uint64 most)
{
	char *end;
	unsigned long long n;

	errno = 0;
	n = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || n < least || n > most)
		bad_value(option, text,
			  psprintf("The value must be a number from %llu to %llu.", (unsigned long long)least,
				   (unsigned long long)most));
	return n;
}

static uint64 token_of(const char *text)
{
	const char *digits = strncmp(text, "0x", 2) ? text : text + 2;
	char *end;
	unsigned long long n = strtoull(digits, &end, 16);

	if (!*digits || strlen(digits) > 16 || *end || !n || strspn(digits, "0123456789abcdefABCDEF") != strlen(digits))
		bad_value("token", "...",
			  "Give the token of \"fpisa query add --token\": up to 16 hexadecimal "
			  "digits.");
	return n;
}

/*
 * Check NAME:ID:SECRET, which is a line of a key file. NAME has at most 31 characters, ID has 8 digits and SECRET has
 * 64 digits.
 */
static void check_key(const char *text)
{
	static const char digits[] = "0123456789abcdef";
	size_t name = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

	if (!name || name > 31 || strlen(text) != name + 74 || text[name] != ':' ||
	    strspn(text + name + 1, digits) != 8 || text[name + 9] != ':' || strspn(text + name + 10, digits) != 64)
		bad_value("key", "...", "Give a line NAME:ID:SECRET of a file that \"fpisa key new\" wrote.");
}

static const char *word(char **rest)
{
	const char *w;

	do
		w = strsep(rest, " \t\n");
	while (w && !*w);
	return w;
}

#define QUERIES                                                                                                             \
	"List the queries, separated by commas: topn, table or join, the number, and the options that \"fpisa query add\" " \
	"was given: limit N, key-bytes B, values F, ascending, filter F, filter-keys N, filter-bytes B; local-port P and "  \
	"worker-port P if they are not 18000."

const char *fdw_kind_name(enum fdw_kind kind)
{
#define KIND(id, name) [FDW_##id] = (name),
	static const char *const names[] = {FPISA_KIND_NAMES(KIND, )};

	return names[kind];
}

static enum fdw_kind kind_of(const char *name, const char *whole)
{
	for (int i = FDW_TOPN; name && i <= FDW_JOIN; i++)
		if (!strcmp(name, fdw_kind_name((enum fdw_kind)i)))
			return (enum fdw_kind)i;
	bad_value("queries", whole, QUERIES);
}

static const char *filter_of(const char *name, const char *whole)
{
	static const char *const names[] = {FPISA_FILTER_NAMES(FPISA_NAMED, )};

	for (size_t i = 0; i < lengthof(names); i++)
		if (!strcmp(name, names[i]))
			return names[i];
	bad_value("queries", whole, "The filter must be bitmap or bloom.");
}

static const char *values_of(const char *name, const char *whole)
{
	static const char *const names[] = {FPISA_FORM_NAMES(FPISA_NAMED, )};

	for (size_t i = 0; i < lengthof(names); i++)
		if (!strcmp(name, names[i]))
			return names[i];
	bad_value("queries", whole, "The values must be real, double, int64 or int128.");
}

static void check_query(const struct fdw_query *q, const char *whole)
{
	if (!q->limit && q->kind != FDW_JOIN)
		bad_value("queries", whole, "Give the limit that \"fpisa query add\" was given.");
	if (q->key_bytes & (q->key_bytes - 1) || q->filter_bytes & (q->filter_bytes - 1))
		bad_value("queries", whole, "Keys must have 4, 8, 16 or 32 bytes.");
	if (strcmp(q->values, "real") && (q->kind == FDW_JOIN || q->key_bytes < 8))
		bad_value("queries", whole,
			  "Values other than real require a query of kind table or topn with key-bytes 8 or more.");
	if (q->filter_bytes && !q->filter)
		bad_value("queries", whole, "filter-bytes requires a filter.");
	if (q->filter_bytes > q->key_bytes)
		bad_value("queries", whole,
			  "The join key is the first bytes of the key, so filter-bytes must not "
			  "exceed key-bytes.");
	if (q->kind == FDW_JOIN && (!q->filter || q->key_bytes < q->filter_bytes + 8))
		bad_value("queries", whole,
			  "A query of kind join needs a filter, and at least 8 more key-bytes than filter-bytes.");
}

static struct fdw_query query_of(char *text, const char *whole)
{
	struct fdw_query q = {.local_port = UDP_PORT, .worker_port = UDP_PORT, .values = "real"};
	const char *kind = word(&text), *which = word(&text), *name;

	q.kind = kind_of(kind, whole);
	if (!which)
		bad_value("queries", whole, QUERIES);
	q.key_bytes = q.kind == FDW_TOPN ? KEY_BYTES_TOPN : KEY_BYTES_TABLE;
	q.number = number("queries", which, 0, 63);
	while ((name = word(&text))) {
		const char *value;

		if (!strcmp(name, "ascending") && q.kind == FDW_TOPN) {
			q.ascending = true;
			continue;
		}
		value = word(&text);
		if (!value)
			bad_value("queries", whole, QUERIES);
		if (!strcmp(name, "limit"))
			q.limit = number("queries", value, 1, 1 << 24);
		else if (!strcmp(name, "key-bytes"))
			q.key_bytes = number("queries", value, 4, FDW_KEY_MOST);
		else if (!strcmp(name, "values"))
			q.values = values_of(value, whole);
		else if (!strcmp(name, "filter"))
			q.filter = filter_of(value, whole);
		else if (!strcmp(name, "filter-keys"))
			number("queries", value, 1, 1 << 28);
		else if (!strcmp(name, "filter-bytes"))
			q.filter_bytes = number("queries", value, 4, FDW_KEY_MOST);
		else if (!strcmp(name, "local-port"))
			q.local_port = number("queries", value, 1, 65535);
		else if (!strcmp(name, "worker-port"))
			q.worker_port = number("queries", value, 1, 65535);
		else
			bad_value("queries", whole, QUERIES);
	}
	if (q.filter && !q.filter_bytes)
		q.filter_bytes = q.key_bytes;
	check_query(&q, whole);
	return q;
}

static int queries_of(const char *text, struct fdw_query *out)
{
	char *copy = pstrdup(text), *one;
	int n = 0;

	while ((one = strsep(&copy, ","))) {
		if (n == FDW_QUERIES_MOST)
			bad_value("queries", text, "List fewer queries.");
		out[n++] = query_of(one, text);
	}
	return n;
}

/* -- the validator -------------------------------------------------------------- */

static void check_privilege(Oid catalog, const DefElem *d)
{
	if (superuser())
		return;
	if (catalog == ForeignServerRelationId)
		ereport(ERROR, errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			errmsg("permission denied to set option \"%s\"", d->defname),
			errdetail("Only a superuser may choose the hosts that this server connects to."));
	if (!strcmp(d->defname, "key_file"))
		ereport(ERROR, errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			errmsg("permission denied to set option \"key_file\""),
			errdetail("Only a superuser may name a file that the server reads. Give the key itself as "
				  "option \"key\"."));
}

static void check_option(const DefElem *d)
{
	struct fdw_query queries[FDW_QUERIES_MOST];
	const char *value = defGetString((DefElem *)d);

	if (!strcmp(d->defname, "queries"))
		queries_of(value, queries);
	else if (!strcmp(d->defname, "timeout"))
		number("timeout", value, 1, 86400);
	else if (!strcmp(d->defname, "token"))
		token_of(value);
	else if (!strcmp(d->defname, "key"))
		check_key(value);
	else if (!strcmp(d->defname, "bytes"))
		number("bytes", value, 1, FDW_KEY_MOST - 1);
	else if (!strcmp(d->defname, "rows"))
		number("rows", value, 1, UINT64CONST(1) << 48);
	else if (!*value)
		bad_value(d->defname, value, "The value must not be empty.");
	else if (!strcmp(d->defname, "column_name") && strchr(value, ','))
		bad_value(d->defname, value, "Names of columns at workers must contain only letters, digits and _.");
}

static bool is_known(Oid catalog, const char *name)
{
	for (int i = 0; i < (int)lengthof(known); i++)
		if (known[i].catalog == catalog && !strcmp(known[i].name, name))
			return true;
	return false;
}

PG_FUNCTION_INFO_V1(fpisa_fdw_validator);
PGDLLEXPORT Datum fpisa_fdw_validator(PG_FUNCTION_ARGS)
{
	List *options = untransformRelOptions(PG_GETARG_DATUM(0));
	Oid catalog = PG_GETARG_OID(1);
	bool has[3] = {false};
	ListCell *cell;

	foreach(cell, options)
	{
		const DefElem *d = lfirst(cell);

		if (!is_known(catalog, d->defname))
			ereport(ERROR, errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
				errmsg("invalid option \"%s\"", d->defname),
				errhint("Servers accept workers, aggregator, queries, timeout; user mappings accept "
					"key, key_file, token; tables accept table_name, rows; columns accept "
					"column_name, bytes."));
		check_privilege(catalog, d);
		check_option(d);
		has[0] |= !strcmp(d->defname, "workers");
		has[1] |= !strcmp(d->defname, "queries") || !strcmp(d->defname, "key");
		has[2] |= !strcmp(d->defname, "aggregator") || !strcmp(d->defname, "key_file");
	}
	if (catalog == ForeignServerRelationId && !has[0])
		ereport(ERROR, errcode(ERRCODE_FDW_OPTION_NAME_NOT_FOUND), errmsg("option \"workers\" is missing"),
			errhint("List the workers' addresses: 10.0.0.11,10.0.0.12."));
	if (catalog == ForeignServerRelationId && has[1] != has[2])
		ereport(ERROR, errcode(ERRCODE_FDW_OPTION_NAME_NOT_FOUND),
			errmsg("option \"%s\" is missing", has[1] ? "aggregator" : "queries"),
			errhint("\"aggregator\" and \"queries\" must be given together."));
	if (catalog == UserMappingRelationId && has[1] == has[2])
		ereport(ERROR, errcode(ERRCODE_FDW_OPTION_NAME_NOT_FOUND),
			errmsg("a user mapping must have either \"key\" or \"key_file\""));
	PG_RETURN_VOID();
}

/* -- values of the options --------------------------------------------------------- */

static char *option(List *options, const char *name)
{
	ListCell *cell;

	foreach(cell, options) if (!strcmp(((DefElem *)lfirst(cell))->defname, name)) return defGetString(lfirst(cell));
	return NULL;
}

struct fdw_server *fdw_server_of(Oid server)
{
	ForeignServer *f = GetForeignServer(server);
	struct fdw_server *s = palloc0(sizeof(*s));
	const char *timeout = option(f->options, "timeout"), *queries = option(f->options, "queries");

	s->workers = option(f->options, "workers");
	s->aggregator = option(f->options, "aggregator");
	s->timeout_ms = timeout ? number("timeout", timeout, 1, 86400) * 1000 : 0;
	s->n = queries ? queries_of(queries, s->query) : 0;
	if (!s->workers)
		ereport(ERROR, errcode(ERRCODE_FDW_OPTION_NAME_NOT_FOUND),
			errmsg("server \"%s\" does not name workers", f->servername),
			errhint("Use ALTER SERVER ... OPTIONS (ADD workers '10.0.0.11,10.0.0.12')."));
	return s;
}

struct fdw_secrets fdw_secrets_of(Oid user, Oid server)
{
	UserMapping *m = GetUserMapping(user, server);
	const char *token = option(m->options, "token");

	return (struct fdw_secrets){
		.key = option(m->options, "key"),
		.key_file = option(m->options, "key_file"),
		.token = token ? token_of(token) : 0,
	};
}

char *fdw_table_of(Oid table)
{
	char *name = option(GetForeignTable(table)->options, "table_name");

	return name ? name : get_rel_name(table);
}

double fdw_rows_of(Oid table)
{
	const char *rows = option(GetForeignTable(table)->options, "rows");

	return rows ? (double)number("rows", rows, 1, UINT64CONST(1) << 48) : 0;
}

char *fdw_column_of(Oid table, AttrNumber column)
{
	char *name = option(GetForeignColumnOptions(table, column), "column_name");

	if (!name)
		name = get_attname(table, column, false);
	if (strchr(name, ','))
		ereport(ERROR, errcode(ERRCODE_FDW_INVALID_COLUMN_NAME),
			errmsg("workers do not support column \"%s\"", name),
			errhint("Use ALTER FOREIGN TABLE ... ALTER COLUMN ... OPTIONS (ADD column_name '...')."));
	return name;
}

int fdw_workers(const struct fdw_server *server)
{
	int n = 1;

	for (const char *c = server->workers; *c; c++)
		n += *c == ',';
	return n;
}

bool fdw_not_null(Oid table, AttrNumber column)
{
	HeapTuple tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(table), Int16GetDatum(column));
	bool sure = HeapTupleIsValid(tuple) && ((Form_pg_attribute)GETSTRUCT(tuple))->attnotnull;

	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	return sure;
}

int fdw_column_bytes(Oid table, AttrNumber column)
{
	const char *bytes = option(GetForeignColumnOptions(table, column), "bytes");

	return bytes ? (int)number("bytes", bytes, 1, FDW_KEY_MOST - 1) : -1;
}
