/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The foreign data wrapper (doc/fdw.md):
 *
 * 	options.c     options of servers, mappings and tables
 * 	plan.c        scans, and queries for the first N rows
 * 	conditions.c  conditions on rows
 * 	join.c        rows of a join
 * 	groups.c      groups
 * 	exact.c       exact sums in place of sum() and avg()
 * 	choice.c      choice of a free query at the aggregator
 * 	query.c       queries by libfpisa
 * 	scan.c        execution of a scan
 * 	spill.c       groups that do not fit into memory
 * 	values.c      conversion of an answer's texts
 * 	explain.c     EXPLAIN
 * 	import.c      IMPORT FOREIGN SCHEMA
 */
#ifndef FPISA_POSTGRES_FDW_H
#define FPISA_POSTGRES_FDW_H

/* Hide our symbols, because the server makes a module's symbols visible to all other modules. */
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
 * Arguments of create_foreignscan_path() and create_foreign_upper_path(), which depend on the version of PostgreSQL.
 * Since version 18 the number of disabled nodes follows the number of rows. Since version 17 a list of the clauses of a
 * join or aggregate precedes the private list.
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
#define FDW_KEY_MOST 32	  /* maximum size of a key in bytes */
#define FDW_TERMS_MOST 16 /* maximum number of conditions that workers accept */

enum fdw_kind { FDW_SCAN, FDW_TOPN, FDW_TABLE, FDW_JOIN };

/* What to do with a statement that reads all rows of a table. */
enum fdw_whole_table { FDW_WHOLE_ALLOW, FDW_WHOLE_NOTICE, FDW_WHOLE_REFUSE };

/* -- settings of a session ------------------------------------------------------ */

extern int fdw_pruning; /* enum fpisa_pruning */
extern bool fdw_pushdown, fdw_preaggregate, fdw_exact_sum;
extern int fdw_whole_table; /* enum fdw_whole_table */
extern double fdw_loss;

/* -- options.c -------------------------------------------------------------------- */

/* A query that `fpisa query add` created at the aggregator. */
struct fdw_query {
	enum fdw_kind kind;
	uint32 number;
	uint64 limit;
	uint32 key_bytes;
	const char *values; /* form of values, an argument of `fpisa query add` */
	const char *filter; /* type of the filter of join keys, bitmap or bloom; NULL if there is no filter */
	uint32 filter_bytes;
	bool ascending;
	uint16 local_port, worker_port;
};

struct fdw_server {
	char *workers, *aggregator; /* aggregator may be NULL */
	uint32 timeout_ms;	    /* 0 means the library's default */
	int n;
	struct fdw_query query[FDW_QUERIES_MOST];
};

struct fdw_server *fdw_server_of(Oid server);
int fdw_workers(const struct fdw_server *server); /* number of workers */
const char *fdw_kind_name(enum fdw_kind kind);

/*
 * The user's secrets for workers and aggregator. `key` is the text of a key. If `key` is NULL, `key_file` names the key
 * file.
 */
struct fdw_secrets {
	const char *key, *key_file;
	uint64 token;
};

struct fdw_secrets fdw_secrets_of(Oid user, Oid server);

/* Return the name that the workers use for the table or column. */
char *fdw_table_of(Oid table);
char *fdw_column_of(Oid table, AttrNumber column);

/* Return the approximate number of rows from the table's option `rows`, or 0 if the option is not set. */
double fdw_rows_of(Oid table);

/* Return whether the foreign table declares the column NOT NULL. */
bool fdw_not_null(Oid table, AttrNumber column);

/* Return the maximum size of the text column's values from its option `bytes`, or -1 if the option is not set. */
int fdw_column_bytes(Oid table, AttrNumber column);

/* -- plan.c ------------------------------------------------------------------------ */

/* A request to workers. */
struct fdw_shape {
	enum fdw_kind kind;
	uint64 limit;
	bool ascending, nulls_first;
	/*
	 * for the first rows: whether other columns, or WITH TIES, decide between rows with equal values. The last row
	 * is then one more than the statement asks for, and shows whether `value` alone decides
	 */
	bool one_more;
	AttrNumber value; /* 0 if there is no value, or if `aggregated` has the values */
	/* columns whose aggregates a query computes beside the number of rows; NIL if `value` is enough */
	List *aggregated; /* 0 stands for the rows, which are only counted, and -a for the number of distinct values of a */
	List *filters; /* for each of them, conditions of the rows to aggregate in the syntax of `where`, or "" */
	/*
	 * forms of values that a query may use, the best form first, such as "int64 int128"; "" means any form, and
	 * FDW_MIXED that no query at the aggregator takes the values
	 */
	const char *values;
	bool double_sums;  /* whether sums of reals are double precision */
	bool no_nulls;	   /* whether the answer is correct only if the value is never NULL */
	List *by;	   /* columns of the key */
	uint32 key_bytes;  /* size of the key */
	const char *where; /* condition on rows in the workers' syntax; "" means all rows */
	/*
	 * only for groups: whether the scan returns the columns in `by` of each group as a row of the table. `outputs`
	 * has the columns, as for rows
	 */
	bool distinct;
	/*
	 * only for other groups: for each column of the scan, its index in `by`, an enum fdw_output, or with `aggregated` the
	 * result of fdw_output_of()
	 */
	List *outputs;
	/*
	 * The following members describe a table that the statement joins. The query may drop rows and groups that are
	 * not in the join.
	 */
	Oid joined;		  /* InvalidOid means no join */
	List *on, *there;	  /* equal columns of this table, which come first in `by`, and of the joined table */
	List *on_bytes;		  /* size in keys of each column of `on` */
	const char *joined_where; /* condition on rows of the joined table, in the syntax of `where` */
};

