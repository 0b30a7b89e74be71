/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The foreign data wrapper (doc/fdw.md):
 *
 *	options.c     options of servers, mappings and tables
 *	plan.c        scans and the first N rows
 *	conditions.c  conditions on rows
 *	join.c        rows of a join
 *	groups.c      groups
 *	choice.c      the choice of a free query at the aggregator
 *	query.c       a query of libfpisa
 *	scan.c        the query from its first row to its end
 *	spill.c       groups beyond memory
 *	values.c      texts of an answer
 *	explain.c     EXPLAIN
 *	import.c      IMPORT FOREIGN SCHEMA
 */
#ifndef FPISA_POSTGRES_FDW_H
#define FPISA_POSTGRES_FDW_H

/* Keep our names inside this module: the server shows a module's names to all others. */
#define PGDLLEXPORT __attribute__((visibility("default")))

#include "postgres.h"
#include "foreign/fdwapi.h"
#include "foreign/foreign.h"
#include "lib/ilist.h"
#include "nodes/execnodes.h"
#include "storage/lock.h"

#include "fpisa-query.h"
#include "fpisa/names.h"

/*
 * Arguments of create_foreignscan_path() and create_foreign_upper_path(). Since 18 the count of disabled nodes follows
 * the rows. Since 17 the clauses of a join or an aggregate above precede our private list.
 */
#if PG_VERSION_NUM >= 180000
#define FDW_ROWS(rows) (rows), 0
#else
#define FDW_ROWS(rows) (rows)
#endif
#if PG_VERSION_NUM >= 170000
#define FDW_PRIVATE(list) NIL, (list)
#else
#define FDW_PRIVATE(list) (list)
#endif

#define FDW_LIMIT_MOST 65536
#define FDW_QUERIES_MOST 64
#define FDW_KEY_MOST 32	  /* bytes of a key */
#define FDW_TERMS_MOST 16 /* conditions that workers take */

enum fdw_kind { FDW_SCAN, FDW_TOPN, FDW_TABLE, FDW_JOIN };

/* -- settings of a session ------------------------------------------------------ */

extern int fdw_pruning; /* enum fpisa_pruning */
extern bool fdw_pushdown, fdw_preaggregate;
extern double fdw_loss;

/* -- options.c -------------------------------------------------------------------- */

/* A query at the aggregator, as `fpisa query add` created it. */
struct fdw_query {
	enum fdw_kind kind;
	uint32 number;
	uint64 limit;
	uint32 key_bytes;
	const char *values; /* form of values, as "fpisa query add" was told */
	const char *filter; /* filter of join keys, bitmap or bloom, or NULL */
	uint32 filter_bytes;
	bool ascending;
	uint16 local_port, worker_port;
};

struct fdw_server {
	char *workers, *aggregator; /* aggregator: may be NULL */
	uint32 timeout_ms;	    /* 0: the library's default */
	int n;
	struct fdw_query query[FDW_QUERIES_MOST];
};

struct fdw_server *fdw_server_of(Oid server);
int fdw_workers(const struct fdw_server *server); /* number of workers */
const char *fdw_kind_name(enum fdw_kind kind);

/* The user's secrets for workers and aggregator: the text of a key, or if `key` is NULL the name of a file. */
struct fdw_secrets {
	const char *key, *key_file;
	uint64 token;
};

struct fdw_secrets fdw_secrets_of(Oid user, Oid server);

/* Return the names that the workers use. */
char *fdw_table_of(Oid table);
char *fdw_column_of(Oid table, AttrNumber column);

/* Return the approximate number of the table's rows, from its option, or 0 without the option. */
double fdw_rows_of(Oid table);

/* Return whether the foreign table declares the column NOT NULL. */
bool fdw_not_null(Oid table, AttrNumber column);

/* Return the most bytes of a value of a text column, from its option `bytes`, or -1 without the option. */
int fdw_column_bytes(Oid table, AttrNumber column);

/* -- plan.c ------------------------------------------------------------------------ */

