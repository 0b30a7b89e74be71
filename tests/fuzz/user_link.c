/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * libFuzzer target: messages of the manager to a rank (user/lib/messages.c), in any order, while the rank asks for jobs
 * and begins calls. The input is a list of steps: a byte for the event, and bytes of a message's body. The handles of
 * jobs are stand-ins.
 *
 * For any input, a handle is bound before it joins, joins once, and fails at most once. The rank's messages are well
 * formed. Error sentences have one line.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "check.h"
#include "handles.h"
#include "lib/link.h"

#define RANKS 5

/* Do the work of the link's thread: check the barriers, and send the link's messages. */
static void take_turn(struct fpisa_link *l)
{
	pthread_mutex_lock(&l->lock);
	fpisa_link_check_barriers(l);
	pthread_mutex_unlock(&l->lock);
	CHECK(l->unsent >= 0 && l->unsent <= (int)(sizeof(l->queue) / sizeof(l->queue[0])));
	for (int i = 0; i < l->unsent; i++)
		CHECK(!fpisa_manager_check(&l->queue[i], FPISA_MANAGER_RANK));
	l->unsent = 0;
}

static void ask(struct fpisa_link *l, uint8_t which)
{
	struct fpisa_link_job *j = &l->job[which % FPISA_MANAGER_JOBS];

	if (j->state != FPISA_GROUP_JOB_NONE || j->error || l->error)
		return;
	j->state = FPISA_GROUP_JOB_ASKED;
	j->handle = fake_handle_new(which % FPISA_MANAGER_JOBS);
}

static void begin_barrier(struct fpisa_link *l, uint8_t which)
{
	const struct fpisa_link_job *j = &l->job[which % FPISA_MANAGER_JOBS];

	if (!j->handle || j->error || l->error)
		return;
	fake_handle[which % FPISA_MANAGER_JOBS].barrier = ++l->calls;
	l->barriers = 1;
}

static void give_up(struct fpisa_link *l, uint8_t which)
{
	struct fpisa_link_job *j = &l->job[which % FPISA_MANAGER_JOBS];

	if (j->state != FPISA_GROUP_JOB_NONE && !j->error)
		fpisa_link_job_failed(l, j, -EMFILE, "\033no descriptor\n");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct fpisa_connection connection = {.wake = -1};
	static struct fpisa_link l;

	memset(&l, 0, sizeof(l));
	for (size_t k = 0; k < FPISA_MANAGER_JOBS; k++)
		fake_handle_new(k);
	pthread_mutex_init(&l.lock, NULL);
	pthread_cond_init(&l.changed, NULL);
	l.events = -1;
	l.connection = &connection;
	l.join.size = RANKS;
	strcpy(l.peer, "10.0.0.1: group g");
	fake_bind_error = 0;
	while (size >= 2) {
		struct fpisa_manager_message m = {.magic = FPISA_MANAGER_MAGIC, .version = FPISA_MANAGER_VERSION};
		uint8_t what = *data++;
		size_t n = *data & 15;
		uint8_t which = *data++ >> 4;

		size -= 2;
		if (what >= 0x80) {
			/* Keep bodies short: up to 30 bytes, and a refusal's text. */
			m.type = (uint16_t)(FPISA_MANAGER_PENDING + what % 8);
			n = 2 * n < size ? 2 * n : size;
			memcpy(m.body, data, n);
			data += n;
			size -= n;
			if (m.type == FPISA_MANAGER_REFUSED)
				strcpy(m.refusal.text, which & 1 ? "group g: no job" : "no");
			if (!fpisa_manager_check(&m, FPISA_MANAGER_MANAGER))
				fpisa_link_hear(&l, &m);
		} else if (what & 1) {
			ask(&l, which);
		} else if (what & 2) {
			pthread_mutex_lock(&l.lock);
			fpisa_link_call(&l);
			l.calls += !l.error;
			pthread_mutex_unlock(&l.lock);
		} else if (what & 4) {
			give_up(&l, which);
		} else if (what & 8) {
			begin_barrier(&l, which);
		} else {
			fake_bind_error = which & 1 ? -EADDRINUSE : which & 2 ? -EMFILE : 0;
		}
		take_turn(&l);
		check_line(l.sentence, sizeof(l.sentence));
		for (int k = 0; k < FPISA_MANAGER_JOBS; k++)
			CHECK(!fake_handle[k].barrier || !fake_handle[k].error || l.error || l.job[k].error);
	}
	pthread_mutex_destroy(&l.lock);
	pthread_cond_destroy(&l.changed);
	return 0;
}
