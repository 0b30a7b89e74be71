// SPDX-License-Identifier: GPL-2.0-only
/*
 * What an all-reduce costs a worker: CPU seconds a gigabyte of its vector,
 * over real veth links to the real datapath. Contenders take turns, round by
 * round, so that drift of the machine hits all alike.
 *
 *	worker [--workers N] [--elements N] [--rounds R] [--packet N] [--window W] [--only NAME,...]
 *
 *	udp, xsk	libfpisa, the floats as they are
 *	switchml	a SwitchML-style worker over the same udp: a maximum exponent a chunk, which
 *			makes a round trip of its own, then int32 in network byte order, and back
 *	switchml-batch	the same with as many exponents in a frame as fit: its least number of frames
 *
 * CPU time is that of the worker's process and of the kernel thread that polls its end of the link;
 * the other end has one too, so that the aggregator's work is not charged to who sends.
 *
 * One JSON line a contender: median and quartiles over the rounds, and the median of the ratio to
 * `switchml` in the same round.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fpisa.h"
#include "fpisa/wire.h"
#include "lab.h"
#include "switchml.h"

#define MAX_WORKERS 16
#define MAX_ROUNDS 1000
#define TIMEOUT_MS 60000
#define EXPONENT_FRAME 32 /* values of a frame that carries one exponent: no frame has fewer */
#define BLOCK_CHUNKS 1024 /* that a SwitchML worker converts at a time: its data stay in the cache */
#define ADDRESS "10.78.255.1"

enum job { JOB_FLOAT, JOB_XSK, JOB_INT, JOB_EXPONENT, JOB_EXPONENTS, JOBS };

struct plan {
	uint32_t workers, packet, window, rounds;
	uint64_t elements;
	const char *only;
};

/* One worker's process. */
struct side {
	const struct plan *plan;
	uint32_t rank;
	char dev[16];
	int control;
	pid_t napi;
	struct fpisa *f[JOBS];
	float *send, *recv;
	int32_t *exponent, *quantised; /* of one block; exponents of two, which take turns */
};

struct report {
	int error;
	uint64_t cpu_ns, wall_ns, retransmits;
	char message[256];
};

struct contender {
	const char *name;
	int (*open)(struct side *s);
	int (*sum)(struct side *s);
};

static int die(const char *what)
{
	fprintf(stderr, "worker: %s: %s\n", what, strerror(errno));
	return -1;
}

/* -- the worker ------------------------------------------------------------ */

static int open_job(struct side *s, enum job job, const struct fpisa_options *more)
{
	struct fpisa_options o = more ? *more : (struct fpisa_options){0};

	o.size = sizeof(o);
	o.local_port = (uint16_t)(FPISA_PORT + job);
	o.timeout_ms = TIMEOUT_MS;
	return s->f[job] ? 0 : fpisa_connect(&s->f[job], ADDRESS, (uint32_t)job, &o);
}

static int open_udp(struct side *s)
{
	return open_job(s, JOB_FLOAT, NULL);
}

static int sum_udp(struct side *s)
{
	return fpisa_allreduce(s->f[JOB_FLOAT], s->send, s->recv, s->plan->elements, FPISA_FLOAT32, NULL);
}

static int open_xsk(struct side *s)
{
	return open_job(s, JOB_XSK, &(struct fpisa_options){.transport = FPISA_TRANSPORT_XSK});
}

static int sum_xsk(struct side *s)
{
	return fpisa_allreduce(s->f[JOB_XSK], s->send, s->recv, s->plan->elements, FPISA_FLOAT32, NULL);
}

static int open_switchml(struct side *s)
{
	return open_job(s, JOB_INT, NULL) ?: open_job(s, JOB_EXPONENT, NULL);
}

static int open_switchml_batch(struct side *s)
{
	return open_job(s, JOB_INT, NULL) ?: open_job(s, JOB_EXPONENTS, NULL);
}

