// SPDX-License-Identifier: GPL-2.0-only
/*
 * The verb `fpisa soak`. Several jobs make calls through real XDP under all kinds of faults. Every call must return a
 * right result or an error in time, and no object may remain afterwards. soak.h has the overview.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/options.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "lib/base/clock.h"
#include "soak.h"
#include "lab/testbed/lab.h"
#include "values/random.h"

#define S_NS 1000000000ull
#define LAST_ROUND_S 90 /* time for every rank to make another call after the last fault */

const char soak_help[] =
	"  --seconds N        duration; default 60\n"
	"  --seed S           seed of all random choices; default from the clock, and printed\n"
	"  --jobs N           jobs at once, 2 to 8, of 2 to 6 workers each; default 4. Half of them are groups,\n"
	"                     whose jobs come from a manager\n"
	"  --drop P, --duplicate P, --reorder P, --delay P, --corrupt P\n"
	"                     shares of frames between workers and aggregator, in each direction;\n"
	"                     default 0.01, 0.02, 0.02, 0.01, 0.01\n"
	"  --ports K          UDP ports of each job at the aggregator, a power of two, at most 16 and at most\n"
	"                     its window; default random\n"
	"  --cpus LIST        CPUs of the aggregator that sum; see fpisa help load\n"
	"  --json             print one object; these four members must be 0:\n"
	"  mismatches         elements, flags and members of results that differ from the recomputation\n"
	"  hangs              calls and processes that did not end in time\n"
	"  leaks              processes, pins, namespaces and files left at the end\n"
	"  unexpected         calls that ended with an error that no fault explains\n"
	"The soak creates six worker hosts, a middlebox that injects faults into frames, and an aggregator, each in a "
	"network\n"
	"namespace. Meanwhile it kills workers, takes links down, deletes and adds jobs, removes ranks, ends groups, "
	"kills\n"
	"their manager, upgrades the datapath and kills its loaders. It needs root.\n";

enum {
	OPT_SECONDS = OPT_VERB,
	OPT_SEED,
	OPT_JOBS,
	OPT_DROP,
	OPT_DUPLICATE,
	OPT_REORDER,
	OPT_DELAY,
	OPT_CORRUPT,
	OPT_CPUS,
	OPT_PORTS,
};

static const struct option options[] = {
	{"seconds", required_argument, NULL, OPT_SECONDS},
	{"seed", required_argument, NULL, OPT_SEED},
	{"jobs", required_argument, NULL, OPT_JOBS},
	{"drop", required_argument, NULL, OPT_DROP},
	{"duplicate", required_argument, NULL, OPT_DUPLICATE},
	{"reorder", required_argument, NULL, OPT_REORDER},
	{"delay", required_argument, NULL, OPT_DELAY},
	{"corrupt", required_argument, NULL, OPT_CORRUPT},
	{"cpus", required_argument, NULL, OPT_CPUS},
	{"ports", required_argument, NULL, OPT_PORTS},
	{"verbose", no_argument, NULL, OPT_VERBOSE},
	JSON_OPTION,
	{0},
};

static int parse_option(struct soak_options *o, struct common *c, int opt)
{
	uint64_t number = 0;
	int err;

	switch (opt) {
	case OPT_SECONDS:
		return parse_number("--seconds", optarg, 1, 1000000, &o->seconds);
	case OPT_SEED:
		return parse_number("--seed", optarg, 0, ~0ull, &o->seed);
	case OPT_JOBS:
		err = parse_number("--jobs", optarg, 2, SOAK_JOBS, &number);
		o->jobs = number;
		return err;
	case OPT_DROP:
		return parse_share("--drop", optarg, &o->rates.drop);
	case OPT_DUPLICATE:
		return parse_share("--duplicate", optarg, &o->rates.duplicate);
	case OPT_REORDER:
		return parse_share("--reorder", optarg, &o->rates.reorder);
	case OPT_DELAY:
		return parse_share("--delay", optarg, &o->rates.delay);
	case OPT_CPUS:
		return parse_cpus("--cpus", optarg, o->steering.cpu, FPISA_STEER_CPUS, &o->steering.cpus);
	case OPT_PORTS:
		err = parse_number("--ports", optarg, 1, FPISA_MAX_PORTS, &number);
		if (!err && number & (number - 1))
			err = refuse(BAD_USAGE, "--ports: %s is not a power of two", optarg);
		o->ports = number;
		return err;
	case OPT_CORRUPT:
		return parse_share("--corrupt", optarg, &o->rates.corrupt);
	}
	return common_option(c, opt);
}

