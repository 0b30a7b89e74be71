// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measure the datapath for `fpisa bench arith`, with one job for each
 * configuration. BPF_PROG_TEST_RUN passes the workers' contributions to the
 * entry program. The contributions are complete frames, so parsing, checksum
 * and protocol are included. Each round runs all configurations in turn, so
 * that drift of the machine affects all of them alike.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "cli/names.h"
#include "cli/report.h"
#include "lab/testbed/frame.h"
#include "datapath/pin.h"
#include "fpisa/slot.h"

#define ADDRESS 0x0a4dff01u /* 10.77.255.1 */
#define WORKER 0x0a4d0001u  /* 10.77.0.1 and up */
#define NETWORK 0x20010db8u /* 2001:db8:: */
#define MULTICAST 0xff150000u
#define VLAN 7
#define CONTRIBUTIONS 64 /* runs of each configuration in a round */
#define MAX_CHUNKS (CONTRIBUTIONS / 2)
#define BENCH_INCARNATION 1 /* incarnation of all ranks */
#define BENCH_TOKEN 0x5eadbeefcafe0001ull
#define KNOWN_RUNS 32
#define LOOPBACK 1 /* interface index; nothing is sent, but a job needs a port */

static const char *name(const struct bench_config *c)
{
	static char text[64];

	snprintf(text, sizeof(text), "%s %s %s %s", name_of(format_names, c->format), name_of(mode_names, c->mode),
		 name_of(pipeline_names, c->pipeline), name_of(clz_names, c->clz));
	return text;
}

/* -- configurations ------------------------------------------------------- */

static void add_config(struct bench_arith *a, struct bench_config c)
{
	c.id = a->configs;
	a->config[a->configs++] = c;
}

static void add_configs(struct bench_arith *a)
{
	static const uint32_t workers[] = {2, BENCH_WORKERS, 32};
	static const uint8_t formats[] = {FPISA_FORMAT_FP16, FPISA_FORMAT_BF16,	  FPISA_FORMAT_FP64, FPISA_FORMAT_E4M3,
					  FPISA_FORMAT_E5M2, FPISA_FORMAT_MXINT8, FPISA_FORMAT_INT32};
	static const __u8 flags[] = {FPISA_JOB_UNCOUNTED, FPISA_JOB_BIG_ENDIAN};
	struct bench_config c = {.format = FPISA_FORMAT_FP32,
				 .mode = FPISA_MODE_FPISA,
				 .pipeline = FPISA_PIPELINE_FUSED,
				 .clz = FPISA_CLZ_BITS};

	for (const struct name *pipeline = pipeline_names; pipeline->name; pipeline++) {
		for (const struct name *mode = mode_names; mode->name; mode++) {
			for (int n = 0; n < 3; n++) {
				c.pipeline = pipeline->id;
				c.mode = mode->id;
				c.workers = workers[n];
				add_config(a, c);
			}
		}
	}
	c.mode = FPISA_MODE_FPISA;
	c.workers = BENCH_WORKERS;
	for (const struct name *clz = clz_names; clz->name; clz++) {
		c.clz = clz->id;
		for (const struct name *pipeline = pipeline_names; clz->id != FPISA_CLZ_BITS && pipeline->name;
		     pipeline++) {
			c.pipeline = pipeline->id;
			add_config(a, c);
		}
	}
	c.pipeline = FPISA_PIPELINE_FUSED;
	c.clz = FPISA_CLZ_BITS;
	for (size_t i = 0; i < sizeof(formats); i++) {
		for (int n = 0; n < 3; n++) {
			c.format = formats[i];
			c.workers = workers[n];
			add_config(a, c);
		}
	}
	c.format = FPISA_FORMAT_FP64;
	c.mode = FPISA_MODE_EXACT;
	c.workers = BENCH_WORKERS;
	for (const struct name *pipeline = pipeline_names; pipeline->name; pipeline++) {
		c.pipeline = pipeline->id;
		add_config(a, c);
	}
	c.pipeline = FPISA_PIPELINE_FUSED;
	for (c.elements = FPISA_BLOCK; c.elements < FPISA_MAX_EXACT64_BLOCKS * FPISA_BLOCK; c.elements += FPISA_BLOCK)
		add_config(a, c);
	c.elements = 0;
	c.format = FPISA_FORMAT_FP32;
	c.mode = FPISA_MODE_FPISA;
	for (size_t i = 0; i < sizeof(flags); i++) {
		c.flags = flags[i];
		add_config(a, c);
	}
	c.flags = 0;
	c.file = true;
	for (const struct name *mode = mode_names; a->o.gradients && mode->name; mode++) {
		c.mode = mode->id;
		add_config(a, c);
	}
}