/* `stride` values of the exponents' job a chunk, the first of which is its exponent. */
static int start_exponents(struct side *s, enum job job, size_t stride, int32_t *exponent,
			   const float *values, struct fpisa_request **request)
{
	size_t packet = s->plan->packet;

	memset(exponent, 0, BLOCK_CHUNKS * stride * sizeof(*exponent));
	for (size_t c = 0; c < BLOCK_CHUNKS; c++)
		exponent[c * stride] = switchml_exponent(values + c * packet, packet);
	return fpisa_allreduce_op_start(s->f[job], exponent, exponent, BLOCK_CHUNKS * stride, FPISA_INT32,
					FPISA_MAX, 0, request);
}

static int start_integers(struct side *s, const int32_t *exponent, size_t stride, const float *values,
			  int32_t *out, struct fpisa_request **request)
{
	size_t packet = s->plan->packet;

	for (size_t c = 0; c < BLOCK_CHUNKS; c++)
		switchml_quantise(out + c * packet, values + c * packet, packet,
				  switchml_scale(exponent[c * stride], s->plan->workers));
	return fpisa_allreduce_start(s->f[JOB_INT], out, out, BLOCK_CHUNKS * packet, FPISA_INT32, request);
}

static void take_integers(const struct side *s, const int32_t *exponent, size_t stride, const int32_t *in,
			  float *values)
{
	size_t packet = s->plan->packet;

	for (size_t c = 0; c < BLOCK_CHUNKS; c++)
		switchml_dequantise(values + c * packet, in + c * packet, packet,
				    switchml_scale(exponent[c * stride], s->plan->workers));
}

/* Block k's exponents are under way while block k - 1 comes in and is converted. */
static int sum_blocks(struct side *s, enum job job, size_t stride)
{
	size_t block = (size_t)BLOCK_CHUNKS * s->plan->packet, blocks = s->plan->elements / block;
	struct fpisa_request *maximum, *sum;
	int rc = 0;

	for (size_t k = 0; k <= blocks && !rc; k++) {
		int32_t *exponent = s->exponent + (k & 1) * BLOCK_CHUNKS * EXPONENT_FRAME;
		int32_t *before = s->exponent + (~k & 1) * BLOCK_CHUNKS * EXPONENT_FRAME;

		if (k < blocks)
			rc = start_exponents(s, job, stride, exponent, s->send + k * block, &maximum);
		if (k && !rc)
			rc = fpisa_wait(&sum, NULL);
		if (k && !rc)
			take_integers(s, before, stride, s->quantised + (~k & 1) * block,
				      s->recv + (k - 1) * block);
		if (k < blocks && !rc)
			rc = fpisa_wait(&maximum, NULL);
		if (k < blocks && !rc)
			rc = start_integers(s, exponent, stride, s->send + k * block,
					    s->quantised + (k & 1) * block, &sum);
	}
	return rc;
}

static int sum_switchml(struct side *s)
{
	return sum_blocks(s, JOB_EXPONENT, EXPONENT_FRAME);
}

static int sum_switchml_batch(struct side *s)
{
	return sum_blocks(s, JOB_EXPONENTS, 1);
}

static const struct contender contenders[] = {
	{"switchml", open_switchml, sum_switchml},
	{"switchml-batch", open_switchml_batch, sum_switchml_batch},
	{"udp", open_udp, sum_udp},
	{"xsk", open_xsk, sum_xsk},
};

#define CONTENDERS (sizeof(contenders) / sizeof(contenders[0]))