static int parse(struct soak_options *o, int argc, char **argv)
{
	struct common c = {.pin = NULL};
	int opt, err = 0;

	*o = (struct soak_options){
		.seconds = 60,
		.seed = fpisa_now() % 1000000007,
		.jobs = 4,
		.rates = {.drop = 0.01, .duplicate = 0.02, .reorder = 0.02, .delay = 0.01, .corrupt = 0.01},
	};
	while (!err && (opt = next_option(argc, argv, options)) != -1)
		err = parse_option(o, &c, opt);
	if (!err && optind < argc)
		err = refuse(BAD_USAGE, "soak: unexpected argument '%s'; see fpisa help soak", argv[optind]);
	o->json = c.json;
	return err;
}

/* -- processes ----------------------------------------------------------- */

static struct soak *running;

/*
 * End the children. Call only async-signal-safe functions. Namespaces, links and
 * pins disappear with the children and this process.
 */
static void end_children(struct soak *s)
{
	for (uint32_t job = 0; job < SOAK_JOBS; job++)
		for (uint32_t r = 0; r < SOAK_RANKS; r++)
			process_kill(&s->job[job].process[r]);
	process_kill(&s->loader.process);
	process_kill(&s->manager);
	process_kill(&s->middlebox);
}

static void on_signal(int sig)
{
	static const char text[] = "\nfpisa: soak: interrupted, everything is removed\n";
	ssize_t ignored;

	end_children(running);
	ignored = write(STDERR_FILENO, text, sizeof(text) - 1);
	(void)ignored;
	_exit(128 + sig);
}

static void catch_signals(struct soak *s)
{
	struct sigaction sa = {.sa_handler = on_signal};

	running = s;
	sigfillset(&sa.sa_mask);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
}

static int start_middlebox(struct soak *s)
{
	splitmix64(&s->random);
	return process_spawn(&s->middlebox, s->middlebox_fd, soak_impair, s);
}

/* -- beginning ------------------------------------------------------------- */

/* Draw the hosts of each job's ranks. A job uses some of the hosts in any order. */
static void draw_jobs(struct soak *s)
{
	for (uint32_t job = 0; job < s->o.jobs; job++) {
		struct soak_job *j = &s->job[job];
		uint32_t hosts[SOAK_HOSTS];

		for (uint32_t h = 0; h < SOAK_HOSTS; h++)
			hosts[h] = h;
		j->ranks = 2 + (uint32_t)random_below(&s->random, SOAK_RANKS - 1);
		/* Every other job does not have a token. The HELLOs of these jobs can be forged up to the cookie. */
		j->config.token = job % 2 ? 0 : splitmix64(&s->random);
		for (uint32_t r = 0; r < j->ranks; r++) {
			uint32_t k = r + (uint32_t)random_below(&s->random, SOAK_HOSTS - r), h = hosts[k];

			hosts[k] = hosts[r];
			hosts[r] = h;
			j->host[r] = h;
		}
	}
}

