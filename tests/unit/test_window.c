// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test the window with a receiver that is too small for it. A transport between the window and the in-process
 * aggregator keeps a few of the frames of a turn and loses the others, as a full ring does.
 */
#include "lib/handle.h"
#include "ranges.h"
#include "workers.h"

#define ELEMENTS 32
#define WINDOW 64
#define CHUNKS 1000
#define MS 1000000ull

struct narrow {
	struct fpisa_transport base;
	struct fpisa_transport *t;
	int room; /* number of frames that a turn keeps; 0: all frames */
	uint64_t dropped;
	int tells; /* drops() returns the number of lost frames */
};

static int narrow_send(struct fpisa_transport *t, const struct fpisa_out *out, int n)
{
	struct narrow *x = (struct narrow *)t;

	return x->t->ops->send(x->t, out, n);
}

static int narrow_receive(struct fpisa_transport *t, struct fpisa_in *in, uint64_t timeout_ns)
{
	struct narrow *x = (struct narrow *)t;
	int n = x->t->ops->receive(x->t, in, timeout_ns);

	if (!x->room || n <= x->room)
		return n;
	x->dropped += (uint64_t)(n - x->room);
	return x->room;
}

static uint64_t narrow_drops(struct fpisa_transport *t)
{
	struct narrow *x = (struct narrow *)t;

	return x->tells ? x->dropped : 0;
}

static void narrow_close(struct fpisa_transport *t)
{
	struct narrow *x = (struct narrow *)t;

	x->t->ops->close(x->t);
	free(x);
}

static const struct fpisa_transport_ops narrow_ops = {
	.send = narrow_send, .receive = narrow_receive, .drops = narrow_drops, .close = narrow_close};

/* Put the limited transport under a handle that has joined. */
static struct narrow *make_narrow(struct fpisa *f, int room, int tells)
{
	struct narrow *x = calloc(1, sizeof(*x));

	*x = (struct narrow){.base = {.ops = &narrow_ops}, .t = f->shard->t, .room = room, .tells = tells};
	f->shard->t = &x->base;
	fpisa_flight_init(&f->flight, 1, sizeof(struct fpisa_hdr) + ELEMENTS * 4, f->hello.workers);
	return x;
}

static struct fpisa_mem *aggregator(uint32_t workers)
{
	const struct fpisa_mem_options o = {
		.size = sizeof(o), .workers = workers, .elements = ELEMENTS, .window = WINDOW};
	struct fpisa_mem *m = NULL;

	assert_int_equal(fpisa_mem_create(&m, &o), 0);
	return m;
}

/* Return the number of retransmissions in a sum of CHUNKS chunks by one worker. */
static uint64_t sum_alone(int room, int tells, uint32_t *limit)
{
	static float v[CHUNKS * ELEMENTS];
	const struct fpisa_options o = {.size = sizeof(o), .timeout_ms = 60000};
	struct fpisa_info info = {.size = sizeof(info)};
	struct fpisa_mem *m = aggregator(1);
	struct fpisa *f = NULL;

	assert_int_equal(fpisa_mem_connect(&f, m, 0, &o), 0);
	make_narrow(f, room, tells);
	for (size_t i = 0; i < CHUNKS * ELEMENTS; i++)
		v[i] = (float)i;
	assert_int_equal(fpisa_allreduce(f, v, v, CHUNKS * ELEMENTS, FPISA_FLOAT32, NULL), 0);
	for (size_t i = 0; i < CHUNKS * ELEMENTS; i++)
		assert_true(v[i] == (float)i);
	assert_int_equal(f->flight.in_flight, 0);
	*limit = f->flight.congestion.limit;
	fpisa_get_info(f, &info);
	fpisa_close(f);
	fpisa_mem_destroy(m);
	return info.retransmits;
}

static void wide_receiver(void **state)
{
	uint32_t limit = 0;

	(void)state;
	/* Other programs that run here delay frames, which the limit follows, so the best of three sums counts. */
	for (int i = 0; i < 3 && limit < WINDOW / 2; i++)
		assert_int_equal(sum_alone(0, 1, &limit), 0);
	assert_uint_in_range(limit, WINDOW / 2, WINDOW);
}

