/* SPDX-License-Identifier: GPL-2.0-only */
/* Jobs in the datapath and in user space, and the state of both. See targets.h. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "fpisa.h"
#include "mutate.h"
#include "targets.h"

#define JOB(f, m, p, c, w, e, n, ...)                      \
	{                                                  \
		.name = #f " " #m " " #p " " #__VA_ARGS__, \
		.job = {.format = FPISA_FORMAT_##f,        \
			.mode = FPISA_MODE_##m,            \
			.pipeline = FPISA_PIPELINE_##p,    \
			.clz = FPISA_CLZ_##c,              \
			.window = (w),                     \
			.elements = (e),                   \
			.workers = (n)},                   \
		__VA_ARGS__                                \
	}

#define FLAGS(names) .job.flags = (names)
#define BE FPISA_JOB_BIG_ENDIAN
#define RECIPROCAL FPISA_JOB_RECIPROCAL
#define HISTOGRAM FPISA_JOB_HISTOGRAM

/* Each line is a job. Slots, numbers and tokens are assigned below. */
struct target target[] = {
	JOB(FP32, FPISA, FUSED, BITS, 4, 64, 3),
	JOB(FP32, FPISA, STAGED, LPM, 2, 32, 2),
	JOB(FP32, FPISA_A, STAGED, BITS, 2, 64, 4),
	JOB(FP32, FPISA_A, FUSED, LPM, 1, 32, 64),
	JOB(FP32, FPISA, FUSED, LPM, 8, 32, 1),
	JOB(FP32, FPISA, FUSED, BITS, 2, 832, 2),
	JOB(FP16, FPISA, STAGED, LPM, 2, 96, 2),
	JOB(BF16, FPISA64, FUSED, BITS, 2, 64, 17),
	JOB(E4M3, FPISA, FUSED, BITS, 4, 64, 2),
	JOB(FP16, FPISA64, STAGED, LPM, 2, 32, 3),
	JOB(FP64, FPISA64, FUSED, LPM, 2, 64, 2),
	JOB(FP32, FPISA64, FUSED, LPM, 2, 64, 3),
	JOB(FP32, EXACT, FUSED, BITS, 2, 32, 3),
	JOB(BF16, EXACT, STAGED, BITS, 2, 32, 2),
	JOB(FP64, EXACT, FUSED, BITS, 2, 64, 3),
	JOB(FP64, EXACT, STAGED, LPM, 2, 32, 2, FLAGS(BE)),
	JOB(FP16, EXACT, FUSED, BITS, 2, 64, 2),
	JOB(E5M2, EXACT, STAGED, BITS, 2, 64, 2),
	JOB(INT32, FPISA, FUSED, BITS, 4, 64, 3),
	JOB(INT32, FPISA, STAGED, BITS, 2, 32, 2, FLAGS(BE)),
	JOB(MXINT8, FPISA, FUSED, BITS, 4, 96, 3, FLAGS(HISTOGRAM)),
	JOB(MXINT8, FPISA_A, STAGED, LPM, 2, 32, 2, FLAGS(RECIPROCAL)),
	JOB(MXINT8, FPISA64, STAGED, BITS, 2, 832, 5),
	JOB(MXINT8, EXACT, FUSED, BITS, 2, 64, 3),
	JOB(MXINT8, EXACT, STAGED, BITS, 2, 32, 3, FLAGS(RECIPROCAL)),
	JOB(BF16, FPISA_A, FUSED, BITS, 2, 64, 3, FLAGS(BE | HISTOGRAM)),
	JOB(FP16, FPISA, STAGED, LPM, 2, 32, 3, FLAGS(BE | RECIPROCAL)),
	JOB(FP32, FPISA_A, FUSED, BITS, 2, 64, 3, FLAGS(BE | RECIPROCAL)),
	JOB(FP32, EXACT, STAGED, BITS, 2, 32, 7, FLAGS(BE | RECIPROCAL)),
	JOB(FP32, FPISA, STAGED, BITS, 2, 64, 3, FLAGS(HISTOGRAM)),
	JOB(FP64, FPISA, FUSED, BITS, 2, 64, 3, FLAGS(BE | HISTOGRAM)),
	JOB(FP64, FPISA_A, STAGED, LPM, 2, 32, 7, FLAGS(BE | RECIPROCAL | HISTOGRAM)),
	JOB(FP32, FPISA, FUSED, BITS, 16, 32, 2, .job.ports = 4),
	JOB(BF16, FPISA, STAGED, BITS, 8, 32, 3, .job.ports = 8),
	JOB(FP32, FPISA, FUSED, BITS, 2, 32, 2, .no_ports = true),
	JOB(E5M2, FPISA64, FUSED, BITS, 2, 32, 2, .unloaded = true),
};

