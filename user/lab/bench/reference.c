// SPDX-License-Identifier: GPL-2.0-only
/*
 * The programs of bpf/fpisa_bench.bpf.c, built by each compiler. Some programs
 * read a payload and others add integers, each in several variants. Results are
 * those of the fastest variant. bench.h documents the functions.
 */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "cli/report.h"
#include "lab/testbed/frame.h"
#include "datapath/log.h"
#include "fpisa_bench.skel.h"
#include "fpisa_bench_old.skel.h"

#define RUNS 16 /* runs of each program per round */
#define ROW 1	/* the key in the map of rows */

static const struct {
	const char *prefix;
	enum bench_kind kind;
} kinds[] = {{"touch_", BENCH_TOUCH}, {"add_", BENCH_ADD}, {"empty", BENCH_EMPTY}, {"spin", BENCH_SPIN}};

/* Return the value of the variable `compiler` in an open object. */
static const char *compiler_of(const struct bpf_object *o)
{
	struct bpf_map *map;
	size_t size;

	bpf_object__for_each_map(map, o)
		if (bpf_map__is_internal(map))
			return bpf_map__initial_value(map, &size);
	return "";
}

static int add_program(struct bench_reference *r, const struct bpf_program *prog, const char *compiler, uint64_t rounds)
{
	const char *name = bpf_program__name(prog);

	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		size_t n = strlen(kinds[k].prefix);
		struct bench_program *p = &r->program[r->programs];

		if (strncmp(name, kinds[k].prefix, n))
			continue;
		if (r->programs == BENCH_MAX_PROGRAMS)
			return refuse(-E2BIG,
				      "bench: more than %d reference programs are not supported; please "
				      "report this bug",
				      BENCH_MAX_PROGRAMS);
		p->ns = calloc(rounds, sizeof(*p->ns));
		if (!p->ns)
			return fail(-ENOMEM, NULL, "bench: cannot store the measurements");
		snprintf(p->name, sizeof(p->name), "%s%s%s", name + n, name[n] ? " " : "", compiler);
		p->kind = kinds[k].kind;
		p->fd = bpf_program__fd(prog);
		r->programs++;
		return 0;
	}
	return refuse(-EINVAL, "bench: program %s: no measurement has this name; please report this bug", name);
}

static void make_frame(struct bench_frame *f, struct bench_source *s)
{
	static const struct fpisa_job job;

	f->len = frame_outer(f->data, &job, 0, BENCH_ELEMENTS * 4);
	*frame_hdr(f->data) = frame_add(&job, 0, 0, 0, 0, BENCH_ELEMENTS, 0);
	frame_hdr(f->data)->slot = ROW;
	bench_fill(s, FPISA_FP32, 0, frame_payload(f->data));
	bench_seal(&job, f);
}

static int run(const struct bench_program *p, const struct bench_frame *f, uint32_t *ns)
{
	uint32_t action;
	int err = bench_run(p->fd, f, ns, &action);

	if (!err && action != XDP_DROP)
		err = refuse(-EIO, "bench: program %s returned XDP action %u; please report this bug", p->name, action);
	return err;
}

/* Check that the program adds the payload to a row. */
static int check_add(const struct bench_program *p, int rows_fd, struct bench_source *s)
{
	uint32_t before[BENCH_ELEMENTS], after[BENCH_ELEMENTS], in[BENCH_ELEMENTS], key = ROW, ns;
	struct bench_frame f;
	int err;

	for (int i = 0; i < 2; i++) {
		make_frame(&f, s);
		memcpy(in, frame_payload(f.data), sizeof(in));
		err = bpf_map_lookup_elem(rows_fd, &key, before) ? -errno : run(p, &f, &ns);
		if (!err && bpf_map_lookup_elem(rows_fd, &key, after))
			err = -errno;
		if (err)
			return fail(err, NULL, "bench: program %s: cannot run", p->name);
		for (int k = 0; k < BENCH_ELEMENTS; k++)
			if (after[k] != before[k] + in[k])
				return refuse(-EIO, "bench: program %s: element %d: wrong sum; please report this bug",
					      p->name, k);
	}
	return 0;
}

static int open_object(struct bench_reference *r, int which, const void *elf, size_t size, struct bench_source *s,
		       uint64_t rounds)
{
	struct bpf_program *prog;
	const char *compiler;
	struct bpf_object *o;
	int err, from = r->programs;

	log_start();
	o = bpf_object__open_mem(elf, size, NULL);
	if (!o)
		return refuse(-errno, "bench: cannot open the reference programs: %s; install this release again",
			      reason(-errno));
	r->object[which] = o;
	compiler = compiler_of(o);
	/* If there was only one compiler, it built both objects. */
	if (which && !strcmp(compiler, compiler_of(r->object[0])))
		return 0;
	err = bpf_object__load(o);
	if (err)
		return refuse(err, "bench: cannot load the reference programs: %s; --verbose shows the verifier's log",
			      reason(err));
	bpf_object__for_each_program(prog, o)
		err = err ?: add_program(r, prog, compiler, rounds);
	for (int i = from; !err && i < r->programs; i++)
		if (r->program[i].kind == BENCH_ADD)
			err = check_add(&r->program[i], bpf_object__find_map_fd_by_name(o, "rows"), s);
	return err;
}

int bench_reference_open(struct bench_reference *r, struct bench_source *s, uint64_t rounds)
{
	const void *elf;
	size_t size;
	int err;

	elf = fpisa_bench_bpf__elf_bytes(&size);
	err = open_object(r, 0, elf, size, s, rounds);
	if (err)
		return err;
	elf = fpisa_bench_old_bpf__elf_bytes(&size);
	return open_object(r, 1, elf, size, s, rounds);
}

void bench_reference_close(struct bench_reference *r)
{
	for (int i = 0; i < r->programs; i++)
		free(r->program[i].ns);
	for (int i = 0; i < 2; i++)
		bpf_object__close(r->object[i]);
}

int bench_reference_round(struct bench_reference *r, struct bench_source *s, uint64_t round)
{
	double ns[RUNS] = {0};

	for (int i = 0; i < r->programs; i++) {
		struct bench_program *p = &r->program[i];

		for (int k = 0; p->kind != BENCH_SPIN && k < RUNS; k++) {
			struct bench_frame f;
			uint32_t once;
			int err;

			make_frame(&f, s);
			err = run(p, &f, &once);
			if (err)
				return err;
			ns[k] = (double)once / BENCH_ELEMENTS;
		}
		p->ns[round] = bench_spread(ns, RUNS).median;
	}
	return 0;
}

void bench_reference_choose(struct bench_reference *r, uint64_t rounds)
{
	double least[BENCH_KINDS] = {INFINITY, INFINITY, INFINITY, INFINITY};

	for (int i = 0; i < r->programs; i++) {
		const struct bench_program *p = &r->program[i];
		double median = bench_spread(p->ns, rounds).median;

		if (median < least[p->kind]) {
			r->best[p->kind] = i;
			least[p->kind] = median;
		}
	}
}

const struct bench_program *bench_best(const struct bench_reference *r, enum bench_kind kind)
{
	return &r->program[r->best[kind]];
}
