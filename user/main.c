// SPDX-License-Identifier: GPL-2.0-only
/*
 * fpisa: configure and watch the datapath. Verbs of queries and of the laboratory
 * are those of two more programs, which this one runs: cli/verb.h.
 */
#include "cli/verb.h"
#include "config/config.h"
#include "doctor/doctor.h"
#include "serve/serve.h"
#include "verbs/verbs.h"

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
	{"plan", verb_plan,
	 "--workers N --rate R [--aggregators K] [--aggregator-rate R] [--colocated] [--bytes N] [--json]",
	 "the shares of several aggregators, and how long a sum takes",
	 "  --workers N          2 to 64\n"
	 "  --rate R             of each worker's link, such as 10G or 100M (bit/s)\n"
	 "  --aggregators K      on hosts of their own; default 0\n"
	 "  --aggregator-rate R  of each one's link; default that of the workers\n"
	 "  --colocated          each worker's host is an aggregator too\n"
	 "  --bytes N            of a vector; default 1048576\n"
	 "Weights are for the list of aggregators that workers give, as 10.0.0.1*2,10.0.0.2. Times are what full-duplex\n"
	 "links carry, without latency, in frames of the default size.\n"},
	{"resources", verb_resources, "[--json]", "instructions and memory, by stage and map",
	 "Loads the objects without attaching or pinning anything.\n"},
};

static const struct program programs[] = {
	{"query", "fpisa-query"}, {"demo", "fpisa-lab"},  {"analyze", "fpisa-lab"},
	{"soak", "fpisa-lab"},	  {"bench", "fpisa-lab"}, {"tables", "fpisa-lab"},
};

int main(int argc, char **argv)
{
	return verbs_main(&(struct verbs){VERBS(verbs), PROGRAMS(programs)}, argc, argv);
}
