/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The foreign data wrapper (doc/fdw.md), in parts: options.c, what servers, mappings and tables say; plan.c, scans and the
 * first N rows; where.c, which rows; join.c, those of a join; upper.c, groups; choose.c, which query at the aggregator is
 * free; ask.c, a query of libfpisa; scan.c, from its first row to its end; spill.c, groups beyond memory; values.c, its texts; explain.c;
 * import.c.
 */
#ifndef FPISA_POSTGRES_FDW_H
#define FPISA_POSTGRES_FDW_H

/* Names of ours stay in here: the server gives those of a module to all others. */
#define PGDLLEXPORT __attribute__((visibility("default")))

#include "postgres.h"
#include "foreign/fdwapi.h"
#include "foreign/foreign.h"
#include "lib/ilist.h"
#include "nodes/execnodes.h"
#include "storage/lock.h"

#include "fpisa-query.h"
#include "fpisa/names.h"

/* Arguments of create_foreignscan_path() and create_foreign_upper_path(): rows, since 18 with the count of disabled
 * nodes; what is private to us, since 17 after the clauses that a join or an aggregate above was given. */
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

/* A query at the aggregator, as `fpisa query add` made it. */
struct fdw_query {
	enum fdw_kind kind;
	uint32 number;
	uint64 limit;
	uint32 key_bytes;
	const char *filter; /* of join keys: bitmap, bloom; NULL: none */
	uint32 filter_bytes;
	bool ascending;
	uint16 local_port, worker_port;
};

struct fdw_server {
	char *workers, *aggregator; /* aggregator: NULL if there is none */
	uint32 timeout_ms;	    /* 0: the library's */
	int n;
	struct fdw_query query[FDW_QUERIES_MOST];
};

struct fdw_server *fdw_server_of(Oid server);
int fdw_workers(const struct fdw_server *server); /* how many */
const char *fdw_kind_name(enum fdw_kind kind);

/* The user's secrets for workers and aggregator; *key is a key's text, or NULL and *key_file is a name. */
struct fdw_secrets {
	const char *key, *key_file;
	uint64 token;
};

struct fdw_secrets fdw_secrets_of(Oid user, Oid server);

/* Names at the workers. */
char *fdw_table_of(Oid table);
char *fdw_column_of(Oid table, AttrNumber column);

/* Return the approximate number of the table's rows, from its option; 0: it has none. */
double fdw_rows_of(Oid table);

/* Return whether the foreign table declares the column NOT NULL. */
bool fdw_not_null(Oid table, AttrNumber column);

/* Return the most bytes of a value of a text column, from its option `bytes`; -1: it has none. */
int fdw_column_bytes(Oid table, AttrNumber column);

/* -- plan.c ------------------------------------------------------------------------ */

/* The request to workers. */
struct fdw_shape {
	enum fdw_kind kind;
	uint64 limit;
	bool ascending, nulls_first;
	AttrNumber value;  /* 0: none */
	bool no_nulls;	   /* the answer is right only if the value is never NULL */
	List *by;	   /* columns of the key */
	uint32 key_bytes;  /* that the key takes */
	const char *where; /* which rows, as workers read it; "": all */
	List *outputs;	   /* of groups, for each column of the scan: place in `by`, or FDW_COUNT ... */
	/* A table that the statement joins with, so that rows and groups which are in no join may be left out. */
	Oid joined;		  /* InvalidOid: none */
	List *on, *there;	  /* columns that are equal: of this one, the first of `by`; of that one */
	List *on_bytes;		  /* that each takes in keys */
	const char *joined_where; /* which rows of that one, as `where` */
};

enum fdw_output { FDW_COUNT = -1, FDW_SUM = -2, FDW_MIN = -3, FDW_MAX = -4, FDW_AVG = -5 };

/* State of a table while it is planned. */
struct fdw_rel {
	Oid server, table;
	const RelOptInfo *rel;
	struct fdw_shape shape;
	List *pushed, *local; /* conditions of WHERE that workers evaluate, and those that they do not: RestrictInfo */
	int terms;	      /* terms at the workers of the conditions in `pushed` */
	const char *why_not;  /* what the query could have been, and why it is not; NULL */
};

List *fdw_shape_list(const struct fdw_shape *shape, const char *why_not);
void fdw_shape_read(List *list, struct fdw_shape *shape, const char **why_not);

void fdw_rel_size(PlannerInfo *root, RelOptInfo *rel, Oid table);
void fdw_paths(PlannerInfo *root, RelOptInfo *rel, Oid table);
ForeignScan *fdw_plan(PlannerInfo *root, RelOptInfo *rel, Oid table, ForeignPath *path, List *targets, List *clauses,
		      Plan *outer);

