// SPDX-License-Identifier: GPL-2.0-only
/*
 * Steering: the programs of fpisa_steer.o, and the CPUs over which these programs spread slots. A datapath steers if
 * fpisa_steering is pinned.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cli/print.h"
#include "cli/report.h"
#include "fpisa_steer.skel.h"
#include "kernel.h"
#include "log.h"
#include "pin.h"
#include "slots.h"
#include "steer.h"

/* -- CPUs ----------------------------------------------------------------------- */

#define ONLINE "/sys/devices/system/cpu/online"

/* Return whether `cpu` is in a list in the kernel's format, "0-2,5". */
static bool in_list(const char *list, __u32 cpu)
{
	unsigned int first, last;
	int n;

	for (; sscanf(list, "%u%n", &first, &n) == 1; list += *list == ',') {
		list += n;
		last = first;
		if (sscanf(list, "-%u%n", &last, &n) == 1)
			list += n;
		if (cpu >= first && cpu <= last)
			return true;
	}
	return false;
}

/* Check that the CPUs are online, because the threads of the CPU map are bound to them. */
static int check_online(const struct fpisa_steering *s)
{
	char list[4096] = "";
	FILE *f = fopen(ONLINE, "re");

	if (!f)
		return fail(-errno, "mount -t sysfs sysfs /sys", "--cpus: %s", ONLINE);
	if (!fgets(list, sizeof(list), f))
		*list = 0;
	fclose(f);
	list[strcspn(list, "\n")] = 0;
	for (__u32 i = 0; i < s->cpus; i++)
		if (!in_list(list, s->cpu[i]))
			return refuse(-EINVAL, "--cpus: CPU %u is not online; online: %s", s->cpu[i], list);
	return 0;
}

static bool same(const struct fpisa_steering *a, const struct fpisa_steering *b)
{
	return a->cpus == b->cpus && a->queue == b->queue && !memcmp(a->cpu, b->cpu, a->cpus * sizeof(a->cpu[0]));
}

/* Read the map fpisa_steering from its descriptor. Return -EPROTO if another version created the map. */
static int steering_read(int fd, struct fpisa_steering *s)
{
	struct bpf_map_info info = {0};
	__u32 len = sizeof(info), zero = 0;

	memset(s, 0, sizeof(*s));
	if (bpf_obj_get_info_by_fd(fd, &info, &len))
		return -errno;
	if (info.value_size != sizeof(*s))
		return -EPROTO;
	if (bpf_map_lookup_elem(fd, &zero, s))
		return -errno;
	return s->cpus > FPISA_STEER_CPUS ? -EPROTO : 0;
}

int datapath_steering(const char *dir, struct fpisa_steering *s)
{
	int fd = pin_open(dir, "fpisa_steering"), err;

	memset(s, 0, sizeof(*s));
	if (fd == -ENOENT)
		return 0;
	err = fd < 0 ? fd : steering_read(fd, s);
	if (fd >= 0)
		close(fd);
	return err;
}

int steering_choose(const char *dir, const struct fpisa_steering *asked, struct fpisa_steering *s)
{
	int fd = pin_open(dir, "fpisa_steering"), stages, err;
	struct fpisa_steering now = {0};
	char cpus[CPUS_LEN];

	*s = *asked;
	s->queue = s->queue ?: FPISA_STEER_QUEUE;
	if (fd < 0) {
		stages = s->cpus ? pin_open(dir, "fpisa_stages") : -ENOENT;
		if (stages < 0)
			return s->cpus ? check_online(s) : 0;
		close(stages);
		return refuse(-EEXIST,
			      "%s: a datapath without --cpus is loaded; leave --cpus out, or first run fpisa unload",
			      dir);
	}
	err = steering_read(fd, &now);
	close(fd);
	if (err)
		return fail(err, NULL, "%s/fpisa_steering: cannot read", dir);
	if (!now.cpus) {
		if (!s->cpus)
			return refuse(-EEXIST, "%s: a load with --cpus did not finish; first run fpisa unload", dir);
		return check_online(s);
	}
	if (!asked->queue)
		s->queue = now.queue;
	if (s->cpus && !same(s, &now))
		return refuse(-EEXIST,
			      "%s: a datapath with --cpus %s --cpu-queue %u is loaded; leave --cpus out, or "
			      "first run fpisa unload",
			      dir, cpus_text(now.cpu, now.cpus, cpus), now.queue);
	*s = now;
	return 0;
}

/* -- the programs ---------------------------------------------------------- */

/* Return whether the kernel supports programs in CPU maps, which are newer than the other required features. */
static bool kernel_steers(void)
{
	struct bpf_insn pass[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K, .imm = XDP_PASS}, {.code = BPF_JMP | BPF_EXIT}};
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_XDP_CPUMAP);
	int prog = bpf_prog_load(BPF_PROG_TYPE_XDP, "fpisa_probe", "GPL", pass, 2, &opts);
	int map = bpf_map_create(BPF_MAP_TYPE_CPUMAP, "fpisa_probe", sizeof(__u32), sizeof(struct bpf_cpumap_val), 1,
				 NULL);
	struct bpf_cpumap_val val = {.qsize = 1, .bpf_prog.fd = prog};
	__u32 zero = 0;
	bool ok = prog >= 0 && map >= 0 && !bpf_map_update_elem(map, &zero, &val, BPF_ANY);

	if (map >= 0)
		close(map);
	if (prog >= 0)
		close(prog);
	return ok;
}

