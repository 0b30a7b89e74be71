// SPDX-License-Identifier: GPL-2.0-only
/*
 * fpisa: configure and watch the datapath. One table is dispatch and help at
 * once; a verb of two words is one entry. Exit codes are made here: 0, 1 for
 * an error that was reported, 2 for wrong usage.
 */
#include <stdio.h>
#include <string.h>

#include "lab/analyze/analyze.h"
#include "lab/bench/bench.h"
#include "cli/report.h"
#include "config/config.h"
#include "lab/demo/demo.h"
#include "doctor/doctor.h"
#include "query/worker/query.h"
#include "serve/serve.h"
#include "lab/soak/soak.h"
#include "lab/tables/tables.h"
#include "verbs/verbs.h"

struct verb {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *args;
	const char *help;
	const char *more;      /* what `fpisa help VERB` adds; may be NULL */
	void (*options)(void); /* prints those that stand before that, from a table; may be NULL */
	bool unpinned;	       /* in namespaces of its own: it takes no --pin */
};

static const char doctor_more[] =
	"One line a finding: ok, warn or fault; after \"fix:\" the command that fixes it, where one can.\n"
	"Exit status 0 without faults, whatever the warnings; 1 with a fault.\n"
	"  DEV                interfaces to look at, by default all that are up; one that is\n"
	"                     named and has no XDP program gets one for a moment, to see\n"
	"                     whether its driver takes it, which may interrupt its traffic\n"
	"  --worker ADDR      this machine is a worker of the aggregator at ADDR; DEV is the\n"
	"                     interface towards it, by default that of the route; with\n"
	"                     FPISA_MANAGER and FPISA_KEY set, can it join groups?\n"
	"  --config FILE      whose [manager] is looked at; default " CONFIG_FILE "\n";

static const char config_more[] =
	"  FILE               default " CONFIG_FILE "\n"
	"A file has a section [interface DEV] for each interface to load, with the key mode,\n"
	"a section [job N] for each job, with the options of job add as keys, and at most one\n"
	"[datapath], with port, group, cpus, cpu-queue and pin. For fpisa serve at most one [manager], and\n"
	"a section [key NAME] for each key with limits of its own. KEY = VALUE; an option without an argument\n"
	"takes yes or no; # begins a comment. The whole file is looked at before anything is made:\n"
	"all of it is applied or nothing. config check warns of what is not there now.\n";

