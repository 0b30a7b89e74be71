/* SPDX-License-Identifier: GPL-2.0-only */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "datapath/families.h"
#include "fpisa/query/query.h"
#include "harness.h"
#include "lab/testbed/frame.h"

static struct fpisa_job jobs[FPISA_MAX_JOBS + 1]; /* the copy that the datapath's map holds */

static void must(int bad, const char *what)
{
	if (bad) {
		fprintf(stderr, "harness: %s: %s\n", what, strerror(errno));
		abort();
	}
}

static int quiet(enum libbpf_print_level level, const char *format, va_list args)
{
	return level == LIBBPF_WARN ? vfprintf(stderr, format, args) : 0;
}

void (*harness_prepare)(struct bpf_object *o);

struct harness *harness_open(const char **why)
{
	struct harness *h = calloc(1, sizeof(*h));
	struct bpf_program *p;
	struct bpf_map *m;

	must(!h, "memory");
	libbpf_set_print(quiet);
	h->skel = fpisa_bpf__open();
	must(!h->skel, "open");
	bpf_object__for_each_program(p, h->skel->obj) {
		bpf_program__set_type(p, BPF_PROG_TYPE_XDP);
		bpf_program__set_expected_attach_type(p, 0);
	}
	bpf_object__for_each_map(m, h->skel->obj)
		bpf_map__set_pin_path(m, NULL);
	if (harness_prepare)
		harness_prepare(h->skel->obj);
	if (fpisa_bpf__load(h->skel)) {
		if (errno != EPERM)
			must(1, "load");
		*why = "loading BPF programs is not permitted here; run as root";
		harness_close(h);
		return NULL;
	}
	h->prog = bpf_program__fd(h->skel->progs.fpisa);
	h->cpus = libbpf_num_possible_cpus();
	h->generation = 1;
	return h;
}

void harness_close(struct harness *h)
{
	if (h) {
		for (int k = 0; k < FPISA_FAMILIES; k++)
			bpf_object__close(h->family[k]);
		fpisa_bpf__destroy(h->skel);
	}
	free(h);
}

struct harness *harness;
const char *harness_why;

int harness_setup(void **state)
{
	(void)state;
	harness = harness_open(&harness_why);
	if (harness)
		harness_stages(harness, HARNESS_PROGRAMS);
	return 0;
}

int harness_teardown(void **state)
{
	(void)state;
	harness_close(harness);
	return 0;
}

static void put(struct harness *h, uint8_t family, int k, int fd)
{
	for (uint32_t bank = 0; bank < FPISA_BANKS; bank++) {
		uint32_t index = fpisa_bank_of(family, bank) + (uint32_t)k;

		must(bpf_map_update_elem(bpf_map__fd(h->skel->maps.fpisa_stages), &index, &fd, BPF_ANY),
		     "program array");
	}
}

/* Put the programs of trees into both banks. */
static void fill_tree(struct harness *h, uint8_t family, struct bpf_object *o)
{
	static const char *const names[] = {"fpisa_part", "fpisa_up", "fpisa_down", "fpisa_greet"};

	for (int k = FPISA_PART; k <= FPISA_GREET; k++)
		put(h, family, k, bpf_program__fd(bpf_object__find_program_by_name(o, names[k - FPISA_PART])));
}

void harness_fill(struct harness *h, uint8_t family)
{
	struct bpf_object *o = family ? h->family[family] : h->skel->obj;

	for (int k = 0; k < FPISA_STAGES; k++) {
		char name[16];

		snprintf(name, sizeof(name), "fpisa_mau%u", (unsigned int)k);
		put(h, family, k, bpf_program__fd(bpf_object__find_program_by_name(o, name)));
	}
	put(h, family, FPISA_ADMISSION,
	    family ? bpf_program__fd(bpf_object__find_program_by_name(o, "fpisa_admission")) : h->prog);
	if (fpisa_family_has_trees(family))
		fill_tree(h, family, o);
}

void harness_stages(struct harness *h, enum harness_stages s)
{
	harness_fill(h, 0);
	for (int k = 0; s == HARNESS_ENTRY && k < FPISA_STAGES; k++)
		put(h, 0, k, h->prog);
}

void harness_hole(struct harness *h, uint8_t family, int stage)
{
	for (uint32_t bank = 0; bank < FPISA_BANKS; bank++) {
		uint32_t index = fpisa_bank_of(family, bank) + (uint32_t)stage;

		must(bpf_map_delete_elem(bpf_map__fd(h->skel->maps.fpisa_stages), &index), "hole");
	}
}