/* The request to workers. */
struct fdw_shape {
	enum fdw_kind kind;
	uint64 limit;
	bool ascending, nulls_first;
	AttrNumber value;   /* 0: no value */
	const char *values; /* forms of values of a query that adds the value, the best first: "int64 int128"; "": any */
	bool no_nulls;	    /* the answer is right only if the value is never NULL */
	List *by;	    /* columns of the key */
	uint32 key_bytes;   /* size of the key */
	const char *where;  /* condition on rows, in the workers' syntax; "": all rows */
	List *outputs;	    /* for groups, for each column of the scan: place in `by`, or FDW_COUNT ... */
	/* A table that the statement joins with. Rows and groups that are not in the join may be left out. */
	Oid joined;		  /* InvalidOid: no join */
	List *on, *there;	  /* equal columns: of this table, the first of `by`; of the joined table */
	List *on_bytes;		  /* size of each column in keys */
	const char *joined_where; /* condition on rows of the joined table, like `where` */
};

enum fdw_output { FDW_COUNT = -1, FDW_SUM = -2, FDW_MIN = -3, FDW_MAX = -4, FDW_AVG = -5 };

/* State of a table during planning. */
struct fdw_rel {
	Oid server, table;
	const RelOptInfo *rel;
	struct fdw_shape shape;
	List *pushed, *local; /* conditions of WHERE that workers evaluate, and the others: RestrictInfo */
	int terms;	      /* terms at the workers for the conditions in `pushed` */
	const char *why_not;  /* why the query is not what it could have been, or NULL */
};

List *fdw_shape_list(const struct fdw_shape *shape, const char *why_not);
void fdw_shape_read(List *list, struct fdw_shape *shape, const char **why_not);

void fdw_rel_size(PlannerInfo *root, RelOptInfo *rel, Oid table);
void fdw_paths(PlannerInfo *root, RelOptInfo *rel, Oid table);
ForeignScan *fdw_plan(PlannerInfo *root, RelOptInfo *rel, Oid table, ForeignPath *path, List *targets, List *clauses,
		      Plan *outer);

/* -- numeric.c ---------------------------------------------------------------------- */

/* Return whether workers have such a type: numeric(p,s), s of 0 to p. Set *precision and *scale, which may be NULL. */
bool fdw_numeric(int32 typmod, int *precision, int *scale);

/* Return the constant as text, or NULL if workers do not take it as a decimal of the type's scale. */
const char *fdw_numeric_text(const Const *c, int32 typmod);

/* -- conditions.c ------------------------------------------------------------------- */

/* Divide the conditions on r's table into r->pushed and r->local, and set r->shape.where. */
void fdw_part_where(const RelOptInfo *rel, struct fdw_rel *r);

/* Return the workers' name of a type, or NULL if they do not have the type. */
const char *fdw_worker_type(Oid type);

/* Add to the conditions `where` that the column is not NULL in these rows. If workers find a NULL, the statement fails. */
const char *fdw_never_null(const char *where, Oid table, AttrNumber column);

/* -- join.c ------------------------------------------------------------------------ */

/*
 * Find a table that r's table is joined with, and put it into *shape, of rows or
 * groups. Call when all of the statement is known.
 */
void fdw_find_join(const PlannerInfo *root, const struct fdw_rel *r, struct fdw_shape *shape);

/* -- groups.c ----------------------------------------------------------------------- */

void fdw_upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *in, RelOptInfo *out, void *extra);

/* -- choice.c ----------------------------------------------------------------------- */

/* The chosen pruning, and the query at the aggregator for it. */
struct fdw_choice {
	enum fpisa_pruning pruning;
	struct fdw_query query; /* for FPISA_PRUNING_NETWORK */
	int pairs; /* the first columns of shape->on are the key of the filter; 0: the filter is not used */
	bool locked;
	LOCKTAG lock;
	uint64 not ;	     /* bitmap of queries that were not free; why_not is about the last one */
	const char *why_not; /* why not the network, or not its filter, although the session allows it; or NULL */
};