const struct bench_config *bench_find(const struct bench_arith *a, uint8_t mode, uint8_t pipeline, uint8_t clz,
				      uint32_t workers, bool file)
{
	for (uint32_t i = 0; i < a->configs; i++) {
		const struct bench_config *c = &a->config[i];

		if (c->format == FPISA_FORMAT_FP32 && c->mode == mode && c->pipeline == pipeline && c->clz == clz &&
		    c->workers == workers && c->file == file && !c->flags)
			return c;
	}
	return NULL;
}

const struct bench_config *bench_ipv4(const struct bench_arith *a)
{
	return bench_find(a, FPISA_MODE_FPISA, FPISA_PIPELINE_FUSED, FPISA_CLZ_BITS, BENCH_WORKERS, false);
}

const struct bench_config *bench_exact64(const struct bench_arith *a)
{
	for (uint32_t i = 0; i < a->configs; i++) {
		const struct bench_config *c = &a->config[i];

		if (c->format == FPISA_FORMAT_FP64 && c->mode == FPISA_MODE_EXACT &&
		    c->pipeline == FPISA_PIPELINE_FUSED && !c->elements)
			return c;
	}
	return NULL;
}

const struct bench_config *bench_flagged(const struct bench_arith *a, __u8 flags)
{
	for (uint32_t i = 0; i < a->configs; i++)
		if (a->config[i].flags == flags)
			return &a->config[i];
	return NULL;
}

/* -- jobs ----------------------------------------------------------------- */

/* Let every worker send a HELLO, and send a second one when all workers are known, which begins a generation. */
static int join(const struct bench_arith *a, struct bench_config *c)
{
	struct fpisa_session session = {0};
	struct bench_frame f;
	uint32_t ns, action;
	int err = 0;

	for (uint32_t i = 0; !err && i < 2 * c->workers; i++) {
		f.len = frame_outer(f.data, &c->job, i % c->workers, sizeof(struct fpisa_hello));
		*frame_hdr(f.data) = frame_hello(&c->job, c->id, i % c->workers, BENCH_INCARNATION);
		memset(frame_payload(f.data), 0, sizeof(struct fpisa_hello));
		bench_seal(&c->job, &f);
		bench_dress(&c->job, i % c->workers, &f);
		err = bench_run(a->entry_fd, &f, &ns, &action);
	}
	if (!err)
		err = datapath_session(&a->dp, c->id, &session);
	if (!err && !session.generation)
		err = refuse(-EPROTO, "bench: %s: the workers have not joined; please report this bug", name(c));
	c->generation = session.generation;
	return err;
}

/*
 * Return the number of elements of the configuration. The default is BENCH_ELEMENTS, or less if a chunk of the format
 * and mode cannot have so many.
 */
static uint16_t elements_of(const struct bench_config *c)
{
	uint32_t most = fpisa_max_elements(fpisa_format_of(c->format), c->mode);

	return c->elements ?: (uint16_t)(most < BENCH_ELEMENTS ? most : BENCH_ELEMENTS);
}

/* Return an address in the network of the configuration. Its last 32 bits are those of the IPv4 address. */
static struct fpisa_address address(const struct bench_config *c, uint32_t first, uint32_t last)
{
	return c->ipv6 ? (struct fpisa_address){.w = {htonl(first), 0, 0, htonl(last)}} : fpisa_ipv4(htonl(last));
}

static int make_job(struct bench_arith *a, struct bench_config *c)
{
	struct fpisa_job *j = &c->job;
	__u32 ifindex[FPISA_MAX_WORKERS];
	int err;

	*j = (struct fpisa_job){.workers = c->workers,
				.address = address(c, NETWORK, ADDRESS),
				.group = address(c, MULTICAST, 0xef465000u + c->id),
				.vlan = c->vlan,
				.group_port = htons(FPISA_PORT),
				.elements = elements_of(c),
				.window = c->window ?: 1,
				.token = c->token,
				.format = c->format,
				.mode = c->mode,
				.rounding = fpisa_default_rounding(c->mode),
				.pipeline = c->pipeline,
				.clz = c->clz,
				.flags = c->flags,
				.fanout = FPISA_FANOUT_MULTICAST};
	for (uint32_t r = 0; r < c->workers; r++) {
		j->rank[r] = (struct fpisa_rank){
			.addr = address(c, NETWORK, WORKER + r), .port = htons(FPISA_PORT), .given = 1};
		ifindex[r] = LOOPBACK;
	}
	err = datapath_job_add(&a->dp, c->id, j, ifindex);
	return err ?: join(a, c);
}

