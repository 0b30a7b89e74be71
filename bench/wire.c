// SPDX-License-Identifier: GPL-2.0-only
/*
 * What summing costs an aggregator: CPU seconds a gigabyte of contributions,
 * and goodput, over real veth links with the same workers for each contender:
 *
 *	fpisa		our datapath: native XDP, fused
 *	udp-avx2	a server on a UDP socket that adds with AVX2 (server_udp.c)
 *	xdp-avx2	a server on AF_XDP sockets that adds with AVX2 (server_xsk.c)
 *
 * CPU time is that of the kernel threads that poll the aggregator's ends of
 * the links (threaded NAPI: else that work is charged to whoever was running)
 * and of the server's process. The workers' ends have threads of their own.
 * A veth passes bursts (UDP_SEGMENT) as one, which no wire does: the workers'
 * ends cut them, so that every contender gets frames. `--bursts` leaves them.
 *
 * Contenders take turns, run by run, so that drift hits all alike. Each sum
 * is checked, element by element, before its figures count (wire_worker.c).
 * One JSON line a contender, packet size and kind of data: quartiles over the
 * runs, and of the ratio, ours : the contender, in the same run.
 *
 * Each packet size is measured by a process of its own in namespaces without
 * names, and all processes die with their parent: nothing outlives a run,
 * whatever ends it.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "fpisa/wire.h"
#include "gradients.h"
#include "lab.h"
#include "server.h"
#include "wire.h"

#define MAX_RUNS 1000
#define MAX_WINDOW 256
#define GROUP_OF(c) (0xef465000u + (uint32_t)(c)) /* 239.70.80.c, as `fpisa job add` has it */

static const char *const contender_name[CONTENDERS] = {"fpisa", "udp-avx2", "xdp-avx2"};
static const char *const data_name[DATAS] = {"random", "gradients"};

void wire_port(char name[16], const struct plan *p, enum contender c, uint32_t rank)
{
	snprintf(name, 16, "w%da%u-%u", p->master, c, rank);
}

void wire_link(char name[16], const struct plan *p, enum contender c, uint32_t rank)
{
	snprintf(name, 16, "w%dw%u-%u", p->master, c, rank);
}

uint32_t wire_subnet(enum contender c, uint32_t rank)
{
	return (uint32_t)c * CREW_MAX + rank;
}

struct wire {
	struct plan plan;
	int data[DATAS]; /* chosen */
	struct crew workers, servers;
	struct wire_worker worker[CREW_MAX];
	pid_t napi[CONTENDERS][CREW_MAX];
	char fpisa[288]; /* the command */
};

/* -- the aggregators --------------------------------------------------------------- */

struct post {
	struct wire *w;
	enum contender c;
};

static void serve(void *arg, int ready)
{
	const struct post *post = arg;
	const struct plan *p = &post->w->plan;
	char address[32], dev[CREW_MAX][16];
	struct server s = {.number = post->c};
	int rc;

	snprintf(address, sizeof(address), WIRE_ADDRESS "%u", WIRE_ADDRESS_OF(post->c));
	s.job = (struct fpisa_job){
		.active = 1,
		.workers = p->workers,
		.live = ~0ull >> (64 - p->workers),
		.address = inet_addr(address),
		.group = post->c == XDP_AVX2 ? htonl(GROUP_OF(post->c)) : 0,
		.group_port = htons((uint16_t)(FPISA_PORT + post->c)),
		.elements = (uint16_t)p->packet,
		.window = p->window,
		.format = FPISA_FORMAT_FP32,
		.mode = FPISA_MODE_FPISA,
		.rounding = FPISA_ROUND_NEAREST,
		.fanout = post->c == XDP_AVX2 ? FPISA_FANOUT_MULTICAST : FPISA_FANOUT_UNICAST,
	};
	for (uint32_t r = 0; r < p->workers; r++) {
		snprintf(address, sizeof(address), "10.78.%u.2", wire_subnet(post->c, r));
		s.job.rank[r] = (struct fpisa_rank){.addr = inet_addr(address),
						    .port = htons((uint16_t)(FPISA_PORT + post->c))};
		wire_port(dev[r], p, post->c, r);
	}
	rc = server_init(&s);
	if (!rc)
		rc = post->c == XDP_AVX2 ? server_xsk(&s, ready, dev) : server_udp(&s, ready);
	fprintf(stderr, "wire: %s: %s\n", contender_name[post->c], strerror(-rc));
}