static uint64_t run_time(pid_t task)
{
	char path[64], text[64] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", task);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = 0;
	close(fd);
	return strtoull(text, NULL, 10);
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

/* Let a kernel thread of its own poll the interface, and find it; the interface's name is nobody else's. */
static pid_t thread_napi(const char *dev)
{
	char path[288], want[32], name[64];
	struct dirent *entry;
	pid_t found = -1;
	FILE *file;
	DIR *dir;

	snprintf(path, sizeof(path), "/sys/class/net/%s/threaded", dev);
	file = fopen(path, "w");
	if (!file || fputs("1", file) < 0 || fclose(file))
		return die(path);
	snprintf(want, sizeof(want), "napi/%s-", dev);
	dir = opendir("/proc");
	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
		file = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' ? fopen(path, "r") : NULL;
		if (!file)
			continue;
		if (fgets(name, sizeof(name), file) && !strncmp(name, want, strlen(want)))
			found = (pid_t)atoi(entry->d_name);
		fclose(file);
	}
	if (dir)
		closedir(dir);
	return found;
}

/* /sys shows the interfaces of the namespace in which it was mounted. */
static int own_sysfs(void)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) || mount("sysfs", "/sys", "sysfs", 0, NULL) ||
	    mount("bpf", LAB_BPFFS, "bpf", 0, "mode=0700"))
		return die("mount sysfs");
	return 0;
}

static int set_up_link(struct side *s)
{
	struct lab_batch b = lab_batch_open();
	char message[256];

	lab_batch_add(&b, "addr add 10.78.%u.2/24 dev %s", s->rank, s->dev);
	lab_batch_add(&b, "link set %s up", s->dev);
	lab_batch_add(&b, "route add " ADDRESS " via 10.78.%u.1", s->rank);
	if (lab_batch_run(&b, message, sizeof(message)) || lab_gro_on(s->dev)) {
		fprintf(stderr, "worker: %s: %s\n", s->dev, message);
		return -1;
	}
	s->napi = thread_napi(s->dev);
	return s->napi > 0 ? 0 : die("no thread polls the link");
}

/* What rank r contributes: whole numbers, whose sums are exact. */
static float value(uint32_t rank, uint64_t i)
{
	return (float)((int)((i * 7919 + rank * 104729) % 2003) - 1001);
}

static int check(const struct side *s)
{
	for (uint64_t i = 0; i < s->plan->elements; i++) {
		float sum = 0;

		for (uint32_t r = 0; r < s->plan->workers; r++)
			sum += value(r, i);
		/* An int32 that holds the sum has a rounding of at most half a unit each. */
		if (!(fabsf(s->recv[i] - sum) <= (float)s->plan->workers * 0x1p-16f))
			return -1;
	}
	return 0;
}

static uint64_t retransmits(const struct side *s)
{
	struct fpisa_info info = {.size = sizeof(info)};
	uint64_t n = 0;

	for (int j = 0; j < JOBS; j++)
		if (s->f[j] && !fpisa_get_info(s->f[j], &info))
			n += info.retransmits;
	return n;
}

static void run_contender(struct side *s, const struct contender *c, struct report *r)
{
	uint64_t cpu, wall, sent_again;

	*r = (struct report){.error = c->open(s)};
	if (r->error)
		goto out;
	memset(s->recv, 0, s->plan->elements * sizeof(*s->recv));
	sent_again = retransmits(s);
	wall = clock_ns(CLOCK_MONOTONIC);
	cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID) + run_time(s->napi);
	r->error = c->sum(s);
	r->cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) + run_time(s->napi) - cpu;
	r->wall_ns = clock_ns(CLOCK_MONOTONIC) - wall;
	r->retransmits = retransmits(s) - sent_again;
	if (!r->error && check(s)) {
		r->error = -EBADMSG;
		snprintf(r->message, sizeof(r->message), "wrong sum");
		return;
	}
out:
	if (r->error)
		snprintf(r->message, sizeof(r->message), "%s", fpisa_error());
}

