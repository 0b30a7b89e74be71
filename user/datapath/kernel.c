// SPDX-License-Identifier: GPL-2.0-only
/*
 * Probes of the kernel. For each required feature, a map or a program of a few instructions is created and released
 * again. No decision depends on the version of the kernel.
 */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cli/report.h"
#include "host/privilege.h"
#include "datapath.h"
#include "info.h"
#include "kernel.h"
#include "log.h"

#define INSN(c, d, s, o, i)                                                         \
	{                                                                           \
		.code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i) \
	}
#define MOV_IMM(d, i) INSN(BPF_ALU64 | BPF_MOV | BPF_K, d, 0, 0, i)
#define STORE_ZERO(off) INSN(BPF_ST | BPF_MEM | BPF_DW, BPF_REG_10, 0, off, 0)
#define ATOMIC_OP(off, op) INSN(BPF_STX | BPF_DW | 0xc0, BPF_REG_10, BPF_REG_0, off, op)
#define CALL(helper) INSN(BPF_JMP | BPF_CALL, 0, 0, 0, helper)
#define EXIT INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)

#define FETCH_ADD 0x01
#define CMPXCHG 0xf1
#define BROADCAST (1 << 3) /* BPF_F_BROADCAST */

/* Load an XDP program. Return its descriptor, or -errno. */
static int load(const struct bpf_insn *insns, size_t n)
{
	int fd = bpf_prog_load(BPF_PROG_TYPE_XDP, "fpisa_probe", "GPL", insns, n, NULL);

	return fd < 0 ? -errno : fd;
}

static bool loads(const struct bpf_insn *insns, size_t n)
{
	int fd = load(insns, n);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

#define LEN(a) (sizeof(a) / sizeof(a[0]))

int kernel_load_pass(void)
{
	static const struct bpf_insn pass[] = {MOV_IMM(BPF_REG_0, XDP_PASS), EXIT};

	return load(pass, LEN(pass));
}

static bool map_type(int type)
{
	return libbpf_probe_bpf_map_type(type, NULL) == 1;
}

static bool helper(int id)
{
	return libbpf_probe_bpf_helper(BPF_PROG_TYPE_XDP, id, NULL) == 1;
}

static bool atomic_op(int op)
{
	const struct bpf_insn insns[] = {MOV_IMM(BPF_REG_0, 0), STORE_ZERO(-8), ATOMIC_OP(-8, op),
					 MOV_IMM(BPF_REG_0, XDP_PASS), EXIT};

	return loads(insns, LEN(insns));
}

static bool mappable_array(int unused)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "fpisa_probe", 4, 8, 1, &opts);

	(void)unused;
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static int devmap(void)
{
	return bpf_map_create(BPF_MAP_TYPE_DEVMAP, "fpisa_probe", 4, sizeof(struct bpf_devmap_val), 1, NULL);
}

static bool devmap_programs(int unused)
{
	int fd = devmap();

	(void)unused;
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/*
 * Return whether the kernel supports broadcasts. Run the BPF helper, whose result says whether it supports the flag. No
 * frame is sent.
 */
static bool broadcast(int unused)
{
	char frame[64] = {0};
	LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = frame, .data_size_in = sizeof(frame), .repeat = 1);
	int map = devmap(), prog = -1;
	bool ok = false;

	(void)unused;
	if (map < 0)
		return false;
	{
		const struct bpf_insn insns[] = {
			INSN(BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, map),
			INSN(0, 0, 0, 0, 0),
			MOV_IMM(BPF_REG_2, 0),
			MOV_IMM(BPF_REG_3, BROADCAST),
			CALL(BPF_FUNC_redirect_map),
			EXIT,
		};

		prog = load(insns, LEN(insns));
	}
	if (prog >= 0) {
		ok = !bpf_prog_test_run_opts(prog, &run) && run.retval == XDP_REDIRECT;
		close(prog);
	}
	close(map);
	return ok;
}