/* Values, some of which are real or double precision and others not. */
#define FDW_MIXED "mixed"

enum fdw_output { FDW_COUNT = -1, FDW_SUM = -2, FDW_MIN = -3, FDW_MAX = -4, FDW_AVG = -5 };

#define FDW_AGGREGATES 5

/*
 * Return the output for an aggregate of aggregated column `k`. The output of the number of rows is FDW_COUNT. The
 * answer's columns after the keys have the order of outputs, from -1 on.
 */
static inline int fdw_output_of(enum fdw_output aggregate, int k)
{
	return (int)aggregate - 1 - k * FDW_AGGREGATES;
}

/* Return the number of the answer's columns for an entry of `aggregated`. */
static inline int fdw_aggregates_of(int column)
{
	return column > 0 ? FDW_AGGREGATES : 1;
}

/* State of a table during planning. */
struct fdw_rel {
	Oid server, table;
	const RelOptInfo *rel;
	struct fdw_shape shape;
	List *pushed, *local; /* RestrictInfo of WHERE: conditions that workers evaluate, and other conditions */
	int terms;	      /* number of the workers' terms for the conditions in `pushed` */
	const char *why_not;  /* why the query cannot do more of the work, or NULL */
	const char *why_all;  /* why distinct rows are not sufficient, or NULL */
};

List *fdw_shape_list(const struct fdw_shape *shape, const char *why_not);
void fdw_shape_read(List *list, struct fdw_shape *shape, const char **why_not);

void fdw_rel_size(PlannerInfo *root, RelOptInfo *rel, Oid table);
void fdw_paths(PlannerInfo *root, RelOptInfo *rel, Oid table);
ForeignScan *fdw_plan(PlannerInfo *root, RelOptInfo *rel, Oid table, ForeignPath *path, List *targets, List *clauses,
		      Plan *outer);

/* -- numeric.c ---------------------------------------------------------------------- */

/*
 * Return whether workers support the numeric type, which is numeric(p,s) with s from 0 to p. Set *precision and *scale,
 * which may be NULL.
 */
bool fdw_numeric(int32 typmod, int *precision, int *scale);

/* Return the constant as text, or NULL if workers do not accept it as a decimal of the type's scale. */
const char *fdw_numeric_text(const Const *c, int32 typmod);

/* -- conditions.c ------------------------------------------------------------------- */

/* Divide the conditions on the table of `r` into r->pushed and r->local, and set r->shape.where. */
void fdw_part_where(const RelOptInfo *rel, struct fdw_rel *r);

/*
 * Return the condition of a FILTER in the workers' syntax, or NULL if workers do not evaluate it.
 */
const char *fdw_filter(const RelOptInfo *rel, Oid table, Expr *filter);

/* Return the workers' name of a type, or NULL if workers do not support the type. */
const char *fdw_worker_type(Oid type);

/* Append to the conditions `where` that the column is never NULL. The statement fails if a worker finds a NULL. */
const char *fdw_never_null(const char *where, Oid table, AttrNumber column);

/* -- join.c ------------------------------------------------------------------------ */

/*
 * Find a table that prunes r's table by a join, and store it in *shape, whether
 * the shape is of rows or of groups. Call this after the planner knows the whole
 * statement.
 */
void fdw_find_join(const PlannerInfo *root, const struct fdw_rel *r, struct fdw_shape *shape);

/* -- groups.c ----------------------------------------------------------------------- */

void fdw_upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *in, RelOptInfo *out, void *extra);

/*
 * If the statement aggregates only distinct values, ask the workers for distinct rows of the columns that the statement
 * uses. The server aggregates them. Return whether r->shape asks for distinct rows.
 */
bool fdw_distinct(PlannerInfo *root, RelOptInfo *rel, struct fdw_rel *r);

/* Return whether this is the function of that name of the extension fpisa. */
bool fdw_is_ours(Oid function, const char *name);

/* Return whether the scan of this shape returns groups with aggregates. */
static inline bool fdw_is_groups(const struct fdw_shape *shape)
{
	return shape->kind == FDW_TABLE && !shape->distinct;
}

