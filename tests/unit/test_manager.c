// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test messages between ranks and the manager (user/lib/manager): valid and invalid messages, key files, and
 * connections with every pair of keys that the two sides may have.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "fpisa.h"
#include "lib/manager/channel.h"
#include "ranges.h"
#include "vectors.h"

/* -- messages --------------------------------------------------------------- */

static const struct fpisa_manager_spec whole_spec = {
	.format = 1, .mode = 1, .rounding = 1, .pipeline = 2, .elements = 256, .window = 64};

static struct fpisa_manager_message good(enum fpisa_manager_type type)
{
	struct fpisa_manager_message m = fpisa_manager_message(type);

	switch (type) {
	case FPISA_MANAGER_RETURN:
		m.join.group = 7;
		m.join.secret = 8;
		/* fall through */
	case FPISA_MANAGER_JOIN:
		strcpy(m.join.name, "train.1");
		m.join.size = 4096;
		m.join.rank = 4095;
		break;
	case FPISA_MANAGER_ASK:
		m.ask.index = 7;
		m.ask.spec.format = 4;
		m.ask.spec.elements = 416;
		break;
	case FPISA_MANAGER_BIND:
		m.bind = (struct fpisa_manager_bind){
			.port = 18100, .address = fpisa_ipv4(0x0100000a), .aggregator = 18000};
		break;
	case FPISA_MANAGER_BOUND:
		m.bind = (struct fpisa_manager_bind){.port = 18100, .taken = 1};
		break;
	case FPISA_MANAGER_JOB:
		m.job = (struct fpisa_manager_job){
			.job = 63, .token = 1, .spec = whole_spec, .leaf = 3, .rank = {0, 7, 4095}};
		break;
	case FPISA_MANAGER_JOINED:
		m.joined = (struct fpisa_manager_joined){.group = 7, .secret = 8, .home = {1, 0, 16}};
		break;
	case FPISA_MANAGER_PENDING:
		m.members.ranks[0] = 1;
		break;
	case FPISA_MANAGER_GONE:
		m.members.first = 3072;
		m.members.ranks[15] = 1;
		m.members.cause = FPISA_MANAGER_BROKE;
		break;
	case FPISA_MANAGER_LEFT:
		m.left.calls = m.left.no_results = ~0u;
		m.left.first = 3072;
		m.left.ranks[15] = 1;
		break;
	case FPISA_MANAGER_LEAVE:
		m.leave.calls = m.leave.no_results = ~0u;
		break;
	case FPISA_MANAGER_REFUSED:
		m.refusal.reason = FPISA_MANAGER_R_datapath;
		m.refusal.index = FPISA_MANAGER_NO_JOB;
		m.refusal.first = 4032;
		m.refusal.ranks = 1;
		strcpy(m.refusal.text, "no");
		break;
	case FPISA_MANAGER_FAILED:
		m.refusal.reason = FPISA_MANAGER_R_failed;
		m.refusal.index = 7;
		strcpy(m.refusal.text, "no");
		break;
	case FPISA_MANAGER_WAITS:
		m.waits = (struct fpisa_manager_waits){
			.call = 1, .digest = 2, .last = 3, .index = 7, .elements = 1, .made = 255, .failed = 255};
		break;
	case FPISA_MANAGER_REGISTER:
		m.reg = (struct fpisa_manager_register){
			.version = 3, .address = fpisa_ipv4(1), .port = 18000, .rate = 10000, .slots = 1};
		break;
	case FPISA_MANAGER_AGGREGATORS:
		m.list.n = 16;
		m.list.first = 8;
		for (uint16_t i = 0; i < 8; i++)
			m.list.of[i] = (struct fpisa_manager_aggregator){fpisa_ipv4(i / 2 + 1), 18000 + i % 2, 100, 0};
		break;
	case FPISA_MANAGER_RANKS:
		m.ranks = (struct fpisa_manager_ranks){.group = 7, .first = 56};
		for (int i = 0; i < FPISA_MANAGER_MAKE_RANKS; i++) {
			m.ranks.address[i] = fpisa_ipv4(1);
			m.ranks.port[i] = 18100;
		}
		break;
	case FPISA_MANAGER_MAKE:
		m.make = (struct fpisa_manager_make){
			.group = 7, .token = 1, .index = 7, .workers = 64, .spec = whole_spec, .numbers = 1};
		strcpy(m.make.name, "train.1");
		break;
	case FPISA_MANAGER_MADE:
		m.made = (struct fpisa_manager_made){.group = 7, .index = 7, .number = 63, .spec = whole_spec};
		break;
	case FPISA_MANAGER_HOLDS:
	case FPISA_MANAGER_ENDED:
	case FPISA_MANAGER_DROP:
		m.of.group = 7;
		break;
	case FPISA_MANAGER_REGISTERED:
		break;
	case FPISA_MANAGER_PING:
	case FPISA_MANAGER_PONG:
		m.number = 5;
		break;
	}
	return m;
}