static const struct verb verbs[] = {
	{"load", verb_load, "DEV... [--mode native|skb] [--port N] [--group G] [--cpus LIST [--cpu-queue N]] [--json]",
	 "attach the datapath to interfaces",
	 "  --mode native|skb  in the driver (default), or in the stack for any driver\n"
	 "  --port N           UDP port of the aggregator; default 18000\n"
	 "  --group G          who may read it: status, stats, histogram, slots, job list, job show\n"
	 "  --cpus LIST        CPUs such as 0,2-5, each of which owns every so many-th slot; the\n"
	 "                     CPU that receives hands frames on. For a device with one receive\n"
	 "                     queue and native XDP; by default a frame is summed where it comes in\n"
	 "  --cpu-queue N      frames that may wait at each of them, to 16384; default 4096\n"
	 "Interfaces of one --pin directory share one datapath; further ones may follow. Of interfaces that stand\n"
	 "on each other, such as a bridge and its ports, load one: doc/guide.md, section 3.\n"},
	{"unload", verb_unload, "[DEV...] [--json]", "detach it, and remove it with its last interface",
	 "Without DEV: every interface of this network namespace, the upper ones of a stack first. The pins stay if it runs in\n"
	 "another one that can be seen, or may run where this process may not look.\n"},
	{"upgrade", verb_upgrade, "[--json]", "put this build's programs in the place of running ones",
	 "Under traffic; jobs, sums under way and counters go on; in every network namespace.\n"
	 "Refused if the layout of the maps has changed: then unload and load.\n"},
	{"status", verb_status, "[--json]", "where it is loaded, what of it is filled", NULL},
	{"job add", verb_job_add, "JOB --workers LIST [OPTION...] [--json]", "make a job, 0 to 63",
	 .options = job_add_help},
	{"job list", verb_job_list, "[--json]", "the jobs", NULL},
	{"job show", verb_job_show, "JOB [--json]", "a job's parameters and members",
	 "\"last heard\" is since the last frame of a rank that passed all checks, to some ms;\n"
	 "in JSON silent_s, null: never. A worker that was killed stays joined, and is silent;\n"
	 "so is one between its calls.\n"},
	{"job del", verb_job_del, "JOB [--json]", "remove a job", NULL},
	{"job shrink", verb_job_shrink, "JOB RANK... [--json]", "go on without some ranks",
	 "Rounds no longer wait for these ranks; what they contributed to open rounds stays.\n"
	 "The other ranks hear of it: their results say FEWER_RANKS, or their calls fail where a\n"
	 "sum must have all ranks. A job that the manager has made for a group is refused.\n"},
	{"query add", verb_query_add,
	 "QUERY --kind topn|table|join --workers LIST --master M [--limit N] [OPTION...] [--json]",
	 "make a query, 0 to 63, of a number that no job has",
	 "  --kind KIND        topn: rows that may be among the first N pass, others are pruned;\n"
	 "                     table: sum, least, greatest and count of the values of each key;\n"
	 "                     join: rows whose key is in the filter pass, others are pruned\n"
	 "  --master M         ADDR[:PORT][@DEV], as a worker\n"
	 "  --limit N          topn: N, to 65536; table: the most groups, to 16777216: 160 bytes\n"
	 "                     of memory each or more; rows of further keys go to the master\n"
	 "  --key-bytes B      4 (default), 8, 16 or 32\n"
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
	 .unpinned = true},
	{"config check", verb_config_check, "[FILE] [--json]", "every error of a configuration file, with its line",
	 config_more},
	{"config apply", verb_config_apply, "[FILE] [--json]",
	 "load and make what a configuration file says and is missing", config_more},
	{"serve", verb_serve, "[FILE]", "the manager: give jobs to groups of workers that ask for them",
	 "  FILE               default " CONFIG_FILE "; its section [manager] says what may be given away\n"
	 "It stays until SIGTERM or SIGINT. Groups live on: a manager that is started again goes on with\n"
	 "them. SIGHUP: it reads FILE and the keys again, all but listen, port and user; a file with an error\n"
	 "changes nothing. Who is connected stays, whatever becomes of his key. Making jobs takes what job add takes; the process that talks to the network has none of it.\n"},
	{"key new", verb_key_new, "NAME FILE [--json]", "draw a key for groups, and append it to a file",
	 "The file, for its owner alone, is made if it is not there. A line is NAME:ID:SECRET; two keys of a\n"
	 "name are valid at once, so that workers get the new one before the old one goes.\n"},
	{"group list", verb_group_list, "[--json]", "the groups of fpisa serve",
	 "Those that gather, too: which ranks are here, and with a second's delay for which they wait. In JSON\n"
	 "they are the ones whose \"missing\" is not empty.\n"},
	{"group show", verb_group_show, "NAME [--json]", "a group's ranks and jobs",
	 "In JSON an array: groups of several keys may have one name. \"members\" are addresses, null of a rank that has not\n"
	 "joined.\n"},
	{"group kill", verb_group_kill, "NAME [--json]", "end a group: its ranks get an error, its jobs go", NULL},
	{"stats", verb_stats, "[JOB] [--watch [SECONDS]] [--json | --prometheus[=FILE]]",
	 "counters and rates, of a job or of all",
	 "  --watch [SECONDS]  again and again, with rates; every second by default; on a\n"
	 "                     terminal as many rows as fit, those that are zero left out\n"
	 "  --prometheus[=FILE]  Prometheus' text format, on stdout or into FILE, which is\n"
	 "                     replaced as a whole; with --watch, again and again:\n"
	 "                     a file *.prom in the directory that node_exporter's option\n"
	 "                     --collector.textfile.directory names is scraped by it\n"
	 "Rows of drop reasons that are zero are left out of the table, never of the JSON.\n"},
	{"histogram", verb_histogram, "JOB [--json]", "magnitudes that the adds of a job discarded",
	 "Of a job made with --histogram: per binary exponent, how many adds of an element\n"
	 "discarded a magnitude in [2^x, 2^(x+1)).\n"},
	{"slots", verb_slots, "[JOB] [--json]", "rounds under way, and the ranks they miss",
	 "After the missing ranks the one that is silent the longest: since its last frame that\n"
	 "passed all checks. In JSON silent_s of each missing rank, null: never heard.\n"},
	{"doctor", verb_doctor, "[DEV...] [--worker ADDR] [--config FILE] [--json]",
	 "what is wrong on this machine, and what fixes it", doctor_more},
	{"demo", verb_demo, "[OPTION...] [--json]", "sum real gradients over real packets, and check every bit",
	 demo_help, demo_options_help, true},
	{"analyze", verb_analyze, "FILE... [--workers N] [OPTION...] [--json]",
	 "the error of sums of real values: its size, its sources, its dependence on order", analyze_help},
	{"soak", verb_soak, "[OPTION...] [--json]", "sums under every fault at once, all recomputed", soak_help,
	 .unpinned = true},
	{"bench arith", verb_bench_arith, "[OPTION...] [--json]", "ns an element of adds and read-outs, side by side",
	 bench_arith_help},
	{"bench wire", verb_bench_wire, "[DEV...] [OPTION...] [--json]",
	 "goodput and CPU time by settings, and the best of them", bench_wire_help},
	{"bench worker", verb_bench_worker, "ADDR [OPTION...] [--json]", "a worker of bench wire on another machine",
	 bench_worker_help},
	{"bench", verb_bench, "[DEV...] [OPTION...] [--json]", "bench arith, then bench wire with its options", NULL},
	{"resources", verb_resources, "[--json]", "instructions and memory, by stage and map",
	 "Loads the objects without attaching or pinning anything.\n"},
	{"tables", verb_tables, "[--samples N] [--seed S] [--json]",
	 "errors of multiply, reciprocal, log2 and square root", tables_help},
};

