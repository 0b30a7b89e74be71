// SPDX-License-Identifier: GPL-2.0-only
/* Namespaces and links of the verbs that build a network. lab.h documents the functions. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/report.h"
#include "lab.h"

#define NEED_ROOT "run as root, because network namespaces and XDP require that"

int lab_enter(const char *verb)
{
	if (unshare(CLONE_NEWNET | CLONE_NEWNS))
		return fail(-errno, NEED_ROOT, "%s: cannot create namespaces", verb);
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return fail(-errno, NULL, "%s: cannot make mounts private", verb);
	if (mount("bpf", LAB_BPFFS, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700"))
		return fail(-errno, "mount sysfs, and boot a kernel with BPF",
			    "%s: cannot mount a BPF filesystem on " LAB_BPFFS, verb);
	return 0;
}

/* -- ip -batch ------------------------------------------------------------ */

/* Open a batch of ip commands in a memory file. */
struct lab_batch lab_batch_open(void)
{
	struct lab_batch b = {.fd = memfd_create("ip", MFD_CLOEXEC)};

	b.err = b.fd < 0 ? -errno : 0;
	return b;
}

void lab_batch_add(struct lab_batch *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (!b->err && (vdprintf(b->fd, fmt, ap) < 0 || dprintf(b->fd, "\n") < 0))
		b->err = -errno;
	va_end(ap);
}

/* Start ip in a separate process group, because the parent handles interrupts from the terminal. */
static int spawn_ip(pid_t *pid, int in, int out)
{
	static const char *const places[] = {"ip", "/usr/sbin/ip", "/sbin/ip"};
	char *argv[] = {"ip", "-batch", "-", NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int err = ENOENT;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in, 0);
	posix_spawn_file_actions_adddup2(&actions, out, 1);
	posix_spawn_file_actions_adddup2(&actions, out, 2);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
	for (size_t i = 0; err == ENOENT && i < sizeof(places) / sizeof(places[0]); i++)
		err = posix_spawnp(pid, places[i], &actions, &attributes, argv, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return -err;
}

int lab_batch_run(struct lab_batch *b, char *message, size_t size)
{
	int out = -1, status, err = b->err;
	ssize_t n;
	pid_t pid;

	if (!err) {
		out = memfd_create("ip", MFD_CLOEXEC);
		err = out < 0 || lseek(b->fd, 0, SEEK_SET) ? -errno : 0;
	}
	if (!err)
		err = spawn_ip(&pid, b->fd, out);
	if (err) {
		snprintf(message, size, "ip: %s%s", strerror(-err), err == -ENOENT ? "; install iproute2" : "");
	} else if (waitpid(pid, &status, 0) != pid || status) {
		err = -EIO;
		n = pread(out, message, size - 1, 0);
		message[n > 0 ? n : 0] = 0;
		message[strcspn(message, "\n")] = 0;
	}
	if (out >= 0)
		close(out);
	if (b->fd >= 0)
		close(b->fd);
	return err;
}

/* -- links ------------------------------------------------------------------- */

static int set_offload(const char *dev, uint32_t cmd, bool on)
{
	struct ethtool_value value = {.cmd = cmd, .data = on};
	struct ifreq ifr = {.ifr_data = (void *)&value};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = 0;

	if (fd < 0)
		return -errno;
	strcpy(ifr.ifr_name, dev);
	if (ioctl(fd, SIOCETHTOOL, &ifr))
		err = -errno;
	close(fd);
	return err;
}

int lab_gro_on(const char *dev)
{
	return set_offload(dev, ETHTOOL_SGRO, true);
}

int lab_tso_off(const char *dev)
{
	return set_offload(dev, ETHTOOL_STSO, false);
}
