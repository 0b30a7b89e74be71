// SPDX-License-Identifier: GPL-2.0-only
/*
 * `fpisa serve --manager HOST`; agent.h has the contract. The process has one thread, which blocks only while it
 * connects, for at most half a second.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "agent.h"
#include "agent_jobs.h"
#include "cli/log.h"
#include "cli/print.h"
#include "cli/report.h"
#include "colocation.h"
#include "fpisa.h"
#include "lib/address.h"
#include "lib/manager/channel.h"
#include "lib/manager/interface.h"
#include "lib/manager/watch.h"
#include "process.h"

#define CONNECT_MS 500 /* time limit of one attempt */
#define AGAIN_MS 200   /* pause between two attempts */
#define LOOK_MS 500    /* time between two checks for groups that a user of this host has ended */

struct agent {
	const char *manager, *key_file; /* values at the start */
	struct manager_policy policy;	/* policy as last read */
	struct agent_jobs jobs;
	struct helper helper;
	struct fpisa_psk psk;
	bool keyed;	/* the next connection uses `psk`, the last key of the file */
	bool colocated; /* this host may itself be the manager, because all hosts may have the same file */
	union fpisa_sockaddr to[FPISA_HOST_ADDRESSES];
	int addresses, at;
	struct fpisa_channel *channel; /* connection to the manager; NULL: not connected */
	bool registered;	       /* the agent is registered by this connection */
	bool ever;		       /* the agent has been registered by some connection */
	bool told;		       /* the log has reported the lost connection; reset by a new connection */
	__u16 port;		       /* UDP port of the datapath */
	struct aggregator_record said; /* values of the registration, for users of this host */
	__u64 now_ms, heard_ms, beat_ms, look_ms, try_ms;
	int signals, failed;
	struct log news, errors;
};

/* -- requests of the jobs --------------------------------------------------------- */

static void ask(void *arg, const struct helper_request *q)
{
	struct agent *a = arg;

	if (!a->failed)
		a->failed = helper_ask(&a->helper, q);
}

/*
 * Send a message to the manager. Ignore a full queue, because a manager that reads no messages sends none either, and
 * is disconnected for its silence.
 */
static void tell(void *arg, const struct fpisa_manager_message *m)
{
	struct agent *a = arg;

	if (a->channel && fpisa_channel_send(a->channel, m) && !fpisa_channel_flush(a->channel))
		fpisa_channel_send(a->channel, m);
}

static const struct agent_ops ops = {.ask = ask, .send = tell};

static void found(void *arg, __u32 place, const struct group_record *r)
{
	((struct agent *)arg)->jobs.group[place].record = *r;
}

/* -- the connection ----------------------------------------------------------------- */

/* Record the registration for `fpisa status` and `fpisa doctor` of this host. */
static void note_registered(struct agent *a, bool registered)
{
	struct helper_request q = {.what = HELPER_AGGREGATOR};

	a->registered = registered;
	a->said.since = (__u64)time(NULL);
	q.aggregator = registered ? a->said : (struct aggregator_record){.port = a->port};
	ask(a, &q);
}

static void drop_connection(struct agent *a, const char *why)
{
	fpisa_channel_close(a->channel);
	a->channel = NULL;
	agent_disconnected(&a->jobs);
	a->try_ms = a->now_ms + AGAIN_MS;
	a->at = (a->at + 1) % a->addresses;
	if (!a->told)
		log_line(&a->errors, a->now_ms, "fpisa: serve: manager %s: %s; fpisa serve keeps trying", a->manager,
			 why);
	a->told = true;
	if (a->registered)
		note_registered(a, false);
}

