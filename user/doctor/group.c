// SPDX-License-Identifier: GPL-2.0-only
/*
 * doctor --worker: check whether a program here can join groups. Use FPISA_MANAGER and FPISA_KEY as the program would
 * have them. Check the key file, GnuTLS, a connection to the manager, and an answer. The check joins no group.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"
#include "fpisa.h"
#include "lib/address.h"
#include "lib/base/clock.h"
#include "lib/manager/channel.h"
#include "lib/manager/tls.h"
#include "lib/manager/watch.h"

#define ANSWER_MS 3000
#define LATE_MS 1000 /* a part of the 4.5 s after which a silent host counts as gone */

static const char subject[] = "groups";

/* Read the key that a program would use, from the file in FPISA_KEY. Return false if the key cannot be used. */
static bool take_key(struct doctor *d, const char *file, struct fpisa_psk *key)
{
	char fix[PATH_MAX + 32], identity[FPISA_PSK_IDENTITY];

	if (fpisa_psk_last(key, file)) {
		finding(d, LEVEL_FAULT, subject, "key", doctor_key_fix(file, fix, sizeof(fix)), "%s", fpisa_error());
		return false;
	}
	fpisa_psk_identity(key, identity);
	finding(d, LEVEL_OK, subject, "key", NULL, "%s has key %s, and only its owner can read it", file, identity);
	if (fpisa_tls())
		return true;
	finding(d, LEVEL_FAULT, subject, "tls", "apt-get install -y libgnutls30", "%s", fpisa_error());
	return false;
}

/* Send a request to the manager. Return 0 with the answer, -ETIMEDOUT, or the channel's error with its message. */
static int ask(struct fpisa_channel *c, struct fpisa_manager_message *m)
{
	const struct fpisa_manager_message ping = fpisa_manager_message(FPISA_MANAGER_PING);
	uint64_t until = fpisa_now() + ANSWER_MS * 1000000ull;
	int rc = fpisa_channel_send(c, &ping);

	while (!rc) {
		struct pollfd p = {.fd = fpisa_channel_fd(c), .events = fpisa_channel_events(c)};

		rc = fpisa_channel_work(c, m);
		if (rc)
			return rc > 0 ? 0 : rc;
		if (fpisa_now() >= until)
			return -ETIMEDOUT;
		poll(&p, 1, 100);
	}
	return rc;
}

static void report(struct doctor *d, const char *host, int rc, const struct fpisa_manager_message *m, double ms)
{
	if (rc == -ETIMEDOUT)
		finding(d, LEVEL_FAULT, subject, "manager", NULL,
			"%s: the listener accepts connections but sent nothing in %d ms; is the listener fpisa serve?",
			host, ANSWER_MS);
	else if (rc == -ECONNRESET)
		finding(d, LEVEL_FAULT, subject, "manager", NULL,
			"%s: the listener closes the connection without an answer: it is not fpisa serve, or it is full",
			host);
	else if (rc)
		finding(d, LEVEL_FAULT, subject, "manager", NULL, "%s: %s", host, fpisa_error());
	else if (m->type != FPISA_MANAGER_PONG)
		finding(d, LEVEL_FAULT, subject, "manager", NULL, "%s: %s", host,
			m->type == FPISA_MANAGER_REFUSED ?
				m->refusal.text :
				"the manager answered the ping with another message; run the same "
				"release on both hosts");
	else
		finding(d, ms > LATE_MS ? LEVEL_WARN : LEVEL_OK, subject, "manager", NULL, "%s answers in %.1f ms%s",
			host, ms,
			ms > LATE_MS ?
				", which is slow: a rank counts as gone if its host acknowledges nothing for 4.5 s" :
				"");
}

static void try_manager(struct doctor *d, const char *host, const struct fpisa_psk *key)
{
	struct fpisa_manager_message m = {0};
	struct fpisa_channel *c = NULL;
	union fpisa_sockaddr to[FPISA_HOST_ADDRESSES];
	int n = fpisa_find_host(host, ANSWER_MS * 1000000ull, to), rc = n, at = 0;
	uint64_t began;

	if (n < 0) {
		finding(d, LEVEL_FAULT, subject, "manager", NULL, "%s", fpisa_error());
		return;
	}
	do
		rc = fpisa_connect_within(&to[at], ANSWER_MS);
	while (rc < 0 && ++at < n);
	if (rc < 0) {
		finding(d, LEVEL_FAULT, subject, "manager", NULL, "%s: cannot connect to TCP port %u: %s; %s", host,
			ntohs(to->v4.sin_port), strerror(-rc),
			rc == -ECONNREFUSED ? "is fpisa serve running there?" : "check the firewalls there and here");
		return;
	}
	began = fpisa_now();
	rc = fpisa_channel_call(&c, rc, key);
	if (!rc)
		rc = ask(c, &m);
	report(d, host, rc, &m, (double)(fpisa_now() - began) / 1e6);
	fpisa_channel_close(c);
}

void doctor_group(struct doctor *d, const char *aggregator)
{
	const char *host = getenv("FPISA_MANAGER"), *file = getenv("FPISA_KEY");
	bool with_key = file && *file;
	struct fpisa_psk key;

	if (!with_key && !(host && *host)) {
		finding(d, LEVEL_OK, subject, "manager", NULL,
			"the manager was not checked; to check the manager, set FPISA_MANAGER and FPISA_KEY as for the programs here");
		return;
	}
	if (!with_key || take_key(d, file, &key))
		try_manager(d, host && *host ? host : aggregator, with_key ? &key : NULL);
	explicit_bzero(&key, sizeof(key));
}