/* Return the forms of values of queries that take the column's type, or NULL if there are none. */
const char *fdw_forms_of(const Var *v);

/* -- exact.c ------------------------------------------------------------------------ */

/*
 * With fpisa.exact_sum, replace sum() and avg() of real and double precision by fpisa_sum() and fpisa_avg(), in the query
 * level that reads a foreign table, and in the levels that read this level's rows. Call this before the planner
 * estimates the foreign table's size.
 */
void fdw_exact_sums(PlannerInfo *root);

/* -- choice.c ----------------------------------------------------------------------- */

/* The chosen pruning, and the query at the aggregator that does it. */
struct fdw_choice {
	enum fpisa_pruning pruning;
	struct fdw_query query; /* only for FPISA_PRUNING_NETWORK */
	int pairs; /* the number of columns in shape->on that form the key of the filter; 0 if the filter is not used */
	bool adapts; /* whether fpisa.pruning is auto, and each worker decides whether to add its rows by key */
	bool locked;
	LOCKTAG lock;
	uint64 not ;	     /* bitmap of queries that were not free; why_not refers to the last of them */
	const char *why_not; /* why the network or its filter is not used although the session allows it, or NULL */
};

/*
 * Choose the first query that fits and that no session of this cluster uses.
 * Lock the query until fdw_free(). Skip the queries in choice->not.
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
	struct fpisa_query *query; /* NULL before the query begins, and after it is over */
	bool over;
	/* whether the files were compared with the files that other scans of the statement have read */
	bool compared;
	int descriptors; /* number of file descriptors reserved at the server */
	const EState *statement;
	dlist_node scans;	    /* link in the list of the session's scans */
	uint64 files, joined_files; /* versions of the files in the last run; 0 if unknown */
	/* memory of one run; the scan has many runs if it is the inner side of a nested loop */
	MemoryContext memory;
	MemoryContextCallback at_end;
	struct fpisa_query_counts counts; /* counts of all queries that have ended */
	uint64 keys;			  /* number of join keys in the last query */
	char plan[192];			  /* what fpisa.pruning = auto has chosen in the last query; "" if nothing */
	bool filtered;
	uint32 runs;
	struct {
		struct Tuplesortstate *sort; /* NULL if all groups are in memory */
		bool sorted;
		uint64 records; /* number of records in all runs */
	} spill;
	int n_columns;	  /* number of columns in the answer */
	int n_attributes; /* number of attributes in the slot */
	/* place in the slot of each column of the answer; for groups, column of the answer for each place */
	AttrNumber *place;
	/* for each column of the answer the table's column if the table declares it NOT NULL, else 0 */
	AttrNumber *sure;
	FmgrInfo *input;
	Oid *io_param;
};

void fdw_begin(ForeignScanState *node, int flags);
TupleTableSlot *fdw_iterate(ForeignScanState *node);
void fdw_rescan(ForeignScanState *node);
void fdw_end(ForeignScanState *node);

/* -- spill.c ------------------------------------------------------------------------- */

extern const struct fpisa_query_spill fdw_spill; /* `arg` is the scan */
size_t fdw_spill_groups_most(void);		 /* maximum size in bytes of the groups in memory */
void fdw_spill_forget(void *scan);		 /* removes the scan's temporary files */

/* -- values.c ------------------------------------------------------------------------ */

/* Check the answer's columns, and find their places in the slot. */
void fdw_prepare_columns(ForeignScanState *node, struct fdw_scan *s);

/*
 * Check that the keys, and the value of groups, have the same types at the workers as in the foreign table. Otherwise
 * fail, because workers compare and add by their own types.
 */
void fdw_check_types(const struct fdw_scan *s);

/* Store a row of the answer in the slot. Like fpisa_sum(), fail if a sum is out of range. */
void fdw_store_row(const struct fdw_scan *s, const char *const *row, TupleTableSlot *slot);

/* -- query.c ------------------------------------------------------------------------ */

/* Report the library's last error as an error of the statement. */
_Noreturn void fdw_fail(int error);

/*
 * Open a query. If a port is in use, set *error to -EADDRINUSE and return NULL. Raise an error of the statement for
 * other failures.
 */
struct fpisa_query *fdw_open_query(const struct fpisa_query_options *wanted, const struct fdw_secrets *secrets,
				   int *error);
struct fpisa_query *fdw_ask(const struct fpisa_query_options *options,
			    const struct fdw_secrets *secrets); /* raises an error of the statement on failure */

/*
 * Wait like fpisa_query_work() without a timeout, but stop when the statement
 * is cancelled. fdw_wait() raises an error of the statement on failure.
 */
int fdw_wait_for(struct fpisa_query *query);
int fdw_wait(struct fpisa_query *query);

/* -- explain.c, import.c ---------------------------------------------------------- */

void fdw_explain(ForeignScanState *node, struct ExplainState *es);
List *fdw_import(ImportForeignSchemaStmt *statement, Oid server);

#endif
