/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * libFuzzer target: requests from a manager, which an attacker may control, to its privileged helper
 * (user/serve/helper.c, helper_jobs.c). The input is a list of requests, some from an honest manager and some with
 * changed bytes. The datapath is a stand-in.
 *
 * For any request, jobs have numbers, ranks and hosts that the policy allows, and together use no more slots than it
 * allows. Jobs of other owners remain. Each of the manager's jobs has a record.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include "check.h"
#include "input.h"
#include "job/job.h"
#include "serve/helper.c"

#define FOREIGN 3		    /* a job that an administrator has made, with or without a token */
#define TOKEN 0x5a17c0de5eed0badull /* token of job FOREIGN, which cannot be guessed */
#define PLACES 4		    /* jobs that honest requests name */

static struct input in;
static struct config configuration[2];
static struct helper_state w;
static struct fpisa_job jobs[FPISA_MAX_JOBS];
static struct fpisa_control control = {.port = 18000};
static struct group_record record[GROUPS];
static __u64 used; /* bitmap of places that hold a record */

bool verbose;

/* -- reports -------------------------------------------------------------------------------- */

static int check_text(int err, const char *fmt, va_list ap)
{
	char text[512];

	vsnprintf(text, sizeof(text), fmt, ap);
	CHECK(*text && !strchr(text, '\n'));
	return err;
}

int fail(int err, const char *hint, const char *fmt, ...)
{
	va_list ap;

	(void)hint;
	va_start(ap, fmt);
	err = check_text(err, fmt, ap);
	va_end(ap);
	return err;
}

int refuse(int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	err = check_text(err, fmt, ap);
	va_end(ap);
	return err;
}

void warning(const char *fmt, ...)
{
	CHECK(*fmt);
}

/* -- the file of reports, which is empty; all open descriptors are libFuzzer's ------------------------- */

off_t lseek(int fd, off_t at, int from)
{
	return fd < 0 ? 0 : syscall(SYS_lseek, fd, at, from);
}

int ftruncate(int fd, off_t size)
{
	return fd < 0 ? 0 : (int)syscall(SYS_ftruncate, fd, size);
}

ssize_t pread(int fd, void *to, size_t n, off_t at)
{
	return fd < 0 ? 0 : syscall(SYS_pread64, fd, to, n, at);
}

/* -- the datapath ------------------------------------------------------------------------------ */

static bool recorded(__u64 token)
{
	for (__u32 i = 0; i < GROUPS; i++)
		for (int k = 0; used >> i & 1 && record[i].id && k < FPISA_MANAGER_JOBS; k++)
			if (record[i].job[k].token == token)
				return true;
	return false;
}

static void check_jobs(void)
{
	__u32 slots = 0;

	CHECK(jobs[FOREIGN].active && jobs[FOREIGN].token == TOKEN);
	for (__u32 n = 0; n < FPISA_MAX_JOBS; n++) {
		if (!jobs[n].active || n == FOREIGN)
			continue;
		slots += jobs[n].window;
		CHECK(recorded(jobs[n].token));
	}
	CHECK(slots <= w.policy->slots);
}

int datapath_job_add(struct datapath *dp, __u32 n, struct fpisa_job *j, const __u32 *ifindex)
{
	CHECK(dp == &w.dp && ifindex && n < FPISA_MAX_JOBS && !jobs[n].active && w.policy->jobs >> n & 1);
	CHECK(j->workers && j->workers <= w.policy->size && j->token && j->token != TOKEN);
	CHECK(w.policy->formats >> j->format & 1 && w.policy->modes >> j->mode & 1);
	for (__u32 r = 0; r < j->workers; r++)
		CHECK(manager_network_allowed(w.policy, &j->rank[r].addr));
	if (in.left && input_byte(&in) == 0xff)
		return -EEXIST;
	jobs[n] = *j;
	jobs[n].active = 1;
	return 0;
}

int datapath_job_end(struct datapath *dp, __u32 n, __u64 token)
{
	CHECK(dp == &w.dp);
	if (n < FPISA_MAX_JOBS && token && jobs[n].active && jobs[n].token == token) {
		CHECK(n != FOREIGN);
		jobs[n].active = 0;
	}
	return 0;
}

__u32 datapath_job_room(struct datapath *dp, __u32 n)
{
	CHECK(dp == &w.dp);
	return n % 2 ? 8 : FPISA_MAX_WORKERS;
}