static int start_fpisa(const struct wire *w)
{
	const struct plan *p = &w->plan;
	char devs[CREW_MAX * 17], workers[CREW_MAX * 24];
	size_t d = 0, n = 0;

	for (uint32_t r = 0; r < p->workers; r++) {
		char dev[16];

		wire_port(dev, p, FPISA_XDP, r);
		d += (size_t)snprintf(devs + d, sizeof(devs) - d, " %s", dev);
		n += (size_t)snprintf(workers + n, sizeof(workers) - n, "%s10.78.%u.2:%d", r ? "," : "",
				      wire_subnet(FPISA_XDP, r), FPISA_PORT + FPISA_XDP);
	}
	return run_fpisa(w->fpisa, "load%s", devs)
		       ?: run_fpisa(w->fpisa,
				    "job add %d --workers %s --address " WIRE_ADDRESS
				    "%d --elements %u --window %u",
				    FPISA_XDP, workers, WIRE_ADDRESS_OF(FPISA_XDP), p->packet, p->window);
}

static int start_servers(struct wire *w)
{
	char byte;

	for (enum contender c = UDP_AVX2; c < CONTENDERS; c++) {
		struct post post = {w, c};

		if (crew_hire(&w->servers, serve, &post) ||
		    crew_hear(&w->servers, w->servers.n - 1, &byte, 1))
			return -1;
	}
	return 0;
}

static int tso_off(const char *dev)
{
	struct ethtool_value value = {.cmd = ETHTOOL_STSO};
	struct ifreq ifr = {.ifr_data = (void *)&value};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc;

	if (fd < 0)
		return -1;
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", dev);
	rc = ioctl(fd, SIOCETHTOOL, &ifr);
	close(fd);
	return rc;
}

pid_t wire_poll(const char *dev)
{
	return lab_gro_on(dev) || tso_off(dev) ? die(dev) : napi_thread(dev);
}

static int thread_ports(struct wire *w)
{
	char dev[16];

	for (enum contender c = 0; c < CONTENDERS; c++)
		for (uint32_t r = 0; r < w->plan.workers; r++) {
			wire_port(dev, &w->plan, c, r);
			w->napi[c][r] = wire_poll(dev);
			if (w->napi[c][r] < 0)
				return -1;
		}
	return 0;
}

static uint64_t polled_ns(const struct wire *w, enum contender c)
{
	uint64_t ns = 0;

	for (uint32_t r = 0; r < w->plan.workers; r++)
		ns += task_ns(w->napi[c][r]);
	return ns;
}

static uint64_t served_ns(const struct wire *w, enum contender c)
{
	return c == FPISA_XDP ? 0 : task_ns(w->servers.pid[c - UDP_AVX2]);
}

/* -- workers and links ------------------------------------------------------------- */

/* All workers do it; their retransmissions are added up. */
static int together(const struct wire *w, const struct order *o, uint64_t *retransmits)
{
	struct report r;
	int failed = 0;

	if (crew_tell(&w->workers, o, sizeof(*o)))
		return -1;
	for (uint32_t i = 0; i < w->plan.workers; i++) {
		if (crew_hear(&w->workers, i, &r, sizeof(r)))
			return -1;
		if (r.error)
			fprintf(stderr, "wire: %s: rank %u: %s\n", contender_name[o->contender], i,
				r.message);
		failed |= r.error;
		if (retransmits)
			*retransmits += r.retransmits;
	}
	return failed ? -1 : 0;
}