static void narrow_receiver(void **state)
{
	static const int rooms[] = {2, 4, 8};

	(void)state;
	for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
		uint32_t limit;
		uint64_t retransmits = sum_alone(rooms[i], 1, &limit);

		print_message("room for %d: limit %u, %llu of %d chunks sent again\n", rooms[i], limit,
			      (unsigned long long)retransmits, CHUNKS);
		/*
		 * The limit adapts to the size of the receiver. With room for 2 and the whole window in flight, 600 to
		 * 700 chunks would be sent again.
		 */
		assert_true(limit <= 2 * (uint32_t)rooms[i] + 4);
		assert_true(retransmits < 300);
	}
}

/*
 * Check a path that drops silently, as a switch does. The limit becomes half of the number in flight, then grows by one
 * per round. Above three quarters of that number it grows by one every FPISA_CONGESTION_TRY rounds. The capacity of the
 * path depends on the speed of this process, so the best of three sums counts.
 */
static void narrow_path(void **state)
{
	uint32_t limit = WINDOW;
	uint64_t retransmits = 0;

	(void)state;
	for (int i = 0; i < 3 && (limit > WINDOW / 4 * 3 + 2 || !retransmits || retransmits >= 300); i++) {
		retransmits = sum_alone(16, 0, &limit);
		print_message("room for 16: limit %u, %llu of %d chunks sent again\n", limit,
			      (unsigned long long)retransmits, CHUNKS);
	}
	assert_true(limit <= WINDOW / 4 * 3 + 2);
	assert_true(retransmits > 0 && retransmits < 300);
}

/* Send as many frames as the window allows. Return their number. */
static int send_all(struct fpisa_window *w, uint64_t now)
{
	struct fpisa_window_slot *slot;
	int n = 0;

	while ((slot = fpisa_window_next_to_send(w)))
		fpisa_window_sent(w, slot, now + (uint64_t)n++);
	return n;
}

/* Check a link slower than the timeout. Results arrive one by one, so no frame is lost or sent again. */
static void queue_is_not_loss(void **state)
{
	struct fpisa_request r = {.chunks = 4 * WINDOW, .left = 4 * WINDOW};
	const struct fpisa_answer ours = {.ours = 1};
	struct fpisa_flight flight;
	struct fpisa_window w = {};
	uint64_t now = 1000 * MS;

	(void)state;
	assert_int_equal(fpisa_window_reset(&w, &flight, WINDOW, WINDOW, 0, NULL, 0), 0);
	fpisa_flight_init(&flight, 1, 128, 2);
	w.rto.rto_ns = FPISA_RTO_MIN_NS;
	fpisa_window_start(&w, &r);
	assert_int_equal(send_all(&w, now), WINDOW);
	for (uint64_t chunk = 0; chunk < 3 * WINDOW; chunk++) {
		struct fpisa_window_slot *slot = fpisa_window_slot_of(&w, chunk);

		now += FPISA_RTO_MIN_NS / 2;
		fpisa_window_expire(&w, now);
		assert_true(TAILQ_EMPTY(&w.ready));
		fpisa_window_answered(&w, slot, &ours, UINT64_MAX, now);
		assert_int_equal(send_all(&w, now), 1);
	}
	/* When results stop, only the oldest chunk is sent again after one timeout. */
	assert_true(fpisa_window_expiry(&w, UINT64_MAX) <= now + FPISA_RTO_MIN_NS);
	now += FPISA_RTO_MIN_NS;
	assert_true(fpisa_window_expire(&w, now));
	assert_ptr_equal(TAILQ_FIRST(&w.ready), fpisa_window_oldest(&w));
	assert_int_equal(send_all(&w, now), 1);
	free(w.slot);
}

/* Begin a window with all of its first chunks in flight, sent at 1000 ms and just after, and without a limit. */
static void begin_window(struct fpisa_window *w, struct fpisa_flight *flight, struct fpisa_request *r)
{
	assert_int_equal(fpisa_window_reset(w, flight, 4, 4, 0, NULL, 0), 0);
	fpisa_flight_init(flight, 1, 0, 2);
	fpisa_window_start(w, r);
	assert_int_equal(send_all(w, 1000 * MS), 4);
}