/* Register this aggregator after connecting, and again when its parameters have changed. */
static void say_register(struct agent *a)
{
	struct fpisa_manager_message m = fpisa_manager_message(FPISA_MANAGER_REGISTER);

	a->said.address = a->jobs.local;
	a->said.other = a->jobs.other;
	a->said.port = a->port;
	a->said.rate = a->policy.rate ?: fpisa_interface_rate(&a->jobs.local);
	a->said.slots = a->jobs.slots;
	m.reg = (struct fpisa_manager_register){.version = FPISA_VERSION,
						.address = a->policy.address,
						.other = a->policy.other,
						.port = a->port,
						.rate = a->said.rate,
						.slots = a->said.slots};
	tell(a, &m);
}

/* Return the address at which this aggregator receives frames. */
static struct fpisa_address address_of(const struct agent *a)
{
	return fpisa_is_address(&a->policy.address) ? a->policy.address : a->said.host;
}

static void begin_connection(struct agent *a, int fd)
{
	union fpisa_sockaddr local = {.any = {.sa_family = AF_UNSPEC}};
	socklen_t n = sizeof(local);

	getsockname(fd, &local.any, &n);
	a->said = (struct aggregator_record){.host = fpisa_address_from(&local)};
	a->jobs.local = address_of(a);
	a->jobs.other = a->policy.other;
	snprintf(a->said.owner, sizeof(a->said.owner), "%s", a->keyed ? a->psk.name : "");
	say_register(a);
}

/* Return whether this host has received the manager's address since the start, and is the manager. */
static bool is_manager_here(const struct agent *a)
{
	const struct fpisa_address manager = fpisa_address_from(&a->to[a->at]);

	return a->colocated && fpisa_address_is_here(&manager);
}

static void connect_manager(struct agent *a)
{
	int fd;

	if (is_manager_here(a)) {
		a->failed = refuse(
			-EADDRNOTAVAIL,
			"serve: manager %s: this address now belongs to this host, so this host is the manager; start "
			"fpisa serve again",
			a->manager);
		return;
	}
	fd = fpisa_connect_within(&a->to[a->at], CONNECT_MS);
	a->now_ms = process_ms();
	a->heard_ms = a->now_ms;
	if (fd < 0) {
		drop_connection(a, strerror(-fd));
		return;
	}
	if (fpisa_channel_call(&a->channel, fd, a->keyed ? &a->psk : NULL)) {
		a->channel = NULL;
		drop_connection(a, fpisa_error());
		return;
	}
	begin_connection(a, fd);
}

/*
 * Handle a refusal. If the manager has accepted this aggregator before, try again. The manager may have no free place
 * for a while, or may not know yet that an earlier connection has ended.
 */
static void take_refusal(struct agent *a, const struct fpisa_manager_refusal *r)
{
	if (a->ever || r->reason == FPISA_MANAGER_R_busy)
		drop_connection(a, r->text);
	else
		a->failed = refuse(fpisa_manager_error(r->reason), "serve: manager %s: %s", a->manager, r->text);
}

static void take_registered(struct agent *a)
{
	char at[ENDPOINT_LEN];

	note_registered(a, true);
	a->told = false;
	agent_tell_groups(&a->jobs);
	log_line(&a->news, a->now_ms, "aggregator %s of the manager at %s",
		 fpisa_endpoint_text(&a->jobs.local, a->port, at), a->manager);
	if (!a->ever)
		process_tell_systemd();
	a->ever = true;
}

static void take_message(struct agent *a, const struct fpisa_manager_message *m)
{
	a->heard_ms = a->now_ms;
	if (m->type == FPISA_MANAGER_REGISTERED)
		take_registered(a);
	else if (m->type == FPISA_MANAGER_REFUSED)
		take_refusal(a, &m->refusal);
	else
		agent_message(&a->jobs, m);
}

static void work(struct agent *a)
{
	struct fpisa_manager_message m;
	int rc = 1;

	while (a->channel && !a->failed && (rc = fpisa_channel_work(a->channel, &m)) > 0)
		take_message(a, &m);
	if (!a->channel || rc >= 0)
		return;
	if (rc == -EACCES && !a->ever)
		a->failed = refuse(
			rc,
			"serve: manager %s does not accept the last key of %s; append a line of the manager's key file to this file",
			a->manager, a->key_file ?: "key-file");
	else
		drop_connection(a, fpisa_error());
}

