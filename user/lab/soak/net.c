// SPDX-License-Identifier: GPL-2.0-only
/*
 * The network of the soak. Namespaces do not have names. The parent holds a
 * descriptor of each namespace, and closing the last descriptor removes the links
 * of the namespace.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/report.h"
#include "soak.h"
#include "lab/testbed/lab.h"

#define MTU 1500
#define GONE_S 20

static int enter(int fd)
{
	return setns(fd, CLONE_NEWNET) ? fail(-errno, NULL, "soak: cannot enter a network namespace") : 0;
}

static int open_here(int *fd)
{
	*fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	return *fd < 0 ? fail(-errno, NULL, "soak: cannot open this network namespace") : 0;
}

/* Create a network namespace without entering it. */
static int make(struct soak *s, int *fd)
{
	int err;

	if (unshare(CLONE_NEWNET))
		return fail(-errno, NULL, "soak: cannot create a network namespace");
	err = open_here(fd);
	return enter(s->home_fd) ?: err;
}

static int run(struct lab_batch *b)
{
	char message[256];
	int err = lab_batch_run(b, message, sizeof(message));

	return err ? refuse(err, "soak: cannot create links: %s", message) : 0;
}

const struct star soak_star = {
	.address = SOAK_ADDRESS, .network = SOAK_NETWORK, .mtu = MTU, .port = SOAK_PORT, .peer = "b"};

/* Create the aggregator's end towards the middlebox, for each host. */
static int make_ports(struct soak *s)
{
	struct lab_batch b = lab_batch_open();
	char netns[48];

	snprintf(netns, sizeof(netns), "/proc/%d/fd/%d", getpid(), s->middlebox_fd);
	star_add_address(&b, &soak_star);
	for (uint32_t h = 0; h < SOAK_HOSTS; h++)
		star_add_link(&b, &soak_star, h, netns);
	return run(&b);
}

static int make_middlebox(struct soak *s)
{
	struct lab_batch b = lab_batch_open();
	int err;

	for (uint32_t h = 0; h < SOAK_HOSTS; h++) {
		lab_batch_add(&b, "link add a%u mtu %u type veth peer name eth0 mtu %u netns /proc/%d/fd/%d", h, MTU,
			      MTU, getpid(), s->host_fd[h]);
		lab_batch_add(&b, "link set a%u up", h);
		lab_batch_add(&b, "link set b%u up", h);
	}
	err = run(&b);
	for (uint32_t h = 0; !err && h < SOAK_HOSTS; h++) {
		char dev[IF_NAMESIZE];

		snprintf(dev, sizeof(dev), "b%u", h);
		err = lab_gro_on(dev);
		if (err)
			fail(err, NULL, "soak: %s: cannot turn GRO on", dev);
	}
	return err;
}

/* Set up a host. The host cannot detect the middlebox. */
static int make_host(uint32_t h)
{
	const struct star star = {.address = SOAK_ADDRESS, .network = SOAK_NETWORK};
	struct lab_batch b = lab_batch_open();

	lab_batch_add(&b, "link set lo up");
	star_add_worker(&b, &star, h);
	return run(&b);
}

int soak_net(struct soak *s)
{
	int err = open_here(&s->home_fd);

	if (!err)
		err = make(s, &s->middlebox_fd);
	for (uint32_t h = 0; !err && h < SOAK_HOSTS; h++)
		err = make(s, &s->host_fd[h]);
	if (!err)
		err = make_ports(s);
	if (!err)
		err = enter(s->middlebox_fd);
	if (!err)
		err = make_middlebox(s);
	for (uint32_t h = 0; !err && h < SOAK_HOSTS; h++) {
		err = enter(s->host_fd[h]);
		if (!err)
			err = make_host(h);
	}
	return enter(s->home_fd) ?: err;
}

int soak_link_set(uint32_t host, bool up)
{
	struct ifreq ifr = {.ifr_flags = 0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = 0;

	star_port(ifr.ifr_name, &soak_star, host);
	if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &ifr))
		err = -errno;
	ifr.ifr_flags = up ? ifr.ifr_flags | IFF_UP : ifr.ifr_flags & ~IFF_UP;
	if (!err && ioctl(fd, SIOCSIFFLAGS, &ifr))
		err = -errno;
	if (fd >= 0)
		close(fd);
	return err ? fail(err, NULL, "soak: %s: cannot set it %s", ifr.ifr_name, up ? "up" : "down") : 0;
}

/* -- closing ------------------------------------------------------------- */

/* Count the interfaces whose names have this prefix and a number from 0 on. */
static int count_links(char prefix)
{
	int n = 0;

	for (uint32_t h = 0; h < SOAK_HOSTS; h++) {
		char dev[IF_NAMESIZE];

		snprintf(dev, sizeof(dev), "%c%u", prefix, h);
		n += if_nametoindex(dev) != 0;
	}
	return n;
}

/*
 * Wait until there are no links with this prefix, and return the number of links that remain. Removing a namespace
 * removes its links, and this also removes our ends.
 */
static int wait_gone(char prefix)
{
	int n = 0;

	for (int i = 0; i < GONE_S * 20; i++) {
		n = count_links(prefix);
		if (!n)
			break;
		usleep(50000);
	}
	return n;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

int soak_net_close_hosts(struct soak *s)
{
	int n;

	for (uint32_t h = 0; h < SOAK_HOSTS; h++)
		close_fd(&s->host_fd[h]);
	if (setns(s->middlebox_fd, CLONE_NEWNET))
		return SOAK_HOSTS;
	n = wait_gone('a');
	return setns(s->home_fd, CLONE_NEWNET) ? SOAK_HOSTS : n;
}

int soak_net_close_middlebox(struct soak *s)
{
	int n;

	close_fd(&s->middlebox_fd);
	n = wait_gone('w');
	close_fd(&s->home_fd);
	return n;
}