const int targets = sizeof(target) / sizeof(target[0]);
struct fpisa_control *targets_control;
struct fpisa_counters *targets_unowned;

/* An array map of the datapath, and a copy of its contents */
struct view {
	const char *name;
	char *now, *before;
	size_t stride, size;
};

static struct view views[] = {{"fpisa_jobs"},	   {"fpisa_sessions"},	{"fpisa_peers"},    {"fpisa_slots"},
			      {"fpisa_exponents"}, {"fpisa_mantissas"}, {"fpisa_man64"},    {"fpisa_limbs"},
			      {"fpisa_limbs64"},   {"fpisa_control"},	{"fpisa_counters"}, {"fpisa_histogram"}};

#define EACH_VIEW(v) for (struct view *v = views; v < views + sizeof(views) / sizeof(views[0]); v++)

static struct view *view(const char *name)
{
	EACH_VIEW(v)
		if (!strcmp(v->name, name))
			return v;
	abort();
}

/* The bytes of each version's registers that the job uses, and their position */
struct place {
	struct view *exponents, *mantissas;
	size_t exponent_bytes, mantissa_bytes;
};

static struct place places[TARGETS_MAX];

void targets_prepare(struct bpf_object *o)
{
	struct bpf_map *m;

	bpf_object__for_each_map(m, o) {
		if (!strcmp(bpf_map__name(m), "fpisa_counters"))
			bpf_map__set_type(m, BPF_MAP_TYPE_ARRAY);
		if (bpf_map__type(m) == BPF_MAP_TYPE_ARRAY && !bpf_map__is_internal(m))
			bpf_map__set_map_flags(m, bpf_map__map_flags(m) | BPF_F_MMAPABLE);
	}
}

static int find_map(const struct harness *h, const char *name)
{
	int fd = bpf_object__find_map_fd_by_name(h->skel->obj, name);

	for (int k = 0; fd < 0 && k < FPISA_FAMILIES; k++)
		if (h->family[k])
			fd = bpf_object__find_map_fd_by_name(h->family[k], name);
	return fd;
}

static int open_view(const struct harness *h, struct view *v)
{
	struct bpf_map_info info = {0};
	__u32 len = sizeof(info);
	int fd = find_map(h, v->name);

	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &len))
		return -errno;
	v->stride = (info.value_size + 7ul) & ~7ul;
	v->size = v->stride * info.max_entries;
	v->now = mmap(NULL, v->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	v->before = calloc(1, v->size);
	if (v->now == MAP_FAILED || !v->before)
		return -errno;
	return 0;
}

static void *entry(const struct view *v, uint32_t key)
{
	return v->now + key * v->stride;
}

/* Return the map of a family's mantissa registers. */
static struct view *registers_of(const struct harness *h, const struct target *t)
{
	struct bpf_object *o = t->job.family ? h->family[t->job.family] : h->skel->obj;

	if (bpf_object__find_map_by_name(o, "fpisa_limbs64"))
		return view("fpisa_limbs64");
	if (bpf_object__find_map_by_name(o, "fpisa_limbs"))
		return view("fpisa_limbs");
	return view(bpf_object__find_map_by_name(o, "fpisa_man64") ? "fpisa_man64" : "fpisa_mantissas");
}

