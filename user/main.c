// SPDX-License-Identifier: GPL-2.0-only
/*
 * The program fpisa, which configures and watches the datapath. Two more programs implement the verbs of queries and of
 * the laboratory. This program runs these programs (cli/verb.h).
 */
#include "cli/verb.h"
#include "config/config.h"
#include "doctor/doctor.h"
#include "serve/serve.h"
#include "verbs/verbs.h"

static const char doctor_more[] =
	"Print a line for each finding: ok, warn or fault. The command after \"fix:\" fixes the finding, if a command can.\n"
	"The exit status is 1 if there is a fault, and 0 otherwise, whatever the warnings.\n"
	"  DEV                interfaces to check; default all that are up. If a named interface\n"
	"                     has no XDP program, doctor attaches one for a moment to see\n"
	"                     whether the driver accepts it. This may interrupt its traffic\n"
	"  --worker ADDR      address of the aggregator, to check this machine as one of its\n"
	"                     workers. DEV is the interface towards it; default that of the route.\n"
	"                     If FPISA_MANAGER and FPISA_KEY are set, also try to join a group\n"
	"  --config FILE      file whose section [manager] is checked; default " CONFIG_FILE "\n"
	"  --rate RATE        rate of each worker's link, such as 10G, to compare this machine's with;\n"
	"                     default the same as this machine's\n";

static const char config_more[] =
	"  FILE               default " CONFIG_FILE "\n"
	"A configuration file has these sections:\n"
	"  [datapath]         at most once: port, slots, group, cpus, cpu-queue, pin\n"
	"  [interface DEV]    for each interface to load: mode\n"
	"  [job N]            for each job: the options of job add\n"
	"  [manager]          at most once, for fpisa serve\n"
	"  [key NAME]         for each key with separate limits, for fpisa serve\n"
	"  [rack NAME]        for each rack of groups with leaves = yes: hosts\n"
	"A line is KEY = VALUE. An option without an argument takes yes or no. # begins a comment. The whole file is\n"
	"checked first, and an error in it prevents all changes. config check warns if the file names something that does\n"
	"not exist.\n";