/* A worker's process: a byte comes for each thing to do, a report goes back. */
static void work(struct side *s)
{
	size_t block = (size_t)BLOCK_CHUNKS * s->plan->packet;
	struct report r = {0};
	unsigned char what;

	s->send = malloc(s->plan->elements * sizeof(*s->send));
	s->recv = malloc(s->plan->elements * sizeof(*s->recv));
	s->exponent = malloc(2 * sizeof(*s->exponent) * BLOCK_CHUNKS * EXPONENT_FRAME);
	s->quantised = malloc(2 * sizeof(*s->quantised) * block);
	if (!s->send || !s->recv || !s->exponent || !s->quantised || unshare(CLONE_NEWNET | CLONE_NEWNS) ||
	    own_sysfs())
		_exit(1);
	for (uint64_t i = 0; i < s->plan->elements; i++)
		s->send[i] = value(s->rank, i);
	if (send(s->control, &r, sizeof(r), 0) < 0 || recv(s->control, &what, 1, 0) != 1 || set_up_link(s))
		_exit(1);
	while (send(s->control, &r, sizeof(r), 0) > 0 && recv(s->control, &what, 1, 0) == 1)
		run_contender(s, &contenders[what], &r);
	_exit(0);
}

/* -- the aggregator ---------------------------------------------------------- */

struct crew {
	struct plan plan;
	pid_t pid[MAX_WORKERS];
	int control[MAX_WORKERS];
	char fpisa[288]; /* the command */
};

/* All workers do `what`; the sums of their reports. */
static int together(struct crew *c, unsigned char what, struct report *total)
{
	struct report r;

	*total = (struct report){0};
	for (uint32_t i = 0; i < c->plan.workers; i++)
		if (send(c->control[i], &what, 1, MSG_NOSIGNAL) != 1)
			return die("a worker is gone");
	for (uint32_t i = 0; i < c->plan.workers; i++) {
		if (recv(c->control[i], &r, sizeof(r), 0) != sizeof(r))
			return die("a worker is gone");
		if (r.error && !total->error) {
			total->error = r.error;
			fprintf(stderr, "worker: rank %u: %s\n", i, r.message);
		}
		total->cpu_ns += r.cpu_ns;
		total->wall_ns = r.wall_ns > total->wall_ns ? r.wall_ns : total->wall_ns;
		total->retransmits += r.retransmits;
	}
	return total->error ? -1 : 0;
}

static int hire(struct crew *c, uint32_t rank)
{
	struct side s = {.plan = &c->plan, .rank = rank};
	struct report r;
	pid_t parent = getpid();
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return die("socketpair");
	snprintf(s.dev, sizeof(s.dev), "b%dw%u", parent, rank);
	c->pid[rank] = fork();
	if (c->pid[rank] < 0)
		return die("fork");
	if (!c->pid[rank]) {
		s.control = pair[1];
		close(pair[0]);
		if (!lab_die_with_parent(parent))
			work(&s);
		_exit(1);
	}
	close(pair[1]);
	c->control[rank] = pair[0];
	return recv(pair[0], &r, sizeof(r), 0) == sizeof(r) ? 0 : die("a worker did not start");
}

__attribute__((format(printf, 2, 3))) static int run(const struct crew *c, const char *format, ...)
{
	char command[2048];
	size_t used = (size_t)snprintf(command, sizeof(command), "'%s' ", c->fpisa);
	va_list args;
	int status;

	va_start(args, format);
	vsnprintf(command + used, sizeof(command) - used, format, args);
	va_end(args);
	status = system(command);
	if (status)
		fprintf(stderr, "worker: status %d of: %s\n", status, command);
	return status ? -1 : 0;
}

