// SPDX-License-Identifier: GPL-2.0-only
/* Capabilities, by system calls; privilege.h has the contracts. */
#include <errno.h>
#include <linux/capability.h>
#include <linux/types.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli/report.h"
#include "privilege.h"

#define BIT(cap) (1ull << (cap))
#define ADMIN BIT(CAP_SYS_ADMIN)

static const struct {
	__u64 bit;
	const char *name;
} names[] = {
	{BIT(CAP_NET_ADMIN), "CAP_NET_ADMIN"},	 {BIT(CAP_BPF), "CAP_BPF"},
	{BIT(CAP_PERFMON), "CAP_PERFMON"},	 {BIT(CAP_SYS_ADMIN), "CAP_SYS_ADMIN"},
	{BIT(CAP_SYS_PTRACE), "CAP_SYS_PTRACE"},
};

/* With CAP_PERFMON the verifier adds no protection against speculation, and allows programs to store pointers. */
static const __u64 needs[] = {
	[PRIVILEGE_LOAD] = BIT(CAP_NET_ADMIN) | BIT(CAP_BPF) | BIT(CAP_PERFMON),
	[PRIVILEGE_ATTACH] = BIT(CAP_NET_ADMIN),
	[PRIVILEGE_LOOK] = ADMIN,
	[PRIVILEGE_TRACE] = BIT(CAP_SYS_PTRACE),
	[PRIVILEGE_UPGRADE] = BIT(CAP_NET_ADMIN) | ADMIN,
};

static int get(__u64 *effective)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};

	if (syscall(SYS_capget, &header, data))
		return fail(-errno, NULL, "cannot read this process's capabilities");
	*effective = data[0].effective | (__u64)data[1].effective << 32;
	return 0;
}

static int keep(__u64 mask)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};

	if (syscall(SYS_capget, &header, data))
		return fail(-errno, NULL, "cannot read this process's capabilities");
	for (int i = 0; i < 2; i++) {
		data[i].permitted &= (__u32)(mask >> (32 * i));
		data[i].effective &= (__u32)(mask >> (32 * i));
		data[i].inheritable = 0;
	}
	/* Programs that this process starts must not regain the capabilities either, even as root. */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) ||
	    syscall(SYS_capset, &header, data))
		return fail(-errno, NULL, "cannot give up this process's capabilities");
	return 0;
}

/* Return the capabilities that this process lacks. */
static __u64 lacks(enum privilege p)
{
	__u64 have = 0;

	get(&have);
	/* CAP_SYS_ADMIN includes the two newer capabilities. */
	if (have & ADMIN)
		have |= BIT(CAP_BPF) | BIT(CAP_PERFMON);
	return needs[p] & ~have;
}

bool privilege_has(enum privilege p)
{
	return !lacks(p);
}

int privilege_check(enum privilege p, const char *what)
{
	__u64 lack = lacks(p);
	char missing[128] = "";

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (lack & names[i].bit) {
			strcat(missing, *missing ? ", " : "");
			strcat(missing, names[i].name);
		}
	return *missing ? refuse(-EPERM, "%s: no privilege; run as root, or with %s", what, missing) : 0;
}

int privilege_keep_load(bool chown)
{
	/* Kernels before 5.11 charge maps to a limit that libbpf lifts. */
	__u64 mask = needs[PRIVILEGE_LOAD] | BIT(CAP_SYS_RESOURCE) | (chown ? BIT(CAP_CHOWN) : 0), have;
	int err = get(&have);

	if (err)
		return err;
	/* A process that has only CAP_SYS_ADMIN, the older capability, must keep it. */
	if ((have & needs[PRIVILEGE_LOAD]) != needs[PRIVILEGE_LOAD])
		mask |= ADMIN;
	return keep(mask);
}

int privilege_drop(void)
{
	return keep(0);
}
