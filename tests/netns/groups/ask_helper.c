// SPDX-License-Identifier: GPL-2.0-only
/*
 * ask_helper PID CASE ADDRESS LOCAL STATIC TOKEN: send requests to the privileged process of fpisa serve. The requests
 * go over the socket of its network process, PID, which is stopped meanwhile. A group of two ranks at ADDRESS gets jobs
 * at LOCAL. Job STATIC, with TOKEN, belongs to another owner. Print each answer on a line, and "ended" when the helper
 * has ended.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "serve/helper.h"

#define PLACE 40
#define ID 4711

static int fd;
static struct fpisa_address address;

static int take_socket(int pid)
{
	int process = (int)syscall(SYS_pidfd_open, pid, 0), type, got;
	socklen_t len;

	for (int i = 3; i < 64; i++) {
		len = sizeof(type);
		got = (int)syscall(SYS_pidfd_getfd, process, i, 0);
		if (got >= 0 && !getsockopt(got, SOL_SOCKET, SO_TYPE, &type, &len) && type == SOCK_SEQPACKET)
			return got;
	}
	fprintf(stderr, "process %d has no such socket\n", pid);
	exit(2);
}

static void say(const void *what, size_t bytes)
{
	if (send(fd, what, bytes, MSG_NOSIGNAL) != (ssize_t)bytes) {
		puts("ended");
		exit(0);
	}
}

/*
 * Receive the next answer of that kind. Skip other answers, because the manager may have sent requests before it was
 * stopped.
 */
static void hear(__u32 what, struct helper_answer *a)
{
	do {
		const ssize_t n = recv(fd, a, sizeof(*a), 0);

		if (n <= 0 || n != (ssize_t)helper_answer_bytes(a)) {
			puts("ended");
			exit(0);
		}
	} while (a->what != what);
}

static struct helper_request record(void)
{
	struct helper_request q = {.what = HELPER_RECORD, .place = PLACE};
	struct group_record *r = &q.record;

	*r = (struct group_record){.id = ID, .secret = 1, .joined = {{3}}, .size = 2, .name = "forged", .owner = "train"};
	for (__u32 k = 0; k < 2; k++) {
		r->rank[k].address = address;
		r->job[k].state = FPISA_GROUP_JOB_MAKING;
		r->job[k].token = 100 + k;
	}
	return q;
}

static struct helper_request job(struct fpisa_address local)
{
	struct helper_request q = {.what = HELPER_MAKE, .place = PLACE};

	q.make = (struct manager_make){.place = PLACE,
				       .id = ID,
				       .pool = ~0ull,
				       .token = 100,
				       .local = local,
				       .workers = 2,
				       .spec = {.format = 1, .window = 64},
				       .address = {address, address},
				       .port = {18101, 18102}};
	return q;
}

static void make(const char *name, struct helper_request q)
{
	struct helper_answer a;

	say(&q, helper_request_bytes(&q));
	hear(HELPER_MAKE, &a);
	printf("%s %d %s\n", name, a.made.err, a.made.text);
}

