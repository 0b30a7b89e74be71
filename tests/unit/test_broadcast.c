/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Broadcast blocks of any length, at any address, while frames are lost. The root's bits arrive, and no other byte
 * changes.
 */
#include "lib/api.h"
#include "workers.h"

#define RANKS 3
#define SIZES 90

struct member {
	struct fpisa_mem *m;
	uint32_t rank;
	int rc, wrong;
	char error[256];
};

static size_t size_of(int call)
{
	return call < 70 ? (size_t)call : (size_t)(call - 69) * 997;
}

/* Return byte `i` of a call's data. The data contain words that are NaN, -0, 0 or all ones, among random words. */
static unsigned char byte_of(int call, size_t i)
{
	static const unsigned char words[] = {0, 0, 0, 0x80, 1, 0, 0x80, 0x7f, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0};
	uint64_t state = (uint64_t)call << 32 | i / 16;

	return test_random(&state) % 2 ? words[i % 16] : (unsigned char)(test_random(&state) >> i % 16);
}

/*
 * Broadcast a block of exactly this size. The block starts one byte into an allocation that sanitizers watch. If the
 * size is 0, pass NULL.
 */
static int broadcast(struct member *t, struct fpisa *f, int call)
{
	const uint32_t root = (uint32_t)call % RANKS;
	const size_t n = size_of(call);
	unsigned char *block = calloc(1, n + 1), *data = n ? block + 1 : NULL;
	struct fpisa_request *r = NULL;
	struct fpisa_call c = {.size = sizeof(c)};

	fpisa_call_broadcast(&c, n, root);
	for (size_t i = 0; i < n; i++)
		data[i] = root == t->rank ? byte_of(call, i) : 0xa5;
	t->rc = fpisa_broadcast_start(f, &c, data, n, root, 0, 0, &r);
	if (!t->rc)
		t->rc = fpisa_wait(&r, NULL);
	for (size_t i = 0; !t->rc && i < n; i++)
		t->wrong += data[i] != byte_of(call, i);
	free(block);
	return t->rc;
}

static void *member(void *arg)
{
	struct member *t = arg;
	const struct fpisa_options o = {.size = sizeof(o), .loss = 0.05, .seed = t->rank + 1, .restore = 1};
	struct fpisa *f = NULL;

	t->rc = fpisa_mem_connect(&f, t->m, t->rank, &o);
	for (int call = 0; !t->rc && call < SIZES; call++)
		broadcast(t, f, call);
	snprintf(t->error, sizeof(t->error), "%s", fpisa_error());
	fpisa_close(f);
	return NULL;
}

static void bits_of_root(void **state)
{
	const struct fpisa_mem_options o = {
		.size = sizeof(o), .workers = RANKS, .window = 4, .elements = 64, .format = FPISA_INT32};
	struct member t[RANKS] = {{0}};
	pthread_t thread[RANKS];
	struct fpisa_mem *m;

	(void)state;
	assert_int_equal(fpisa_mem_create(&m, &o), 0);
	for (uint32_t r = 0; r < RANKS; r++) {
		t[r] = (struct member){.m = m, .rank = r};
		assert_int_equal(pthread_create(&thread[r], NULL, member, &t[r]), 0);
	}
	for (uint32_t r = 0; r < RANKS; r++)
		pthread_join(thread[r], NULL);
	fpisa_mem_destroy(m);
	for (uint32_t r = 0; r < RANKS; r++)
		if (t[r].rc || t[r].wrong)
			fail_msg("rank %u: %d, %d bytes are wrong: %s", r, t[r].rc, t[r].wrong, t[r].error);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(bits_of_root)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