static int add_jobs(const struct crew *c)
{
	static const char *const format[JOBS] = {[JOB_FLOAT] = "fp32",
						 [JOB_XSK] = "fp32",
						 [JOB_INT] = "int32 --big-endian",
						 [JOB_EXPONENT] = "int32",
						 [JOB_EXPONENTS] = "int32"};
	char workers[512];
	int rc = 0;

	for (int j = 0; j < JOBS && !rc; j++) {
		size_t used = 0;

		for (uint32_t r = 0; r < c->plan.workers; r++)
			used += (size_t)snprintf(workers + used, sizeof(workers) - used, "%s10.78.%u.2:%d",
						 r ? "," : "", r, FPISA_PORT + j);
		rc = run(c,
			 "job add %d --workers %s --address " ADDRESS
			 " --elements %u --window %u --format %s",
			 j, workers, j == JOB_EXPONENT ? EXPONENT_FRAME : c->plan.packet, c->plan.window,
			 format[j]);
	}
	return rc;
}

static int set_up(struct crew *c)
{
	uint32_t mtu = FPISA_PAYLOAD_OFFSET - FPISA_ETH_LEN + c->plan.packet * sizeof(float);
	struct lab_batch b;
	struct report r;
	char message[256], devs[512];
	size_t used = 0;

	if (lab_enter("bench") || own_sysfs())
		return -1;
	for (uint32_t i = 0; i < c->plan.workers; i++)
		if (hire(c, i))
			return -1;
	b = lab_batch_open();
	mtu = mtu < 1500 ? 1500 : mtu;
	lab_batch_add(&b, "link set lo up");
	lab_batch_add(&b, "addr add " ADDRESS "/32 dev lo");
	for (uint32_t i = 0; i < c->plan.workers; i++) {
		lab_batch_add(&b, "link add b%da%u mtu %u type veth peer name b%dw%u mtu %u netns %d",
			      getpid(), i, mtu, getpid(), i, mtu, c->pid[i]);
		lab_batch_add(&b, "addr add 10.78.%u.1/24 dev b%da%u", i, getpid(), i);
		lab_batch_add(&b, "link set b%da%u up", getpid(), i);
		used += (size_t)snprintf(devs + used, sizeof(devs) - used, " b%da%u", getpid(), i);
	}
	if (lab_batch_run(&b, message, sizeof(message))) {
		fprintf(stderr, "worker: make links: %s\n", message);
		return -1;
	}
	if (together(c, 0, &r) || run(c, "load%s", devs) || add_jobs(c))
		return -1;
	for (uint32_t i = 0; i < c->plan.workers; i++) {
		snprintf(message, sizeof(message), "b%da%u", getpid(), i);
		if (thread_napi(message) <= 0)
			return die("no thread polls the link");
	}
	return 0;
}

/* -- figures ------------------------------------------------------------------ */

struct figures {
	double cpu[MAX_ROUNDS], ratio[MAX_ROUNDS], gbps[MAX_ROUNDS], resent[MAX_ROUNDS];
};

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double middle(double *v, uint32_t n, uint32_t quarter)
{
	qsort(v, n, sizeof(*v), ascending);
	return v[(n - 1) * quarter / 4];
}

static void print_figures(const struct plan *p, const struct contender *c, struct figures *g)
{
	uint32_t n = p->rounds;

	printf("{\"bench\": \"worker\", \"contender\": \"%s\", \"workers\": %u, \"elements\": %llu, "
	       "\"packet\": %u, "
	       "\"window\": %u, \"rounds\": %u, \"cpu_s_per_gb\": %.4f, \"cpu_s_per_gb_quartiles\": [%.4f, "
	       "%.4f]",
	       c->name, p->workers, (unsigned long long)p->elements, p->packet, p->window, n,
	       middle(g->cpu, n, 2), middle(g->cpu, n, 1), middle(g->cpu, n, 3));
	if (!isnan(g->ratio[0]))
		printf(", \"ratio_to_switchml\": %.3f, \"ratio_quartiles\": [%.3f, %.3f]",
		       middle(g->ratio, n, 2), middle(g->ratio, n, 1), middle(g->ratio, n, 3));
	printf(", \"goodput_gbps\": %.4f, \"retransmit_share\": %.5f}\n", middle(g->gbps, n, 2),
	       middle(g->resent, n, 2));
}