/* Load a family's programs over the same maps, and put the programs into both banks. */
static void load_family(struct harness *h, uint8_t family)
{
	struct bpf_program *p;
	struct bpf_object *o;
	struct bpf_map *m;
	size_t size;
	const void *bytes = family_object(family, &size);

	o = bpf_object__open_mem(bytes, size, NULL);
	must(!o, "open family");
	if (harness_prepare)
		harness_prepare(o);
	bpf_object__for_each_program(p, o) {
		bpf_program__set_type(p, BPF_PROG_TYPE_XDP);
		bpf_program__set_expected_attach_type(p, 0);
	}
	bpf_object__for_each_map(m, o) {
		int fd = -1;

		/* Each family has tables of its own. */
		if (bpf_map__is_internal(m))
			continue;
		for (int k = 0; k < FPISA_FAMILIES && fd < 0; k++)
			if (h->family[k])
				fd = bpf_object__find_map_fd_by_name(h->family[k], bpf_map__name(m));
		if (fd < 0)
			fd = bpf_object__find_map_fd_by_name(h->skel->obj, bpf_map__name(m));
		bpf_map__set_pin_path(m, NULL);
		if (fd >= 0)
			must(bpf_map__reuse_fd(m, fd), "share map");
	}
	must(bpf_object__load(o), "load family");
	h->family[family] = o;
	harness_fill(h, family);
}

/*
 * Send results of a job through lo. Do this once for each job number, because an update of an array of maps waits for
 * all readers.
 */
static void fan_out(struct harness *h, uint32_t id)
{
	struct bpf_devmap_val lo = {.ifindex = 1};
	uint32_t zero = 0;
	int ports = bpf_map_create(BPF_MAP_TYPE_DEVMAP, "ports", sizeof(zero), sizeof(lo), FPISA_MAX_WORKERS, NULL);

	must(ports < 0 || bpf_map_update_elem(ports, &zero, &lo, BPF_ANY), "ports");
	must(bpf_map_update_elem(bpf_map__fd(h->skel->maps.fpisa_fanout), &id, &ports, BPF_ANY), "fanout");
	close(ports);
	h->fanned_out[id] = true;
}

/* Write the entries that `job add` and HELLOs would write for a job with a token. */
static void key_job(struct harness *h, uint32_t id, const struct fpisa_job *j, struct fpisa_session *s)
{
	struct fpisa_key token = fpisa_token_of(j);
	struct fpisa_nh_key nh;

	fpisa_nh_fill(nh.w, FPISA_NH_WORDS, &token);
	for (uint32_t r = 0; j->keyed && r < j->workers; r++)
		s->key[r] = fpisa_rank_key(j, r, s->secret[r]);
	if (j->keyed)
		s->results_key = fpisa_key_of(&token, FPISA_KEY_RESULTS, 0, s->results);
	must(bpf_map_update_elem(bpf_map__fd(h->skel->maps.fpisa_nh_keys), &id, &nh, BPF_ANY), "key of NH");
}

void harness_job(struct harness *h, uint32_t id, struct fpisa_job *j)
{
	struct fpisa_session s = {.generation = ++h->generation};
	struct fpisa_control c = {.next_generation = h->generation + 1000,
				  .more_ports = (__u16)(j->ports ? j->ports - 1 : 0)};
	uint32_t zero = 0;

	j->active = 1;
	j->workers = j->workers ? j->workers : 2;
	j->live = j->live ? j->live : j->workers == 64 ? ~0ull : (1ull << j->workers) - 1;
	j->address = fpisa_ipv4(htonl(HARNESS_AGGREGATOR));
	j->group = fpisa_ipv4(htonl(0xef464600u + id));
	j->group_port = htons(FPISA_PORT);
	j->elements = j->elements ? j->elements : FPISA_DEFAULT_ELEMENTS;
	j->window = j->window ? j->window : 4;
	j->format = j->format ? j->format : FPISA_FORMAT_FP32;
	j->mode = j->mode ? j->mode : FPISA_MODE_FPISA;
	j->rounding = j->rounding ? j->rounding : FPISA_ROUND_DOWN;
	j->pipeline = j->pipeline ? j->pipeline : FPISA_PIPELINE_FUSED;
	j->clz = j->clz ? j->clz : FPISA_CLZ_BITS;
	j->fanout = FPISA_FANOUT_MULTICAST;
	j->guard = fpisa_register(j->format, j->mode, j->workers).guard;
	j->family = fpisa_job_family(j);
	if (j->family && !h->family[j->family])
		load_family(h, j->family);
	for (uint32_t r = 0; r < j->workers; r++) {
		j->rank[r].addr = fpisa_ipv4(htonl(HARNESS_WORKER(r)));
		j->rank[r].port = htons(FPISA_PORT);
		j->rank[r].given = 1;
	}
	j->key = (struct fpisa_key){0x0706050403020100ull, 0x0f0e0d0c0b0a0908ull};
	s.results = fpisa_result_secret(&j->key, s.generation);
	for (uint32_t r = 0; r < j->workers; r++) {
		h->incarnation[r] = s.incarnation[r] = HARNESS_INCARNATION;
		s.secret[r] = fpisa_cookie(&j->key, r, HARNESS_INCARNATION);
	}
	j->keyed = fpisa_wants_tags(j);
	key_job(h, id, j, &s);
	jobs[id] = *j;
	must(bpf_map_update_elem(bpf_map__fd(h->skel->maps.fpisa_control), &zero, &c, BPF_ANY), "control");
	must(bpf_map_update_elem(bpf_map__fd(h->skel->maps.fpisa_sessions), &id, &s, BPF_ANY), "session");
	must(bpf_map_update_elem(bpf_map__fd(h->skel->maps.fpisa_jobs), &id, j, BPF_ANY), "job");
	if (!h->fanned_out[id])
		fan_out(h, id);
}