static const struct verb verbs[] = {
	{"load", verb_load,
	 "DEV... [--mode native|skb] [--port N] [--slots N] [--group G] [--cpus LIST [--cpu-queue N]] [--json]",
	 "attach the datapath to interfaces",
	 "  --mode native|skb  where XDP runs: in the driver (default), or in the stack, for any driver\n"
	 "  --port N           UDP port of the aggregator; default 18000\n"
	 "  --slots N          slots that all jobs share, 64 to 65536; default 1024. Each takes 10 KB of kernel memory, and\n"
	 "                     as soon as jobs need it 13 KB more (fp64, mode fpisa64, exact sums of fp16 and of one byte)\n"
	 "                     and 27 KB more (other exact sums, which have the first quarter of the slots)\n"
	 "  --group G          Unix group that may run status, stats, histogram, slots, job list, job show\n"
	 "  --cpus LIST        CPUs that sum, such as 0,2-5; default the CPU that receives the frame. Each\n"
	 "                     slot belongs to one of them, to which the receiving CPU passes its frames.\n"
	 "                     For a device with one receive queue and native XDP\n"
	 "  --cpu-queue N      frames that may wait at each of these CPUs, at most 16384; default 4096\n"
	 "Interfaces of one --pin directory share one datapath, and you can add more later. Load the\n"
	 "datapath on only one interface of a stack, such as a bridge and its ports (doc/guide.md, section 3).\n"},
	{"unload", verb_unload, "[DEV...] [--json]", "detach the datapath, and remove it with its last interface",
	 "Without DEV, detach from every interface of this network namespace, the upper ones of a stack first. The pins stay\n"
	 "if the datapath runs in another network namespace, or may run in one that this process cannot see.\n"},
	{"upgrade", verb_upgrade, "[--json]", "replace running programs by those of this build",
	 "Jobs, sums under way and counters continue, under traffic and in every network namespace.\n"
	 "If the layout of the maps has changed, the verb fails. Unload and load instead.\n"},
	{"status", verb_status, "[--json]", "show where the datapath is loaded, and how full its maps are", NULL},
	{"job add", verb_job_add, "JOB --workers LIST [OPTION...] [--json]", "create a job, 0 to 63",
	 .options = job_add_help},
	{"job list", verb_job_list, "[--json]", "list the jobs", NULL},
	{"job show", verb_job_show, "JOB [--json]", "show a job's parameters and members",
	 "\"last heard\" is the time since the last frame of a rank that passed all checks, to some ms. In JSON this time is\n"
	 "silent_s, and null means never. A killed worker stays joined and is silent, as is a worker between its calls.\n"},
	{"job del", verb_job_del, "JOB [--json]", "remove a job", NULL},
	{"job shrink", verb_job_shrink, "JOB RANK... [--json]", "continue without some ranks",
	 "Rounds no longer wait for these ranks. Their contributions to open rounds stay in the sums. The results of the\n"
	 "other ranks have the flag FEWER_RANKS, or their calls fail if a sum must have all ranks. The verb refuses a job\n"
	 "that the manager created for a group.\n"},
	{"config check", verb_config_check, "[FILE] [--json]",
	 "print every error of a configuration file, with its line", config_more},
	{"config apply", verb_config_apply, "[FILE] [--json]",
	 "load and create the missing objects of a configuration file", config_more},
	{"serve", verb_serve, "[--manager HOST[:PORT]] [--address ADDR] [--rate RATE] [--colocated DEV] [FILE]",
	 "run the manager, which creates jobs for groups of workers on request",
	 "  FILE               default " CONFIG_FILE "; its section [manager] sets the limits\n"
	 "  --manager HOST[:PORT]  host of another manager: do not manage groups, but be one of its\n"
	 "                     aggregators, which gets shares of its groups' calls. The last key of\n"
	 "                     key-file authenticates this host\n"
	 "  --address ADDR     address of this host that workers send to; default the address that\n"
	 "                     reaches the manager\n"
	 "  --rate RATE        rate of this host's link, such as 10G; default the interface's\n"
	 "  --colocated DEV    interface of a host that also has workers: first load the datapath on DEV\n"
	 "                     and on lo, in generic mode. If --manager names this host, be the manager\n"
	 "The manager runs until SIGTERM or SIGINT. Groups continue, and a manager that starts again serves them. At\n"
	 "SIGHUP it reads FILE and the keys again, except listen, port and user. If the file has an error, nothing changes.\n"
	 "Connected ranks stay, even if their key is gone. Creating jobs needs the capabilities of job add; the process that\n"
	 "talks to the network does not have these capabilities.\n"},
	{"key new", verb_key_new, "NAME FILE [--json]", "create a random key for groups, and append it to a file",
	 "The verb creates the file if it does not exist, readable by its owner alone. A line is NAME:ID:SECRET. Two keys of\n"
	 "one name are valid at once, so give workers the new key before you remove the old one.\n"},
	{"group list", verb_group_list, "[--json]", "list the groups of fpisa serve",
	 "The list includes groups that still gather, with the ranks that are present and, after a second, the ranks that\n"
	 "they wait for. In JSON, a group that gathers has a nonempty \"missing\".\n"},
	{"group show", verb_group_show, "NAME [--json]", "show a group's ranks and jobs",
	 "The JSON is an array, because groups of several keys may share a name. \"members\" lists addresses; null stands for a\n"
	 "rank that has not joined.\n"},
	{"group kill", verb_group_kill, "NAME [--json]", "end a group: fail its ranks, delete its jobs", NULL},
	{"stats", verb_stats, "[JOB] [--watch [SECONDS]] [--json | --prometheus[=FILE]]",
	 "show counters and rates, of one job or of all",
	 "  --watch [SECONDS]  seconds between repetitions, which also show rates; default 1. A terminal\n"
	 "                     shows as many rows as fit, without those that are zero\n"
	 "  --prometheus[=FILE]  Prometheus' text format, on stdout or into FILE. FILE is replaced\n"
	 "                     atomically, with --watch each time. node_exporter scrapes a file *.prom\n"
	 "                     in the directory of its option --collector.textfile.directory\n"
	 "The table omits drop reasons that are zero. The JSON contains them. A job number's counters begin again when it is\n"
	 "given to a new job, so without JOB the table adds up the latest job of each number, and frames of no job.\n"},
	{"histogram", verb_histogram, "JOB [--json]", "show the magnitudes that the adds of a job discarded",
	 "The job needs the option --histogram. For each binary exponent x, the verb prints how many adds of an element\n"
	 "discarded a magnitude in [2^x, 2^(x+1)).\n"},
	{"slots", verb_slots, "[JOB] [--json]", "show rounds under way, and the ranks that they wait for",
	 "After the missing ranks, the verb prints the rank that has been silent the longest since its last frame that\n"
	 "passed all checks. In JSON, silent_s is this time for each missing rank; null means never heard.\n"},
	{"doctor", verb_doctor, "[DEV...] [--worker ADDR] [--config FILE] [--rate RATE] [--json]",
	 "find the faults of this machine, and the commands that fix them", doctor_more},
	{"plan", verb_plan,
	 "--workers N --rate R [--aggregators K] [--aggregator-rate R] [--colocated] [--racks N --uplink R [--roots K]] [--bytes N] [--json]",
	 "compute the shares of several aggregators, and the time of a sum",
	 "  --workers N          number of workers, 2 to 64, or to 4096 with --racks\n"
	 "  --rate R             rate of each worker's link, such as 10G or 100M (bit/s)\n"
	 "  --aggregators K      number of aggregators on separate hosts; default 0\n"
	 "  --aggregator-rate R  rate of each aggregator's link; default that of the workers\n"
	 "  --colocated          also make each worker's host an aggregator\n"
	 "  --racks N            number of racks, 2 to 64, with one leaf each, below roots outside of the racks\n"
	 "  --uplink R           rate of each rack's uplink\n"
	 "  --roots K            number of roots with equal shares, 1 to 16; default 1\n"
	 "  --bytes N            bytes of a vector; default 1048576\n"
	 "Workers pass the weights in their list of aggregators, as in 10.0.0.1*2,10.0.0.2. Times are those of full-duplex\n"
	 "links without latency, with frames of the default size.\n"},
	{"resources", verb_resources, "[--json]", "show instructions and memory, by stage and map",
	 "Load the objects without attaching or pinning anything.\n"},
};

static const struct program programs[] = {
	{"query", "fpisa-query"}, {"demo", "fpisa-lab"},  {"analyze", "fpisa-lab"},
	{"soak", "fpisa-lab"},	  {"bench", "fpisa-lab"}, {"tables", "fpisa-lab"},
};

int main(int argc, char **argv)
{
	return verbs_main(&(struct verbs){VERBS(verbs), PROGRAMS(programs)}, argc, argv);
}