static void beat(struct agent *a)
{
	struct fpisa_manager_message m = fpisa_manager_message(FPISA_MANAGER_PING);

	if (a->now_ms > a->heard_ms + FPISA_MANAGER_SILENCE_MS) {
		drop_connection(a, "no answer");
		return;
	}
	if (!a->registered || a->now_ms < a->beat_ms)
		return;
	a->beat_ms = a->now_ms + FPISA_MANAGER_BEAT_MS;
	tell(a, &m);
	fpisa_channel_flush(a->channel);
}

/* -- the loop ---------------------------------------------------------------------------- */

/* Use the new key for the next connection. Keep this connection, which the manager has accepted with the old key. */
static void take_keys(struct agent *a, const struct helper_news *news)
{
	explicit_bzero(&a->psk, sizeof(a->psk));
	a->keyed = news->policy.keyed;
	if (a->keyed)
		a->psk = news->keys.psk[news->keys.n - 1];
}

/* Return the address of the policy that this host does not have, or NULL. */
static const struct fpisa_address *foreign(const struct manager_policy *p)
{
	if (fpisa_is_address(&p->address) && !fpisa_address_is_here(&p->address))
		return &p->address;
	return fpisa_is_address(&p->other) && !fpisa_address_is_here(&p->other) ? &p->other : NULL;
}

/* Take the new addresses. Keep the old addresses if a new address does not belong to this host. */
static void take_addresses(struct agent *a, const struct manager_policy *p)
{
	const struct fpisa_address *wrong = foreign(p);
	char is[ADDRESS_LEN];

	if (wrong) {
		log_line(&a->errors, a->now_ms,
			 "fpisa: serve: %s is not an address of this host, so the address is unchanged; set address to an address of this host (ip -br addr)",
			 fpisa_address_text(wrong, is));
		return;
	}
	a->policy.address = p->address;
	a->policy.other = p->other;
}

static void take_news(struct agent *a, const struct helper_news *news)
{
	const struct fpisa_address was = a->policy.address, other = a->policy.other;
	struct fpisa_address address;

	if (news->err) {
		log_line(&a->errors, a->now_ms,
			 "fpisa: serve: the new configuration was not accepted; see the message above; fpisa serve continues with the previous configuration");
		return;
	}
	a->policy = news->policy;
	a->policy.address = was;
	a->policy.other = other;
	take_addresses(a, &news->policy);
	take_keys(a, news);
	a->jobs.pool = a->policy.jobs;
	a->jobs.slots = a->policy.slots;
	log_line(&a->news, a->now_ms, "configuration read again");
	if (!a->channel)
		return;
	/* Jobs at the old address end with the connection. */
	address = address_of(a);
	if (!fpisa_same_address(&address, &a->said.address) || !fpisa_same_address(&a->policy.other, &a->said.other)) {
		drop_connection(a, "the configuration has a different address");
		a->try_ms = a->now_ms;
	} else {
		say_register(a);
	}
}

static void take_answers(struct agent *a)
{
	struct helper_answer answer;
	int rc;

	while ((rc = helper_answer(&a->helper, &answer)) > 0) {
		if (answer.what == HELPER_MAKE)
			agent_made(&a->jobs, &answer.made);
		if (answer.what == HELPER_LOOK)
			agent_killed(&a->jobs, answer.kill);
		if (answer.what == HELPER_READ)
			take_news(a, &answer.news);
	}
	explicit_bzero(&answer, sizeof(answer));
	if (rc < 0)
		a->failed = rc;
}