static bool global_functions(int unused)
{
	struct btf *btf = btf__new_empty();
	int fd = -1, proto, number;
	const void *raw = NULL;
	__u32 size = 0;

	(void)unused;
	if (!btf)
		return false;
	number = btf__add_int(btf, "int", 4, BTF_INT_SIGNED);
	proto = btf__add_func_proto(btf, number);
	if (number > 0 && proto > 0 && btf__add_func(btf, "f", BTF_FUNC_GLOBAL, proto) > 0)
		raw = btf__raw_data(btf, &size);
	if (raw)
		fd = bpf_btf_load(raw, size, NULL);
	btf__free(btf);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/*
 * Return whether the kernel is not PREEMPT_RT, where softirqs are preempted. Up to Linux 6.17 a lock serialises the
 * softirqs of a CPU. From 6.18 on this lock is a build option that cannot be queried. Without the lock, a second frame
 * would overwrite the PHV of a frame between two of its stages.
 */
static bool not_realtime(int unused)
{
	struct utsname u;

	(void)unused;
	return !uname(&u) && !strstr(u.version, "PREEMPT_RT");
}

static const struct {
	const char *name;
	bool (*has)(int arg);
	int arg;
} needs[] = {
	{"array maps", map_type, BPF_MAP_TYPE_ARRAY},
	{"per-CPU array maps", map_type, BPF_MAP_TYPE_PERCPU_ARRAY},
	{"arrays of maps", map_type, BPF_MAP_TYPE_ARRAY_OF_MAPS},
	{"LPM trie maps", map_type, BPF_MAP_TYPE_LPM_TRIE},
	{"program arrays", map_type, BPF_MAP_TYPE_PROG_ARRAY},
	{"tail calls from XDP", helper, BPF_FUNC_tail_call},
	{"redirects from XDP", helper, BPF_FUNC_redirect_map},
	{"resizing of frames in XDP", helper, BPF_FUNC_xdp_adjust_tail},
	{"arrays that can be mapped", mappable_array, 0},
	{"programs in device maps", devmap_programs, 0},
	{"broadcast to device maps", broadcast, 0},
	{"global BPF functions", global_functions, 0},
	{"BPF atomic operations that return the old value", atomic_op, FETCH_ADD},
	{"BPF compare-and-swap", atomic_op, CMPXCHG},
	{"one frame at a time on a CPU (PREEMPT_RT is on)", not_realtime, 0},
};

int datapath_kernel(char lacks[LACKS_LEN], int *needed)
{
	int fd, err, n = 0;

	*lacks = 0;
	*needed = LEN(needs);
	log_start();
	fd = kernel_load_pass();
	if (fd == -EPERM || fd == -EACCES)
		return fd;
	if (fd < 0) {
		err = libbpf_probe_bpf_prog_type(BPF_PROG_TYPE_SOCKET_FILTER, NULL);
		snprintf(lacks, LACKS_LEN, "%s", err == 1 ? "XDP programs" : "BPF");
		return 1;
	}
	close(fd);
	for (size_t i = 0; i < LEN(needs); i++) {
		size_t len = strlen(lacks);

		if (needs[i].has(needs[i].arg))
			continue;
		snprintf(lacks + len, LACKS_LEN - len, "%s%s", n ? ", " : "", needs[i].name);
		n++;
	}
	return n;
}

int refuse_kernel(void)
{
	char lacks[LACKS_LEN];
	struct utsname u;
	int needed;

	if (!privilege_has(PRIVILEGE_LOAD) || datapath_kernel(lacks, &needed) <= 0)
		return 0;
	uname(&u);
	return refuse(-EOPNOTSUPP, "this kernel (%s) lacks %s; %s", u.release, lacks, datapath_kernel_hint());
}

int refuse_realtime(void)
{
	return not_realtime(0) ? 0 : refuse_kernel();
}

/* -- functions for doctor ---------------------------------------------------------- */

const char *datapath_kernel_hint(void)
{
	return not_realtime(0) ? "boot a newer kernel; Linux 6.1 has everything that is needed" :
				 "boot a kernel without PREEMPT_RT, such as Debian's linux-image-amd64";
}

int datapath_jit(void)
{
	struct datapath_program p = {0};
	int fd = kernel_load_pass(), err;

	if (fd < 0)
		return fd;
	err = program_info(fd, &p);
	close(fd);
	return err ?: !!p.jited_bytes;
}

bool datapath_memlock_limits(void)
{
	struct rlimit before, none = {0};
	int fd;

	if (getrlimit(RLIMIT_MEMLOCK, &before))
		return false;
	none.rlim_max = before.rlim_max;
	if (before.rlim_cur == RLIM_INFINITY || setrlimit(RLIMIT_MEMLOCK, &none))
		return false;
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "fpisa_probe", 4, 4096, 1, NULL);
	setrlimit(RLIMIT_MEMLOCK, &before);
	if (fd >= 0)
		close(fd);
	return fd < 0;
}