int datapath_jobs_prepare(struct datapath *dp, __u64 numbers)
{
	CHECK(dp == &w.dp && numbers == w.policy->jobs);
	return 0;
}

int datapath_group_get(const struct datapath_groups *g, __u32 place, struct group_record *r)
{
	CHECK(g == &w.groups && place < GROUPS);
	/* The helper reads only the ID of a place without a record. */
	if (used >> place & 1)
		memcpy(r, &record[place], group_record_bytes(&record[place]));
	else
		r->id = 0;
	return 0;
}

int datapath_group_put(const struct datapath_groups *g, __u32 place, const struct group_record *r)
{
	CHECK(g == &w.groups && place < GROUPS);
	CHECK(!r->id || (r->size && r->size <= FPISA_MAX_RANKS && memchr(r->owner, 0, sizeof(r->owner)) &&
			 fpisa_manager_name_valid(r->name)));
	memcpy(&record[place], r, r->id ? group_record_bytes(r) : offsetof(struct group_record, rank));
	used |= 1ull << place;
	return 0;
}

int datapath_aggregator_put(const struct datapath_groups *g, __u32 place, const struct aggregator_record *r)
{
	CHECK(g == &w.groups && place < AGGREGATORS && r);
	return 0;
}

bool address_here(struct fpisa_address address, __u32 *vrf)
{
	*vrf = 0;
	return address.w[3] & 1;
}

int datapath_check_pinned(const struct datapath *dp)
{
	CHECK(dp == &w.dp);
	return 0;
}

int datapath_group_to_kill(const struct datapath_groups *g, __u32 place, __u64 *id)
{
	CHECK(g == &w.groups && place < GROUPS);
	*id = 0;
	return 0;
}

int datapath_groups_count(const struct datapath_groups *g, const struct manager_counts *c)
{
	CHECK(g == &w.groups && c);
	return 0;
}

int job_spec_resolve(struct job_spec *s, __u32 n)
{
	CHECK(n < FPISA_MAX_JOBS);
	if (!fpisa_is_address(&s->job.address))
		s->job.address = fpisa_ipv4(htonl(0x0a000001));
	return s->job.elements > 256 ? -EMSGSIZE : 0;
}

__u16 job_spec_elements(const struct job_spec *s)
{
	return s->job.elements > 256 ? 256 : s->job.elements;
}

void job_spec_warn(const struct job_spec *s, const struct datapath *dp, __u32 n)
{
	CHECK(dp == &w.dp && n < FPISA_MAX_JOBS && s->job.workers);
}

/* -- parts of the process that do not run ---------------------------------------------------------- */

int config_read(struct config **c, const char *file)
{
	CHECK(file);
	*c = w.config == configuration ? configuration + 1 : configuration;
	return in.left && input_byte(&in) & 1 ? -EINVAL : 0;
}

int config_give(struct config *c, const struct config_given *given)
{
	c->given = *given;
	return 0;
}

void config_free(struct config *c)
{
	CHECK(c == configuration || c == configuration + 1);
}

void log_line(struct log *l, uint64_t now_ms, const char *fmt, ...)
{
	CHECK(l == &w.log && now_ms && *fmt);
}

void log_turn(struct log *l, uint64_t now_ms)
{
	CHECK(l == &w.log && now_ms);
}

ssize_t send(int fd, const void *bytes, size_t n, int flags)
{
	const struct helper_answer *a = bytes;

	CHECK(fd == w.fd && flags & MSG_NOSIGNAL && n == helper_answer_bytes(a));
	if (a->what == HELPER_MAKE && !a->made.err)
		CHECK(a->made.number < FPISA_MAX_JOBS && jobs[a->made.number].active);
	return (ssize_t)n;
}

#pragma clang diagnostic ignored "-Wunused-parameter"
#define NOTHING(name, ...)      \
	int name(__VA_ARGS__)   \
	{                       \
		return -ENOENT; \
	}
NOTHING(datapath_open, struct datapath *dp, const char *pin)
NOTHING(datapath_groups_open, struct datapath *dp, bool make, struct datapath_groups *g)
NOTHING(datapath_groups_claim, struct datapath *dp, const struct datapath_groups *g, pid_t *pid)
NOTHING(privilege_check, enum privilege p, const char *verb)
NOTHING(privilege_keep_load, bool keep)

void datapath_groups_unmake(struct datapath *dp, const struct datapath_groups *g)
{
}

void log_open(struct log *l, int fd)
{
}