static int open_target(struct harness *h, struct target *t)
{
	uint32_t versions = 2 * t->job.window, blocks = t->job.elements / FPISA_BLOCK;
	struct place *p = &places[t - target];
	int fanout = bpf_map__fd(h->skel->maps.fpisa_fanout);

	t->live = entry(view("fpisa_jobs"), t->id);
	t->session = entry(view("fpisa_sessions"), t->id);
	t->peer = entry(view("fpisa_peers"), t->id * FPISA_MAX_WORKERS);
	t->slot = entry(view("fpisa_slots"), t->job.slot_base);
	t->counters = entry(view("fpisa_counters"), t->id);
	t->histogram = entry(view("fpisa_histogram"), t->id);
	t->soft.job = t->job;
	t->soft.number = t->id;
	if (fpisa_soft_init(&t->soft)) {
		fprintf(stderr, "packets: %s: %s\n", t->name, fpisa_error());
		return -EINVAL;
	}
	t->soft.session = *t->session;
	p->exponents = view("fpisa_exponents");
	p->mantissas = registers_of(h, t);
	p->exponent_bytes = blocks * sizeof(*t->soft.exponents);
	p->mantissa_bytes = blocks * t->soft.block_size;
	if (p->mantissas->stride * t->job.slot_base + versions * p->mantissas->stride > p->mantissas->size)
		return -ENOSPC;
	if (t->no_ports && bpf_map_delete_elem(fanout, &t->id))
		return -errno;
	if (t->unloaded)
		t->live->family = FPISA_FAMILIES - 1;
	return 0;
}

/*
 * Fill the trie as the loader does. Otherwise the first frame of a job that uses the trie fills it, even if the frame
 * is refused.
 */
static int fill_trie(struct harness *h)
{
	for (uint32_t lz = 0; lz < 32; lz++) {
		struct {
			uint32_t prefixlen, addr;
		} key = {lz + 1, htonl(0x80000000u >> lz)};

		if (bpf_map_update_elem(bpf_map__fd(h->skel->maps.fpisa_lpm), &key, &lz, BPF_ANY))
			return -errno;
	}
	targets_control->trie_state = 2;
	return 0;
}

static int give_ipv6(struct harness *h, struct target *t)
{
	static const uint8_t group[12] = {0xff, 0x15};

	mutate_widen_address(&t->job.address);
	for (uint32_t r = 0; r < t->job.workers; r++)
		mutate_widen_address(&t->job.rank[r].addr);
	memcpy(t->job.group.b, group, sizeof(group));
	return bpf_map_update_elem(bpf_map__fd(h->skel->maps.fpisa_jobs), &t->id, &t->job, BPF_ANY) ? -errno : 0;
}

int targets_open(struct harness *h)
{
	uint32_t base = 8;
	int err = 0;

	for (int i = 0; i < targets; i++) {
		struct target *t = &target[i];

		/* Use the first and the last job number. Leave an unused slot pair between two jobs. */
		t->id = i ? FPISA_MAX_JOBS - (uint32_t)i : 0;
		t->job.slot_base = base;
		/* Give every second job a token, so that fused and staged jobs check tags. */
		t->job.token = i % 2 ? 0x1122334455667788ull * (uint32_t)i : 0;
		/* Give every third job a VLAN. Half of these jobs also accept untagged frames. */
		t->job.vlan = i % 3 == 1 ? TARGETS_VLAN : 0;
		t->job.stripped = i % 6 == 4;
		t->job.rounding = i & 1 ? FPISA_ROUND_NEAREST : FPISA_ROUND_DOWN;
		base += 2 * t->job.window + 2;
		harness_job(h, t->id, &t->job);
		/* Give every fifth job IPv6 addresses, which end with those that the harness gave it. */
		if (i % 5 == 3)
			err = err ?: give_ipv6(h, t);
	}
	EACH_VIEW(v)
		err = err ?: open_view(h, v);
	for (int i = 0; !err && i < targets; i++)
		err = open_target(h, &target[i]);
	if (err) {
		fprintf(stderr, "packets: state of the jobs: %s\n", strerror(-err));
		return err;
	}
	targets_control = entry(view("fpisa_control"), 0);
	targets_control->more_ports = TARGETS_MORE_PORTS;
	targets_unowned = entry(view("fpisa_counters"), FPISA_MAX_JOBS);
	err = fill_trie(h);
	if (err) {
		fprintf(stderr, "packets: fill the trie: %s\n", strerror(-err));
		return err;
	}
	EACH_VIEW(v)
		memcpy(v->before, v->now, v->size);
	return 0;
}