#define VERBS (sizeof(verbs) / sizeof(verbs[0]))

/* How many of argv's words are the verb's name; 0 if it is another. */
static int match(const struct verb *v, int argc, char **argv)
{
	const char *space = strchr(v->name, ' ');
	size_t first = space ? (size_t)(space - v->name) : strlen(v->name);

	if (argc < 1 || strlen(argv[0]) != first || strncmp(argv[0], v->name, first))
		return 0;
	if (!space)
		return 1;
	return argc > 1 && !strcmp(argv[1], space + 1) ? 2 : 0;
}

/* Is `word` the first of the verb's two words? */
static bool in_group(const struct verb *v, const char *word)
{
	size_t n = strlen(word);

	return !strncmp(v->name, word, n) && v->name[n] == ' ';
}

static bool has_group(const char *word)
{
	for (size_t i = 0; i < VERBS; i++)
		if (in_group(&verbs[i], word))
			return true;
	return false;
}

static const struct verb *find(int argc, char **argv, int *words)
{
	for (size_t i = 0; i < VERBS; i++) {
		*words = match(&verbs[i], argc, argv);
		if (*words)
			return &verbs[i];
	}
	return NULL;
}

static void usage(FILE *f, const struct verb *v)
{
	fprintf(f, "usage: fpisa %s%s%s%s [--verbose]\n", v->name, *v->args ? " " : "", v->args,
		v->unpinned ? "" : " [--pin DIR]");
}

