// SPDX-License-Identifier: GPL-2.0-only
/* doctor: privilege, features of the kernel, the BPF filesystem, the tools that fixes call */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "doctor.h"
#include "host/privilege.h"

/* Check that the kernel has all needed features. Return false if it lacks one; the verifier is not checked then. */
static bool check_features(struct doctor *d)
{
	char lacks[LACKS_LEN];
	struct utsname u;
	int needed, n;

	uname(&u);
	n = datapath_kernel(lacks, &needed);
	if (n < 0)
		finding(d, LEVEL_FAULT, "kernel", "features", NULL,
			"%s refuses BPF to this process (%s): leave the container, or start it with CAP_BPF", u.release,
			strerror(-n));
	else if (n)
		finding(d, LEVEL_FAULT, "kernel", "features", NULL, "%s lacks %s; %s", u.release, lacks,
			datapath_kernel_hint());
	else
		finding(d, LEVEL_OK, "kernel", "features", NULL, "%s has all %d features that the datapath needs",
			u.release, needed);
	d->privileged = n >= 0;
	return !n;
}

static void check_jit(struct doctor *d)
{
	static const char proc[] = "/proc/sys/net/core/bpf_jit_enable";
	int jit = datapath_jit();

	if (jit < 0)
		return;
	if (jit)
		finding(d, LEVEL_OK, "kernel", "jit", NULL, "BPF programs are compiled");
	else
		/* Only the first network namespace has the file. */
		finding(d, LEVEL_WARN, "kernel", "jit",
			access(proc, F_OK) ? "nsenter -t 1 -n sysctl -w net.core.bpf_jit_enable=1" :
					     "sysctl -w net.core.bpf_jit_enable=1",
			"BPF programs are interpreted, which is several times slower; load the datapath again after "
			"the fix");
}

static void check_memlock(struct doctor *d)
{
	if (datapath_memlock_limits())
		finding(d, LEVEL_WARN, "kernel", "memlock", "ulimit -l unlimited",
			"this kernel counts maps against RLIMIT_MEMLOCK");
	else
		finding(d, LEVEL_OK, "kernel", "memlock", NULL, "no limit on the memory of maps");
}

/* Check the verifier, because only a load shows instructions that an older verifier refuses. */
static void check_verifier(struct doctor *d)
{
	char why[512] = "";

	d->verified = !datapath_trial_load(d->dp && d->dp->steering.cpus, d->tag, d->steer_tag, why, sizeof(why));
	if (d->verified)
		finding(d, LEVEL_OK, "kernel", "verifier", NULL, "the datapath's programs are accepted");
	else
		finding(d, LEVEL_FAULT, "kernel", "verifier", NULL,
			"the datapath's programs are refused: %s; fpisa doctor --verbose shows the log", why);
}

static bool is_empty(const char *dir)
{
	DIR *d = opendir(dir);
	int n = 0;

	while (d && n < 3 && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n < 3;
}

static void check_bpffs(struct doctor *d)
{
	char dir[PATH_MAX] = "/sys/fs/bpf", fix[PATH_MAX + 32], remount[PATH_MAX + 32], *slash;
	struct statvfs mounted;
	struct statfs fs;

	if (d->pin) {
		snprintf(dir, sizeof(dir), "%s", d->pin);
		slash = strrchr(dir, '/');
		if (statfs(dir, &fs) && slash && slash != dir)
			*slash = 0;
	}
	snprintf(fix, sizeof(fix), "mount -t bpf bpf %s", dir);
	snprintf(remount, sizeof(remount), "mount -o remount,rw %s", dir);
	if (d->pin && !statfs(dir, &fs) && fs.f_type != BPF_FS_MAGIC && !is_empty(dir))
		finding(d, LEVEL_FAULT, "kernel", "bpffs", "fpisa doctor --pin " DATAPATH_PIN,
			"%s is not a BPF filesystem, and not empty, so a mount would hide its files: give a "
			"directory of a BPF filesystem",
			dir);
	else if (statfs(dir, &fs))
		finding(d, LEVEL_FAULT, "kernel", "bpffs", NULL, "%s: %s", dir, strerror(errno));
	else if (fs.f_type != BPF_FS_MAGIC)
		finding(d, LEVEL_FAULT, "kernel", "bpffs", fix,
			"%s is not a BPF filesystem: nothing can be pinned there", dir);
	else if (!statvfs(dir, &mounted) && mounted.f_flag & ST_RDONLY)
		finding(d, LEVEL_FAULT, "kernel", "bpffs", remount, "%s is read-only: nothing can be pinned there", dir);
	else
		finding(d, LEVEL_OK, "kernel", "bpffs", NULL, "%s is a BPF filesystem", dir);
}

void doctor_kernel(struct doctor *d)
{
	bool complete;

	if (!privilege_has(PRIVILEGE_LOAD)) {
		finding(d, LEVEL_FAULT, "kernel", "privilege", "sudo fpisa doctor",
			"without CAP_NET_ADMIN, CAP_BPF and CAP_PERFMON, doctor can load nothing and check little");
		return;
	}
	d->sees = privilege_has(PRIVILEGE_LOOK);
	finding(d, LEVEL_OK, "kernel", "privilege", NULL, "CAP_NET_ADMIN, CAP_BPF and CAP_PERFMON%s",
		d->sees ? ", and CAP_SYS_ADMIN" :
			  " suffice; without CAP_SYS_ADMIN, doctor cannot see other datapaths, builds and "
			  "network namespaces");
	complete = check_features(d);
	if (!d->privileged)
		return;
	check_jit(d);
	check_memlock(d);
	if (complete)
		check_verifier(d);
	check_bpffs(d);
}

/* -- tools --------------------------------------------------------------- */

/* Read the first line that `command` prints. Return 1, 0 if the command does not exist, or -errno if it cannot run. */
static int first_line(const char *command, char *line, size_t size)
{
	FILE *f = popen(command, "re");

	*line = 0;
	if (!f)
		return -errno;
	if (!fgets(line, size, f))
		*line = 0;
	line[strcspn(line, "\n")] = 0;
	return !pclose(f) && *line;
}

void doctor_tools(struct doctor *d)
{
	char line[256];
	int found = first_line("exec ip -V 2>/dev/null", line, sizeof(line));

	if (found < 0)
		finding(d, LEVEL_WARN, "tools", "iproute2", NULL, "ip cannot be started: %s", strerror(-found));
	else if (!found)
		finding(d, LEVEL_WARN, "tools", "iproute2", "apt-get install -y iproute2",
			"ip is not installed; fpisa load does not need it, but most fixes do");
	else if (!strstr(line, "libbpf"))
		finding(d, LEVEL_WARN, "tools", "iproute2", "apt-get install -y --reinstall iproute2",
			"%s is built without libbpf and cannot load fpisa.o; fpisa load can", line);
	else
		finding(d, LEVEL_OK, "tools", "iproute2", NULL, "%s", line);
	found = first_line("exec ethtool --version 2>/dev/null", line, sizeof(line));
	if (found < 0)
		finding(d, LEVEL_WARN, "tools", "ethtool", NULL, "ethtool cannot be started: %s", strerror(-found));
	else if (!found)
		finding(d, LEVEL_WARN, "tools", "ethtool", "apt-get install -y ethtool",
			"ethtool is not installed; fixes of queues and offloads use it");
	else
		finding(d, LEVEL_OK, "tools", "ethtool", NULL, "%s", line);
}
