// SPDX-License-Identifier: GPL-2.0-only
/*
 * The program of a query. The program is specialised and loaded over the pinned maps. Then it is added to the program
 * array under the query's number. The query's state is pinned with the datapath's maps, so that the verbs can read it.
 * The other maps exist as long as the program.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "cli/report.h"
#include "datapath/fanout.h"
#include "datapath/job.h"
#include "datapath/log.h"
#include "datapath/pin.h"
#include "datapath/slots.h"
#include "queries.h"
#include "query.h"

static const char *const read_by_verbs[] = {"fpisa_query_state", "fpisa_query_rows"};

#define READ_BY_VERBS (sizeof(read_by_verbs) / sizeof(read_by_verbs[0]))

/* Write the name of a map's pin, such as "fpisa_query_state_5". */
static void pin_of(char name[NAME_MAX + 1], const char *map, __u32 query)
{
	snprintf(name, NAME_MAX + 1, "%s_%u", map, query);
}

static int pin_maps(const struct datapath *dp, __u32 query, const struct bpf_object *o)
{
	char name[NAME_MAX + 1];
	int err = 0;

	for (size_t i = 0; !err && i < READ_BY_VERBS; i++) {
		pin_of(name, read_by_verbs[i], query);
		err = pin_fd(dp->pin, name, bpf_object__find_map_fd_by_name(o, read_by_verbs[i]));
	}
	return err ?: pin_share(dp->pin);
}

struct bpf_object *query_open(const char *pin, __u32 query, const struct fpisa_job *j, bool steered)
{
	const char *kind = name_of(query_kind_names, j->kind);
	LIBBPF_OPTS(bpf_object_open_opts, opts, .pin_root_path = pin, .object_name = kind);
	struct fpisa_query_config q;
	struct bpf_program *prog;
	struct bpf_object *o;
	size_t size = 0;
	const void *bytes = query_object(j->kind, &size);
	int err;

	fpisa_query_of(j, query, &q);
	log_start();
	/* The seed is secret. A sender who knows the seed could choose keys that fill one bucket. */
	if (getrandom(&q.seed, sizeof(q.seed), 0) != sizeof(q.seed)) {
		fail(-errno, NULL, "query %u: cannot get random numbers; allow this process to call getrandom()", query);
		return NULL;
	}
	o = bpf_object__open_mem(bytes, size, &opts);
	if (!o) {
		refuse(-errno, "query %u: cannot open the object: %s; install this release again", query,
		       reason(-errno));
		return NULL;
	}
	bpf_object__for_each_program(prog, o) {
		bpf_program__set_type(prog, BPF_PROG_TYPE_XDP);
		bpf_program__set_expected_attach_type(prog, steered ? BPF_XDP_CPUMAP : 0);
	}
	err = query_specialise(o, j->kind, &q);
	if (!err)
		return o;
	fail(err, NULL, "query %u: cannot set the sizes of its maps", query);
	bpf_object__close(o);
	return NULL;
}

static void unload(const struct datapath *dp, __u32 query)
{
	__u32 index = FPISA_QUERY_PROGRAM + query;
	char name[NAME_MAX + 1], path[PATH_MAX];

	bpf_map_delete_elem(dp->stages_fd, &index);
	for (size_t i = 0; i < READ_BY_VERBS; i++) {
		pin_of(name, read_by_verbs[i], query);
		if (snprintf(path, sizeof(path), "%s/%s", dp->pin, name) < (int)sizeof(path))
			unlink(path);
	}
}

static int load(const struct datapath *dp, __u32 query, struct fpisa_job *j)
{
	__u32 index = FPISA_QUERY_PROGRAM + query;
	struct bpf_object *o;
	int err, fd;

	o = query_open(dp->pin, query, j, dp->steering.cpus);
	if (!o)
		return -EINVAL;
	err = slots_fit(o, dp->slots_n);
	if (!err) {
		err = bpf_object__load(o);
		if (err)
			refuse(err,
			       "query %u: cannot load its program, with %llu MB of maps: %s; try a smaller --limit, "
			       "or --verbose",
			       query, (unsigned long long)query_bytes(j) >> 20, reason(err));
	}
	if (!err)
		err = pin_maps(dp, query, o);
	if (!err) {
		fd = bpf_program__fd(bpf_object__next_program(o, NULL));
		if (bpf_map_update_elem(dp->stages_fd, &index, &fd, BPF_ANY))
			err = fail(-errno, NULL, "query %u: cannot install its program (map fpisa_stages)", query);
	}
	bpf_object__close(o);
	if (err)
		unload(dp, query);
	return err;
}

int datapath_query_add(struct datapath *dp, __u32 query, struct fpisa_job *j, const __u32 *ifindex)
{
	static const struct datapath_kind queries = {.check = query_check, .load = load, .unload = unload};

	return datapath_add(dp, query, j, ifindex, &queries);
}

int datapath_query_del(struct datapath *dp, __u32 query)
{
	struct fpisa_job j;
	int err;

	err = datapath_map_state(dp) ?: datapath_lock(dp);
	if (err)
		return err;
	err = datapath_query(dp, query, &j);
	if (!err)
		err = datapath_take_away(dp, query);
	/* The locks and maps belong to the query's program and disappear with the program. */
	if (!err)
		err = fanout_remove(dp, query);
	unload(dp, query);
	datapath_unlock(dp);
	return err;
}

int datapath_query(const struct datapath *dp, __u32 query, struct fpisa_job *out)
{
	if (query >= FPISA_MAX_JOBS || !__atomic_load_n(&dp->jobs[query].active, __ATOMIC_ACQUIRE))
		return refuse(-ENOENT, "query %u: no such query; see fpisa query list", query);
	if (!fpisa_is_query(&dp->jobs[query]))
		return refuse(-ENOENT, "query %u is a job; see fpisa job show %u", query, query);
	memcpy(out, &dp->jobs[query], sizeof(*out));
	if (out->workers < 2 || out->workers > FPISA_MAX_WORKERS)
		return refuse(
			-EPROTO,
			"query %u: invalid entry in fpisa_jobs, perhaps written by hand; run fpisa unload, then load the "
			"datapath again",
			query);
	return 0;
}

/* Read the only entry of a map that is pinned so that the verbs can read it. */
static int read_entry(const struct datapath *dp, __u32 query, const char *map, void *out)
{
	char name[NAME_MAX + 1];
	__u32 zero = 0;
	int fd, err = 0;

	pin_of(name, map, query);
	fd = pin_open(dp->pin, name);
	if (fd < 0)
		return fail(fd, NULL, "%s/%s", dp->pin, name);
	if (bpf_map_lookup_elem(fd, &zero, out))
		err = fail(-errno, NULL, "%s/%s: cannot read", dp->pin, name);
	close(fd);
	return err;
}

int datapath_query_state(const struct datapath *dp, __u32 query, struct fpisa_query_state *out)
{
	return read_entry(dp, query, "fpisa_query_state", out);
}

int datapath_query_counters(const struct datapath *dp, __u32 query, struct fpisa_query_counters *sum)
{
	const size_t n = sizeof(*sum) / sizeof(__u64);
	__u64 *all = calloc((size_t)dp->cpus, sizeof(*sum)), *out = (__u64 *)sum;
	int err;

	if (!all)
		return fail(-ENOMEM, NULL, "cannot read the counters of query %u", query);
	*sum = (struct fpisa_query_counters){0};
	err = read_entry(dp, query, "fpisa_query_rows", all);
	for (size_t i = 0; !err && i < n * (size_t)dp->cpus; i++)
		out[i % n] += all[i];
	free(all);
	return err;
}