struct fpisa_hdr *harness_hdr(struct frame *f)
{
	return (struct fpisa_hdr *)(f->data + FPISA_OFFSET);
}

uint32_t *harness_payload(struct frame *f)
{
	return (uint32_t *)(f->data + FPISA_PAYLOAD_OFFSET);
}

/* Return the job that a frame names, or a job without a token if the frame names none. */
static const struct fpisa_job *job_of(const struct frame *f)
{
	uint32_t id = ((const struct fpisa_hdr *)(f->data + FPISA_OFFSET))->job;

	return &jobs[id < FPISA_MAX_JOBS ? id : FPISA_MAX_JOBS];
}

void harness_set_checksums(struct frame *f)
{
	uint8_t *ip = f->data + FPISA_ETH_LEN;
	uint16_t sum;

	ip[10] = ip[11] = 0;
	sum = frame_ip_checksum(ip);
	memcpy(ip + 10, &sum, sizeof(sum));
	if (f->len >= FPISA_PAYLOAD_OFFSET)
		frame_seal(job_of(f), harness_hdr(f), harness_payload(f), f->len - FPISA_PAYLOAD_OFFSET);
}

bool harness_checksums_right(const struct frame *f)
{
	const struct fpisa_hdr *h = (const struct fpisa_hdr *)(f->data + FPISA_OFFSET);
	const struct fpisa_job *j = job_of(f);

	/* The remaining rows go to the master, the last member. An error has the cookie of the rank that it goes to. */
	uint32_t rank = h->type == FPISA_TYPE_ROWS ? j->workers - 1 : h->rank;

	return f->len >= FPISA_PAYLOAD_OFFSET && !frame_ip_checksum(f->data + FPISA_ETH_LEN) &&
	       frame_sealed(j, h, h + 1, f->len - FPISA_PAYLOAD_OFFSET, rank,
			    h->type == FPISA_TYPE_ERROR ? h->bitmap : fpisa_cookie(&j->key, rank, HARNESS_INCARNATION));
}

bool harness_is_ipv6(const struct frame *f)
{
	return f->data[12] == 0x86 && f->data[13] == 0xdd;
}

static const uint8_t *udp_of(const struct frame *f)
{
	return f->data + FPISA_ETH_LEN + (harness_is_ipv6(f) ? FPISA_IPV6_LEN : FPISA_IP_LEN);
}

/*
 * Compute the checksum as the RFCs describe it, over bytes in network order of the pseudo header and the whole
 * datagram.
 */