/* -- where.c ----------------------------------------------------------------------- */

/* Parts r's table's conditions into r->pushed and r->local; r->shape.where is set. */
void fdw_part_where(const RelOptInfo *rel, struct fdw_rel *r);

/* Return the workers' name of a type; NULL: they have no such type. */
const char *fdw_worker_type(Oid type);

/* Add to the conditions `where` that the column is not NULL in these rows: if workers find a NULL, the statement fails. */
const char *fdw_never_null(const char *where, Oid table, AttrNumber column);

/* -- join.c ------------------------------------------------------------------------ */

/* When all is known of the statement: a table that r's is joined with goes into *shape, of rows or groups, if there is one. */
void fdw_find_join(const PlannerInfo *root, const struct fdw_rel *r, struct fdw_shape *shape);

/* -- upper.c ----------------------------------------------------------------------- */

void fdw_upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *in, RelOptInfo *out, void *extra);

/* -- choose.c ------------------------------------------------------------------------ */

/* The choice of who prunes, and of the query at the aggregator for it. */
struct fdw_choice {
	enum fpisa_pruning pruning;
	struct fdw_query query; /* of FPISA_PRUNING_NETWORK */
	int pairs;		/* the first columns of shape->on are the key of its filter; 0: that is not used */
	bool locked;
	LOCKTAG lock;
	uint64 not ;	     /* numbers that turned out not to be free, as why_not says of the last */
	const char *why_not; /* why not the network, or not its filter, where the session would have it; NULL */
};

/* The first query that fits and that no session of this cluster has; it is locked, until fdw_free(). choice->not is read. */
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
	bool compared;	 /* its files have been compared with those that the statement's other scans have read */
	int descriptors; /* counted by the server */
	const EState *statement;
	dlist_node scans;	    /* of this session */
	uint64 files, joined_files; /* what they were in the last run; 0: not known */
	MemoryContext memory;	    /* of one run: the inner side of a loop has many */
	MemoryContextCallback at_end;
	struct fpisa_query_counts counts; /* of all that are over */
	uint64 keys;			  /* of the join, in the last */
	bool filtered;
	uint32 runs;
	struct {
		struct Tuplesortstate *sort; /* NULL: all groups are in memory */
		bool sorted;
		uint64 records; /* of all runs */
	} spill;
	int n_columns;	  /* of the answer */
	int n_attributes; /* of the slot */
	AttrNumber *place; /* of each column of the answer: where in the slot, from 1; groups: of the slot, which column */
	AttrNumber *sure; /* of each column of the answer: the table's, if that is NOT NULL; else 0 */
	FmgrInfo *input;
	Oid *io_param;
};

void fdw_begin(ForeignScanState *node, int flags);
TupleTableSlot *fdw_iterate(ForeignScanState *node);
void fdw_rescan(ForeignScanState *node);
void fdw_end(ForeignScanState *node);

/* -- spill.c ------------------------------------------------------------------------- */

extern const struct fpisa_query_spill fdw_spill; /* its arg is the scan */
size_t fdw_spill_groups_most(void);		 /* bytes that groups may take before */
void fdw_spill_forget(void *scan);		 /* its temporary files go */

/* -- values.c ------------------------------------------------------------------------ */

/* The answer's columns, and where each stands in the slot. */
void fdw_prepare_columns(ForeignScanState *node, struct fdw_scan *s);

/* Workers compare keys by their types, so these have to be those of the table here: else an error. */
void fdw_check_keys(const struct fdw_scan *s);

/* A row of the answer into the slot. A sum beyond the range is an error, as it is of fpisa_sum(). */
void fdw_store_row(const struct fdw_scan *s, const char *const *row, TupleTableSlot *slot);

/* -- ask.c ----------------------------------------------------------------------------- */

/* The library's last error, as one of the statement. */
_Noreturn void fdw_fail(int error);

/* -EADDRINUSE comes back in *error, and NULL: a port is taken. Other errors do not come back. */
struct fpisa_query *fdw_open_query(const struct fpisa_query_options *wanted, const struct fdw_secrets *secrets,
				   int *error);
struct fpisa_query *fdw_ask(const struct fpisa_query_options *options,
			    const struct fdw_secrets *secrets); /* no error does */

/* Like fpisa_query_work() without a timeout, but they end with the statement; fdw_wait() reports errors and does not return with them. */
int fdw_wait_for(struct fpisa_query *query);
int fdw_wait(struct fpisa_query *query);

/* -- explain.c, import.c ---------------------------------------------------------- */

void fdw_explain(ForeignScanState *node, struct ExplainState *es);
List *fdw_import(ImportForeignSchemaStmt *statement, Oid server);

#endif