static int chosen(const char *only, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = only; at && *at; at += strcspn(at, ","), at += *at == ',')
		if (strcspn(at, ",") == len && !strncmp(at, name, len))
			return 1;
	return !only;
}

static int measure(struct crew *c)
{
	static struct figures figures[CONTENDERS];
	const struct plan *p = &c->plan;
	double bytes = (double)p->elements * sizeof(float),
	       frames = (double)p->elements / p->packet * p->workers;
	struct report r;

	/* The first round opens handles and warms up. */
	for (uint32_t round = 0; round <= p->rounds; round++) {
		double against = NAN;

		for (size_t k = 0; k < CONTENDERS; k++) {
			struct figures *g = &figures[k];

			if (!chosen(p->only, contenders[k].name))
				continue;
			if (together(c, (unsigned char)k, &r))
				return -1;
			if (!round)
				continue;
			g->cpu[round - 1] = (double)r.cpu_ns / p->workers / bytes;
			against = k ? against : g->cpu[round - 1];
			g->ratio[round - 1] = g->cpu[round - 1] / against;
			g->gbps[round - 1] = bytes * 8 / (double)r.wall_ns;
			g->resent[round - 1] = (double)r.retransmits / frames;
		}
	}
	for (size_t k = 0; k < CONTENDERS; k++)
		if (chosen(p->only, contenders[k].name))
			print_figures(p, &contenders[k], &figures[k]);
	return 0;
}

static int parse(struct plan *p, int argc, char **argv)
{
	static const struct option options[] = {{"workers", 1, NULL, 'w'},
						{"elements", 1, NULL, 'e'},
						{"rounds", 1, NULL, 'r'},
						{"packet", 1, NULL, 'p'},
						{"window", 1, NULL, 'W'},
						{"only", 1, NULL, 'o'},
						{0}};
	uint64_t block;
	int opt;

	*p = (struct plan){.workers = 2, .elements = 1 << 21, .rounds = 9, .packet = 256, .window = 64};
	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		uint64_t n = optarg ? strtoull(optarg, NULL, 0) : 0;

		if (opt == 'o')
			p->only = optarg;
		else if (opt == 'w' && n >= 1 && n <= MAX_WORKERS)
			p->workers = (uint32_t)n;
		else if (opt == 'e' && n >= 1 && n <= 1ull << 30)
			p->elements = n;
		else if (opt == 'r' && n >= 1 && n <= MAX_ROUNDS)
			p->rounds = (uint32_t)n;
		else if (opt == 'p' && n >= FPISA_BLOCK && n <= FPISA_MAX_ELEMENTS && n % FPISA_BLOCK == 0)
			p->packet = (uint32_t)n;
		else if (opt == 'W' && n >= 1 && n <= 128)
			p->window = (uint32_t)n;
		else {
			if (opt != '?')
				fprintf(stderr, "worker: %s: out of range\n", argv[optind - 1]);
			return -1;
		}
	}
	/* Whole blocks. */
	block = (uint64_t)BLOCK_CHUNKS * p->packet;
	p->elements = (p->elements + block - 1) / block * block;
	return 0;
}

int main(int argc, char **argv)
{
	static struct crew c;
	const char *slash = strrchr(argv[0], '/');
	int rc;

	if (parse(&c.plan, argc, argv))
		return 2;
	/* build/bench/worker stands beside build/fpisa. */
	snprintf(c.fpisa, sizeof(c.fpisa), "%.*s/../fpisa", slash ? (int)(slash - argv[0]) : 1,
		 slash ? argv[0] : ".");
	rc = set_up(&c);
	if (!rc)
		rc = measure(&c);
	for (uint32_t r = 0; r < c.plan.workers; r++)
		if (c.pid[r] > 0)
			kill(c.pid[r], SIGKILL);
	while (wait(NULL) > 0)
		;
	return rc ? 1 : 0;
}