static int make_config(struct bench_arith *a, struct bench_config *c)
{
	for (int s = 0; s < BENCH_STEPS; s++) {
		c->ns[s] = calloc(a->o.rounds, sizeof(*c->ns[s]));
		if (!c->ns[s])
			return fail(-ENOMEM, NULL, "bench: cannot store the measurements");
	}
	return make_job(a, c);
}

int bench_datapath_open(struct bench_arith *a)
{
	const struct datapath_load how = {.pin = DATAPATH_PIN, .mode = DATAPATH_NATIVE, .group = DATAPATH_NO_GROUP};
	int err = datapath_load(&how, NULL, 0);

	add_configs(a);
	if (!err)
		err = datapath_open(&a->dp, DATAPATH_PIN);
	if (!err) {
		a->entry_fd = pin_open(DATAPATH_PIN, "fpisa");
		err = a->entry_fd < 0 ? fail(a->entry_fd, NULL, DATAPATH_PIN "/fpisa") : 0;
	}
	for (uint32_t i = 0; !err && i < a->configs; i++)
		err = make_config(a, &a->config[i]);
	for (uint32_t i = 0; !err && i < 4; i++) {
		struct bench_config *c = i < 2 ? &a->pair[i] : i < 3 ? &a->window : &a->tagged;

		*c = (struct bench_config){.format = FPISA_FORMAT_FP32,
					   .mode = FPISA_MODE_FPISA,
					   .pipeline = FPISA_PIPELINE_FUSED,
					   .clz = FPISA_CLZ_BITS,
					   .workers = BENCH_WORKERS,
					   .window = i == 2 ? BENCH_WINDOW : 1,
					   .token = i == 3 ? BENCH_TOKEN : 0,
					   .id = a->configs + i};
		err = make_job(a, c);
	}
	for (int i = 0; !err && i < BENCH_NETWORKS; i++) {
		struct bench_config *c = &a->network[i];

		*c = *bench_ipv4(a);
		c->id = a->configs + 4 + (uint32_t)i;
		c->ipv6 = i == BENCH_IPV6;
		c->vlan = i == BENCH_VLAN ? VLAN : 0;
		err = make_config(a, c);
	}
	return err;
}

static void free_steps(struct bench_config *c)
{
	for (int s = 0; s < BENCH_STEPS; s++)
		free(c->ns[s]);
}

void bench_datapath_close(struct bench_arith *a)
{
	for (uint32_t i = 0; i < a->configs; i++)
		free_steps(&a->config[i]);
	for (int i = 0; i < BENCH_NETWORKS; i++)
		free_steps(&a->network[i]);
	if (a->entry_fd >= 0)
		close(a->entry_fd);
	datapath_close(&a->dp);
}

/* -- rounds --------------------------------------------------------------- */

/* Swap the bytes of BENCH_ELEMENTS 32-bit words, as a sender with the other byte order would send them. */
static void swap_words(void *payload)
{
	uint32_t *word = payload;

	for (uint32_t i = 0; i < BENCH_ELEMENTS; i++)
		word[i] = __builtin_bswap32(word[i]);
}

void bench_add_frame(const struct bench_config *c, struct bench_source *s, uint32_t rank, struct bench_frame *frame)
{
	const struct fpisa_format f = fpisa_job_format(&c->job);

	frame->len = frame_outer(frame->data, &c->job, rank, fpisa_payload_bytes(f, c->job.elements));
	*frame_hdr(frame->data) = frame_add(&c->job, c->id, c->generation, rank, c->chunk, c->job.elements,
					    fpisa_cookie(&c->job.key, rank, BENCH_INCARNATION));
	bench_fill(s, f, rank, frame_payload(frame->data));
	if (c->flags & FPISA_JOB_BIG_ENDIAN)
		swap_words(frame_payload(frame->data));
	bench_seal(&c->job, frame);
	bench_dress(&c->job, rank, frame);
}