/* One line a verb; `group` is the first word of those to show, NULL for all. */
static void help(FILE *f, const char *group)
{
	fprintf(f, "usage: fpisa VERB ...; fpisa help VERB; fpisa --version\n");
	for (size_t i = 0; i < VERBS; i++)
		if (!group || !strncmp(verbs[i].name, group, strlen(group)))
			fprintf(f, "  %-12s  %s\n", verbs[i].name, verbs[i].help);
}

/* In one line; of a group it names the verbs. */
static int refuse_verb(int argc, char **argv)
{
	char known[256] = "";
	size_t n = 0, left = 0;

	for (size_t i = 0; i < VERBS; i++)
		left += in_group(&verbs[i], argv[0]);
	for (size_t i = 0; i < VERBS; i++)
		if (in_group(&verbs[i], argv[0]) && n < sizeof(known))
			n += snprintf(known + n, sizeof(known) - n, "%s%s", verbs[i].name,
				      !--left	? "" :
				      left == 1 ? " and " :
						  ", ");
	return refuse(BAD_USAGE, n ? "no verb '%s%s%s'; there are %s" : "no verb '%s%s%s'; fpisa help lists them",
		      argv[0], argc > 1 ? " " : "", argc > 1 ? argv[1] : "", known);
}

static int help_verb(int argc, char **argv)
{
	const struct verb *v;
	int words;

	if (!argc) {
		help(stdout, NULL);
		fputs("Options of every verb:\n"
		      "  --pin DIR   where its maps are pinned, but of demo, soak, query worker and query\n"
		      "              run; else $FPISA_PIN, /sys/fs/bpf/fpisa, and for verbs that find it\n"
		      "              loaded, where ip link pins\n"
		      "  --verbose   show what libbpf and the verifier say\n"
		      "  -h, --help  say what fpisa help VERB says\n"
		      "  -V, --version  say which version this is\n"
		      "A verb that changes something prints with --json one object, {\"done\": VERB, ...}, with what it\n"
		      "was given and has made; one that fails prints no object.\n",
		      stdout);
		return 0;
	}
	v = find(argc, argv, &words);
	if (!v && argc == 1 && has_group(argv[0])) {
		help(stdout, argv[0]);
		return 0;
	}
	if (!v || argc > words)
		return refuse_verb(argc, argv);
	printf("%s: %s\n", v->name, v->help);
	usage(stdout, v);
	if (v->options)
		v->options();
	if (v->more)
		fputs(v->more, stdout);
	return 0;
}

static int run(int argc, char **argv)
{
	const struct verb *v;
	int words, err;

	if (argc < 1) {
		help(stderr, NULL);
		return BAD_USAGE;
	}
	if (!strcmp(argv[0], "help"))
		return help_verb(argc - 1, argv + 1);
	v = find(argc, argv, &words);
	if (!v)
		words = has_group(argv[0]);
	for (int i = words; (v || i == words) && i < argc && strcmp(argv[i], "--"); i++) {
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			return help_verb(words, argv);
		if (!strcmp(argv[i], "--version") || !strcmp(argv[i], "-V"))
			return puts("fpisa " FPISA_VERSION_STRING) < 0;
	}
	if (!v && (argc > 1 || !words))
		return refuse_verb(argc, argv);
	if (!v) {
		help(stderr, argv[0]);
		return BAD_USAGE;
	}
	/* getopt_long() names argv[0] in its complaints. */
	argv[words - 1] = "fpisa";
	err = v->run(argc - words + 1, argv + words - 1);
	if (err == BAD_USAGE)
		usage(stderr, v);
	return err;
}

int main(int argc, char **argv)
{
	int err = run(argc - 1, argv + 1);

	if (fflush(stdout) && !err) {
		perror("fpisa: stdout");
		return 1;
	}
	return err == BAD_USAGE ? 2 : err ? 1 : 0;
}