static void ask_for_jobs(struct fpisa_address local, __u32 other, __u64 token)
{
	struct helper_request q = record(), look = {.what = HELPER_LOOK};
	const struct helper_request right = job(local);
	struct helper_answer a;

	say(&q, helper_request_bytes(&q));
#define WITH(member, value) (q = right, q.make.member = (value), make(#member " " #value, q))
	WITH(place, GROUPS);
	WITH(place, PLACE + 1);
	WITH(index, FPISA_MANAGER_JOBS);
	WITH(index, 2);
	WITH(index, 1);
	WITH(id, ID + 1);
	WITH(token, 102);
	WITH(token, 0);
	WITH(workers, 0);
	WITH(workers, 4);
	WITH(workers, ~0u);
	WITH(spec.format, 200);
	WITH(spec.format, 2);
	WITH(spec.mode, 200);
	WITH(spec.mode, 3);
	WITH(spec.window, 0);
	WITH(spec.window, 101);
	WITH(spec.elements, 33);
	WITH(address[1], fpisa_ipv4(htonl(0x0a630909)));
	WITH(address[1], fpisa_ipv4(0));
	WITH(pool, 0);
	WITH(pool, 1ull << 63);
	make("right", right);
	make("again", right);
	q = right;
	q.make.index = 1;
	q.make.token = 101;
	make("slots", q);
	/* Restore the record from before the first job, although the job's slots are still in use. */
	q = record();
	say(&q, helper_request_bytes(&q));
	WITH(further, false);
	WITH(further, true);
	q = right;
	q.make.index = 1;
	q.make.token = 101;
	make("slots", q);
	q = (struct helper_request){.what = HELPER_REMOVE, .remove = {.number = other, .token = token}};
	say(&q, helper_request_bytes(&q));
	q.remove.number = ~0u;
	q.remove.token = 100;
	say(&q, helper_request_bytes(&q));
	/* The helper performs requests in order. When this request is done, the earlier requests are done too. */
	say(&look, helper_request_bytes(&look));
	hear(HELPER_LOOK, &a);
	puts("done");
}

/* Send a request that ends the helper and must change nothing. */
static void ask_wrong(const char *name, struct fpisa_address local)
{
	struct helper_request q = record();
	struct group_record *r = &q.record;
	struct helper_answer a;
	static char bytes[2 * sizeof(q)];
	size_t n;

	/*
	 * The request must be refused. Earlier requests of the manager are answered first, and their answers must not
	 * be mistaken for this answer.
	 */
	make("before", (struct helper_request){.what = HELPER_MAKE, .place = PLACE});
	if (!strcmp(name, "forgets")) {
		say(&q, helper_request_bytes(&q));
		make("right", job(local));
		memset(r, 0, sizeof(*r));
	}
	if (!strcmp(name, "place"))
		q.place = GROUPS;
	else if (!strcmp(name, "kind"))
		q.what = 99;
	else if (!strcmp(name, "answer"))
		q.what = HELPER_FOUND;
	else if (!strcmp(name, "size 0"))
		r->size = 0;
	else if (!strcmp(name, "size 4097"))
		r->size = FPISA_MAX_RANKS + 1;
	else if (!strcmp(name, "ranks"))
		r->left.word[0] = 4;
	else if (!strcmp(name, "name"))
		memset(r->name, 'x', sizeof(r->name));
	else if (!strcmp(name, "owner"))
		memset(r->owner, 'x', sizeof(r->owner));
	else if (!strcmp(name, "escape"))
		r->owner[0] = '\033';
	else if (!strcmp(name, "state"))
		r->job[3].state = 3;
	else if (!strcmp(name, "number"))
		r->job[3].number = FPISA_MAX_JOBS;
	memcpy(bytes, &q, sizeof(q));
	n = helper_request_bytes(&q);
	if (!strcmp(name, "byte"))
		n = 1;
	else if (!strcmp(name, "short"))
		n--;
	else if (!strcmp(name, "long"))
		n++;
	else if (!strcmp(name, "double"))
		n *= 2;
	say(bytes, n);
	memset(&q, 0, sizeof(q));
	q.what = HELPER_LOOK;
	say(&q, helper_request_bytes(&q));
	hear(HELPER_LOOK, &a);
	puts("taken");
}

int main(int argc, char **argv)
{
	if (argc != 7)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	address = fpisa_ipv4(inet_addr(argv[3]));
	fd = take_socket(atoi(argv[1]));
	if (!strcmp(argv[2], "jobs"))
		ask_for_jobs(fpisa_ipv4(inet_addr(argv[4])), (__u32)atoi(argv[5]), strtoull(argv[6], NULL, 0));
	else
		ask_wrong(argv[2], fpisa_ipv4(inet_addr(argv[4])));
	return 0;
}