int bench_contribute(const struct bench_arith *a, const struct bench_config *c, struct bench_source *s, uint32_t rank,
		     uint32_t *ns)
{
	struct bench_frame frame;
	uint32_t action;
	int err;

	bench_add_frame(c, s, rank, &frame);
	err = bench_run(a->entry_fd, &frame, ns, &action);
	/* The result is sent only if all contributions were added. */
	if (!err && action != (rank + 1 < c->workers ? XDP_DROP : XDP_REDIRECT))
		err = refuse(-EPROTO,
			     "bench: %s: rank %u of %u: the program returned XDP action %u; please report this bug",
			     name(c), rank, c->workers, action);
	return err;
}

static double per_element(const struct bench_config *c, uint32_t ns)
{
	return (double)ns / c->job.elements;
}

static int measure(struct bench_arith *a, struct bench_config *c, uint64_t round)
{
	struct bench_source *s = c->file ? &a->stored : &a->random;
	uint32_t chunks = CONTRIBUTIONS / c->workers, further = 0;
	double set[MAX_CHUNKS], more[CONTRIBUTIONS] = {0}, last[MAX_CHUNKS], all[MAX_CHUNKS];

	for (uint32_t k = 0; k < chunks; k++) {
		all[k] = 0;
		bench_next_chunk(s);
		for (uint32_t r = 0; r < c->workers; r++) {
			uint32_t ns;
			int err = bench_contribute(a, c, s, r, &ns);

			if (err)
				return err;
			all[k] += per_element(c, ns);
			if (r == 0)
				set[k] = per_element(c, ns);
			else if (r + 1 < c->workers)
				more[further++] = per_element(c, ns);
			else
				last[k] = per_element(c, ns);
		}
		c->chunk++;
	}
	c->ns[BENCH_SET][round] = bench_spread(set, chunks).median;
	c->ns[BENCH_LAST][round] = bench_spread(last, chunks).median;
	c->ns[BENCH_ROUND][round] = bench_spread(all, chunks).median;
	if (further) {
		c->ns[BENCH_MORE][round] = bench_spread(more, further).median;
		c->ns[BENCH_READ][round] = c->ns[BENCH_LAST][round] - c->ns[BENCH_MORE][round];
	}
	return 0;
}

int bench_datapath_round(struct bench_arith *a, uint64_t round)
{
	const struct bench_config *ipv4 = bench_ipv4(a);
	int err = 0;

	for (uint32_t i = 0; !err && i < a->configs; i++) {
		err = measure(a, &a->config[i], round);
		/* Measure the other networks here, because caches and branch predictors keep the previous configuration. */
		for (int n = 0; !err && ipv4 == &a->config[i] && n < BENCH_NETWORKS; n++)
			err = measure(a, &a->network[n], round);
	}
	return err;
}

/* Measure a known frame alone. If `live` is not NULL, also measure it on live frames. */
static int known_round(struct bench_arith *a, struct bench_config *c, double *known, double *live)
{
	struct bench_frame frame;
	double alone[KNOWN_RUNS];
	uint32_t ns, action;
	int err;

	bench_add_frame(c, &a->random, 0, &frame);
	err = bench_run(a->entry_fd, &frame, &ns, &action);
	for (int i = 0; !err && i < KNOWN_RUNS; i++) {
		err = bench_run(a->entry_fd, &frame, &ns, &action);
		if (!err && action != XDP_DROP)
			err = refuse(-EPROTO,
				     "bench: a frame that was sent twice: the program returned XDP action %u; please "
				     "report this bug",
				     action);
		alone[i] = ns;
	}
	if (!err && live) {
		err = bench_run_live(a->entry_fd, &frame, &ns);
		*live = ns;
	}
	if (err)
		return err;
	*known = bench_spread(alone, KNOWN_RUNS).median;
	for (uint32_t r = 1; !err && r < c->workers; r++)
		err = bench_contribute(a, c, &a->random, r, &ns);
	c->chunk++;
	return err;
}

int bench_known_round(struct bench_arith *a, uint64_t round)
{
	int err = known_round(a, &a->pair[0], &a->known[BENCH_ALONE][round], &a->known[BENCH_LIVE][round]);

	err = err ?: known_round(a, &a->tagged, &a->known[BENCH_TAGGED][round], NULL);
	for (int i = 0; !err && i < BENCH_NETWORKS; i++)
		err = known_round(a, &a->network[i], &a->known[BENCH_IN_NETWORK + i][round], NULL);
	return err;
}
