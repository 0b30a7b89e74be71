/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * libfpisa over the transport `udp`, against a small aggregator on loopback:
 * a thread that puts soft.h behind a UDP socket. Ports are whatever is free,
 * so any number of these may run at once.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "workers.h"
#include "soft.h"

#define JOB 7
#define TOKEN 0x1122334455667788ull

struct server {
	struct fpisa_soft soft;
	int fd;
	uint16_t port;
	int held[MAX_RANKS]; /* sockets that keep the ranks' ports free for them; -1: given to the rank */
	int stop;
	double loss;	/* of what comes in, besides the workers' own */
	uint64_t random;
	int corrupt;	/* every third reply but WELCOME goes out damaged, then once more as it is */
	int intrude;	/* each RESULT goes out twice with a wrong sum first: from another port and address */
	int other_port, other_address; /* sockets of the intruder */
	int replies;
	pthread_t thread;
};

static int bound_socket(const char *address, uint16_t *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	assert_true(fd >= 0);
	assert_int_equal(inet_pton(AF_INET, address, &a.sin_addr), 1);
	a.sin_port = htons(*port);
	if (bind(fd, (struct sockaddr *)&a, sizeof(a))) {
		close(fd);
		return -1;
	}
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	*port = ntohs(a.sin_port);
	return fd;
}

/* The frame as an enemy would send it: plausible in all but its source. */
static void forge(const struct server *s, unsigned char *frame, size_t len, const struct sockaddr_in *to)
{
	struct fpisa_hdr *h = (struct fpisa_hdr *)frame;
	struct fpisa_sum sum = {};

	frame[len - 1] ^= 0x40;
	fpisa_sum_words(&sum, h, FPISA_SUM_HDR_WORDS);
	fpisa_sum_words(&sum, h + 1, (int)(len - sizeof(*h)) / 8);
	h->checksum = fpisa_sum_fold(&sum);
	sendto(s->other_port, frame, len, 0, (const struct sockaddr *)to, sizeof(*to));
	sendto(s->other_address, frame, len, 0, (const struct sockaddr *)to, sizeof(*to));
}

static void send_reply(struct server *s, const unsigned char *frame, size_t len, const struct sockaddr_in *to)
{
	_Alignas(8) unsigned char copy[FPISA_SOFT_FRAME];
	int type = ((const struct fpisa_hdr *)frame)->type;

	memcpy(copy, frame, len);
	if (s->intrude && type == FPISA_TYPE_RESULT) {
		forge(s, copy, len, to);
		memcpy(copy, frame, len);
	}
	if (s->corrupt && type != FPISA_TYPE_WELCOME && s->replies++ % 3 == 0) {
		size_t at = test_random(&s->random) % len;

		copy[at] ^= (unsigned char)(1 << test_random(&s->random) % 8);
		sendto(s->fd, copy, len, 0, (const struct sockaddr *)to, sizeof(*to));
		sendto(s->fd, frame, len - 4, 0, (const struct sockaddr *)to, sizeof(*to));
	}
	sendto(s->fd, frame, len, 0, (const struct sockaddr *)to, sizeof(*to));
}

static void *serve(void *arg)
{
	struct server *s = arg;
	_Alignas(8) unsigned char frame[FPISA_SOFT_FRAME];

	while (!__atomic_load_n(&s->stop, __ATOMIC_ACQUIRE)) {
		struct pollfd p = { .fd = s->fd, .events = POLLIN };
		struct sockaddr_in from;
		socklen_t from_len = sizeof(from);
		ssize_t n;
		size_t len;
		uint64_t to;
		enum fpisa_verdict v;

		if (poll(&p, 1, 20) <= 0)
			continue;
		n = recvfrom(s->fd, frame, sizeof(frame), 0, (struct sockaddr *)&from, &from_len);
		if (n < 0 || (double)(test_random(&s->random) >> 11) < s->loss * 0x1p53)
			continue;
		len = (size_t)n;
		v = fpisa_soft_frame(&s->soft, from.sin_addr.s_addr, from.sin_port, frame, &len, &to);
		if (v == FPISA_V_result && s->soft.job.group) {
			struct sockaddr_in group = { .sin_family = AF_INET,
						     .sin_port = s->soft.job.group_port,
						     .sin_addr.s_addr = s->soft.job.group };

			send_reply(s, frame, len, &group);
			continue;
		}
		for (int rank = 0; to; rank++, to >>= 1) {
			struct sockaddr_in worker = { .sin_family = AF_INET,
						      .sin_port = s->soft.job.rank[rank].port,
						      .sin_addr.s_addr = s->soft.job.rank[rank].addr };

			if (to & 1)
				send_reply(s, frame, len, &worker);
		}
	}
	return NULL;
}

/* The rank is about to bind its port. */
static void give_port(struct server *s, uint32_t rank)
{
	if (s->held[rank] >= 0)
		close(s->held[rank]);
	s->held[rank] = -1;
}

