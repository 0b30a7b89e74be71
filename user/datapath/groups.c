// SPDX-License-Identifier: GPL-2.0-only
/* Maps with the records of the manager's groups; groups.h has the contracts. */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/report.h"
#include "groups.h"
#include "lib/manager/interface.h"
#include "log.h"
#include "pin.h"

#define COUNTS (sizeof(struct manager_counts) / sizeof(__u64))

/* 64 ranks of a group */
struct block {
	struct group_rank rank[64];
};

static const struct {
	const char *name;
	__u32 bytes, entries;
	enum bpf_map_type type;
} maps[] = {
	{"fpisa_groups", offsetof(struct group_record, rank), GROUPS, BPF_MAP_TYPE_ARRAY},
	{"fpisa_manager", sizeof(__u64), GROUPS + 1 + COUNTS, BPF_MAP_TYPE_ARRAY},
	{"fpisa_aggs", sizeof(struct aggregator_record), AGGREGATORS, BPF_MAP_TYPE_ARRAY},
	/* Few groups need all of their blocks, so the map has memory only for blocks in use. */
	{"fpisa_ranks", sizeof(struct block), GROUPS *GROUP_BLOCKS, BPF_MAP_TYPE_HASH},
};

#define MAPS (int)(sizeof(maps) / sizeof(maps[0]))

/* index of the word of the manager's process, which has its pid and, in the upper bits, its start time */
#define MANAGER GROUPS
#define PID_BITS 22

/* Refuse maps of another version, because their contents and jobs belong to the other version. */
static int check_size(const struct datapath *dp, int fd, int i)
{
	struct bpf_map_info info = {0};
	__u32 len = sizeof(info);

	if (bpf_obj_get_info_by_fd(fd, &info, &len))
		return fail(-errno, NULL, "%s/%s: cannot read the map's information", dp->pin, maps[i].name);
	if (info.value_size == maps[i].bytes && info.max_entries == maps[i].entries)
		return 0;
	return refuse(-EPROTO, "%s/%s was made by another version of fpisa; run fpisa unload, then load again", dp->pin,
		      maps[i].name);
}

static int make_map(struct datapath *dp, int i)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = maps[i].type == BPF_MAP_TYPE_HASH ? BPF_F_NO_PREALLOC : 0);
	int fd = bpf_map_create(maps[i].type, maps[i].name, sizeof(__u32), maps[i].bytes, maps[i].entries, &opts), err;

	if (fd < 0)
		return fail(-errno, "run as root", "%s: cannot create the map", maps[i].name);
	err = pin_fd(dp->pin, maps[i].name, fd) ?: pin_share(dp->pin);
	if (!err)
		return fd;
	close(fd);
	return err;
}

static int open_map(struct datapath *dp, bool make, int i, bool *made)
{
	int fd = pin_open(dp->pin, maps[i].name), err;

	if (fd == -ENOENT) {
		fd = make ? make_map(dp, i) : fd;
		*made |= fd >= 0;
		return fd;
	}
	if (fd < 0)
		return fail(fd, NULL, "%s/%s", dp->pin, maps[i].name);
	err = check_size(dp, fd, i);
	if (!err)
		return fd;
	close(fd);
	return err;
}

int datapath_groups_open(struct datapath *dp, bool make, struct datapath_groups *g)
{
	int err = make ? datapath_lock(dp) : 0;

	*g = (struct datapath_groups){.groups_fd = -1, .words_fd = -1, .aggregators_fd = -1, .ranks_fd = -1};
	if (err)
		return err;
	log_start();
	g->groups_fd = open_map(dp, make, 0, &g->made);
	g->words_fd = g->groups_fd < 0 ? g->groups_fd : open_map(dp, make, 1, &g->made);
	g->aggregators_fd = g->words_fd < 0 ? g->words_fd : open_map(dp, make, 2, &g->made);
	g->ranks_fd = g->aggregators_fd < 0 ? g->aggregators_fd : open_map(dp, make, 3, &g->made);
	err = g->ranks_fd < 0 ? g->ranks_fd : 0;
	if (make)
		datapath_unlock(dp);
	if (err)
		datapath_groups_close(g);
	return err;
}

void datapath_groups_close(struct datapath_groups *g)
{
	if (g->groups_fd >= 0)
		close(g->groups_fd);
	if (g->words_fd >= 0)
		close(g->words_fd);
	if (g->aggregators_fd >= 0)
		close(g->aggregators_fd);
	if (g->ranks_fd >= 0)
		close(g->ranks_fd);
	g->groups_fd = g->words_fd = g->aggregators_fd = g->ranks_fd = -1;
}

void datapath_groups_unmake(struct datapath *dp, const struct datapath_groups *g)
{
	char path[PATH_MAX];

	for (int i = 0; g->made && i < MAPS; i++)
		if (!pin_path(path, dp->pin, maps[i].name))
			unlink(path);
}

static int get(int fd, __u32 place, void *value)
{
	if (bpf_map_lookup_elem(fd, &place, value))
		return fail(-errno, NULL,
			    "cannot read record %u of the manager (maps fpisa_groups, fpisa_manager, "
			    "fpisa_aggs and fpisa_ranks)",
			    place);
	return 0;
}

static int put(int fd, __u32 place, const void *value)
{
	if (bpf_map_update_elem(fd, &place, value, BPF_ANY))
		return fail(-errno, "run as the owner of the pins",
			    "cannot write record %u of the manager (maps fpisa_groups, fpisa_manager, "
			    "fpisa_aggs and fpisa_ranks)",
			    place);
	return 0;
}

