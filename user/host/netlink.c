// SPDX-License-Identifier: GPL-2.0-only
/* Questions to rtnetlink and to the netdev family, one answer each; netlink.h has the contracts. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/genetlink.h>
#include <linux/neighbour.h>
#include <linux/net_namespace.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "netlink.h"

/* linux/netdev.h, which headers before 6.3 lack. */
#define NETDEV_CMD_DEV_GET 1
#define NETDEV_A_DEV_IFINDEX 1
#define NETDEV_A_DEV_XDP_FEATURES 3

#define ANSWER_LEN 32768

/* A request: header, the family's own header, attributes. */
struct message {
	struct nlmsghdr nlh;
	char body[256];
};

static void start(struct message *m, int type, int flags, const void *header, size_t size)
{
	memset(m, 0, sizeof(*m));
	m->nlh.nlmsg_len = NLMSG_LENGTH(size);
	m->nlh.nlmsg_type = type;
	m->nlh.nlmsg_flags = NLM_F_REQUEST | flags;
	memcpy(m->body, header, size);
}

static void put(struct message *m, int type, const void *value, size_t size)
{
	struct rtattr *a = (struct rtattr *)((char *)m + NLMSG_ALIGN(m->nlh.nlmsg_len));

	a->rta_type = type;
	a->rta_len = RTA_LENGTH(size);
	memcpy(RTA_DATA(a), value, size);
	m->nlh.nlmsg_len = NLMSG_ALIGN(m->nlh.nlmsg_len) + RTA_ALIGN(a->rta_len);
}