/* A job whose ranks are loopback ports that nobody else has. */
static void start_server(struct server *s, const struct plan *p)
{
	int size = 4 << 20;
	uint16_t port = 0;

	s->fd = bound_socket("127.0.0.1", &port);
	assert_true(s->fd >= 0);
	setsockopt(s->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	s->port = port;
	port = 0;
	s->other_port = bound_socket("127.0.0.1", &port);
	port = s->port;
	s->other_address = bound_socket("127.0.0.2", &port);
	assert_true(s->other_port >= 0 && s->other_address >= 0);
	s->random = test_seed();
	s->soft.number = JOB;
	s->soft.job = (struct fpisa_job){
		.active = 1,
		.workers = p->workers,
		.live = (1ull << p->workers) - 1,
		.token = TOKEN,
		.address = htonl(INADDR_LOOPBACK),
		.elements = (uint16_t)p->elements,
		.window = p->window,
		.format = FPISA_FORMAT_FP32,
		.mode = FPISA_MODE_FPISA,
		.rounding = FPISA_ROUND_DOWN,
		.pipeline = FPISA_PIPELINE_FUSED,
		.clz = FPISA_CLZ_BITS,
		.fanout = FPISA_FANOUT_UNICAST,
	};
	for (uint32_t i = 0; i < p->workers; i++) {
		port = 0;
		s->held[i] = bound_socket("0.0.0.0", &port);
		assert_true(s->held[i] >= 0);
		s->soft.job.rank[i] = (struct fpisa_rank){ .addr = htonl(INADDR_LOOPBACK), .port = htons(port) };
	}
	assert_int_equal(fpisa_soft_init(&s->soft), 0);
}

static void run_server(struct server *s)
{
	assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void stop_server(struct server *s)
{
	__atomic_store_n(&s->stop, 1, __ATOMIC_RELEASE);
	pthread_join(s->thread, NULL);
	close(s->fd);
	close(s->other_port);
	close(s->other_address);
	for (uint32_t i = 0; i < s->soft.job.workers; i++)
		give_port(s, i);
	fpisa_soft_free(&s->soft);
}

static int connect_udp(struct fpisa **f, uint32_t rank, const struct fpisa_options *options, void *arg)
{
	struct server *s = arg;
	struct fpisa_options o = *options;
	char address[32];

	give_port(s, rank);
	o.token = TOKEN;
	o.local_port = ntohs(s->soft.job.rank[rank].port);
	snprintf(address, sizeof(address), "127.0.0.1:%u", s->port);
	return fpisa_connect(f, address, JOB, &o);
}

/* Runs a plan over a server; returns frames that the ranks dropped as bad, and their retransmissions. */
static uint64_t sum_and_check(struct server *s, struct plan p, uint64_t *retransmits)
{
	struct fleet *fl = calloc(1, sizeof(*fl));
	uint64_t bad = 0;

	run_server(s);
	*fl = (struct fleet){ .plan = p, .seed = test_seed(), .connect = connect_udp, .arg = s };
	run_fleet(fl);
	stop_server(s);
	assert_all_succeeded(fl);
	if (p.outstanding > 1)
		check_whole_numbers(fl);
	else
		check_replayed(fl, FPISA_MODE_FPISA, FPISA_ROUND_DOWN);
	if (retransmits)
		*retransmits = 0;
	for (uint32_t i = 0; i < p.workers; i++) {
		bad += fl->rank[i].r.info.bad;
		if (retransmits)
			*retransmits += fl->rank[i].r.info.retransmits;
	}
	free_fleet(fl);
	free(fl);
	return bad;
}

static void sums(void **state)
{
	static const struct plan plans[] = {
		{ .workers = 1, .elements = 256, .window = 64, .count = 1, .calls = 3 },
		{ .workers = 2, .elements = 32, .window = 1, .count = 333, .calls = 2 },
		{ .workers = 4, .elements = 832, .window = 16, .count = 20000, .calls = 2, .in_place = 1 },
		{ .workers = 3, .elements = 64, .window = 1024, .count = 50001, .calls = 2, .outstanding = 2 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
		struct server s = { 0 };

		start_server(&s, &plans[i]);
		assert_int_equal(sum_and_check(&s, plans[i], NULL), 0);
	}
}

static void loss_both_ways(void **state)
{
	struct plan p = { .workers = 3, .elements = 64, .window = 32, .count = 6000, .calls = 2, .in_place = 1,
			  .loss = 0.05 };
	struct server s = { .loss = 0.05 };
	uint64_t retransmits;

	(void)state;
	start_server(&s, &p);
	sum_and_check(&s, p, &retransmits);
	assert_true(retransmits > 0);
}

static void damaged_replies(void **state)
{
	struct plan p = { .workers = 2, .elements = 32, .window = 8, .count = 5000, .calls = 1 };
	struct server s = { .corrupt = 1 };

	(void)state;
	start_server(&s, &p);
	/* At least those of rank 0 and 1 that came damaged and shortened, 157 chunks to two ranks. */
	assert_true(sum_and_check(&s, p, NULL) >= 2 * 2 * 157 / 3 - 2);
}

static void wrong_sources(void **state)
{
	struct plan p = { .workers = 2, .elements = 32, .window = 4, .count = 2000, .calls = 1 };
	struct server s = { .intrude = 1 };

	(void)state;
	start_server(&s, &p);
	/* Two forged copies of each of 63 results to two ranks, but for those unread at the end. */
	assert_true(sum_and_check(&s, p, NULL) >= 2 * 2 * 55);
}

/* Results to a group. One worker, for all of a group share a port and loopback has one host. */
static void multicast(void **state)
{
	struct plan p = { .workers = 1, .elements = 32, .window = 4, .count = 2000, .calls = 2 };
	struct server s = { 0 };
	struct in_addr loopback = { htonl(INADDR_LOOPBACK) };
	uint64_t retransmits;

	(void)state;
	start_server(&s, &p);
	assert_int_equal(setsockopt(s.fd, IPPROTO_IP, IP_MULTICAST_IF, &loopback, sizeof(loopback)), 0);
	s.soft.job.group = htonl(0xefff0001);
	s.soft.job.group_port = s.soft.job.rank[0].port;
	s.soft.job.fanout = FPISA_FANOUT_MULTICAST;
	assert_int_equal(sum_and_check(&s, p, &retransmits), 0);
	/* Without membership every result would have had to be asked for again. */
	assert_true(retransmits < 63);
}

static int try_connect(const struct server *s, uint64_t token, uint16_t port, uint32_t job)
{
	struct fpisa_options o = { .size = sizeof(o), .token = token, .local_port = port, .timeout_ms = 150 };
	struct fpisa *f;
	char address[32];
	int rc;

	snprintf(address, sizeof(address), "127.0.0.1:%u", s->port);
	rc = fpisa_connect(&f, address, job, &o);
	fpisa_close(f);
	return rc;
}

static void not_a_member(void **state)
{
	struct plan p = { .workers = 2, .elements = 32, .window = 4 };
	struct server s = { 0 };
	uint16_t port, taken = 0, known;
	int fd;

	(void)state;
	start_server(&s, &p);
	run_server(&s);
	known = ntohs(s.soft.job.rank[0].port);
	port = ntohs(s.soft.job.rank[1].port);
	give_port(&s, 0);
	give_port(&s, 1);
	assert_int_equal(try_connect(&s, TOKEN + 1, known, JOB), -ETIMEDOUT);
	assert_non_null(strstr(fpisa_error(), "token"));
	assert_int_equal(try_connect(&s, TOKEN, known, JOB + 1), -ETIMEDOUT);
	assert_int_equal(try_connect(&s, TOKEN, known, JOB), -ETIMEDOUT);
	assert_non_null(strstr(fpisa_error(), "rank 1 did not join"));
	s.soft.job.rank[1].port = 0;
	assert_int_equal(try_connect(&s, TOKEN, port, JOB), -ETIMEDOUT);
	assert_non_null(strstr(fpisa_error(), "no answer"));
	fd = bound_socket("0.0.0.0", &taken);
	assert_int_equal(try_connect(&s, TOKEN, taken, JOB), -EADDRINUSE);
	close(fd);
	assert_true(s.soft.counters.v_token > 0 && s.soft.counters.v_stranger > 0 && s.soft.counters.v_no_job > 0);
	stop_server(&s);
	/* Nobody listens any more. */
	assert_int_equal(try_connect(&s, TOKEN, known, JOB), -ETIMEDOUT);
}

static void silent_aggregator(void **state)
{
	struct plan p = { .workers = 1, .elements = 32, .window = 4 };
	struct server s = { 0 };
	struct fpisa_options o = { .size = sizeof(o), .timeout_ms = 200 };
	struct fpisa *f = NULL;
	float v = 1;

	(void)state;
	start_server(&s, &p);
	run_server(&s);
	assert_int_equal(connect_udp(&f, 0, &o, &s), 0);
	assert_int_equal(fpisa_allreduce(f, &v, &v, 1, NULL), 0);
	stop_server(&s);
	assert_int_equal(fpisa_allreduce(f, &v, &v, 1, NULL), -ETIMEDOUT);
	assert_int_equal(fpisa_missing(f), 0);
	assert_non_null(strstr(fpisa_error(), "did not answer"));
	fpisa_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums),
		cmocka_unit_test(loss_both_ways),
		cmocka_unit_test(damaged_replies),
		cmocka_unit_test(wrong_sources),
		cmocka_unit_test(multicast),
		cmocka_unit_test(not_a_member),
		cmocka_unit_test(silent_aggregator),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