static void time_passes(struct agent *a)
{
	if (!a->channel && a->now_ms >= a->try_ms)
		connect_manager(a);
	if (a->channel)
		beat(a);
	if (a->now_ms < a->look_ms)
		return;
	a->look_ms = a->now_ms + LOOK_MS;
	log_turn(&a->news, a->now_ms);
	log_turn(&a->errors, a->now_ms);
	ask(a, &(struct helper_request){.what = HELPER_LOOK});
}

static int loop(struct agent *a)
{
	while (!a->failed) {
		struct pollfd p[] = {
			{.fd = a->signals, .events = POLLIN}, {.fd = a->helper.fd, .events = POLLIN}, {.fd = -1}};

		if (a->channel) {
			p[2].fd = fpisa_channel_fd(a->channel);
			p[2].events = fpisa_channel_events(a->channel);
		}
		poll(p, 3, FPISA_MANAGER_BEAT_MS / 2);
		a->now_ms = process_ms();
		if (p[0].revents && process_take_signal(a->signals, &a->helper, &a->failed))
			return 0;
		if (p[1].revents)
			take_answers(a);
		work(a);
		time_passes(a);
		if (!a->failed)
			a->failed = helper_turn(&a->helper);
	}
	return a->failed;
}

/* End the groups of an earlier process, because no manager knows their jobs. */
static void forget_groups(struct agent *a)
{
	for (__u32 i = 0; i < GROUPS; i++)
		if (a->jobs.group[i].record.id) {
			const struct group_record r = a->jobs.group[i].record;

			agent_left_over(&a->jobs, i, &r);
		}
}

static int start(struct agent *a, struct config *c, const char *pin, struct colocated *loaded)
{
	const struct fpisa_address *wrong = foreign(&a->policy);
	struct helper_ready datapath;
	char address[ADDRESS_LEN];
	int err;

	log_open(&a->news, STDOUT_FILENO);
	log_open(&a->errors, STDERR_FILENO);
	if (wrong)
		return refuse(
			-EADDRNOTAVAIL,
			"serve: %s is not an address of this host; set address to an address of this host (ip -br addr)",
			address_text(*wrong, address));
	a->addresses = fpisa_find_host(a->manager, FPISA_MANAGER_SILENCE_MS * 1000000ull, a->to);
	a->keyed = a->key_file != NULL;
	if (a->addresses < 0 || (a->keyed && fpisa_psk_last(&a->psk, a->key_file)))
		return refuse(-EINVAL, "serve: %s", fpisa_error());
	err = process_check(&c->manager)       ?:
		      colocate(c, pin, loaded) ?:
						 helper_start(&a->helper, pin, c, &datapath, found, a);
	if (!err)
		err = manager_policy_fit(&c->manager, datapath.slots);
	a->signals = err ? -1 : process_signals();
	if (!err && a->signals < 0)
		err = -EIO;
	if (!err)
		err = process_drop(&c->manager);
	if (err)
		return err;
	a->port = (__u16)datapath.port;
	a->jobs.slots = c->manager.slots;
	ask(a, &(struct helper_request){.what = HELPER_LOOK});
	note_registered(a, false);
	forget_groups(a);
	return 0;
}

int agent_run(struct config *c, const char *pin)
{
	struct agent *a = calloc(1, sizeof(*a));
	struct colocated loaded = {.n = 0};
	int err;

	if (!a)
		return fail(-ENOMEM, NULL, "serve: cannot store its state");
	a->policy = c->manager;
	a->manager = c->manager.manager;
	a->key_file = c->manager.key_file;
	a->colocated = c->manager.colocated;
	a->jobs = (struct agent_jobs){.ops = &ops, .arg = a, .pool = c->manager.jobs};
	err = start(a, c, pin, &loaded);
	if (err) {
		helper_end(&a->helper);
		colocate_undo(&loaded, pin);
	} else {
		err = loop(a);
	}
	fpisa_channel_close(a->channel);
	explicit_bzero(&a->psk, sizeof(a->psk));
	free(a);
	return err;
}