static const enum fpisa_manager_type of_rank[] = {FPISA_MANAGER_JOIN,  FPISA_MANAGER_RETURN, FPISA_MANAGER_ASK,
						  FPISA_MANAGER_BOUND, FPISA_MANAGER_LEAVE,  FPISA_MANAGER_FAILED,
						  FPISA_MANAGER_WAITS, FPISA_MANAGER_PING,   FPISA_MANAGER_REGISTER,
						  FPISA_MANAGER_MADE,  FPISA_MANAGER_HOLDS,  FPISA_MANAGER_ENDED},
				     of_manager[] = {
					     FPISA_MANAGER_PENDING,    FPISA_MANAGER_JOINED, FPISA_MANAGER_BIND,
					     FPISA_MANAGER_JOB,	       FPISA_MANAGER_GONE,   FPISA_MANAGER_LEFT,
					     FPISA_MANAGER_REFUSED,    FPISA_MANAGER_PONG,   FPISA_MANAGER_AGGREGATORS,
					     FPISA_MANAGER_REGISTERED, FPISA_MANAGER_RANKS,  FPISA_MANAGER_MAKE,
					     FPISA_MANAGER_DROP};

#define COUNT(a) (sizeof(a) / sizeof(a[0]))

static void each_is_taken_from_its_side(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(of_rank); i++) {
		struct fpisa_manager_message m = good(of_rank[i]);

		assert_int_equal(fpisa_manager_check(&m, FPISA_MANAGER_RANK), 0);
		assert_int_equal(fpisa_manager_check(&m, FPISA_MANAGER_MANAGER), FPISA_MANAGER_R_malformed);
	}
	for (size_t i = 0; i < COUNT(of_manager); i++) {
		struct fpisa_manager_message m = good(of_manager[i]);

		assert_int_equal(fpisa_manager_check(&m, FPISA_MANAGER_MANAGER), 0);
		assert_int_equal(fpisa_manager_check(&m, FPISA_MANAGER_RANK), FPISA_MANAGER_R_malformed);
	}
}

static enum fpisa_manager_reason check(const struct fpisa_manager_message *m)
{
	return fpisa_manager_check(m, m->type < FPISA_MANAGER_PENDING ? FPISA_MANAGER_RANK : FPISA_MANAGER_MANAGER);
}

/* Check that the last byte must be zero. Only a refusal's text can be that long, and it ends before the last byte. */
static void nothing_stands_behind_what_is_used(void **state)
{
	(void)state;
	for (int k = 0; k < 2; k++)
		for (size_t i = 0; i < (k ? COUNT(of_manager) : COUNT(of_rank)); i++) {
			struct fpisa_manager_message m = good(k ? of_manager[i] : of_rank[i]);

			m.body[sizeof(m.body) - 1] = 1;
			assert_int_equal(check(&m), FPISA_MANAGER_R_malformed);
		}
}

