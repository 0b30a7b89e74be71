// SPDX-License-Identifier: GPL-2.0-only
/*
 * The demo's network: a star of veth pairs. Every worker is in a subnet of
 * its own; the aggregator has one address on lo that all of them route to,
 * so results have the same source for everybody and pass rp_filter.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <sched.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "demo.h"

#define NEED_ROOT "run as root: network namespaces and XDP need it"
#define BPFFS "/sys/fs/bpf"
#define DOTTED(a) (a) >> 24, (a) >> 16 & 255, (a) >> 8 & 255, (a)&255

int demo_aggregator_namespace(void)
{
	if (unshare(CLONE_NEWNET | CLONE_NEWNS))
		return fail(-errno, NEED_ROOT, "demo: make namespaces");
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return fail(-errno, NULL, "demo: make mounts private");
	if (mount("bpf", BPFFS, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700"))
		return fail(-errno, "it needs sysfs and a kernel with BPF",
			    "demo: mount a BPF filesystem on " BPFFS);
	return 0;
}

/* -- ip -batch ------------------------------------------------------------ */

/* Commands for iproute2 in a memory file. */
struct batch {
	int fd;
	int err;
};

static struct batch batch_open(void)
{
	struct batch b = {.fd = memfd_create("ip", MFD_CLOEXEC)};

	b.err = b.fd < 0 ? -errno : 0;
	return b;
}

__attribute__((format(printf, 2, 3))) static void batch_add(struct batch *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (!b->err && (vdprintf(b->fd, fmt, ap) < 0 || dprintf(b->fd, "\n") < 0))
		b->err = -errno;
	va_end(ap);
}

/* In a process group of its own: an interrupt from the terminal is the parent's to handle. */
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

/* Runs and closes the batch. On error *message says what ip said first. */
static int batch_run(struct batch *b, char *message, size_t size)
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
		snprintf(message, size, "ip: %s%s", strerror(-err),
			 err == -ENOENT ? "; install iproute2" : "");
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

/* -- links --------------------------------------------------------------- */

int demo_aggregator_links(const struct demo *d)
{
	uint32_t mtu = FPISA_PAYLOAD_OFFSET - FPISA_ETH_LEN + d->o.packet * d->f.bytes;
	struct batch b = batch_open();
	char message[256];
	int err;

	if (mtu < 1500)
		mtu = 1500;
	batch_add(&b, "link set lo up");
	batch_add(&b, "addr add %u.%u.%u.%u/32 dev lo", DOTTED(DEMO_ADDRESS));
	for (uint32_t r = 0; r < d->o.workers; r++) {
		uint32_t net = DEMO_NETWORK | r << 8;

		batch_add(&b, "link add " DEMO_PORT_NAME " mtu %u type veth peer name eth0 mtu %u netns %d",
			  r, mtu, mtu, d->child[r].pid);
		batch_add(&b, "addr add %u.%u.%u.%u/24 dev " DEMO_PORT_NAME, DOTTED(net | 1), r);
		batch_add(&b, "link set " DEMO_PORT_NAME " up", r);
	}
	err = batch_run(&b, message, sizeof(message));
	return err ? refuse(err, "demo: make links: %s", message) : 0;
}

/*
 * A veth end drops what is redirected to it unless it polls, which GRO makes
 * it do. The interface must be up: its peer learns that it may redirect from
 * the change alone (veth_set_features() since Linux 6.3).
 */
static int gro_on(const char *dev)
{
	struct ethtool_value value = {.cmd = ETHTOOL_SGRO, .data = 1};
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

int demo_worker_link(uint32_t rank, char *message, size_t size)
{
	uint32_t net = DEMO_NETWORK | rank << 8;
	struct batch b = batch_open();
	int err;

	batch_add(&b, "addr add %u.%u.%u.%u/24 dev eth0", DOTTED(net | 2));
	batch_add(&b, "link set eth0 up");
	batch_add(&b, "route add %u.%u.%u.%u via %u.%u.%u.%u", DOTTED(DEMO_ADDRESS), DOTTED(net | 1));
	err = batch_run(&b, message, size);
	if (err)
		return err;
	err = gro_on("eth0");
	if (err)
		snprintf(message, size, "eth0: turn GRO on: %s", strerror(-err));
	return err;
}