static void answer(struct fpisa_window *w, uint64_t chunk, const struct fpisa_answer *a, uint64_t now)
{
	fpisa_window_answered(w, fpisa_window_slot_of(w, chunk), a, 0, now);
}

/* Check that after a late result the next chunks leave in the order of chunks, as they do at the other ranks. */
static void late_result_keeps_the_order(void **state)
{
	static const uint64_t order[] = {1, 3, 0, 2};
	struct fpisa_request r = {.chunks = 8, .left = 8};
	const struct fpisa_answer ours = {.ours = 1};
	struct fpisa_flight flight;
	struct fpisa_window w = {};

	(void)state;
	begin_window(&w, &flight, &r);
	for (int i = 0; i < 4; i++)
		answer(&w, order[i], &ours, 1005 * MS);
	for (uint64_t chunk = 4; chunk < 8; chunk++) {
		struct fpisa_window_slot *slot = fpisa_window_next_to_send(&w);

		assert_int_equal(slot->chunk, chunk);
		fpisa_window_sent(&w, slot, 1005 * MS + chunk);
	}
	free(w.slot);
}

/*
 * Check that the result of an early chunk that was sent again does not mark a later chunk as lost, because another rank
 * may not have sent the later chunk yet. A result of a chunk beyond the later chunk does mark it.
 */
static void later_chunks_overtake(void **state)
{
	struct fpisa_request r = {.chunks = 4, .left = 4};
	const struct fpisa_answer again = {.ours = 1, .retransmit = 1}, ours = {.ours = 1};
	struct fpisa_flight flight;
	struct fpisa_window w = {};

	(void)state;
	begin_window(&w, &flight, &r);
	fpisa_rto_sample(&w.rto, 8 * MS);
	fpisa_window_move(fpisa_window_slot_of(&w, 0), &w.ready);
	fpisa_window_sent(&w, fpisa_window_slot_of(&w, 0), 1004 * MS);
	answer(&w, 0, &again, 1012 * MS);
	fpisa_window_expire(&w, 1020 * MS);
	assert_true(TAILQ_EMPTY(&w.ready));
	answer(&w, 2, &ours, 1020 * MS);
	fpisa_window_expire(&w, 1020 * MS);
	assert_ptr_equal(TAILQ_FIRST(&w.ready), fpisa_window_slot_of(&w, 1));
	assert_true(fpisa_window_slot_of(&w, 3)->queue != &w.ready);
	free(w.slot);
}

/*
 * Lose all frames in flight, as a full queue does. Once the retransmission of the first chunk is answered, the others
 * are sent again after a round trip. If each waited for a timeout, the call would take a timeout for each chunk.
 */
static void silence_ends(void **state)
{
	struct fpisa_request r = {.chunks = 4, .left = 4};
	const struct fpisa_answer again = {.ours = 1, .retransmit = 1};
	struct fpisa_flight flight;
	struct fpisa_window w = {};
	uint64_t sent_ns;

	(void)state;
	begin_window(&w, &flight, &r);
	fpisa_rto_sample(&w.rto, 8 * MS);
	sent_ns = 1000 * MS + w.rto.rto_ns;
	fpisa_window_move(fpisa_window_slot_of(&w, 0), &w.ready);
	fpisa_window_sent(&w, fpisa_window_slot_of(&w, 0), sent_ns);
	answer(&w, 0, &again, sent_ns + 1 * MS);
	fpisa_window_expire(&w, sent_ns + 1 * MS);
	for (uint32_t i = 1; i < 4; i++)
		assert_ptr_equal(fpisa_window_slot_of(&w, i)->queue, &w.ready);
	free(w.slot);
}

/*
 * Check that a rank soon sends again if a result says that its contribution to the previous chunk is lost. Other
 * contributions wait for a timeout.
 */