/* -- requests ----------------------------------------------------------------------------------- */

#define SHORT_REQUEST offsetof(struct helper_request, record.rank[8]) /* honest groups have up to 4 ranks */

static struct helper_request request;

static void ask_record(uint8_t place)
{
	struct group_record *r = &request.record;
	uint8_t how = input_byte(&in), k = input_byte(&in) % FPISA_MANAGER_JOBS;

	memcpy(r, &record[place % PLACES], group_record_bytes(&record[place % PLACES]));
	if (!r->id || how & 1) {
		r->id = 1 + (how >> 6);
		r->size = 1 + how / 2 % 4;
		r->joined = fpisa_ranks_all(r->size);
		memset(r->name, 0, sizeof(r->name));
		r->name[0] = 'g';
	}
	if (how & 0x20)
		r->id = 0;
	if (how & 0x10) {
		memset(&r->job[k], 0, sizeof(r->job[k]));
	} else {
		r->job[k].state = how / 4 % 4;
		r->job[k].token = input_byte(&in) % 16;
	}
}

static void ask_make(uint8_t place)
{
	const struct group_record *r = &record[place % PLACES];
	uint8_t how = input_byte(&in), k = input_byte(&in) % FPISA_MANAGER_JOBS;
	struct manager_make *m = &request.make;

	*m = (struct manager_make){.place = request.place,
				   .index = k,
				   .id = r->id,
				   .pool = how & 0x80 ? ~0ull : 0xf0ull << (how & 7),
				   .token = r->job[k].token,
				   .workers = 1 + how % 4};
	m->spec.window = 8u << (how >> 4 & 3);
	m->spec.elements = how & 8 ? 64 : 0;
	for (__u32 i = 0; i < FPISA_MAX_WORKERS; i++) {
		m->address[i] = fpisa_ipv4(htonl(0x0a000010u + i));
		m->port[i] = (__u16)(20000 + i);
	}
}

static void ask_remove(void)
{
	request.remove.number = input_byte(&in) % (FPISA_MAX_JOBS + 1);
	request.remove.token = request.remove.number < FPISA_MAX_JOBS ? jobs[request.remove.number].token : 1;
}

static void next_request(void)
{
	uint8_t kind = input_byte(&in), place = input_byte(&in);

	memset(&request, 0, SHORT_REQUEST);
	request.what = kind % 8;
	request.place = place % PLACES;
	if (request.what == HELPER_RECORD)
		ask_record(place);
	else if (request.what == HELPER_MAKE)
		ask_make(place);
	else if (request.what == HELPER_REMOVE)
		ask_remove();
	/* Change bytes anywhere in the request. */
	for (int changes = kind >= 0xc0 ? 1 + kind / 8 % 3 : 0; changes; changes--) {
		size_t at = (input_byte(&in) | (size_t)input_byte(&in) << 8) % SHORT_REQUEST;

		((uint8_t *)&request)[at] = input_byte(&in);
	}
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	for (int i = 0; i < 2; i++) {
		struct manager_policy *p = &configuration[i].manager;

		configuration[i].file = "fpisa.conf";
		configuration[i].manager_line = 1;
		manager_policy_init(p);
		manager_policy_fit(p, FPISA_DEFAULT_SLOTS);
		p->jobs = 0xfff0ull;
		p->slots = 100;
		p->size = 3;
		p->formats = 1u << FPISA_FORMAT_FP32 | 1u << FPISA_FORMAT_FP16;
		p->networks = 1;
		p->network[0].address = fpisa_ipv4(htonl(0x0a000010));
		p->network[0].bits = 96 + 28;
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int err = 0;

	in = (struct input){data, size};
	w = (struct helper_state){
		.fd = -1, .errors = -1, .config = configuration, .policy = &configuration[0].manager, .asked = true};
	w.dp = (struct datapath){
		.pin = "fpisa", .lock = -1, .jobs = jobs, .control = &control, .slots_n = FPISA_DEFAULT_SLOTS};
	for (__u32 i = 0; i < GROUPS; i++)
		if (used >> i & 1)
			memset(&record[i], 0, offsetof(struct group_record, rank));
	used = 0;
	memset(jobs, 0, sizeof(jobs));
	jobs[FOREIGN].active = 1;
	jobs[FOREIGN].token = TOKEN;
	jobs[FOREIGN].window = 8;
	while (!err && in.left) {
		next_request();
		err = take(&w, &request);
		check_jobs();
	}
	return 0;
}
