/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Test libfpisa over the transport `udp`, against the aggregator of udp_server.h. The tests use any free ports, so any
 * number of them may run at the same time.
 */
#include "lib/handle.h"
#include "lib/transport/transport.h"
#include "udp_server.h"

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

static uint64_t marked; /* number of results with a congestion mark in the last sum_and_check() */

/* Run a plan over a server. Return the number of frames that the ranks dropped as bad, and of their retransmissions. */
static uint64_t sum_and_check(struct server *s, struct plan p, uint64_t *retransmits)
{
	struct fleet *fl = calloc(1, sizeof(*fl));
	uint64_t bad = 0;

	run_server(s);
	*fl = (struct fleet){.plan = p, .seed = test_seed(), .connect = connect_udp, .arg = s};
	run_fleet(fl);
	stop_server(s);
	assert_all_succeeded(fl);
	if (p.outstanding > 1)
		check_whole_numbers(fl);
	else
		check_replayed(fl, FPISA_MODE_FPISA, FPISA_ROUND_DOWN);
	if (retransmits)
		*retransmits = 0;
	marked = 0;
	for (uint32_t i = 0; i < p.workers; i++) {
		marked += fl->rank[i].r.info.marked;
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
		{.workers = 1, .elements = 256, .window = 64, .count = 1, .calls = 3},
		{.workers = 2, .elements = 32, .window = 1, .count = 333, .calls = 2},
		{.workers = 4, .elements = 832, .window = 16, .count = 20000, .calls = 2, .in_place = 1},
		{.workers = 3, .elements = 64, .window = 1024, .count = 50001, .calls = 2, .outstanding = 2},
		{.workers = 3, .elements = 256, .window = 16, .count = 20000, .calls = 3, .progress = 1},
		{.workers = 4, .elements = 64, .window = 8, .count = 5000, .calls = 9, .outstanding = 4, .progress = 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
		struct server s = {0};

		start_server(&s, &plans[i]);
		assert_int_equal(sum_and_check(&s, plans[i], NULL), 0);
	}
}

static void loss_both_ways(void **state)
{
	struct plan p = {
		.workers = 3, .elements = 64, .window = 32, .count = 6000, .calls = 2, .in_place = 1, .loss = 0.05};
	struct server s = {.loss = 0.05};
	uint64_t retransmits;

	(void)state;
	start_server(&s, &p);
	sum_and_check(&s, p, &retransmits);
	assert_true(retransmits > 0);
}

static void damaged_replies(void **state)
{
	struct plan p = {.workers = 2, .elements = 32, .window = 8, .count = 5000, .calls = 1};
	struct server s = {.corrupt = 1};

	(void)state;
	start_server(&s, &p);
	/*
	 * Every third frame of 157 chunks to two ranks arrived damaged and then truncated, which makes 209 frames. If a
	 * rank asked again, a third answer may stay unread, so half of the frames are enough.
	 */
	assert_true(sum_and_check(&s, p, NULL) >= 100);
}

static void wrong_sources(void **state)
{
	struct plan p = {.workers = 2, .elements = 32, .window = 4, .count = 2000, .calls = 1};
	struct server s = {.intrude = 1};

	(void)state;
	start_server(&s, &p);
	/*
	 * There are two forged copies of each of 63 results to two ranks. Copies that are unread at the end do not
	 * count.
	 */
	assert_true(sum_and_check(&s, p, NULL) >= 2 * 2 * 55);
}

/* Check that a result of the slot's previous round is never accepted for this round. */
static void late_results(void **state)
{
	struct plan p = {.workers = 2, .elements = 32, .window = 4, .count = 5000, .calls = 1};
	struct server s = {.kept = calloc(2 * 2 * 4, FPISA_SOFT_FRAME)};

	(void)state;
	start_server(&s, &p);
	sum_and_check(&s, p, NULL);
	free(s.kept);
}

/*
 * Check results to a multicast address, with one worker. Ranks at a multicast address share a port, and loopback is one
 * host.
 */
static void multicast(void **state)
{
	struct plan p = {.workers = 1, .elements = 32, .window = 4, .count = 2000, .calls = 2};
	struct server s = {0};
	struct in_addr loopback = {htonl(INADDR_LOOPBACK)};
	uint64_t retransmits;

	(void)state;
	start_server(&s, &p);
	assert_int_equal(setsockopt(s.fd, IPPROTO_IP, IP_MULTICAST_IF, &loopback, sizeof(loopback)), 0);
	s.soft.job.group = fpisa_ipv4(htonl(0xefff0001));
	s.soft.job.group_port = s.soft.job.rank[0].port;
	s.soft.job.fanout = FPISA_FANOUT_MULTICAST;
	assert_int_equal(sum_and_check(&s, p, &retransmits), 0);
	/* Without membership the rank would have to request every result again. */
	assert_true(retransmits < 63);
}

/*
 * Check that contributions allow congestion marks (ECT), that HELLOs do not, and that a rank notices a mark on a
 * result, with and without merging in the kernel.
 */
static void marks(void **state)
{
	struct plan p = {.workers = 2, .elements = 256, .window = 64, .count = 50000, .calls = 1};

	(void)state;
	for (int gso = 0; gso < 2; gso++)
		for (int ce = 0; ce < 2; ce++) {
			struct server s = {.gso = gso};
			int tos = ce ? 3 : 2, on = 1;

			start_server(&s, &p);
			assert_int_equal(setsockopt(s.fd, IPPROTO_IP, IP_TOS, &tos, sizeof(tos)), 0);
			assert_int_equal(setsockopt(s.fd, IPPROTO_IP, IP_RECVTOS, &on, sizeof(on)), 0);
			assert_int_equal(sum_and_check(&s, p, NULL), 0);
			assert_int_equal(marked, ce ? p.workers * 196 : 0);
			assert_int_equal(s.seen[FPISA_TYPE_HELLO], 1 << 0);
			assert_int_equal(s.seen[FPISA_TYPE_ADD], 1 << 2);
		}
}

/* -- datagrams merged by the kernel ---------------------------------------- */

/*
 * Check datagrams with more results than one receive() returns, then losses of whole datagrams with many results each.
 */
static void merged_results(void **state)
{
	static const struct plan plans[] = {
		{.workers = 2, .elements = 32, .window = 256, .count = 50000, .calls = 4},
		{.workers = 3, .elements = 832, .window = 64, .count = 200000, .calls = 2, .progress = 1},
		{.workers = 2, .elements = 64, .window = 64, .count = 20000, .calls = 9, .outstanding = 4, .progress = 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
		for (int loss = 0; loss < 2; loss++) {
			struct server s = {.gso = 1, .gso_loss = loss * 0.1};

			start_server(&s, &plans[i]);
			assert_int_equal(sum_and_check(&s, plans[i], NULL), 0);
			/* With losses, or on a busy machine, few long frames are in flight. */
			assert_true(s.longest > (loss || plans[i].elements > 64 ? 1 : FPISA_BATCH));
		}
	}
}

/*
 * Numbered frames of one datagram, or of one coalesced datagram. Frames have `size` bytes, and a shorter frame may be
 * at the end.
 */
struct sent {
	uint32_t next;
	uint64_t bad;
	struct {
		uint32_t number, len;
	} frame[4096];
	uint32_t frames;
};

static void send_numbered(struct sent *x, int fd, const struct sockaddr_in *to, uint32_t n, uint32_t size,
			  uint32_t last, int good)
{
	static unsigned char data[GSO_SIZE];
	size_t len = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t frame = i + 1 < n ? size : last;

		memset(data + len, (int)i, frame);
		memcpy(data + len, &x->next, sizeof(x->next));
		if (good) {
			x->frame[x->frames].number = x->next;
			x->frame[x->frames++].len = frame;
		}
		x->next++;
		len += frame;
	}
	x->bad += good ? 0 : n;
	send_gso(fd, data, len, size, to);
}

/*
 * Check that frames are returned as they were sent, however few are requested, and that the transport reports while
 * some are left.
 */
static void merged_datagrams(void **state)
{
	uint64_t random = test_seed();
	uint16_t port = 0, local_port = 0, other_port = 0;
	int fd = bound_socket("127.0.0.1", &port), other = bound_socket("127.0.0.1", &other_port),
	    place = bound_socket("0.0.0.0", &local_port);
	struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = htons(local_port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct fpisa_address loopback = fpisa_ipv4(htonl(INADDR_LOOPBACK));
	struct fpisa_transport *t = NULL;

	(void)state;
	close(place);
	assert_int_equal(fpisa_udp_open(&t, &loopback, port, local_port), 0);
	for (int round = 0; round < 300; round++) {
		static struct sent x;
		struct fpisa_in in[FPISA_BATCH];
		uint64_t bad = t->bad;
		uint32_t at = 0;

		memset(&x, 0, sizeof(x));
		for (int i = 0; i < 4; i++) {
			uint32_t n = 1 + (uint32_t)(test_random(&random) % GSO_FRAMES);
			uint32_t size = 76 + 32 * (uint32_t)(test_random(&random) % 10), last = size;
			int what = (int)(test_random(&random) % 6);

			if (what == 0)
				last = 4 + (uint32_t)(test_random(&random) % (size - 4));
			/* Frames of the protocol are never split at odd positions. A single frame may have any size. */
			if (what == 1)
				last = ++size;
			send_numbered(&x, what == 2 ? other : fd, &to, n, size, last,
				      what != 2 && (what != 1 || n == 1));
		}
		while (at < x.frames) {
			int most = 1 + (int)(test_random(&random) % FPISA_BATCH), n = fpisa_udp_take(t, in, most);

			assert_true(n >= 0 && n <= most);
			for (int i = 0; i < n; i++, at++) {
				uint32_t number;

				assert_int_equal((uintptr_t)in[i].data % 4, 0);
				assert_int_equal(in[i].len, x.frame[at].len);
				memcpy(&number, in[i].data, sizeof(number));
				assert_int_equal(number, x.frame[at].number);
			}
			assert_true(at == x.frames || t->more);
		}
		while (fpisa_udp_take(t, in, FPISA_BATCH) || t->more)
			;
		assert_int_equal(t->bad - bad, x.bad);
	}
	t->ops->close(t);
	close(fd);
	close(other);
}

/* Merge frames as generic XDP does at the far end of a veth pair. A batch that left as one datagram arrives as one. */
static void swallow_gso(struct server *s)
{
	int on = 1;

	assert_int_equal(setsockopt(s->fd, SOL_UDP, UDP_GRO, &on, sizeof(on)), 0);
}

static void gso_swallowed_from_the_start(void **state)
{
	struct plan p = {.workers = 1, .elements = 32, .window = 64, .count = 32 * 640, .calls = 2};
	struct server s = {0};
	uint64_t retransmits;

	(void)state;
	start_server(&s, &p);
	swallow_gso(&s);
	assert_int_equal(sum_and_check(&s, p, &retransmits), 0);
	assert_true(s.soft.counters.v_uncut > 0 && !s.soft.counters.v_length);
	/* The worker did not depend on GSO batches. Otherwise each window would have been sent again. */
	assert_true(retransmits < 64);
}

static void gso_swallowed_later(void **state)
{
	enum { CALLS = 8, COUNT = 32 * 640 };
	struct plan p = {.workers = 1, .elements = 32, .window = 64};
	struct server s = {0};
	struct fpisa_options o = {.size = sizeof(o), .timeout_ms = long_enough()};
	struct fpisa_info before = {.size = sizeof(before)}, after = before;
	static float v[COUNT];
	struct fpisa *f = NULL;

	(void)state;
	start_server(&s, &p);
	run_server(&s);
	assert_int_equal(connect_udp(&f, 0, &o, &s), 0);
	assert_int_equal(fpisa_allreduce(f, v, v, COUNT, FPISA_FLOAT32, NULL), 0);
	swallow_gso(&s);
	for (int i = 0; i < CALLS; i++) {
		fpisa_get_info(f, &before);
		assert_int_equal(fpisa_allreduce(f, v, v, COUNT, FPISA_FLOAT32, NULL), 0);
		fpisa_get_info(f, &after);
	}
	/* Before the last call the worker has stopped using GSO batches. */
	assert_true(after.retransmits - before.retransmits < 64);
	stop_server(&s);
	assert_true(s.soft.counters.v_length > 0);
	fpisa_close(f);
}

static int try_connect(const struct server *s, uint64_t token, uint16_t port, uint32_t job)
{
	struct fpisa_options o = {.size = sizeof(o), .token = token, .local_port = port, .timeout_ms = 500};
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
	struct plan p = {.workers = 2, .elements = 32, .window = 4};
	struct server s = {0};
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
	pause_server(&s);
	s.soft.job.rank[1].port = 0;
	run_server(&s);
	assert_int_equal(try_connect(&s, TOKEN, port, JOB), -ETIMEDOUT);
	assert_non_null(strstr(fpisa_error(), "no answer"));
	fd = bound_socket("0.0.0.0", &taken);
	assert_int_equal(try_connect(&s, TOKEN, taken, JOB), -EADDRINUSE);
	close(fd);
	stop_server(&s);
	assert_true(s.soft.counters.v_token > 0 && s.soft.counters.v_unknown_peer > 0 && s.soft.counters.v_no_job > 0);
	/* The server no longer listens. */
	assert_int_equal(try_connect(&s, TOKEN, known, JOB), -ETIMEDOUT);
}

/*
 * Check a worker whose clock went back. The worker ignores WELCOMEs of a former incarnation, and chooses a larger
 * incarnation than the newest.
 */
static void former_life(void **state)
{
	struct plan p = {.workers = 1, .elements = 32, .window = 4, .count = 100, .calls = 1};
	struct server s = {.wrong_echo = 1}, t = {0};

	(void)state;
	start_server(&s, &p);
	run_server(&s);
	give_port(&s, 0);
	assert_int_equal(try_connect(&s, TOKEN, ntohs(s.soft.job.rank[0].port), JOB), -ETIMEDOUT);
	stop_server(&s);
	assert_true(s.soft.counters.v_challenge > 0);
	assert_int_equal(s.soft.session.generation, 0);

	start_server(&t, &p);
	t.soft.session.incarnation[0] = 1ull << 62;
	assert_int_equal(sum_and_check(&t, p, NULL), 0);
}

static void silent_aggregator(void **state)
{
	struct plan p = {.workers = 1, .elements = 32, .window = 4};
	struct server s = {0};
	struct fpisa_options o = {.size = sizeof(o), .timeout_ms = 1000};
	struct fpisa *f = NULL;
	float v = 1;

	(void)state;
	start_server(&s, &p);
	run_server(&s);
	assert_int_equal(connect_udp(&f, 0, &o, &s), 0);
	assert_int_equal(fpisa_allreduce(f, &v, &v, 1, FPISA_FLOAT32, NULL), 0);
	stop_server(&s);
	assert_int_equal(fpisa_allreduce(f, &v, &v, 1, FPISA_FLOAT32, NULL), -ETIMEDOUT);
	assert_int_equal(fpisa_missing(f), 0);
	assert_non_null(strstr(fpisa_error(), "did not answer"));
	fpisa_close(f);
}

/* Check that the error says that the aggregator has answered other chunks, and names the unanswered chunk. */
static void silent_about_a_chunk(void **state)
{
	struct plan p = {.workers = 1, .elements = 32, .window = 4};
	struct server s = {.mute = 3};
	struct fpisa_options o = {.size = sizeof(o), .timeout_ms = 1000};
	struct fpisa *f = NULL;
	float v[8 * 32] = {1};

	(void)state;
	start_server(&s, &p);
	run_server(&s);
	assert_int_equal(connect_udp(&f, 0, &o, &s), 0);
	assert_int_equal(fpisa_allreduce(f, v, v, 8 * 32, FPISA_FLOAT32, NULL), -ETIMEDOUT);
	assert_int_equal(fpisa_missing(f), 0);
	assert_non_null(strstr(
		fpisa_error(),
		"the aggregator did not answer for chunk 3 of call 0 in 1000 ms; its last answer for another chunk "
		"came "));
	fpisa_close(f);
	stop_server(&s);
}

struct connecting {
	struct server *s;
	const struct fpisa_options *o;
	struct fpisa **f;
	int rc;
};

static void *connect_other(void *arg)
{
	struct connecting *c = arg;

	c->rc = connect_udp(c->f, 1, c->o, c->s);
	return NULL;
}

/*
 * Check a handle without a deadline, as in groups. A call ends when no answer arrives, but not while only the other
 * rank is late.
 */
static void silence_ends_a_call(void **state)
{
	struct plan p = {.workers = 2, .elements = 32, .window = 4};
	const uint64_t silence_ns = 2000000000; /* several times the interval at which a waiting rank asks again */
	struct server s = {0};
	struct fpisa_options o = {.size = sizeof(o), .timeout_ms = FPISA_FOREVER, .progress = 1};
	struct fpisa *f[2] = {NULL};
	struct fpisa_request *r = NULL;
	struct connecting other = {.s = &s, .o = &o, .f = &f[1]};
	float v[2] = {1, 2};
	pthread_t thread;
	uint64_t until;
	int done;

	(void)state;
	start_server(&s, &p);
	run_server(&s);
	assert_int_equal(pthread_create(&thread, NULL, connect_other, &other), 0);
	assert_int_equal(connect_udp(&f[0], 0, &o, &s), 0);
	pthread_join(thread, NULL);
	assert_int_equal(other.rc, 0);
	f[0]->silence_ns = silence_ns;
	assert_int_equal(fpisa_allreduce_start(f[0], v, v, 1, FPISA_FLOAT32, &r), 0);
	for (until = fpisa_now() + 3 * silence_ns / 2; fpisa_now() < until; usleep(10000)) {
		assert_int_equal(fpisa_test(&r, &done, NULL), 0);
		assert_int_equal(done, 0);
	}
	assert_int_equal(fpisa_allreduce(f[1], v + 1, v + 1, 1, FPISA_FLOAT32, NULL), 0);
	assert_int_equal(fpisa_wait(&r, NULL), 0);
	assert_true(v[0] == 3 && v[1] == 3);
	/* Silence counts only while a call waits. */
	stop_server(&s);
	usleep(5 * silence_ns / 4000);
	assert_int_equal(fpisa_allreduce_start(f[0], v, v, 1, FPISA_FLOAT32, &r), 0);
	assert_int_equal(fpisa_test(&r, &done, NULL), 0);
	assert_int_equal(fpisa_wait(&r, NULL), -ETIMEDOUT);
	assert_non_null(strstr(fpisa_error(), "the aggregator did not answer in 2000 ms"));
	assert_int_equal(fpisa_missing(f[0]), 0);
	fpisa_close(f[0]);
	fpisa_close(f[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums),
		cmocka_unit_test(loss_both_ways),
		cmocka_unit_test(damaged_replies),
		cmocka_unit_test(wrong_sources),
		cmocka_unit_test(late_results),
		cmocka_unit_test(multicast),
		cmocka_unit_test(marks),
		cmocka_unit_test(merged_results),
		cmocka_unit_test(merged_datagrams),
		cmocka_unit_test(gso_swallowed_from_the_start),
		cmocka_unit_test(gso_swallowed_later),
		cmocka_unit_test(not_a_member),
		cmocka_unit_test(former_life),
		cmocka_unit_test(silent_aggregator),
		cmocka_unit_test(silence_ends_a_call),
		cmocka_unit_test(silent_about_a_chunk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