static int make_links(struct wire *w)
{
	const struct plan *p = &w->plan;
	uint32_t mtu = FPISA_PAYLOAD_OFFSET - FPISA_ETH_LEN + p->packet * sizeof(float);
	struct lab_batch b = lab_batch_open();
	char message[256];

	mtu = mtu < 1500 ? 1500 : mtu;
	lab_batch_add(&b, "link set lo up");
	for (enum contender c = 0; c < CONTENDERS; c++) {
		lab_batch_add(&b, "addr add " WIRE_ADDRESS "%d/32 dev lo", WIRE_ADDRESS_OF(c));
		for (uint32_t r = 0; r < p->workers; r++) {
			char here[16], there[16];

			wire_port(here, p, c, r);
			wire_link(there, p, c, r);
			lab_batch_add(&b, "link add %s mtu %u type veth peer name %s mtu %u netns %d", here,
				      mtu, there, mtu, w->workers.pid[r]);
			lab_batch_add(&b, "addr add 10.78.%u.1/24 dev %s", wire_subnet(c, r), here);
			lab_batch_add(&b, "link set %s up", here);
		}
	}
	if (lab_batch_run(&b, message, sizeof(message))) {
		fprintf(stderr, "wire: make links: %s\n", message);
		return -1;
	}
	return together(w, &(struct order){.task = TASK_LINK}, NULL);
}

static int set_up(struct wire *w)
{
	struct report r;

	w->plan.master = getpid();
	if (lab_enter("bench") || own_sysfs())
		return -1;
	for (uint32_t i = 0; i < w->plan.workers; i++) {
		w->worker[i] = (struct wire_worker){&w->plan, i};
		if (crew_hire(&w->workers, wire_work, &w->worker[i]) ||
		    crew_hear(&w->workers, i, &r, sizeof(r)))
			return -1;
	}
	return make_links(w) ?: start_fpisa(w) ?: start_servers(w) ?: thread_ports(w);
}

/* -- figures ------------------------------------------------------------------------- */

struct figures {
	double cpu[MAX_RUNS], polled[MAX_RUNS], served[MAX_RUNS], ratio[MAX_RUNS], gbit[MAX_RUNS];
	uint64_t retransmits;
};

static int run_contender(const struct wire *w, enum contender c, struct figures *g, uint32_t run)
{
	const struct plan *p = &w->plan;
	double bytes = (double)p->workers * (double)p->elements * sizeof(float);
	struct order o = {.task = TASK_CLEAR, .contender = c};
	uint64_t polled, served, wall, retransmits = 0;

	if (together(w, &o, NULL))
		return -1;
	polled = polled_ns(w, c);
	served = served_ns(w, c);
	wall = clock_ns(CLOCK_MONOTONIC);
	o.task = TASK_SUM;
	if (together(w, &o, &retransmits))
		return -1;
	wall = clock_ns(CLOCK_MONOTONIC) - wall;
	polled = polled_ns(w, c) - polled;
	served = served_ns(w, c) - served;
	o.task = TASK_CHECK;
	if (together(w, &o, NULL))
		return -1;
	g->polled[run] = (double)polled / bytes;
	g->served[run] = (double)served / bytes;
	g->cpu[run] = g->polled[run] + g->served[run];
	g->gbit[run] = bytes * 8 / (double)wall;
	g->retransmits += retransmits;
	return 0;
}

static void print_figures(const struct wire *w, enum data data, enum contender c, struct figures *g)
{
	const struct plan *p = &w->plan;
	double frames = (double)p->elements / p->packet * p->workers * p->runs;

	printf("{\"bench\": \"wire\", \"contender\": \"%s\", \"data\": \"%s\", \"workers\": %u, "
	       "\"elements\": %u, "
	       "\"window\": %u, \"bursts\": %s, \"vector\": %llu, \"runs\": %u, \"goodput_gbit\": %.4f",
	       contender_name[c], data_name[data], p->workers, p->packet, p->window,
	       p->bursts ? "true" : "false", (unsigned long long)p->elements, p->runs,
	       quartile(g->gbit, p->runs, 2));
	print_quartiles("cpu_s_per_gb", g->cpu, p->runs);
	print_quartiles("napi_s_per_gb", g->polled, p->runs);
	print_quartiles("process_s_per_gb", g->served, p->runs);
	printf(", \"ratio\": %.4f, \"ratio_quartiles\": [%.4f, %.4f], \"retransmit_share\": %.6f}\n",
	       quartile(g->ratio, p->runs, 2), quartile(g->ratio, p->runs, 1), quartile(g->ratio, p->runs, 3),
	       (double)g->retransmits / frames);
}