static int prepare(struct soak *s)
{
	const struct datapath_load how = {.pin = DATAPATH_PIN, .mode = DATAPATH_NATIVE, .steering = s->o.steering};
	char names[SOAK_HOSTS][IF_NAMESIZE], *devs[SOAK_HOSTS];
	int err;

	s->shared = mmap(NULL, sizeof(*s->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s->shared == MAP_FAILED) {
		s->shared = NULL;
		return fail(-errno, NULL, "soak: cannot create the memory that its processes share");
	}
	progress_step("soak: making networks, loading the datapath");
	err = lab_enter("soak");
	if (!err)
		err = soak_net(s);
	if (!err)
		err = start_middlebox(s);
	for (uint32_t h = 0; h < SOAK_HOSTS; h++) {
		star_port(names[h], &soak_star, h);
		devs[h] = names[h];
	}
	if (!err)
		err = datapath_load(&how, devs, SOAK_HOSTS);
	if (!err)
		err = datapath_open(&s->dp, DATAPATH_PIN);
	draw_jobs(s);
	for (uint32_t job = 0; !err && job < s->o.jobs && !soak_in_groups(s, job); job++)
		err = soak_add_job(s, job);
	if (!err)
		err = soak_manager_start(s);
	for (uint32_t job = 0; !err && job < s->o.jobs; job++)
		for (uint32_t r = 0; !err && r < s->job[job].ranks; r++)
			err = soak_start_rank(s, job, r);
	return err;
}

/* -- watching -------------------------------------------------------------- */

/*
 * Watch the processes. If a call is far beyond its deadline, count the call once
 * and replace the process. Fail if a process has ended by itself.
 */
static int watch(struct soak *s, uint64_t now)
{
	int status;

	for (uint32_t job = 0; job < s->o.jobs; job++) {
		struct soak_job *j = &s->job[job];

		for (uint32_t r = 0; r < j->ranks; r++) {
			const struct soak_rank *rank = &s->shared->rank[job][r];
			uint64_t since = __atomic_load_n(&rank->in_call_ns, __ATOMIC_RELAXED);

			if (process_ended(&j->process[r], &status))
				return refuse(-ECHILD, "soak: job %u rank %u: the process ended unexpectedly, status %d",
					      job, r, status);
			if (!j->process[r].pid || !since ||
			    now < since + (soak_in_groups(s, job) ? SOAK_GROUP_HANG_NS : SOAK_HANG_NS))
				continue;
			s->count.hangs++;
			soak_kill_rank(s, job, r);
			j->start_ns[r] = now;
		}
	}
	if (process_ended(&s->middlebox, &status))
		return refuse(-ECHILD, "soak: the middlebox process ended unexpectedly, status %d", status);
	if (process_ended(&s->manager, &status))
		return refuse(-ECHILD, "soak: the manager ended unexpectedly, status %d", status);
	return 0;
}

static void show_progress(const struct soak *s, const char *what, uint64_t left_ns)
{
	uint64_t sums = 0;

	if (!progress_due())
		return;
	for (uint32_t job = 0; job < s->o.jobs; job++)
		for (uint32_t r = 0; r < s->job[job].ranks; r++)
			sums += __atomic_load_n(&s->shared->rank[job][r].rounds, __ATOMIC_RELAXED);
	progress_step("soak: %s: %llu s left, %llu sums", what, (unsigned long long)(left_ns / S_NS),
		      (unsigned long long)sums);
}

static int run_events(struct soak *s)
{
	uint64_t now = fpisa_now(), end = now + s->o.seconds * S_NS;
	int err = soak_events_start(s, now);

	for (; !err && now < end; now = fpisa_now()) {
		show_progress(s, "faults at once", end - now);
		err = soak_events(s, now);
		if (!err)
			err = watch(s, now);
		usleep(SOAK_TICK_US);
	}
	return err;
}

static bool all_summed(const struct soak *s, uint64_t rounds[SOAK_JOBS][SOAK_RANKS])
{
	for (uint32_t job = 0; job < s->o.jobs; job++)
		for (uint32_t r = 0; r < s->job[job].ranks; r++)
			if (s->shared->rank[job][r].rounds <= rounds[job][r] + 1)
				return false;
	return true;
}

/* Wait for recovery. From now on only single frames are lost, so every rank must make progress. */
static int await_recovery(struct soak *s)
{
	uint64_t rounds[SOAK_JOBS][SOAK_RANKS] = {0}, now = fpisa_now(), end = now + LAST_ROUND_S * S_NS;
	bool done = false;
	int err = 0;

	for (; !err && !done && now < end; now = fpisa_now()) {
		show_progress(s, "waiting for the last faults to end", end - now);
		err = soak_events_end(s, now, &done);
		if (!err)
			err = watch(s, now);
		usleep(SOAK_TICK_US);
	}
	for (uint32_t job = 0; job < s->o.jobs; job++)
		for (uint32_t r = 0; r < s->job[job].ranks; r++)
			rounds[job][r] = s->shared->rank[job][r].rounds;
	end = now + LAST_ROUND_S * S_NS;
	for (; !err && !all_summed(s, rounds) && now < end; now = fpisa_now()) {
		show_progress(s, "waiting for progress of every rank", end - now);
		err = watch(s, now);
		usleep(SOAK_TICK_US);
	}
	if (!err && !all_summed(s, rounds))
		s->count.hangs++;
	return err;
}

int verb_soak(int argc, char **argv)
{
	static struct soak s = {.home_fd = -1, .middlebox_fd = -1, .dp = {.lock = -1}};
	struct soak_leaks leaks = {0};
	uint64_t start;
	int err, fds;

	err = parse(&s.o, argc, argv);
	if (err)
		return err;
	fds = soak_open_fds();
	s.random = s.o.seed;
	s.kinds_taken = splitmix64(&s.random) >> 32;
	s.parent = getpid();
	fprintf(stderr, "soak: --seed %llu\n", (unsigned long long)s.o.seed);
	catch_signals(&s);
	start = fpisa_now();
	err = prepare(&s);
	if (!err)
		err = run_events(&s);
	if (!err)
		err = await_recovery(&s);
	if (!err) {
		progress_step("soak: taking everything down");
		err = soak_take_down(&s, fds, &leaks);
	}
	progress_end();
	end_children(&s);
	if (!err)
		err = soak_report(&s, &leaks, (double)(fpisa_now() - start) / 1e9);
	datapath_close(&s.dp);
	return err;
}