void targets_close(void)
{
	for (int i = 0; i < targets; i++)
		fpisa_soft_free(&target[i].soft);
	EACH_VIEW(v) {
		if (v->now && v->now != MAP_FAILED)
			munmap(v->now, v->size);
		free(v->before);
		v->now = v->before = NULL;
	}
}

/* Compare (or accept) `n` bytes at `p`, which points into a view. */
static bool equal(const char *name, const void *p, size_t n)
{
	const struct view *v = view(name);

	return !memcmp(v->before + ((const char *)p - v->now), p, n);
}

static void take(const char *name, const void *p, size_t n)
{
	struct view *v = view(name);

	memcpy(v->before + ((const char *)p - v->now), p, n);
}

/* The state that a packet for the job could touch, part by part */
#define EACH_PART(X)                                                    \
	X("fpisa_jobs", t->live, sizeof(*t->live))                      \
	X("fpisa_sessions", t->session, sizeof(*t->session))            \
	X("fpisa_peers", t->peer, t->job.workers * sizeof(*t->peer))    \
	X("fpisa_slots", t->slot, 2 * t->job.window * sizeof(*t->slot)) \
	X("fpisa_control", targets_control, sizeof(*targets_control))   \
	X("fpisa_histogram", t->histogram, t->job.flags &HISTOGRAM ? sizeof(*t->histogram) : 0)

#define EACH_REGISTER(X)                                                                                \
	X(p->exponents->name, entry(p->exponents, t->job.slot_base + (uint32_t)key), p->exponent_bytes) \
	X(p->mantissas->name, entry(p->mantissas, t->job.slot_base + (uint32_t)key), p->mantissa_bytes)

const char *targets_changed(const struct target *t, int key)
{
	const struct place *p = &places[t - target];

#define X(name, what, n)           \
	if (!equal(name, what, n)) \
		return name;
	EACH_PART(X)
	if (key >= 0) {
		EACH_REGISTER(X)
	}
#undef X
	return NULL;
}

void targets_accept(const struct target *t, int key)
{
	const struct place *p = &places[t - target];

#define X(name, what, n) take(name, what, n);
	EACH_PART(X)
	if (key >= 0) {
		EACH_REGISTER(X)
	}
#undef X
}

const char *targets_changed_anywhere(void)
{
	EACH_VIEW(v)
		if (strcmp(v->name, "fpisa_counters") && memcmp(v->before, v->now, v->size))
			return v->name;
	return NULL;
}

const char *targets_differ(const struct target *t, int key)
{
	const struct place *p = &places[t - target];
	uint32_t k = t->job.slot_base + (uint32_t)key;
	uint64_t discards = 0;

	for (int i = 0; t->job.flags & HISTOGRAM && i < FPISA_BUCKETS; i++)
		discards += t->histogram->bucket[i];
	if (discards != t->discards)
		return "histogram";
	if (memcmp(&t->slot[key], &t->soft.slot[key], sizeof(t->slot[key])))
		return "slot";
	if (memcmp(entry(p->exponents, k), (char *)t->soft.exponents + (size_t)key * p->exponent_bytes,
		   p->exponent_bytes))
		return "exponents";
	if (memcmp(entry(p->mantissas, k), t->soft.mantissas + (size_t)key * p->mantissa_bytes, p->mantissa_bytes))
		return "mantissas";
	return NULL;
}