/*
 * Choose the first query that fits and that no session of this cluster uses, and
 * lock it until fdw_free(). Reads choice->not.
 */
void fdw_choose(const struct fdw_server *server, const struct fdw_shape *shape, struct fdw_choice *choice);
void fdw_free(struct fdw_choice *choice);

/* -- scan.c ------------------------------------------------------------------------- */

struct fdw_scan {
	struct fdw_shape shape;
	const char *why_not;
	struct fdw_server *server;
	struct fdw_secrets secrets;
	Oid table;
	struct fdw_choice choice;
	struct fpisa_query *query; /* NULL: not begun, or over */
	bool over;
	bool compared;	 /* the files have been compared with the files that the statement's other scans have read */
	int descriptors; /* counted by the server */
	const EState *statement;
	dlist_node scans;	    /* scans of this session */
	uint64 files, joined_files; /* versions of the files in the last run; 0: not known */
	MemoryContext memory;	    /* memory of one run: the inner side of a loop has many runs */
	MemoryContextCallback at_end;
	struct fpisa_query_counts counts; /* counts of all queries that are over */
	uint64 keys;			  /* join keys in the last query */
	bool filtered;
	uint32 runs;
	struct {
		struct Tuplesortstate *sort; /* NULL: all groups are in memory */
		bool sorted;
		uint64 records; /* records of all runs */
	} spill;
	int n_columns;	  /* columns of the answer */
	int n_attributes; /* attributes of the slot */
	AttrNumber *place; /* place of each column of the answer in the slot; for groups: column of the answer for each place */
	AttrNumber *sure; /* for each column of the answer the table's column if that is NOT NULL, else 0 */
	FmgrInfo *input;
	Oid *io_param;
};

void fdw_begin(ForeignScanState *node, int flags);
TupleTableSlot *fdw_iterate(ForeignScanState *node);
void fdw_rescan(ForeignScanState *node);
void fdw_end(ForeignScanState *node);

/* -- spill.c ------------------------------------------------------------------------- */

extern const struct fpisa_query_spill fdw_spill; /* arg is the scan */
size_t fdw_spill_groups_most(void);		 /* bytes of groups in memory before they spill */
void fdw_spill_forget(void *scan);		 /* removes the scan's temporary files */

/* -- values.c ------------------------------------------------------------------------ */

/* Find the answer's columns and their places in the slot. */
void fdw_prepare_columns(ForeignScanState *node, struct fdw_scan *s);

/*
 * Check that keys, and the value of groups, have the same types at the workers as in the table here: workers compare and
 * add by their types. Else fail.
 */
void fdw_check_types(const struct fdw_scan *s);

/* Store a row of the answer in the slot. Fail if a sum is beyond the range, as fpisa_sum() does. */
void fdw_store_row(const struct fdw_scan *s, const char *const *row, TupleTableSlot *slot);

/* -- query.c ------------------------------------------------------------------------ */

/* Report the library's last error as an error of the statement. */
_Noreturn void fdw_fail(int error);

/* Open a query. If a port is taken, set *error to -EADDRINUSE and return NULL. Do not return on other errors. */
struct fpisa_query *fdw_open_query(const struct fpisa_query_options *wanted, const struct fdw_secrets *secrets,
				   int *error);
struct fpisa_query *fdw_ask(const struct fpisa_query_options *options,
			    const struct fdw_secrets *secrets); /* does not return on errors */

/*
 * Wait like fpisa_query_work() without a timeout, but end with the statement.
 * fdw_wait() reports errors and does not return then.
 */
int fdw_wait_for(struct fpisa_query *query);
int fdw_wait(struct fpisa_query *query);

/* -- explain.c, import.c ---------------------------------------------------------- */

void fdw_explain(ForeignScanState *node, struct ExplainState *es);
List *fdw_import(ImportForeignSchemaStmt *statement, Oid server);

#endif