/* One run more than asked for: the first opens handles and warms up. */
static int measure(const struct wire *w, enum data data)
{
	static struct figures figures[CONTENDERS];

	memset(figures, 0, sizeof(figures));
	for (uint32_t run = 0; run <= w->plan.runs; run++) {
		struct order fill = {.task = TASK_FILL, .data = data, .run = run};
		uint32_t at = run ? run - 1 : 0;

		if (together(w, &fill, NULL))
			return -1;
		for (uint32_t k = 0; k < CONTENDERS; k++) {
			enum contender c = (k + run) % CONTENDERS;

			if (run_contender(w, c, &figures[c], at))
				return -1;
		}
		for (enum contender c = 0; c < CONTENDERS; c++) {
			figures[c].ratio[at] = figures[FPISA_XDP].cpu[at] / figures[c].cpu[at];
			figures[c].retransmits *= run > 0;
		}
	}
	for (enum contender c = 0; c < CONTENDERS; c++)
		print_figures(w, data, c, &figures[c]);
	return 0;
}

static void *shared(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* In a process of its own. */
static void measure_size(void *arg, int control)
{
	struct wire *w = arg;
	struct plan *p = &w->plan;
	size_t vectors = p->workers * p->elements * sizeof(float);
	int rc;

	p->send = shared(vectors);
	p->recv = shared(vectors);
	p->order = shared(p->workers * (p->elements / p->packet) * sizeof(*p->order));
	rc = p->send && p->recv && p->order ? set_up(w) : die("memory for vectors");
	for (enum data d = 0; d < DATAS && !rc; d++)
		rc = w->data[d] ? measure(w, d) : 0;
	fflush(stdout);
	crew_dismiss(&w->workers);
	crew_dismiss(&w->servers);
	if (!rc)
		server_ready(control);
	_exit(rc ? 1 : 0);
}

/* -- options -------------------------------------------------------------------------- */

static const char usage[] =
	"usage: wire [--workers 2..16] [--elements N,...] [--vector N] [--window W] [--runs N]\n"
	"            [--data random,gradients] [--gradients DIRECTORY] [--seed N] [--bursts]\n"
	"  --elements  of a packet: multiples of 32 up to 832; default 256,832\n"
	"  --vector    elements that each worker contributes a run; default 4194304\n";

struct options {
	struct wire *w;
	uint64_t vector;
	struct sizes sizes;
	const char *gradients;
};

static int parse_data(struct wire *w, const char *text)
{
	memset(w->data, 0, sizeof(w->data));
	for (const char *at = text; at; at = strchr(at, ','), at += at ? 1 : 0) {
		size_t n = strcspn(at, ",");
		enum data d = 0;

		while (d < DATAS && (strlen(data_name[d]) != n || strncmp(at, data_name[d], n)))
			d++;
		if (d == DATAS)
			return refuse(-1, "--data: %s: random, gradients or both", at);
		w->data[d] = 1;
	}
	return 0;
}

static int parse(struct options *o, int argc, char **argv)
{
	static const struct option options[] = {{"workers", 1, NULL, 'w'},
						{"elements", 1, NULL, 'e'},
						{"vector", 1, NULL, 'v'},
						{"window", 1, NULL, 'W'},
						{"runs", 1, NULL, 'r'},
						{"data", 1, NULL, 'd'},
						{"gradients", 1, NULL, 'g'},
						{"seed", 1, NULL, 's'},
						{"bursts", 0, NULL, 'b'},
						{"help", 0, NULL, 'h'},
						{0}};
	struct plan *p = &o->w->plan;
	int opt;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		uint64_t n = 0;
		int rc = 0;

		switch (opt) {
		case 'w':
			rc = parse_number("--workers", optarg, 2, CREW_MAX, &n);
			p->workers = (uint32_t)n;
			break;
		case 'e':
			rc = parse_sizes(&o->sizes, optarg);
			break;
		case 'v':
			rc = parse_number("--vector", optarg, 1, 1 << 26, &o->vector);
			break;
		case 'W':
			rc = parse_number("--window", optarg, 1, MAX_WINDOW, &n);
			p->window = (uint32_t)n;
			break;
		case 'r':
			rc = parse_number("--runs", optarg, 1, MAX_RUNS, &n);
			p->runs = (uint32_t)n;
			break;
		case 's':
			rc = parse_number("--seed", optarg, 0, UINT64_MAX, &p->seed);
			break;
		case 'd':
			rc = parse_data(o->w, optarg);
			break;
		case 'g':
			o->gradients = optarg;
			break;
		case 'b':
			p->bursts = 1;
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			rc = -1;
		}
		if (rc) {
			fputs(usage, stderr);
			return -1;
		}
	}
	if (optind < argc)
		return refuse(-1, "%s: not an option\n%s", argv[optind], usage);
	return p->window & (p->window - 1) ? refuse(-1, "--window: not a power of two") : 0;
}