static void told_of_a_loss(void **state)
{
	struct fpisa_request r = {.chunks = 4, .left = 4};

	(void)state;
	for (int mine = 0; mine < 2; mine++) {
		const struct fpisa_answer a = {.ours = 1, .lost_ours = mine, .lost_others = !mine};
		struct fpisa_flight flight;
		struct fpisa_window w = {};
		uint64_t due;

		begin_window(&w, &flight, &r);
		fpisa_rto_sample(&w.rto, 8 * MS);
		fpisa_rto_load(&w.rto, 4);
		answer(&w, 1, &a, 1008 * MS);
		due = 1008 * MS + (mine ? FPISA_RTO_REORDER_NS : w.rto.rto_ns);
		assert_int_equal(flight.in_flight, 2);
		fpisa_window_expire(&w, due - 1);
		assert_true(TAILQ_EMPTY(&w.ready));
		assert_int_equal(fpisa_window_expiry(&w, due), due);
		fpisa_window_expire(&w, due);
		assert_ptr_equal(TAILQ_FIRST(&w.ready), fpisa_window_slot_of(&w, 0));
		free(w.slot);
	}
}

/*
 * Check that marks halve the limit once per round trip, but not for frames that were sent earlier, and not below the
 * minimum. No frame is sent again.
 */
static void marks_halve_once_a_round_trip(void **state)
{
	struct fpisa_request r = {.chunks = 4 * WINDOW, .left = 4 * WINDOW};
	const struct fpisa_answer marked = {.ours = 1, .marked = 1};
	struct fpisa_flight flight;
	struct fpisa_window w = {};
	uint64_t now = 1000 * MS, chunk = 0;

	(void)state;
	assert_int_equal(fpisa_window_reset(&w, &flight, WINDOW, WINDOW, 0, NULL, 0), 0);
	fpisa_flight_init(&flight, 1, 128, 2);
	assert_int_equal(flight.congestion.limit, WINDOW);
	fpisa_window_start(&w, &r);
	for (int i = 0; i < 8; i++) {
		uint32_t half = flight.congestion.limit / 2;
		uint64_t sent = (uint64_t)send_all(&w, now);

		now += 8 * MS;
		for (; sent--; chunk++)
			fpisa_window_answered(&w, fpisa_window_slot_of(&w, chunk), &marked, 0, now);
		/* Each round that has ended since then adds one. */
		if (half < FPISA_CONGESTION_LEAST)
			half = FPISA_CONGESTION_LEAST;
		assert_uint_in_range(flight.congestion.limit, half, half + 2);
		assert_false(flight.congestion.starting);
		assert_true(TAILQ_EMPTY(&w.ready) && TAILQ_EMPTY(&w.lost));
	}
	free(w.slot);
}

static int connect_narrow(struct fpisa **f, uint32_t rank, const struct fpisa_options *o, void *arg)
{
	int rc = fpisa_mem_connect(f, arg, rank, o);

	if (!rc)
		make_narrow(*f, 1 + 2 * (int)rank, 1);
	return rc;
}

/* Check ranks with receivers of different sizes, and losses. No rank waits forever. */
static void different_receivers(void **state)
{
	struct fleet *fl = calloc(1, sizeof(*fl));

	(void)state;
	*fl = (struct fleet){.plan = {.workers = 3,
				      .elements = ELEMENTS,
				      .window = WINDOW,
				      .count = 300 * ELEMENTS,
				      .calls = 2,
				      .loss = 0.05,
				      .timeout_ms = 60000},
			     .seed = test_seed(),
			     .connect = connect_narrow,
			     .arg = aggregator(3)};
	run_fleet(fl);
	assert_all_succeeded(fl);
	check_replayed(fl, FPISA_MODE_FPISA, FPISA_ROUND_DOWN);
	fpisa_mem_destroy(fl->arg);
	free_fleet(fl);
	free(fl);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wide_receiver),	 cmocka_unit_test(narrow_receiver),
		cmocka_unit_test(narrow_path),		 cmocka_unit_test(queue_is_not_loss),
		cmocka_unit_test(different_receivers),	 cmocka_unit_test(late_result_keeps_the_order),
		cmocka_unit_test(later_chunks_overtake), cmocka_unit_test(silence_ends),
		cmocka_unit_test(told_of_a_loss),	 cmocka_unit_test(marks_halve_once_a_round_trip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
