// SPDX-License-Identifier: GPL-2.0-only
/* The log of refusals; refusals.h has the contracts. */
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/print.h"
#include "refusals.h"

static const char *const names[] = {
#define X(name, number, error) [number] = #name,
	FPISA_MANAGER_REASONS(X)
#undef X
};

static bool may_say(struct refusals *l, __u64 now_ms)
{
	__u64 pauses = (now_ms - l->paid_ms) / REFUSALS_PAUSE_MS;

	l->paid_ms += pauses * REFUSALS_PAUSE_MS;
	l->said = pauses < (__u64)l->said ? l->said - (int)pauses : 0;
	return l->said < REFUSALS_AT_ONCE;
}

/* A pipe that can be written to takes a line whole; the manager waits for no reader. */
static bool can_write(void)
{
	struct pollfd p = { .fd = STDOUT_FILENO, .events = POLLOUT };

	return poll(&p, 1, 0) == 1 && p.revents & POLLOUT;
}

void refusals_say(struct refusals *l, __u64 now_ms, const struct refusal *r)
{
	char a[ADDRESS_LEN];

	if (!may_say(l, now_ms) || !can_write()) {
		l->left_out++;
		return;
	}
	l->said++;
	if (l->left_out)
		printf("refused %llu times besides; fpisa status counts them by reason\n", (unsigned long long)l->left_out);
	l->left_out = 0;
	printf("refused %s, %s%s (%s): %s%s%s%s\n", address_text(r->address, a), *r->key ? "key " : "without a key", r->key,
	       names[r->reason], r->group ? "group " : "", r->group ?: "", r->group ? ": " : "", r->text);
	fflush(stdout);
}
