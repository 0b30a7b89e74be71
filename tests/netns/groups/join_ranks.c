// SPDX-License-Identifier: GPL-2.0-only
/*
 * join_ranks MANAGER PORT KEY_FILE FIRST HOSTS RANKS: register an aggregator at each of HOSTS IPv4 addresses from FIRST on,
 * and then join the group `many` with RANKS ranks, which are at these addresses in turn. The ranks connect as fast as one process can, with
 * the last key of KEY_FILE, or without a key if KEY_FILE is "-". Print the seconds until each rank has heard JOINED. Leave at the end of the standard input.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "fpisa.h"
#include "lib/manager/channel.h"

#define BEAT_MS 100
#define MOST (FPISA_MAX_RANKS + 64)

/* A rank or an aggregator */
struct caller {
	struct fpisa_channel *channel; /* NULL: the connection is not there yet */
	int fd;
	struct fpisa_manager_message says;
	int awaits; /* type of the message that this caller waits for; 0: it has come */
};

static struct caller caller[MOST];
static struct sockaddr_in manager = {.sin_family = AF_INET};
static struct fpisa_psk psk;
static int has_psk, epoll, callers, waiting;

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void fail(const char *what)
{
	fprintf(stderr, "join_ranks: %s: %s, %s\n", what, strerror(errno), fpisa_error());
	exit(1);
}

static void watch(struct caller *c, int how, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.ptr = c};

	if (epoll_ctl(epoll, how, c->fd, &e))
		fail("epoll_ctl");
}

static void connect_from(struct caller *c, struct in_addr address)
{
	const struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr = address};

	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (c->fd < 0 || bind(c->fd, (const struct sockaddr *)&from, sizeof(from)))
		fail("bind");
	if (connect(c->fd, (struct sockaddr *)&manager, sizeof(manager)) && errno != EINPROGRESS)
		fail("connect");
	watch(c, EPOLL_CTL_ADD, EPOLLOUT);
}

static void start(struct caller *c, struct in_addr from, const struct fpisa_manager_message *says, int awaits)
{
	*c = (struct caller){.says = *says, .awaits = awaits};
	connect_from(c, from);
	waiting++;
}

static void greet(struct caller *c)
{
	int error;
	socklen_t n = sizeof(error);

	if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &n) || error)
		fail("connect");
	if (fpisa_channel_call(&c->channel, c->fd, has_psk ? &psk : NULL) || fpisa_channel_send(c->channel, &c->says))
		fail("call");
	watch(c, EPOLL_CTL_MOD, EPOLLIN);
}

static void work(struct caller *c)
{
	struct fpisa_manager_message m;
	int rc;

	if (!c->channel)
		greet(c);
	while ((rc = fpisa_channel_work(c->channel, &m)) > 0) {
		if (m.type == FPISA_MANAGER_REFUSED) {
			fprintf(stderr, "join_ranks: refused: %s\n", m.refusal.text);
			exit(1);
		}
		if (m.type == c->awaits) {
			c->awaits = 0;
			waiting--;
		}
	}
	if (rc < 0)
		fail("a connection has ended");
}

/* Let each aggregator say ten times a second that it lives. */
static void beat(void)
{
	const struct fpisa_manager_message ping = fpisa_manager_message(FPISA_MANAGER_PING);
	static long beaten_ms;

	if (now_ms() < beaten_ms + BEAT_MS)
		return;
	beaten_ms = now_ms();
	for (struct caller *c = caller; c < caller + callers; c++)
		if (c->says.type == FPISA_MANAGER_REGISTER && c->channel && fpisa_channel_open(c->channel) &&
		    fpisa_channel_flushed(c->channel)) {
			fpisa_channel_send(c->channel, &ping);
			fpisa_channel_flush(c->channel);
		}
}

/* Serve the connections for one turn, which waits up to `ms`. */
static void turn(int ms)
{
	static struct epoll_event e[64];
	int n = epoll_wait(epoll, e, 64, ms);

	for (int i = 0; i < n; i++)
		if (e[i].data.ptr)
			work(e[i].data.ptr);
		else
			exit(0);
	beat();
}

/* Return the address of host `i`. */
static struct in_addr host(struct in_addr first, int i)
{
	return (struct in_addr){htonl(ntohl(first.s_addr) + (uint32_t)i)};
}

int main(int argc, char **argv)
{
	const struct rlimit files = {MOST + 64, MOST + 64};
	struct epoll_event input = {.events = EPOLLIN};
	struct in_addr first;
	long began;
	int hosts, ranks;

	if (argc != 7 || !inet_aton(argv[1], &manager.sin_addr) || !inet_aton(argv[4], &first))
		return 2;
	manager.sin_port = htons((in_port_t)atoi(argv[2]));
	hosts = atoi(argv[5]);
	ranks = atoi(argv[6]);
	has_psk = strcmp(argv[3], "-") != 0;
	if (has_psk && fpisa_psk_last(&psk, argv[3]))
		fail(argv[3]);
	setrlimit(RLIMIT_NOFILE, &files);
	epoll = epoll_create1(0);
	epoll_ctl(epoll, EPOLL_CTL_ADD, 0, &input);
	for (int i = 0; i < hosts; i++) {
		struct fpisa_manager_message m = fpisa_manager_message(FPISA_MANAGER_REGISTER);

		m.reg = (struct fpisa_manager_register){
			.version = FPISA_VERSION, .port = ntohs(manager.sin_port), .rate = 10000, .slots = 1024};
		start(&caller[callers++], host(first, i), &m, FPISA_MANAGER_REGISTERED);
	}
	while (waiting)
		turn(100);
	began = now_ms();
	for (int r = 0; r < ranks; r++) {
		struct fpisa_manager_message m = fpisa_manager_message(FPISA_MANAGER_JOIN);

		strcpy(m.join.name, "many");
		m.join.rank = (uint32_t)r;
		m.join.size = (uint32_t)ranks;
		start(&caller[callers++], host(first, r % hosts), &m, FPISA_MANAGER_JOINED);
		turn(0);
	}
	while (waiting)
		turn(100);
	printf("%.3f\n", (double)(now_ms() - began) / 1000);
	fflush(stdout);
	for (;;)
		turn(100);
}