static int explain(int err)
{
	char said[512];
	struct utsname u;

	snprintf(said, sizeof(said), "%s", reason(err));
	if (refuse_kernel())
		return -EOPNOTSUPP;
	log_start();
	if (err != -EPERM && err != -EACCES && !kernel_steers()) {
		uname(&u);
		return refuse(-EOPNOTSUPP,
			      "this kernel (%s) does not support programs in CPU maps; load without --cpus", u.release);
	}
	return refuse(err, "cannot load steering programs: %s; %s", said, load_hint(err));
}

int steer_load(const char *pin, __u32 slots, struct fpisa_steer_bpf **out)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .pin_root_path = pin);
	int cpus = libbpf_num_possible_cpus(), err;
	struct fpisa_steer_bpf *skel;
	struct bpf_map *map;

	log_start();
	if (cpus < 0)
		return fail(cpus, NULL, "cannot read the number of CPUs");
	skel = fpisa_steer_bpf__open_opts(&opts);
	if (!skel)
		return refuse(-errno, "cannot open the steering object: %s; install this release again", reason(-errno));
	err = bpf_map__set_max_entries(skel->maps.fpisa_cpumap, cpus);
	if (!pin)
		bpf_object__for_each_map(map, skel->obj)
			err = err ?: bpf_map__set_pin_path(map, NULL);
	err = err ?: slots_fit(skel->obj, slots);
	err = err ?: fpisa_steer_bpf__load(skel);
	if (err) {
		err = explain(err);
		fpisa_steer_bpf__destroy(skel);
		return err;
	}
	*out = skel;
	return 0;
}

int steer_fill(const struct fpisa_steer_bpf *skel, const struct fpisa_steering *s)
{
	struct bpf_cpumap_val val = {.qsize = s->queue, .bpf_prog.fd = bpf_program__fd(skel->progs.fpisa_cpu)};
	int map = bpf_map__fd(skel->maps.fpisa_cpumap);
	__u32 zero = 0;

	for (__u32 i = 0; i < s->cpus; i++)
		if (bpf_map_update_elem(map, &s->cpu[i], &val, BPF_ANY))
			return fail(-errno, NULL, "--cpus: cannot add CPU %u (map fpisa_cpumap)", s->cpu[i]);
	if (bpf_map_update_elem(bpf_map__fd(skel->maps.fpisa_steering), &zero, s, BPF_ANY))
		return fail(-errno, NULL, "--cpus: cannot write the list of CPUs (map fpisa_steering)");
	return 0;
}

struct bpf_object *steer_object(const struct fpisa_steer_bpf *skel)
{
	return skel->obj;
}

const struct bpf_program *steer_program(const struct fpisa_steer_bpf *skel)
{
	return skel->progs.fpisa_steer;
}

int steer_pin(const char *dir, const struct fpisa_steer_bpf *skel)
{
	return pin_program(dir, skel->progs.fpisa_cpu) ?: pin_program(dir, skel->progs.fpisa_steer);
}

void steer_close(struct fpisa_steer_bpf *skel)
{
	fpisa_steer_bpf__destroy(skel);
}

/* -- counters -------------------------------------------------------------- */

int datapath_steered(const struct datapath *dp, struct datapath_cpu *out)
{
	struct fpisa_steered *c = calloc(dp->cpus, sizeof(*c));
	__u32 zero = 0, n = dp->steering.cpus;
	int err = c ? 0 : fail(-ENOMEM, NULL, "cannot read the counters of steering");

	if (!err && bpf_map_lookup_elem(dp->steered_fd, &zero, c))
		err = fail(-errno, NULL, "cannot read the counters of steering (map fpisa_steered)");
	for (__u32 i = 0; !err && i < n; i++) {
		out[i] = (struct datapath_cpu){.cpu = dp->steering.cpu[i]};
		for (int cpu = 0; cpu < dp->cpus; cpu++)
			out[i].sent += c[cpu].sent[i];
	}
	/* Read the counters again, so that frames that were taken in the meantime do not count as waiting. */
	if (!err && bpf_map_lookup_elem(dp->steered_fd, &zero, c))
		err = fail(-errno, NULL, "cannot read the counters of steering (map fpisa_steered)");
	for (__u32 i = 0; !err && i < n; i++) {
		if ((int)out[i].cpu < dp->cpus)
			out[i].taken = c[out[i].cpu].taken;
		out[i].left = out[i].sent > out[i].taken ? out[i].sent - out[i].taken : 0;
	}
	free(c);
	return err;
}