#define WRONG(of, member, value)                                            \
	do {                                                                \
		struct fpisa_manager_message m_ = good(FPISA_MANAGER_##of); \
                                                                            \
		m_.member = (value);                                        \
		assert_int_equal(check(&m_), FPISA_MANAGER_R_malformed);    \
	} while (0)

/*
 * Check that the spec in an aggregator's answer about a job that it could not make contains only the number of elements
 * that fit.
 */
static void elements_that_fit(void **state)
{
	struct fpisa_manager_message m = good(FPISA_MANAGER_MADE);

	(void)state;
	memset(&m.made.spec, 0, sizeof(m.made.spec));
	m.made.err = -EMSGSIZE;
	strcpy(m.made.text, "too many elements");
	assert_int_equal(check(&m), 0);
	m.made.spec.elements = 96;
	assert_int_equal(check(&m), 0);
	m.made.spec.elements = 97;
	assert_int_equal(check(&m), FPISA_MANAGER_R_malformed);
	m.made.spec.elements = 96;
	m.made.spec.window = 64;
	assert_int_equal(check(&m), FPISA_MANAGER_R_malformed);
}

static void bounds(void **state)
{
	struct fpisa_manager_message m = good(FPISA_MANAGER_JOIN);

	(void)state;
	WRONG(JOIN, magic, FPISA_MANAGER_MAGIC + 1);
	m.version = FPISA_MANAGER_VERSION + 1;
	assert_int_equal(check(&m), FPISA_MANAGER_R_version);
	WRONG(JOIN, type, 0);
	WRONG(PING, type, 7);
	WRONG(PONG, type, 30);
	WRONG(PING, type, 13);
	WRONG(JOIN, join.zero, 1);
	WRONG(JOB, job.others[0], 1);
	WRONG(JOB, job.others[15], 64);
	WRONG(FAILED, refusal.reason, FPISA_MANAGER_R_gone);
	WRONG(FAILED, refusal.index, FPISA_MANAGER_NO_JOB);
	WRONG(FAILED, refusal.ranks, 1);
	WRONG(REGISTER, reg.port, 0);
	WRONG(REGISTER, reg.slots, 0);
	WRONG(REGISTER, reg.zero, 1);
	WRONG(REGISTER, reg.other, fpisa_ipv4(2)); /* of the family of the first address */
	m = good(FPISA_MANAGER_REGISTER);
	m.reg.other = (struct fpisa_address){.b = {0x20, 1, [15] = 2}};
	assert_int_equal(check(&m), 0);
	m.reg.address = FPISA_NO_ADDRESS;
	m.reg.other = fpisa_ipv4(2);
	assert_int_equal(check(&m), FPISA_MANAGER_R_malformed);
	WRONG(AGGREGATORS, list.n, 1);
	WRONG(AGGREGATORS, list.n, 17);
	WRONG(AGGREGATORS, list.n, 15); /* the last aggregator is beyond the end of the list */
	WRONG(AGGREGATORS, list.of[3].weight, 0);
	WRONG(AGGREGATORS, list.of[3].weight, 101);
	WRONG(AGGREGATORS, list.of[3].address, FPISA_NO_ADDRESS);
	WRONG(AGGREGATORS, list.of[3].zero, 1);
	WRONG(AGGREGATORS, list.first, 1);
	WRONG(AGGREGATORS, list.first, 16);
	WRONG(AGGREGATORS, list.of[3].port, 18000); /* the same port as the previous aggregator */
	WRONG(RANKS, ranks.group, 0);
	WRONG(RANKS, ranks.first, 12);
	WRONG(RANKS, ranks.first, 64);
	WRONG(RANKS, ranks.address[7], FPISA_NO_ADDRESS);
	WRONG(RANKS, ranks.port[7], 0);
	WRONG(MAKE, make.token, 0);
	WRONG(MAKE, make.index, 8);
	WRONG(MAKE, make.workers, 65);
	WRONG(MAKE, make.numbers, 0);
	WRONG(MAKE, make.leaves, 2);
	WRONG(MAKE, make.rank, 1);
	WRONG(MAKE, make.port, 1);
	WRONG(MAKE, make.further, 1);
	WRONG(MAKE, make.root, fpisa_ipv4(1));
	WRONG(MAKE, make.spec.window, 0);
	WRONG(MAKE, make.name[0], 0);
	WRONG(MAKE, make.owner[0], ' ');
	WRONG(MADE, made.err, 1);
	WRONG(MADE, made.err, -5); /* without a sentence */
	WRONG(MADE, made.number, 64);
	WRONG(MADE, made.spec.window, 0);
	WRONG(DROP, of.group, 0);
	WRONG(JOIN, number, FPISA_MANAGER_EVERY);
	WRONG(REGISTER, number, 1);
	WRONG(DROP, number, 1);
	m = good(FPISA_MANAGER_JOIN);
	m.number = FPISA_MANAGER_EVERY - 1;
	assert_int_equal(check(&m), 0);
	m = good(FPISA_MANAGER_REFUSED);
	m.number = FPISA_MANAGER_EVERY;
	assert_int_equal(check(&m), 0);
	WRONG(JOIN, join.size, 0);
	WRONG(JOIN, join.size, 4097);
	WRONG(JOIN, join.size, 4095);
	WRONG(JOIN, join.rank, 4096);
	WRONG(JOIN, join.group, 1);
	WRONG(JOIN, join.secret, 1);
	WRONG(RETURN, join.group, 0);
	WRONG(RETURN, join.secret, 0);
	WRONG(JOIN, join.name[0], 0);
	WRONG(JOIN, join.name[3], ' ');
	WRONG(JOIN, join.name[3], '/');
	WRONG(JOIN, join.name[8], 'x');
	WRONG(ASK, ask.index, 8);
	WRONG(ASK, ask.spec.format, 9);
	WRONG(ASK, ask.spec.mode, 5);
	WRONG(ASK, ask.spec.rounding, 3);
	WRONG(ASK, ask.spec.fanout, 3);
	WRONG(ASK, ask.spec.pipeline, 3);
	WRONG(ASK, ask.spec.elements, 33);
	WRONG(ASK, ask.spec.elements, 448); /* too many elements for fp64 */
	WRONG(ASK, ask.spec.window, 3);
	WRONG(ASK, ask.spec.window, 2048);
	WRONG(BOUND, bind.taken, 2);
	WRONG(BOUND, bind.leaf, 1);
	WRONG(BIND, bind.leaf, 2);
	WRONG(BOUND, bind.port, 0);
	WRONG(BOUND, bind.address, fpisa_ipv4(1));
	WRONG(BIND, bind.taken, 1);
	WRONG(BIND, bind.aggregator, 0);
	WRONG(JOB, job.job, 64);
	WRONG(JOB, job.token, 0);
	WRONG(JOB, job.spec.window, 0);
	WRONG(JOB, job.spec.rounding, 0);
	WRONG(JOB, job.leaf, 65);
	WRONG(JOB, job.leaf, 2); /* a rank follows */
	WRONG(JOB, job.leaf, 4);
	WRONG(JOB, job.rank[1], 0); /* the ranks do not ascend */
	WRONG(JOB, job.rank[2], 4096);
	WRONG(PENDING, members.zero[0], 1);
	WRONG(GONE, members.zero[1], 1);
	WRONG(PENDING, members.cause, 1);
	WRONG(PENDING, members.first, 64);
	WRONG(PENDING, members.first, 4096);
	WRONG(JOINED, joined.group, 0);
	WRONG(JOINED, joined.secret, 0);
	WRONG(JOINED, joined.home[63], 17);
	WRONG(GONE, members.cause, 6);
	WRONG(LEAVE, leave.calls, ~0u - 1);
	WRONG(LEAVE, leave.zero, 1);
	WRONG(LEAVE, body[16], 1);
	WRONG(WAITS, waits.call, 0);
	WRONG(WAITS, waits.index, 8);
	WRONG(WAITS, waits.elements, 2);
	WRONG(WAITS, waits.zero, 1);
	WRONG(WAITS, body[32], 1);
	WRONG(LEFT, left.first, 64);
	WRONG(LEFT, left.first, 4096);
	WRONG(LEFT, left.calls, ~0u - 1);
	WRONG(REFUSED, refusal.reason, 0);
	WRONG(REFUSED, refusal.reason, FPISA_MANAGER_R_END);
	WRONG(REFUSED, refusal.index, 8);
	WRONG(REFUSED, refusal.first, 1);
	WRONG(REFUSED, refusal.first, 4096);
	WRONG(REFUSED, refusal.text[0], 0);
	WRONG(REFUSED, refusal.text[1], '\n');
	WRONG(REFUSED, refusal.text[1], '\x1b');
}

static void errors(void **state)
{
	(void)state;
	assert_int_equal(fpisa_manager_error(FPISA_MANAGER_R_quota), -EDQUOT);
	assert_int_equal(fpisa_manager_error(0), -EPROTO);
	assert_int_equal(fpisa_manager_error(1000), -EPROTO);
	for (uint32_t i = 1; i < FPISA_MANAGER_R_END; i++)
		assert_true(fpisa_manager_error(i) < 0);
}

/* -- keys ------------------------------------------------------------------- */

static char file[] = "/tmp/fpisa-keys-XXXXXX";

static int make_file(void **state)
{
	int fd;

	(void)state;
	strcpy(file + sizeof(file) - 7, "XXXXXX");
	fd = mkstemp(file);
	close(fd);
	return fd < 0 ? -1 : 0;
}

static int remove_file(void **state)
{
	(void)state;
	unlink(file);
	return 0;
}

#define WITH_FILE(test) cmocka_unit_test_setup_teardown(test, make_file, remove_file)

static void write_file(const char *text)
{
	FILE *f = fopen(file, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

#define SECRET "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static void keys_are_read(void **state)
{
	static struct fpisa_psks keys;

	(void)state;
	write_file("# ours\n\n  train:0123abcd:" SECRET "\r\nother.x-1:00000000:" SECRET "\ntrain:0123abce:" SECRET);
	assert_int_equal(fpisa_psks_read(&keys, file), 0);
	assert_int_equal(keys.n, 3);
	assert_ptr_equal(fpisa_psk_find(&keys, "train:0123abce"), &keys.psk[2]);
	assert_null(fpisa_psk_find(&keys, "train"));
	assert_null(fpisa_psk_find(&keys, ""));
	assert_int_equal(keys.psk[1].secret[31], 0xff);
	assert_int_equal(keys.psk[1].secret[1], 0x11);
}

static void refused_keys(void **state)
{
	static const char *const texts[] = {
		"",
		"train:0123abcd\n",
		"train:0123abcd:" SECRET "0\n",
		"train:0123abcg:" SECRET "\n",
		"train:0123ABCD:" SECRET "\n",
		"tr ain:0123abcd:" SECRET "\n",
		":0123abcd:" SECRET "\n",
		"train:0123abcd:" SECRET "\ntrain:0123abcd:" SECRET "\n",
		"train:00000000:" SECRET "\ntrain:00000001:" SECRET "\ntrain:00000002:" SECRET "\n",
	};
	static struct fpisa_psks keys;

	(void)state;
	for (size_t i = 0; i < COUNT(texts); i++) {
		write_file(texts[i]);
		assert_int_equal(fpisa_psks_read(&keys, file), -EINVAL);
		assert_non_null(strstr(fpisa_error(), file));
	}
	write_file("train:00000000:" SECRET "\n");
	for (mode_t bit = 1; bit <= 040; bit <<= 1) {
		assert_int_equal(chmod(file, 0600 | bit), 0);
		assert_int_equal(fpisa_psks_read(&keys, file), -EACCES);
		assert_non_null(strstr(fpisa_error(), "chmod 600"));
	}
	assert_int_equal(chmod(file, 0400), 0);
	assert_int_equal(fpisa_psks_read(&keys, file), 0);
	assert_int_equal(fpisa_psks_read(&keys, "/nonexistent"), -ENOENT);
	assert_int_equal(fpisa_psks_read(&keys, "/tmp"), -EINVAL);
	assert_int_equal(fpisa_psks_read(&keys, "/dev/null"), -EINVAL);
}

static void new_keys(void **state)
{
	static struct fpisa_psks keys;
	struct fpisa_psk a, b, c;
	struct stat st;

	(void)state;
	unlink(file);
	assert_int_equal(fpisa_psk_new("train", file, &a), 0);
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(fpisa_psk_new("train", file, &b), 0);
	assert_memory_not_equal(a.secret, b.secret, sizeof(a.secret));
	assert_string_not_equal(a.id, b.id);
	assert_int_equal(fpisa_psk_new("train", file, &c), -EEXIST);
	assert_int_equal(fpisa_psk_new("other", file, &c), 0);
	assert_int_equal(fpisa_psk_new("o:ther", file, &c), -EINVAL);
	assert_int_equal(fpisa_psk_new("", file, &c), -EINVAL);
	assert_int_equal(fpisa_psks_read(&keys, file), 0);
	assert_int_equal(keys.n, 3);
	assert_memory_equal(keys.psk[0].secret, a.secret, sizeof(a.secret));
	assert_memory_equal(keys.psk[1].secret, b.secret, sizeof(b.secret));
	chmod(file, 0644);
	assert_int_equal(fpisa_psk_new("third", file, &c), -EACCES);
	/* The last line has no newline. */
	write_file("train:00000000:" SECRET);
	chmod(file, 0600);
	assert_int_equal(fpisa_psk_new("other", file, &c), 0);
	assert_int_equal(fpisa_psks_read(&keys, file), 0);
	assert_int_equal(keys.n, 2);
}

/* Check a full file system. The keys in the file can still be read, and another key can be added once there is room. */
static void a_key_that_does_not_fit(void **state)
{
	struct rlimit before, small;
	static struct fpisa_psks keys;
	struct fpisa_psk a, b;
	struct stat was, is;

	(void)state;
	unlink(file);
	assert_int_equal(fpisa_psk_new("train", file, &a), 0);
	assert_int_equal(stat(file, &was), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	signal(SIGXFSZ, SIG_IGN);
	for (rlim_t more = 0; more < 20; more++) {
		small = (struct rlimit){(rlim_t)was.st_size + more, before.rlim_max};
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
		assert_uint_in_range(-fpisa_psk_new("other", file, &b), 1, 133);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
		assert_int_equal(stat(file, &is), 0);
		assert_int_equal(is.st_size, was.st_size);
	}
	assert_int_equal(fpisa_psk_new("other", file, &b), 0);
	assert_int_equal(fpisa_psks_read(&keys, file), 0);
	assert_int_equal(keys.n, 2);
}

/*
 * Check that a file takes a limited number of keys and bytes. The next key is refused, and the file can still be read.
 */
static void a_file_that_is_full(void **state)
{
	static struct fpisa_psks keys;
	static char long_line[32768];
	struct fpisa_psk k;
	char name[16];
	struct stat st;

	(void)state;
	unlink(file);
	for (int i = 0; i < FPISA_PSK_MOST; i++) {
		snprintf(name, sizeof(name), "k%d", i);
		assert_int_equal(fpisa_psk_new(name, file, &k), 0);
	}
	assert_int_equal(fpisa_psk_new("another", file, &k), -E2BIG);
	assert_int_equal(fpisa_psks_read(&keys, file), 0);
	assert_int_equal(keys.n, FPISA_PSK_MOST);
	memset(long_line, '#', sizeof(long_line) - 1);
	for (size_t room = 1; room < 400; room += 7) {
		long_line[sizeof(long_line) - 1 - room] = 0;
		write_file(long_line);
		chmod(file, 0600);
		if (!fpisa_psk_new("another", file, &k))
			assert_int_equal(fpisa_psks_read(&keys, file), 0);
		assert_int_equal(stat(file, &st), 0);
		assert_true(st.st_size < (off_t)sizeof(long_line));
		long_line[sizeof(long_line) - 1 - room] = '#';
	}
	assert_int_equal(keys.n, 1); /* the last long line leaves room for one key */
}

/* If many processes add a key of one name at the same time, check that exactly two succeed. */
static void keys_at_once(void **state)
{
	static struct fpisa_psks keys;
	int status, made = 0, start[2];
	struct fpisa_psk k;

	(void)state;
	for (int round = 0; round < 20; round++) {
		unlink(file);
		assert_int_equal(pipe(start), 0);
		made = 0;
		for (int i = 0; i < 8; i++)
			if (!fork()) {
				char c;

				close(start[1]);
				c = (char)read(start[0], &c, 1);
				_exit(fpisa_psk_new("train", file, &k) ? 1 : 0);
			}
		close(start[0]);
		close(start[1]);
		while (wait(&status) > 0)
			made += WIFEXITED(status) && !WEXITSTATUS(status);
		assert_int_equal(made, 2);
		assert_int_equal(fpisa_psks_read(&keys, file), 0);
		assert_int_equal(keys.n, 2);
	}
}

/* -- connections ------------------------------------------------------------ */

static struct fpisa_psk psk(const char *name, const char *id, unsigned char first)
{
	struct fpisa_psk p = {.secret = {first, 2, 3}};

	strcpy(p.name, name);
	strcpy(p.id, id);
	return p;
}

struct ends {
	struct fpisa_channel *manager, *rank;
	int manager_rc, rank_rc; /* latest results of fpisa_channel_work() */
	struct fpisa_manager_message manager_took, rank_took;
};

static void connect_ends(struct ends *e, const struct fpisa_psks *keys, int plain, const struct fpisa_psk *own)
{
	int fd[2];

	memset(e, 0, sizeof(*e));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	assert_int_equal(fpisa_channel_serve(&e->manager, fd[0], keys, plain), 0);
	assert_int_equal(fpisa_channel_call(&e->rank, fd[1], own), 0);
}

/* Run both sides until each has received a message or the end, or until both are idle. */
static void run_ends(struct ends *e)
{
	for (int i = 0; i < 50; i++) {
		if (e->manager && !e->manager_rc) {
			e->manager_rc = fpisa_channel_work(e->manager, &e->manager_took);
			if (e->manager_rc < 0) {
				fpisa_channel_close(e->manager);
				e->manager = NULL;
			}
		}
		if (e->rank && !e->rank_rc)
			e->rank_rc = fpisa_channel_work(e->rank, &e->rank_took);
	}
}

static void close_ends(struct ends *e)
{
	fpisa_channel_close(e->manager);
	fpisa_channel_close(e->rank);
}

/* Check messages in both directions, as many as may wait. */
static void talk(const struct fpisa_psks *keys, int plain, const struct fpisa_psk *own, const char *name)
{
	struct fpisa_manager_message ping = good(FPISA_MANAGER_PING), pong = good(FPISA_MANAGER_PONG);
	struct ends e;

	connect_ends(&e, keys, plain, own);
	for (uint64_t i = 0; i < FPISA_CHANNEL_QUEUE; i++) {
		ping.number = i;
		assert_int_equal(fpisa_channel_send(e.rank, &ping), 0);
	}
	assert_int_equal(fpisa_channel_send(e.rank, &ping), -ENOBUFS);
	for (uint64_t i = 0; i < FPISA_CHANNEL_QUEUE; i++) {
		e.manager_rc = 0;
		run_ends(&e);
		assert_int_equal(e.manager_rc, 1);
		assert_int_equal(e.manager_took.type, FPISA_MANAGER_PING);
		assert_int_equal(e.manager_took.number, i);
	}
	assert_string_equal(fpisa_channel_name(e.manager), name);
	assert_int_equal(fpisa_channel_send(e.manager, &pong), 0);
	e.manager_rc = 0;
	run_ends(&e);
	assert_int_equal(e.manager_rc, 0);
	assert_int_equal(e.rank_rc, 1);
	assert_memory_equal(&e.rank_took, &pong, sizeof(pong));
	assert_true(fpisa_channel_flushed(e.manager));
	/* The other side detects a closed connection. */
	fpisa_channel_close(e.rank);
	e.rank = NULL;
	run_ends(&e);
	assert_int_equal(e.manager_rc, -ECONNRESET);
	close_ends(&e);
}

#define FILES_END ": Too many open files; raise the process's limit of open files (ulimit -n)"

/*
 * Check a process that cannot open another file. It gets an error, and no message is lost. This test runs before other
 * tests load GnuTLS.
 */
static void no_more_files(void **state)
{
	struct fpisa_psk own = psk("train", "00000000", 1);
	struct fpisa_channel *c = NULL;
	static struct fpisa_psks keys;
	struct rlimit before, none = {0};
	int pair[2], rc;

	(void)state;
	write_file("train:00000000:" SECRET "\n");
	chmod(file, 0600);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	rc = fpisa_psks_read(&keys, file);
	assert_string_equal(strrchr(fpisa_error(), ':'), FILES_END);
	assert_int_equal(rc, -EMFILE);
	rc = fpisa_channel_call(&c, pair[0], &own);
	assert_int_equal(rc, -EMFILE);
	assert_string_equal(strrchr(fpisa_error(), ':'), FILES_END);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	close(pair[1]);
	assert_int_equal(fpisa_psks_read(&keys, file), 0);
}

static void by_a_key(void **state)
{
	struct fpisa_psks keys = {.n = 3};

	(void)state;
	keys.psk[0] = psk("train", "00000000", 1);
	keys.psk[1] = psk("train", "00000001", 2);
	keys.psk[2] = psk("other", "00000000", 3);
	talk(&keys, 0, &keys.psk[0], "train");
	talk(&keys, 0, &keys.psk[1], "train");
	talk(&keys, 1, &keys.psk[2], "other");
	talk(NULL, 1, NULL, "");
	talk(&keys, 1, NULL, "");
}

/* Check whether the manager still has the key of a connection, whose messages continue in any case. */
static void keys_change_under_a_connection(void **state)
{
	struct fpisa_psks keys = {.n = 2};
	const struct fpisa_psk own = psk("train", "00000000", 1);
	const struct fpisa_psk after[] = {psk("train", "00000001", 1), psk("train", "00000000", 2),
					  psk("other", "00000000", 1), own};
	struct fpisa_manager_message ping = good(FPISA_MANAGER_PING);
	struct ends e;

	(void)state;
	keys.psk[0] = own;
	keys.psk[1] = psk("other", "00000001", 4);
	connect_ends(&e, &keys, 1, &own);
	for (size_t i = 0; i <= COUNT(after); i++) {
		e.manager_rc = 0;
		assert_int_equal(fpisa_channel_send(e.rank, &ping), 0);
		run_ends(&e);
		assert_int_equal(e.manager_rc, 1);
		assert_int_equal(fpisa_channel_key_removed(e.manager), i && i < COUNT(after));
		keys.psk[0] = after[i % COUNT(after)];
	}
	keys.n = 0;
	assert_true(fpisa_channel_key_removed(e.manager));
	close_ends(&e);
	connect_ends(&e, &keys, 1, NULL);
	fpisa_channel_send(e.rank, &ping);
	run_ends(&e);
	assert_int_equal(e.manager_rc, 1);
	assert_false(fpisa_channel_key_removed(e.manager));
	close_ends(&e);
}

static void without_a_common_key(void **state)
{
	struct fpisa_psks keys = {.n = 1};
	struct fpisa_psk wrong[] = {psk("train", "00000000", 9), psk("train", "00000009", 1),
				    psk("nobody", "00000000", 1)};
	struct ends e;

	(void)state;
	keys.psk[0] = psk("train", "00000000", 1);
	for (size_t i = 0; i < COUNT(wrong); i++) {
		connect_ends(&e, &keys, 1, &wrong[i]);
		run_ends(&e);
		assert_int_equal(e.manager_rc, -EACCES);
		assert_int_equal(e.rank_rc, -EACCES);
		assert_non_null(strstr(fpisa_error(), "no key in common"));
		close_ends(&e);
	}
}

/*
 * Check that a connection that ended while messages were sent has also ended for later calls. With another error, the
 * groups of this connection would not connect again.
 */
static void an_end_is_told_again(void **state)
{
	const struct fpisa_manager_message ping = good(FPISA_MANAGER_PING);
	struct fpisa_psks keys = {.n = 1};
	struct ends e;

	(void)state;
	keys.psk[0] = psk("train", "00000000", 1);
	connect_ends(&e, &keys, 0, &keys.psk[0]);
	run_ends(&e);
	assert_true(fpisa_channel_open(e.rank));
	fpisa_channel_close(e.manager);
	e.manager = NULL;
	assert_int_equal(fpisa_channel_send(e.rank, &ping), 0);
	assert_int_equal(fpisa_channel_flush(e.rank), -ECONNRESET);
	assert_int_equal(fpisa_channel_flush(e.rank), -ECONNRESET);
	assert_int_equal(fpisa_channel_work(e.rank, &e.rank_took), -ECONNRESET);
	close_ends(&e);
}

/* Check that an unknown identity and a wrong secret get the same answer, byte for byte, and the same reason. */
static void which_keys_there_are(void **state)
{
	struct fpisa_psks keys = {.n = 2};
	struct fpisa_psk wrong[] = {psk("train", "00000000", 9), psk("train", "00000009", 1),
				    psk("nobody", "00000000", 1)};
	char said[COUNT(wrong)][FPISA_MANAGER_TEXT];
	struct fpisa_manager_message m;
	char answer[COUNT(wrong)][512];
	ssize_t n[COUNT(wrong)];
	struct ends e;

	(void)state;
	keys.psk[0] = psk("train", "00000000", 1);
	keys.psk[1] = psk("other", "00000000", 2);
	for (size_t i = 0; i < COUNT(wrong); i++) {
		connect_ends(&e, &keys, 0, &wrong[i]);
		assert_int_equal(fpisa_channel_work(e.rank, &m), 0);
		while (!(e.manager_rc = fpisa_channel_work(e.manager, &m)))
			;
		assert_int_equal(e.manager_rc, -EACCES);
		snprintf(said[i], sizeof(said[i]), "%s", fpisa_error());
		n[i] = recv(fpisa_channel_fd(e.rank), answer[i], sizeof(answer[i]), MSG_DONTWAIT);
		assert_int_equal(n[i], 7); /* a record with one alert */
		assert_memory_equal(answer[i], answer[0], 7);
		assert_string_equal(said[i], said[0]);
		close_ends(&e);
	}
}

/* Check that the rank gets the reason unencrypted, whichever side lacks a key. */
static void one_side_has_a_key(void **state)
{
	struct fpisa_psks keys = {.n = 1};
	struct fpisa_manager_message join = good(FPISA_MANAGER_JOIN);
	struct ends e;

	(void)state;
	keys.psk[0] = psk("train", "00000000", 1);
	connect_ends(&e, NULL, 1, &keys.psk[0]);
	run_ends(&e);
	assert_int_equal(e.manager_rc, -EACCES);
	assert_int_equal(e.rank_rc, 1);
	assert_int_equal(e.rank_took.refusal.reason, FPISA_MANAGER_R_key);
	assert_non_null(strstr(e.rank_took.refusal.text, "leave FPISA_KEY"));
	close_ends(&e);
	connect_ends(&e, &keys, 0, NULL);
	fpisa_channel_send(e.rank, &join);
	run_ends(&e);
	assert_int_equal(e.manager_rc, -EACCES);
	assert_int_equal(e.rank_rc, 1);
	assert_int_equal(e.rank_took.refusal.reason, FPISA_MANAGER_R_key);
	assert_non_null(strstr(e.rank_took.refusal.text, "set FPISA_KEY"));
	close_ends(&e);
}

/* Check that an attacker on the path can send an unencrypted refusal, but no other message. */
static void nothing_in_clear_but_a_refusal(void **state)
{
	struct fpisa_psk own = psk("train", "00000000", 1);
	struct fpisa_manager_message m = good(FPISA_MANAGER_JOINED);
	struct fpisa_channel *rank;
	int fd[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	assert_int_equal(fpisa_channel_call(&rank, fd[1], &own), 0);
	assert_int_equal(fpisa_channel_work(rank, &m), 0);
	m = good(FPISA_MANAGER_JOINED);
	assert_int_equal(write(fd[0], &m, sizeof(m)), sizeof(m));
	assert_int_equal(fpisa_channel_work(rank, &m), -EPROTO);
	fpisa_channel_close(rank);
	close(fd[0]);
}

/* Check messages that arrive in pieces or are truncated. */
static void pieces(void **state)
{
	struct fpisa_manager_message m = good(FPISA_MANAGER_JOIN), took;
	struct fpisa_channel *c;
	int fd[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	assert_int_equal(fpisa_channel_serve(&c, fd[0], NULL, 1), 0);
	for (size_t i = 0; i < sizeof(m); i++) {
		assert_int_equal(fpisa_channel_work(c, &took), 0);
		assert_int_equal(write(fd[1], (char *)&m + i, 1), 1);
	}
	assert_int_equal(fpisa_channel_work(c, &took), 1);
	assert_memory_equal(&took, &m, sizeof(m));
	assert_int_equal(write(fd[1], &m, sizeof(m) / 2), sizeof(m) / 2);
	assert_int_equal(fpisa_channel_work(c, &took), 0);
	close(fd[1]);
	assert_int_equal(fpisa_channel_work(c, &took), -ECONNRESET);
	fpisa_channel_close(c);
}

static void garbage(void **state)
{
	struct fpisa_psks keys = {.n = 1};
	struct vectors_rng rng = {vectors_seed()};
	struct fpisa_manager_message ours = fpisa_manager_message(FPISA_MANAGER_JOIN);
	int least = 0;

	(void)state;
	keys.psk[0] = psk("train", "00000000", 1);
	for (int i = 0; i < 300; i++) {
		unsigned char bytes[600];
		struct fpisa_manager_message took;
		struct fpisa_channel *c;
		int fd[2], rc = 0;

		for (size_t k = 0; k < sizeof(bytes); k++)
			bytes[k] = (unsigned char)vectors_next(&rng);
		/* The bytes begin like TLS, like a message of the protocol, or like neither. */
		if (i % 3 == 0)
			bytes[0] = 0x16;
		if (i % 3 == 1)
			memcpy(bytes, &ours, offsetof(struct fpisa_manager_message, type));
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
		assert_int_equal(fpisa_channel_serve(&c, fd[0], &keys, 1), 0);
		assert_int_equal(write(fd[1], bytes, sizeof(bytes)), sizeof(bytes));
		for (int turn = 0; !rc && turn < 10; turn++)
			rc = fpisa_channel_work(c, &took);
		assert_true(rc <= 0);
		least += rc < 0;
		fpisa_channel_close(c);
		close(fd[1]);
	}
	assert_true(least > 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_is_taken_from_its_side),
		cmocka_unit_test(nothing_stands_behind_what_is_used),
		cmocka_unit_test(bounds),
		cmocka_unit_test(elements_that_fit),
		cmocka_unit_test(errors),
		WITH_FILE(keys_are_read),
		WITH_FILE(refused_keys),
		WITH_FILE(new_keys),
		WITH_FILE(a_key_that_does_not_fit),
		WITH_FILE(a_file_that_is_full),
		WITH_FILE(keys_at_once),
		WITH_FILE(no_more_files),
		cmocka_unit_test(by_a_key),
		cmocka_unit_test(keys_change_under_a_connection),
		cmocka_unit_test(an_end_is_told_again),
		cmocka_unit_test(without_a_common_key),
		cmocka_unit_test(which_keys_there_are),
		cmocka_unit_test(one_side_has_a_key),
		cmocka_unit_test(nothing_in_clear_but_a_refusal),
		cmocka_unit_test(pieces),
		cmocka_unit_test(garbage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
