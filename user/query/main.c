// SPDX-License-Identifier: GPL-2.0-only
/* The program fpisa-query, which implements the verbs of `fpisa query`. */
#include "cli/verb.h"
#include "query/verbs/verbs.h"
#include "query/worker/worker.h"

static const struct verb verbs[] = {
	{"query add", verb_query_add,
	 "QUERY --kind topn|table|join --workers LIST --master M [--limit N] [OPTION...] [--json]",
	 "create a query, 0 to 63, under a number that no job has",
	 "  --kind KIND        topn: pass rows that may be among the first N, prune the others;\n"
	 "                     table: compute sum, least, greatest and count for each key;\n"
	 "                     join: pass rows whose key is in the filter, prune the others\n"
	 "  --master M         address of the master, ADDR[:PORT][@DEV] as for a worker\n"
	 "  --limit N          topn: N, at most 65536; table: number of keys, at most 16777216,\n"
	 "                     of at least 160 bytes each; rows of further keys go to the master\n"
	 "  --key-bytes B      size of a key: 4 (default), 8, 16 or 32. For query run, topn\n"
	 "                     needs 8, and join 16, or 32 with --filter-bytes 16\n"
	 "  --ascending        topn: order the least values first\n"
	 "  --ties             topn: also pass rows that equal the last of the first N\n"
	 "  --filter F         first prune rows that do not join, by a bitmap (keys from 0 on) or\n"
	 "                     bloom (any keys); workers send the keys first\n"
	 "  --filter-keys N    bitmap: one more than the greatest key, at most 268435456, of at least\n"
	 "                     1/4 byte each; bloom: number of keys, at most 16777216, 4 bytes each\n"
	 "  --filter-bytes B   size of the join key, the first 4, 8, 16 or 32 bytes of a row's key;\n"
	 "                     default the whole key\n"
	 "  --values F         table, topn: real (default), double, int64 (int32, int64, and decimals of\n"
	 "                     up to 18 digits) or int128 (all of these, and decimals of up to 38)\n",
	 query_add_help},
	{"query list", verb_query_list, "[--json]", "list the queries", NULL},
	{"query show", verb_query_show, "QUERY [--json]", "show a query's parameters, members, state and rows", NULL},
	{"query del", verb_query_del, "QUERY [--json]", "remove a query", NULL},
	{"query data", verb_query_data, "DIR [--pages N] [--visits N] [--workers N] [--seed S] [--json]",
	 "create the tables of the Big Data benchmark",
	 "  DIR                directory to create, with a directory 0, 1, ... for each worker. Each has\n"
	 "                     rankings.csv and uservisits.csv, and a .schema for each\n"
	 "  --pages N          rows of rankings over all workers, at most 268435456; default 1800000.\n"
	 "                     Each takes 4 bytes of memory; the benchmark has 18000000\n"
	 "  --visits N         rows of uservisits, of 136 bytes; default 3000000; the benchmark has 30000000\n"
	 "  --workers N        number of workers, at most 1024; default 2. Workers get rows in turn\n"
	 "  --seed S           default 1; equal seeds and sizes give equal rows on every machine\n",
	 .unpinned = true},
	{"query worker", verb_query_worker,
	 "DIR --key FILE [--driver FILE] [--databases FILE] [--listen ADDR] [--port N] [--scans N]",
	 "serve a directory of tables to masters of queries",
	 "  DIR                directory of tables. Each has a TABLE.schema with a line NAME TYPE [not null]\n"
	 "                     for each column (real, double, int32, int64, text, date, timestamp, decimal(P,S)),\n"
	 "                     and its rows in TABLE.csv, TABLE.tbl (TPC-H), TABLE.parquet, or a directory TABLE of\n"
	 "                     Parquet files; Parquet does not need a schema\n"
	 "  --key FILE         file of the keys whose holders are served; default $FPISA_KEY\n"
	 "  --driver FILE      DuckDB's library, for Parquet and --databases; default $FPISA_DRIVER or libduckdb.so\n"
	 "  --databases FILE   file of tables in other databases, with a line NAME DRIVER URI [TABLE] for each.\n"
	 "                     DRIVER is the file of the database's ADBC driver; TABLE is NAME by default\n"
	 "  --listen ADDR      address to listen on; default all addresses, IPv4 and IPv6\n"
	 "  --port N           TCP port for masters; default 18001\n"
	 "  --scans N          masters served at once, each by a process; default 64\n"
	 "The worker runs until a signal ends it. Questions, and rows for --columns, are encrypted. Rows in frames are\n"
	 "not.\n",
	 .unpinned = true},
	{"query run", verb_query_run, "TABLE --workers LIST [OPTION...] [--json]",
	 "ask workers for the first rows, for sums by key or in total, or for all rows",
	 "  --workers LIST     addresses ADDR[:PORT],... of fpisa query worker; default port 18001. An IPv6\n"
	 "                     address with a port is in brackets, as in [2001:db8::11]:18001\n"
	 "  --key FILE         key file, whose last key is used; default $FPISA_KEY\n"
	 "  --value COLUMN     column to aggregate or to order by, of numbers, dates or timestamps; several columns\n"
	 "                     A,B to aggregate give the answer count, count(A), sum(A), min(A), max(A), avg(A), ...;\n"
	 "                     'A filter (CONDITIONS)' aggregates only rows that meet conditions as of --where, and\n"
	 "                     '* filter (CONDITIONS)' counts them\n"
	 "  --limit N          return the first N rows by --value, the greatest first\n"
	 "  --ascending        order the least first\n"
	 "  --nulls-first      order rows without a value first, not last\n"
	 "  --by LIST          return a row for each key of these columns: count, and sum, min, max, avg of --value\n"
	 "  --total            return one row for the whole table: count, and sum, min, max, avg of --value\n"
	 "  --distinct LIST    return, for each of these rows, count and the number of different values of each\n"
	 "                     column, beside the aggregates of --value. In --value, 'count(distinct A)' is the same,\n"
	 "                     and may have a filter\n"
	 "  --double-sums      round sums of reals to doubles, as averages are\n"
	 "  --having COND      condition on these rows, such as 'sum>=100': count, sum, min, max or avg, then\n"
	 "                     <, <=, =, >= or >, then a number; sum(A) and so on for several columns\n"
	 "  --columns LIST     columns of rows; default all\n"
	 "  --where LIST       conditions that all hold: COLUMN OP VALUE,... with <, <=, =, <>, >=, >;\n"
	 "                     COLUMN null; COLUMN not null\n"
	 "  --join TABLE       table of the same workers to join with. Most or all rows and keys that\n"
	 "                     do not join are dropped on their way. Needs a query with --filter\n"
	 "  --on LIST          equal columns A=B,..., A of this table and B of the other; A is the first of --by\n"
	 "  --join-where LIST  conditions on the other table, in the same form\n"
	 "  --prune WHO        auto (default): by the kind of answer, and by the keys of each worker's rows; network:\n"
	 "                     rows pass through the aggregator; none: all rows come here; workers: each worker prunes\n"
	 "                     its rows and sends the rest here\n"
	 "  --preaggregate     let each worker first add its rows by key, exactly\n"
	 "  --aggregator ADDR[:PORT], --query N, --token H\n"
	 "                     the query that fpisa query add created\n"
	 "  --local-port N     UDP port of the master in that query; default 18000\n"
	 "  --worker-port N    UDP port of the workers in that query; default 18000\n"
	 "  --timeout S        fail after S seconds without progress; default 10\n"
	 "  --format F         csv (default), json, arrow (a stream of Arrow's IPC), or parquet, which DuckDB writes;\n"
	 "                     $FPISA_DRIVER names its library, else libduckdb.so. --json is --format json\n"
	 "  --debug-faults F   faults in the frames of all members, as for job add\n"
	 "The answer is on stdout. stderr shows where the rows went: sent = pruned + absorbed + received. An answer that\n"
	 "is not exact and complete is an error.\n",
	 .unpinned = true},
	{"query demo", verb_query_demo, "[--rows N] [--workers 2|4] [--loss P] [OPTION...] [--json]",
	 "run the paper's five queries in PostgreSQL, over a network in namespaces",
	 "  --rows N           rows of the Big Data benchmark's uservisits, over all workers; default 300000\n"
	 "  --scale S          scale of TPC-H, generated by tpchgen-cli from PyPI; default 0.01; 0: without TPC-H\n"
	 "  --workers N        2 (default) or 4\n"
	 "  --loss P           share of frames that workers and master drop; default 0\n"
	 "  --mbit N           rate of every link; default unlimited\n"
	 "  --runs N           runs of each query, for medians; default 1\n"
	 "  --seed S           seed of uservisits; default 1\n"
	 "  --duckdb           also compare with DuckDB from PyPI, whose sums are rounded\n"
	 "  --plot FILE.svg    draw the seconds as bars, with gnuplot\n"
	 "The verb needs the source tree, root, and a working `make postgres`. It runs each query with the network pruning,\n"
	 "without pruning, with each worker pruning, and in PostgreSQL alone over the same rows, and compares the answers.\n",
	 .unpinned = true, .is_here = query_demo_is_here},
	{"query resources", verb_query_resources, "[--json]", "show instructions and memory of the programs of queries",
	 "Load the objects without attaching or pinning anything.\n"},
};

int main(int argc, char **argv)
{
	return verbs_main(&(struct verbs){VERBS(verbs)}, argc, argv);
}