static __u32 blocks_of(const struct group_record *r)
{
	return r->id && r->size <= FPISA_MAX_RANKS ? (r->size + 63) / 64 : 0;
}

int datapath_group_get(const struct datapath_groups *g, __u32 place, struct group_record *r)
{
	int err = get(g->groups_fd, place, r);

	for (__u32 i = 0; !err && i < blocks_of(r); i++) {
		__u32 key = place * GROUP_BLOCKS + i;

		/* The group has ended since its record was read. */
		if (bpf_map_lookup_elem(g->ranks_fd, &key, &r->rank[64 * i]))
			r->id = 0;
	}
	return err;
}

/* Write the ranks before the record, so that a record always has its ranks. */
int datapath_group_put(const struct datapath_groups *g, __u32 place, const struct group_record *r)
{
	__u32 key = place * GROUP_BLOCKS, end = key + blocks_of(r), all = key + GROUP_BLOCKS;
	int err = 0;

	for (; !err && key < end; key++)
		err = put(g->ranks_fd, key, &r->rank[64 * (key % GROUP_BLOCKS)]);
	err = err ?: put(g->groups_fd, place, r);
	while (!err && key < all && !bpf_map_delete_elem(g->ranks_fd, &key))
		key++;
	return err;
}

int datapath_aggregator_get(const struct datapath_groups *g, __u32 place, struct aggregator_record *r)
{
	return get(g->aggregators_fd, place, r);
}

/* The agent records its registration at the first place, where a manager records another host or nothing. */
bool datapath_is_agent(const struct datapath *dp, const struct datapath_groups *g, struct aggregator_record *r)
{
	return !datapath_aggregator_get(g, 0, r) && r->port == (dp->control->port ?: FPISA_PORT) &&
	       (!fpisa_is_address(&r->address) || fpisa_address_is_here(&r->host));
}

int datapath_aggregator_put(const struct datapath_groups *g, __u32 place, const struct aggregator_record *r)
{
	return put(g->aggregators_fd, place, r);
}

static bool has_job(const struct group_record *r, const struct fpisa_job *j)
{
	for (int k = 0; r->id && k < FPISA_MANAGER_JOBS; k++)
		if (r->job[k].state != FPISA_GROUP_JOB_NONE && r->job[k].token == j->token)
			return true;
	return false;
}

int datapath_group_of(struct datapath *dp, const struct fpisa_job *j, char name[FPISA_MANAGER_NAME])
{
	struct datapath_groups g;
	struct group_record r;
	int err;

	name[0] = 0;
	err = datapath_groups_open(dp, false, &g);
	if (err)
		return err == -ENOENT ? 0 : err;
	for (__u32 i = 0; !err && !name[0] && i < GROUPS; i++) {
		err = datapath_group_get(&g, i, &r);
		if (!err && has_job(&r, j))
			snprintf(name, FPISA_MANAGER_NAME, "%s", r.name);
	}
	datapath_groups_close(&g);
	return err;
}

int datapath_group_to_kill(const struct datapath_groups *g, __u32 place, __u64 *id)
{
	return get(g->words_fd, place, id);
}

int datapath_group_kill(const struct datapath_groups *g, __u32 place, __u64 id)
{
	return put(g->words_fd, place, &id);
}

/* -- counters ------------------------------------------------------------------- */

#define FIRST_COUNT (MANAGER + 1)

int datapath_groups_counts(const struct datapath_groups *g, struct manager_counts *c)
{
	__u64 *word = (__u64 *)c;
	int err = 0;

	for (__u32 i = 0; !err && i < COUNTS; i++)
		err = get(g->words_fd, FIRST_COUNT + i, &word[i]);
	return err;
}

int datapath_groups_count(const struct datapath_groups *g, const struct manager_counts *more)
{
	const __u64 *word = (const __u64 *)more;
	int err = 0;

	for (__u32 i = 0; !err && i < COUNTS; i++) {
		__u64 n;

		if (!word[i])
			continue;
		err = get(g->words_fd, FIRST_COUNT + i, &n);
		n += word[i];
		if (!err)
			err = put(g->words_fd, FIRST_COUNT + i, &n);
	}
	return err;
}

/* -- the manager's process ---------------------------------------------------- */

/*
 * Return a word that identifies a process by its pid, which the kernel reuses, and its start time. Return 0 if the
 * process does not exist.
 */
static __u64 process_word(pid_t pid)
{
	unsigned long long began = 0;
	char path[32], text[1024], *at;
	FILE *f;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = 0;
	/*
	 * The fields follow the name, which may contain any characters. The third field is the state, and the 22nd
	 * field is the start time.
	 */
	at = strrchr(text, ')');
	if (!at || sscanf(at + 1, " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
			  &began) != 1)
		return 0;
	return at[2] == 'Z' ? 0 : began << PID_BITS | (__u64)pid;
}

int datapath_groups_manager(const struct datapath_groups *g, pid_t *pid)
{
	__u64 word = 0;
	int err = get(g->words_fd, MANAGER, &word);

	*pid = (pid_t)(word & ((1u << PID_BITS) - 1));
	if (err || !word || process_word(*pid) != word)
		*pid = 0;
	return err;
}

int datapath_groups_claim(struct datapath *dp, const struct datapath_groups *g, pid_t *pid)
{
	__u64 word = process_word(getpid());
	int err = datapath_lock(dp);

	if (err)
		return err;
	err = datapath_groups_manager(g, pid);
	if (!err && *pid)
		err = -EBUSY;
	if (!err)
		err = put(g->words_fd, MANAGER, &word);
	datapath_unlock(dp);
	return err;
}