/* The three files of data/, one after the other in each row. */
static int load_gradients(struct plan *p, const char *directory)
{
	static const char *const file[] = {"epoch01.f32", "epoch20.f32", "epoch40.f32"};
	struct gradients g[3] = {GRADIENTS_INIT, GRADIENTS_INIT, GRADIENTS_INIT};
	uint64_t at = 0;
	float *all = NULL;
	char path[512];
	int rc = 0;

	for (int i = 0; i < 3 && !rc; i++) {
		snprintf(path, sizeof(path), "%s/%s", directory, file[i]);
		rc = gradients_open(&g[i], path, fpisa_format_of(FPISA_FORMAT_FP32))
			     ?: gradients_split(&g[i], GRADIENT_ROWS, "--gradients");
		p->columns += g[i].elements;
	}
	if (!rc)
		all = malloc(GRADIENT_ROWS * p->columns * sizeof(*all));
	for (int i = 0; i < 3 && all; at += g[i++].elements)
		for (uint32_t row = 0; row < GRADIENT_ROWS; row++)
			for (uint64_t e = 0; e < g[i].elements; e++)
				all[row * p->columns + at + e] = (float)gradients_value(&g[i], row, e);
	for (int i = 0; i < 3; i++)
		gradients_close(&g[i]);
	p->gradients = all;
	return all ? 0 : -1;
}

int main(int argc, char **argv)
{
	static struct wire w = {.plan = {.workers = 4, .window = 64, .runs = 9}, .data = {1, 1}};
	struct options o = {.w = &w, .vector = 1 << 22, .sizes = DEFAULT_SIZES};
	const char *slash = strrchr(argv[0], '/');
	struct crew one = {0};
	char directory[288], byte;
	int rc = 0;

	/* build/bench/wire stands two directories below data/. */
	snprintf(directory, sizeof(directory), "%.*s/../../data/gradients",
		 slash ? (int)(slash - argv[0]) : 1, slash ? argv[0] : ".");
	o.gradients = directory;
	w.plan.seed = clock_ns(CLOCK_REALTIME);
	if (parse(&o, argc, argv))
		return 2;
	fpisa_path(w.fpisa, sizeof(w.fpisa), argv[0]);
	if (w.data[DATA_GRADIENTS] && load_gradients(&w.plan, o.gradients))
		return 1;
	fprintf(stderr, "wire: --seed %llu repeats the random data\n", (unsigned long long)w.plan.seed);
	for (uint32_t i = 0; i < o.sizes.n && !rc; i++) {
		w.plan.packet = o.sizes.elements[i];
		w.plan.elements = (o.vector + w.plan.packet - 1) / w.plan.packet * w.plan.packet;
		rc = crew_hire(&one, measure_size, &w) ?: crew_hear(&one, 0, &byte, 1);
		crew_dismiss(&one);
	}
	return rc ? 1 : 0;
}
