// SPDX-License-Identifier: GPL-2.0-only
/*
 * Simulate a network card with queues, offloads and steering, and a kernel without its BPF JIT, for
 * test_doctor_card.py, because the test's kernel may have neither. Preloaded into fpisa and ethtool, this library
 * simulates the interface $MACHINE_NIC from the file $MACHINE_STATE. The JIT setting comes from $MACHINE_JIT in place
 * of /proc/sys/net/core/bpf_jit_enable. All other calls go to the kernel.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/ethtool.h>
#include <linux/netlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define QUEUES 8
#define RULES 32

struct state {
	uint32_t flags;	   /* ETH_FLAG_* */
	uint32_t combined; /* number of queues in use; at most QUEUES */
	uint64_t udp_hash; /* RXH_*; ~0: the card does not report it */
	uint32_t no_rules; /* true if the card does not support rules */
	uint32_t pad;
	struct ethtool_rx_flow_spec rule[RULES]; /* flow_type 0: this entry is free */
};

static struct state *state(void)
{
	static struct state *s;
	int fd = s ? -1 : open(getenv("MACHINE_STATE"), O_RDWR | O_CLOEXEC);

	if (!s)
		s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	return s;
}

static int fails(int error)
{
	errno = error;
	return -1;
}

/* Simulate the rules by which the card chooses a queue. The rules need ntuple. */
static int rules(struct ethtool_rxnfc *rx, struct state *s)
{
	uint32_t n = 0, at = rx->fs.location;

	if (s->no_rules)
		return fails(EOPNOTSUPP);
	switch (rx->cmd) {
	case ETHTOOL_GRXCLSRLCNT:
	case ETHTOOL_GRXCLSRLALL:
		for (uint32_t i = 0; i < RULES; i++) {
			if (!s->rule[i].flow_type)
				continue;
			if (rx->cmd == ETHTOOL_GRXCLSRLALL && n < rx->rule_cnt)
				rx->rule_locs[n] = i;
			n++;
		}
		rx->rule_cnt = n;
		rx->data = RULES | (rx->cmd == ETHTOOL_GRXCLSRLCNT ? RX_CLS_LOC_SPECIAL : 0);
		return 0;
	case ETHTOOL_SRXCLSRLINS:
		if (!(s->flags & ETH_FLAG_NTUPLE))
			return fails(EOPNOTSUPP);
		for (at = at == RX_CLS_LOC_ANY ? 0 : at; at < RULES && s->rule[at].flow_type; at++)
			;
		if (at >= RULES)
			return fails(ENOSPC);
		rx->fs.location = at;
		s->rule[at] = rx->fs;
		return 0;
	}
	if (at >= RULES || !s->rule[at].flow_type)
		return fails(ENOENT);
	if (rx->cmd == ETHTOOL_SRXCLSRLDEL)
		s->rule[at].flow_type = 0;
	else
		rx->fs = s->rule[at];
	return 0;
}

/* Simulate a request to the card. Return 0, -1 with errno, or 1 for another interface. */
static int card(void *data)
{
	struct ethtool_channels *channels = data;
	struct ethtool_rxnfc *rx = data;
	struct ethtool_value *v = data;
	struct state *s = state();

	switch (v->cmd) {
	case ETHTOOL_GSSET_INFO: /* ethtool then gets the names of features with the older commands */
		return fails(EOPNOTSUPP);
	case ETHTOOL_GFLAGS:
		v->data = s->flags;
		return 0;
	case ETHTOOL_SFLAGS:
		s->flags = v->data;
		return 0;
	case ETHTOOL_GCHANNELS:
		*channels = (struct ethtool_channels){
			.cmd = channels->cmd, .max_combined = QUEUES, .combined_count = s->combined};
		return 0;
	case ETHTOOL_SCHANNELS:
		s->combined = channels->combined_count;
		return 0;
	case ETHTOOL_GRXCLSRLCNT:
	case ETHTOOL_GRXCLSRLALL:
	case ETHTOOL_GRXCLSRULE:
	case ETHTOOL_SRXCLSRLINS:
	case ETHTOOL_SRXCLSRLDEL:
		return rules(rx, s);
	case ETHTOOL_GRXFH:
		if (!~s->udp_hash)
			return fails(EOPNOTSUPP);
		rx->data = rx->flow_type == UDP_V4_FLOW ? s->udp_hash : 0;
		return 0;
	case ETHTOOL_SRXFH:
		if (rx->flow_type == UDP_V4_FLOW)
			s->udp_hash = rx->data;
		return 0;
	}
	return 1;
}

int ioctl(int fd, unsigned long request, ...)
{
	int (*next)(int, unsigned long, ...) = dlsym(RTLD_NEXT, "ioctl");
	const char *nic = getenv("MACHINE_NIC");
	struct ifreq *ifr;
	int rc = 1;
	va_list ap;

	va_start(ap, request);
	ifr = va_arg(ap, void *);
	va_end(ap);
	if (request == SIOCETHTOOL && nic && !strcmp(ifr->ifr_name, nic))
		rc = card(ifr->ifr_data);
	return rc > 0 ? next(fd, request, ifr) : rc;
}

/* Refuse generic netlink, so that ethtool uses ioctl. */
int socket(int domain, int type, int protocol)
{
	int (*next)(int, int, int) = dlsym(RTLD_NEXT, "socket");

	if (domain == AF_NETLINK && protocol == NETLINK_GENERIC && !strcmp(program_invocation_short_name, "ethtool")) {
		errno = EPROTONOSUPPORT;
		return -1;
	}
	return next(domain, type, protocol);
}

/* Replace syscall(), through which libbpf calls bpf(). */
long syscall(long number, ...)
{
	long (*next)(long, ...) = dlsym(RTLD_NEXT, "syscall");
	const char *jit = getenv("MACHINE_JIT");
	long a[6], rc;
	char c = '1';
	va_list ap;
	int fd;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	rc = next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (jit && !rc && number == SYS_bpf && a[0] == BPF_OBJ_GET_INFO_BY_FD) {
		const union bpf_attr *attr = (const void *)a[1];
		struct bpf_prog_info *info = (void *)(uintptr_t)attr->info.info;

		fd = open(jit, O_RDONLY | O_CLOEXEC);
		if (read(fd, &c, 1) == 1 && c == '0' && attr->info.info_len >= sizeof(*info))
			info->jited_prog_len = 0;
		close(fd);
	}
	return rc;
}