uint16_t harness_udp_checksum(const struct frame *f)
{
	const uint8_t *ip = f->data + FPISA_ETH_LEN, *udp = udp_of(f);
	uint32_t len = (uint32_t)udp[4] << 8 | udp[5], sum = IPPROTO_UDP + len;

	for (uint32_t i = harness_is_ipv6(f) ? 8 : 12; i < udp - ip; i += 2)
		sum += (uint32_t)ip[i] << 8 | ip[i + 1];
	for (uint32_t i = 0; i < len; i++)
		if (i != 6 && i != 7)
			sum += i % 2 ? udp[i] : (uint32_t)udp[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff ? 0xffff : (uint16_t)~sum;
}

bool harness_udp_checksum_right(const struct frame *f)
{
	const uint8_t *udp = udp_of(f);

	return f->len >= FPISA_PAYLOAD_OFFSET && f->len >= udp - f->data + ((uint32_t)udp[4] << 8 | udp[5]) &&
	       harness_udp_checksum(f) == ((uint32_t)udp[6] << 8 | udp[7]);
}

/* Write the headers below FPISA's, with a UDP checksum that the datapath must ignore. */
static void outer(struct frame *f, const struct fpisa_job *j, uint32_t rank, uint32_t payload)
{
	const uint16_t udp_checksum = htons(0x1234);

	memset(f, 0, sizeof(*f));
	f->len = frame_outer(f->data, j, rank, payload);
	memcpy(f->data + FPISA_OFFSET - sizeof(udp_checksum), &udp_checksum, sizeof(udp_checksum));
}

void harness_port(struct frame *f, uint32_t port)
{
	uint16_t dest = htons((uint16_t)(FPISA_PORT + port));

	memcpy(f->data + 36, &dest, sizeof(dest));
}

void harness_add(struct frame *f, const struct harness *h, const struct fpisa_job *j, uint32_t id, uint32_t rank,
		 uint64_t chunk, uint32_t count, const void *payload)
{
	uint32_t bytes = fpisa_payload_bytes(fpisa_format_of(j->format), count);

	outer(f, j, rank, bytes);
	*harness_hdr(f) = frame_add(j, id, h->generation, rank, chunk, count,
				    fpisa_cookie(&j->key, rank, h->incarnation[rank % FPISA_MAX_WORKERS]));
	harness_hdr(f)->digest = HARNESS_DIGEST;
	harness_port(f, fpisa_port_index(harness_hdr(f)->slot >> 1, j->window, j->ports));
	if (payload)
		memcpy(harness_payload(f), payload, bytes);
	harness_set_checksums(f);
}

void harness_hello(struct frame *f, const struct fpisa_job *j, uint32_t id, uint32_t rank, uint64_t incarnation)
{
	outer(f, j, rank, sizeof(struct fpisa_hello));
	*harness_hdr(f) = frame_hello(j, id, rank, incarnation);
	harness_set_checksums(f);
}

void harness_tag(struct frame *f, uint16_t type, uint16_t id)
{
	const uint16_t tag[2] = {htons(type), htons(id)};

	memmove(f->data + 16, f->data + 12, f->len - 12);
	memcpy(f->data + 12, tag, sizeof(tag));
	f->len += sizeof(tag);
}

/* Remove the VLAN tag of type 802.1Q, and store its ID. */
static void untag(struct frame *f)
{
	f->vlan = 0;
	if (f->action != XDP_REDIRECT || f->data[12] != 0x81 || f->data[13])
		return;
	f->vlan = f->data[14] << 8 | f->data[15];
	f->len -= 4;
	memmove(f->data + 12, f->data + 16, f->len - 12);
}

uint32_t harness_run(struct harness *h, struct frame *f)
{
	uint8_t out[HARNESS_FRAME];
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = f->data, .data_size_in = f->len, .data_out = out,
		    .data_size_out = sizeof(out), .repeat = 1);

	must(bpf_prog_test_run_opts(h->prog, &o), "BPF_PROG_TEST_RUN");
	memcpy(f->data, out, o.data_size_out);
	f->len = o.data_size_out;
	f->action = (int)o.retval;
	untag(f);
	if (f->action == XDP_REDIRECT && !harness_udp_checksum_right(f)) {
		fprintf(stderr, "harness: a frame of %u bytes leaves with UDP checksum %02x%02x, not %04x\n", f->len,
			f->data[40], f->data[41], harness_udp_checksum(f));
		abort();
	}
	return o.duration;
}

struct fpisa_counters harness_counters(struct harness *h, uint32_t key)
{
	size_t words = sizeof(struct fpisa_counters) / 8;
	struct fpisa_counters sum = {0}, *all = calloc((size_t)h->cpus, sizeof(*all));

	must(!all || bpf_map_lookup_elem(bpf_map__fd(h->skel->maps.fpisa_counters), &key, all), "counters");
	for (int cpu = 0; cpu < h->cpus; cpu++)
		for (size_t i = 0; i < words; i++)
			((uint64_t *)&sum)[i] += ((uint64_t *)&all[cpu])[i];
	free(all);
	return sum;
}

uint64_t harness_verdict(struct harness *h, uint32_t key, enum fpisa_verdict v)
{
	struct fpisa_counters c = harness_counters(h, key);

	return (&c.v_not_ours)[v];
}

void harness_slot(struct harness *h, uint32_t key, struct fpisa_slot *s, uint16_t *e, int32_t *m)
{
	if (s)
		must(bpf_map_lookup_elem(bpf_map__fd(h->skel->maps.fpisa_slots), &key, s), "slot");
	if (e)
		must(bpf_map_lookup_elem(bpf_map__fd(h->skel->maps.fpisa_exponents), &key, e), "exponents");
	if (m)
		must(bpf_map_lookup_elem(bpf_map__fd(h->skel->maps.fpisa_mantissas), &key, m), "mantissas");
}