/* Sends m and hands every message of the answer to take(), until that returns nonzero: its value. */
static int ask(int protocol, const struct message *m, int (*take)(const struct nlmsghdr *nlh, void *arg),
	       void *arg)
{
	bool dump = (m->nlh.nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
	char *buf = malloc(ANSWER_LEN);
	int fd = -1, err = 0;

	if (!buf)
		return -ENOMEM;
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
	if (fd < 0 || send(fd, m, m->nlh.nlmsg_len, 0) < 0) {
		err = -errno;
		goto out;
	}
	do {
		int len = recv(fd, buf, ANSWER_LEN, 0);
		const struct nlmsghdr *nlh = (const void *)buf;

		if (len < 0) {
			err = -errno;
			break;
		}
		for (; !err && NLMSG_OK(nlh, (unsigned int)len); nlh = NLMSG_NEXT(nlh, len)) {
			if (nlh->nlmsg_type == NLMSG_ERROR)
				err = ((const struct nlmsgerr *)NLMSG_DATA(nlh))->error;
			else if (nlh->nlmsg_type == NLMSG_DONE)
				dump = false;
			else
				err = take(nlh, arg);
		}
	} while (!err && dump);
out:
	if (fd >= 0)
		close(fd);
	free(buf);
	return err;
}

static __u32 u32_of(const struct rtattr *a)
{
	__u32 v = 0;

	memcpy(&v, RTA_DATA(a), RTA_PAYLOAD(a) < sizeof(v) ? RTA_PAYLOAD(a) : sizeof(v));
	return v;
}

static void text_of(const struct rtattr *a, char *out, size_t size)
{
	snprintf(out, size, "%.*s", (int)RTA_PAYLOAD(a), (const char *)RTA_DATA(a));
}

/* -- links ------------------------------------------------------------- */

static void parse_info(const struct rtattr *info, struct link *l)
{
	const struct rtattr *a = RTA_DATA(info);
	int left = RTA_PAYLOAD(info);

	for (; RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (a->rta_type == IFLA_INFO_KIND)
			text_of(a, l->kind, sizeof(l->kind));
}

static void parse_link(const struct nlmsghdr *nlh, struct link *l)
{
	const struct ifinfomsg *i = NLMSG_DATA(nlh);
	const struct rtattr *a = IFLA_RTA(i);
	int left = IFLA_PAYLOAD(nlh);

	memset(l, 0, sizeof(*l));
	l->lower_netns = -1;
	l->index = i->ifi_index;
	l->flags = i->ifi_flags;
	for (; RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		switch (a->rta_type & NLA_TYPE_MASK) {
		case IFLA_IFNAME:
			text_of(a, l->name, sizeof(l->name));
			break;
		case IFLA_MTU:
			l->mtu = u32_of(a);
			break;
		case IFLA_LINK:
			l->lower = u32_of(a);
			break;
		case IFLA_MASTER:
			l->master = u32_of(a);
			break;
		case IFLA_LINK_NETNSID:
			l->lower_netns = u32_of(a);
			break;
		case IFLA_CARRIER:
			l->carrier = *(const __u8 *)RTA_DATA(a);
			break;
		case IFLA_NUM_TX_QUEUES:
			l->num_tx = u32_of(a);
			break;
		case IFLA_LINKINFO:
			parse_info(a, l);
			break;
		}
	}
}

static int take_link(const struct nlmsghdr *nlh, void *arg)
{
	if (nlh->nlmsg_type != RTM_NEWLINK)
		return -EBADMSG;
	parse_link(nlh, arg);
	return 0;
}

int link_get(__u32 ifindex, struct link *l)
{
	const struct ifinfomsg i = { .ifi_index = ifindex };
	struct message m;

	memset(l, 0, sizeof(*l));
	start(&m, RTM_GETLINK, 0, &i, sizeof(i));
	return ask(NETLINK_ROUTE, &m, take_link, l);
}

struct vlan_search {
	__u32 below;
	char name[IF_NAMESIZE];
};

static int take_vlan(const struct nlmsghdr *nlh, void *arg)
{
	struct vlan_search *s = arg;
	struct link l;

	parse_link(nlh, &l);
	if (l.lower == s->below && l.lower_netns < 0 && !strcmp(l.kind, "vlan"))
		strcpy(s->name, l.name);
	return 0;
}

int link_vlan_on(__u32 ifindex, char name[IF_NAMESIZE])
{
	const struct ifinfomsg i = { 0 };
	struct vlan_search s = { .below = ifindex };
	struct message m;
	int err;

	start(&m, RTM_GETLINK, NLM_F_DUMP, &i, sizeof(i));
	err = ask(NETLINK_ROUTE, &m, take_vlan, &s);
	strcpy(name, s.name);
	return err ?: *name ? 0 : -ENOENT;
}

/* -- neighbours -------------------------------------------------------- */

static int take_state(const struct nlmsghdr *nlh, void *arg)
{
	*(__u16 *)arg = ((const struct ndmsg *)NLMSG_DATA(nlh))->ndm_state;
	return 0;
}

int neighbour_manage(__be32 address, __u32 ifindex, bool manage)
{
	struct ndmsg n = { .ndm_family = AF_INET, .ndm_ifindex = (int)ifindex };
	const __u32 managed = NTF_EXT_MANAGED;
	struct message m;
	__u16 state = 0;
	int err;

	start(&m, RTM_GETNEIGH, 0, &n, sizeof(n));
	put(&m, NDA_DST, &address, sizeof(address));
	err = ask(NETLINK_ROUTE, &m, take_state, &state);
	if (err && err != -ENOENT)
		return err;
	if (state & (NUD_PERMANENT | NUD_NOARP) || (err && !manage))
		return 0;
	/* Either flag leaves the state of an entry as it is. */
	n.ndm_flags = manage ? 0 : NTF_USE;
	start(&m, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK, &n, sizeof(n));
	put(&m, NDA_DST, &address, sizeof(address));
	if (manage)
		put(&m, NDA_FLAGS_EXT, &managed, sizeof(managed));
	return ask(NETLINK_ROUTE, &m, take_state, &state);
}

/* -- the netdev family --------------------------------------------------- */

/* Attribute `type` of a generic netlink message, or NULL. */
static const struct rtattr *generic_attribute(const struct nlmsghdr *nlh, int type)
{
	const char *body = (const char *)NLMSG_DATA(nlh) + GENL_HDRLEN;
	const struct rtattr *a = (const void *)body;
	int left = NLMSG_PAYLOAD(nlh, GENL_HDRLEN);

	for (; RTA_OK(a, left); a = RTA_NEXT(a, left))
		if ((a->rta_type & NLA_TYPE_MASK) == type)
			return a;
	return NULL;
}

static int take_family(const struct nlmsghdr *nlh, void *arg)
{
	const struct rtattr *a = generic_attribute(nlh, CTRL_ATTR_FAMILY_ID);

	if (!a)
		return -EBADMSG;
	memcpy(arg, RTA_DATA(a), sizeof(__u16));
	return 0;
}

static int take_features(const struct nlmsghdr *nlh, void *arg)
{
	const struct rtattr *a = generic_attribute(nlh, NETDEV_A_DEV_XDP_FEATURES);

	if (!a || RTA_PAYLOAD(a) < sizeof(__u64))
		return -EBADMSG;
	memcpy(arg, RTA_DATA(a), sizeof(__u64));
	return 0;
}

int netdev_xdp_features(__u32 ifindex, __u64 *features)
{
	const struct genlmsghdr find = { .cmd = CTRL_CMD_GETFAMILY, .version = 1 };
	const struct genlmsghdr get = { .cmd = NETDEV_CMD_DEV_GET, .version = 1 };
	struct message m;
	__u16 family = 0;
	int err;

	start(&m, GENL_ID_CTRL, 0, &find, sizeof(find));
	put(&m, CTRL_ATTR_FAMILY_NAME, "netdev", sizeof("netdev"));
	err = ask(NETLINK_GENERIC, &m, take_family, &family);
	if (err || !family)
		return -EOPNOTSUPP;
	start(&m, family, 0, &get, sizeof(get));
	put(&m, NETDEV_A_DEV_IFINDEX, &ifindex, sizeof(ifindex));
	return ask(NETLINK_GENERIC, &m, take_features, features);
}

/* -- namespaces ---------------------------------------------------------- */

static int take_nsid(const struct nlmsghdr *nlh, void *arg)
{
	const struct rtattr *a =
		(const void *)((const char *)NLMSG_DATA(nlh) + NLMSG_ALIGN(sizeof(struct rtgenmsg)));
	int left = NLMSG_PAYLOAD(nlh, sizeof(struct rtgenmsg));

	for (; RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (a->rta_type == NETNSA_NSID)
			*(int *)arg = u32_of(a);
	return 0;
}

/* The id of a namespace as ours sees it; -1 if it has none. */
static int netns_id(int fd)
{
	const struct rtgenmsg g = { .rtgen_family = AF_UNSPEC };
	struct message m;
	int id = -1;

	start(&m, RTM_GETNSID, 0, &g, sizeof(g));
	put(&m, NETNSA_FD, &fd, sizeof(fd));
	return ask(NETLINK_ROUTE, &m, take_nsid, &id) ? -1 : id;
}

typedef int (*visit_netns)(int fd, const char *prefix, void *arg);

/* DIR/ENTRY/TAIL of each entry, until one is not 0; its fd is closed here. */
static int walk_dir(const char *dir, const char *tail, const char *prefix_format, visit_netns visit, void *arg)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	int got = 0;

	while (d && !got && (e = readdir(d))) {
		char path[300], prefix[NETNS_PREFIX_LEN];
		int fd;

		if (*e->d_name == '.' || (*tail && (*e->d_name < '0' || *e->d_name > '9')))
			continue;
		snprintf(path, sizeof(path), "%s/%s%s", dir, e->d_name, tail);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		snprintf(prefix, sizeof(prefix), prefix_format, e->d_name);
		got = visit(fd, prefix, arg);
		close(fd);
	}
	if (d)
		closedir(d);
	return got;
}

/* Names first: they last, processes end. */
static int walk(visit_netns visit, void *arg)
{
	return walk_dir("/run/netns", "", "nsenter --net=/run/netns/%s ", visit, arg) ?:
	       walk_dir("/proc", "/ns/net", "nsenter -t %s -n ", visit, arg);
}

/* Namespaces that a descriptor alone keeps. Of other files not one is opened, which may do something. */
static int walk_descriptors(visit_netns visit, void *arg)
{
	glob_t g = { 0 };
	int got = 0;

	glob("/proc/[0-9]*/fd/*", GLOB_NOSORT, NULL, &g);
	for (size_t i = 0; !got && i < g.gl_pathc; i++) {
		char target[8] = "", prefix[NETNS_PREFIX_LEN];
		int fd;

		if (readlink(g.gl_pathv[i], target, sizeof(target) - 1) < 0 || strncmp(target, "net:[", 5))
			continue;
		fd = open(g.gl_pathv[i], O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		snprintf(prefix, sizeof(prefix), "nsenter --net=%s ", g.gl_pathv[i]);
		got = visit(fd, prefix, arg);
		close(fd);
	}
	globfree(&g);
	return got;
}

struct wanted {
	int id, fd;
	char *prefix;
};

static int is_wanted(int fd, const char *prefix, void *arg)
{
	struct wanted *w = arg;

	if (netns_id(fd) != w->id)
		return 0;
	w->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	snprintf(w->prefix, NETNS_PREFIX_LEN, "%s", prefix);
	return 1;
}

int netns_find(int id, char prefix[NETNS_PREFIX_LEN], int *fd)
{
	struct wanted w = { .id = id, .fd = -1, .prefix = prefix };

	walk(is_wanted, &w);
	*fd = w.fd;
	return w.fd < 0 ? -ENOENT : 0;
}

struct others {
	struct stat *seen;
	size_t n;
	int (*fn)(const char *prefix, void *arg);
	void *arg;
};

static int visit_once(int fd, const char *prefix, void *arg)
{
	struct others *o = arg;
	struct stat st, *more;
	int home, got;

	if (fstat(fd, &st))
		return 0;
	for (size_t i = 0; i < o->n; i++)
		if (o->seen[i].st_ino == st.st_ino && o->seen[i].st_dev == st.st_dev)
			return 0;
	more = realloc(o->seen, (o->n + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	o->seen = more;
	o->seen[o->n++] = st;
	if (netns_enter(fd, &home))
		return 0;
	got = o->fn(prefix, o->arg);
	netns_leave(home);
	return got;
}

int netns_others(int (*fn)(const char *prefix, void *arg), void *arg)
{
	struct others o = { .fn = fn, .arg = arg };
	int got;

	o.seen = malloc(sizeof(*o.seen));
	if (!o.seen || stat("/proc/thread-self/ns/net", o.seen)) {
		free(o.seen);
		return -errno;
	}
	o.n = 1;
	got = walk(visit_once, &o) ?: walk_descriptors(visit_once, &o);
	free(o.seen);
	return got;
}

int netns_enter(int fd, int *home)
{
	int err;

	*home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	if (*home < 0)
		return -errno;
	if (!setns(fd, CLONE_NEWNET))
		return 0;
	err = -errno;
	close(*home);
	*home = -1;
	return err;
}

void netns_leave(int home)
{
	/* It was ours a moment ago; without it every later answer would be about another machine. */
	if (setns(home, CLONE_NEWNET))
		abort();
	close(home);
}
