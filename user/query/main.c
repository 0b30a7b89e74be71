// SPDX-License-Identifier: GPL-2.0-only
/* fpisa-query: what `fpisa query ...` runs. */
#include "cli/verb.h"
#include "query/verbs/verbs.h"
#include "query/worker/worker.h"

static const struct verb verbs[] = {
	{"query add", verb_query_add,
	 "QUERY --kind topn|table|join --workers LIST --master M [--limit N] [OPTION...] [--json]",
	 "make a query, 0 to 63, of a number that no job has",
	 "  --kind KIND        topn: rows that may be among the first N pass, others are pruned;\n"
	 "                     table: sum, least, greatest and count of the values of each key;\n"
	 "                     join: rows whose key is in the filter pass, others are pruned\n"
	 "  --master M         ADDR[:PORT][@DEV], as a worker\n"
	 "  --limit N          topn: N, to 65536; table: the most groups, to 16777216: 160 bytes\n"
	 "                     of memory each or more; rows of further keys go to the master\n"
	 "  --key-bytes B      4 (default), 8, 16 or 32; topn for query run takes 8\n"
	 "  --ascending        topn: the least values come first\n"
	 "  --ties             topn: what equals the last of the first N passes too\n"
	 "  --filter F         before the rest, prune rows that are in no join: bitmap, of keys\n"
	 "                     from 0 on, or bloom, of any; workers send the keys first\n"
	 "  --filter-keys N    bitmap: one more than the greatest key, to 268435456; bloom: how\n"
	 "                     many keys, to 16777216; 1/4 and 4 bytes of memory each or more\n"
	 "  --filter-bytes B   the join key is the first B bytes of a row's key, 4, 8, 16 or 32;\n"
	 "                     by default all of it\n",
	 query_add_help},
	{"query list", verb_query_list, "[--json]", "the queries", NULL},
	{"query show", verb_query_show, "QUERY [--json]", "a query's parameters, members, state and rows", NULL},
	{"query del", verb_query_del, "QUERY [--json]", "remove a query", NULL},
	{"query data", verb_query_data, "DIR [--pages N] [--visits N] [--workers N] [--seed S] [--json]",
	 "make tables to query, those of the Big Data benchmark",
	 "  DIR                made if it is not there, with a directory 0, 1, ... for each worker, and\n"
	 "                     in it rankings.csv and uservisits.csv, each with its .schema\n"
	 "  --pages N          rows of rankings over all workers, to 268435456; default 1800000.\n"
	 "                     4 bytes of memory each; the benchmark has 18000000\n"
	 "  --visits N         rows of uservisits; default 3000000, of 136 bytes; it has 30000000\n"
	 "  --workers N        who have every N-th row each, to 1024; default 2\n"
	 "  --seed S           default 1; the same seed and sizes make the same rows on any machine\n",
	 .unpinned = true},
	{"query worker", verb_query_worker, "DIR --key FILE [--listen ADDR] [--port N] [--scans N]",
	 "serve a directory of tables to masters of queries",
	 "  DIR                of each table TABLE.schema, a line NAME TYPE [not null] a column (real,\n"
	 "                     double, int32, int64, text, date), and its rows in TABLE.csv,\n"
	 "                     TABLE.tbl (TPC-H) or TABLE.parquet (by pyarrow)\n"
	 "  --key FILE         masters with one of its keys are served; default $FPISA_KEY\n"
	 "  --listen ADDR      default all addresses\n"
	 "  --port N           TCP, where masters ask; default 18001\n"
	 "  --scans N          masters that are served at once, each by a process; default 64\n"
	 "It stays until it is ended. What masters ask, and rows for --columns, is encrypted; rows in frames\n"
	 "cross the network in the clear.\n",
	 .unpinned = true},
	{"query run", verb_query_run, "TABLE --workers LIST [OPTION...] [--json]",
	 "ask a query of workers: the first rows, groups, or all rows",
	 "  --workers LIST     ADDR[:PORT],... of fpisa query worker; default port 18001\n"
	 "  --key FILE         the last key in it is used; default $FPISA_KEY\n"
	 "  --value COLUMN     of type real: of the order, or of the aggregates\n"
	 "  --limit N          the first N rows by --value, the greatest first\n"
	 "  --ascending        the least first\n"
	 "  --nulls-first      rows without a value come first, not last\n"
	 "  --by LIST          columns: groups with count, and sum, min, max, avg of --value\n"
	 "  --having COND      of groups, as 'sum>=100': count, sum, min, max or avg, then <, <=, =, >=\n"
	 "                     or >, then a number\n"
	 "  --columns LIST     of rows; default all\n"
	 "  --where LIST       COLUMN OP VALUE,... that all hold, with <, <=, =, <>, >=, >; COLUMN null; COLUMN not null\n"
	 "  --join TABLE       of the same workers: rows and groups that are in no join with it are dropped on their\n"
	 "                     way, all or most of them; by a query with --filter\n"
	 "  --on LIST          A=B,... columns that are equal, A of this table and B of the other; of groups the first of --by\n"
	 "  --join-where LIST  which rows of the other table, in the same form\n"
	 "  --prune WHO        network (default): rows pass the aggregator; none: all come here;\n"
	 "                     workers: each prunes its own, and what is left comes here\n"
	 "  --preaggregate     each worker adds its rows up by key first, exactly\n"
	 "  --aggregator ADDR[:PORT], --query N, --token H\n"
	 "                     as fpisa query add made it there\n"
	 "  --local-port N     UDP, as the query lists it of its master; default 18000\n"
	 "  --worker-port N    UDP, as it lists it of its workers; default 18000\n"
	 "  --timeout S        how long nothing may go on before it is an error; default 10\n"
	 "  --debug-faults F   faults to frames at all members, as of job add\n"
	 "The answer is CSV on stdout; where its rows went is said on stderr: sent = pruned + absorbed +\n"
	 "received. An answer that is not exact and whole is an error.\n",
	 .unpinned = true},
	{"query demo", verb_query_demo, "[--rows N] [--workers 2|4] [--loss P] [OPTION...] [--json]",
	 "the paper's five queries in PostgreSQL, over a network made for it",
	 "  --rows N           of the Big Data benchmark's uservisits, over all workers; default 300000\n"
	 "  --scale S          of TPC-H, by tpchgen-cli from PyPI; default 0.01; 0: without it\n"
	 "  --workers N        2 (default) or 4\n"
	 "  --loss P           share of frames that workers and master drop; default 0\n"
	 "  --mbit N           rate of every link; default as fast as it goes\n"
	 "  --runs N           of each query: medians; default 1\n"
	 "  --seed S           of uservisits; default 1\n"
	 "  --duckdb           ask DuckDB, from PyPI, too: a third opinion, by sums that it rounds\n"
	 "  --plot FILE.svg    the seconds as bars, by gnuplot\n"
	 "For the source tree, as root, where make postgres works. Each query runs with the network pruning, with nobody, with\n"
	 "each worker for itself, and by PostgreSQL alone over the same rows; answers are compared.\n",
	 .unpinned = true, .is_here = query_demo_is_here},
	{"query resources", verb_query_resources, "[--json]", "instructions and memory of the programs of queries",
	 "Loads the objects without attaching or pinning anything.\n"},
};

int main(int argc, char **argv)
{
	return verbs_main(&(struct verbs){VERBS(verbs)}, argc, argv);
}
