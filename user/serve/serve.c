// SPDX-License-Identifier: GPL-2.0-only
/*
 * `fpisa serve [FILE]` passes events of connections, of the helper and of time to manager/group.c, and executes the
 * requests of manager/group.c. The process has one thread, which never blocks.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "agent.h"
#include "cli/log.h"
#include "cli/options.h"
#include "cli/print.h"
#include "config/config.h"
#include "colocation.h"
#include "conn.h"
#include "fpisa.h"
#include "helper.h"
#include "host/link.h"
#include "host/listen.h"
#include "host/route.h"
#include "lib/manager/interface.h"
#include "process.h"
#include "serve.h"

#define TICK_MS 250 /* must be less than PROCESS_TURN_MS */
#define LOOK_MS 1000

struct serve {
	struct conns_of conns; /* must be the first member, because conn.c uses it as `arg` */
	struct manager manager;
	struct helper helper;
	struct fpisa_psks keys;
	struct manager_policy policy;
	struct log news, errors; /* logs on stdout and stderr */
	int signals;
	int failed;		/* error that ends the process */
	int found;		/* number of groups at the start */
	__u64 tick_ms, look_ms; /* times of the next tick and look */
};

/* -- requests of the groups ------------------------------------------------------ */

static void ask(struct serve *s, const struct helper_request *q)
{
	if (!s->failed)
		s->failed = helper_ask(&s->helper, q);
}

static void make(void *arg, const struct manager_make *m)
{
	ask(arg, &(struct helper_request){.what = HELPER_MAKE, .place = m->place, .make = *m});
}

static void remove_job(void *arg, __u32 number, __u64 token)
{
	ask(arg, &(struct helper_request){.what = HELPER_REMOVE, .remove = {.number = number, .token = token}});
}

static void record(void *arg, __u32 place, const struct group_record *r)
{
	struct helper_request q;

	q.what = HELPER_RECORD;
	q.place = place;
	memcpy(&q.record, r, group_record_bytes(r));
	ask(arg, &q);
}

/* Pass the counts since the last call to the helper, which stores the counts with the records. */
static void give_counts(struct serve *s)
{
	const struct manager_counts none = {0};

	if (!memcmp(&s->manager.count, &none, sizeof(none)))
		return;
	ask(s, &(struct helper_request){.what = HELPER_COUNT, .counts = s->manager.count});
	s->manager.count = none;
}

static void note_aggregator(void *arg, __u32 place, const struct aggregator_record *r)
{
	ask(arg, &(struct helper_request){.what = HELPER_AGGREGATOR, .place = place, .aggregator = *r});
}

static void say(void *arg, const char *text)
{
	struct serve *s = arg;

	log_line(&s->news, s->manager.now_ms, "%s", text);
}

/* Return the port by which frames leave on the route: the port of a bridge if it is known, else the route's interface. */
static __u32 port_of(const struct route *way)
{
	struct link l, below;

	if (link_get(way->ifindex, &l))
		return way->ifindex;
	if (!link_below_vlan(&l, &below))
		l = below;
	return (strcmp(l.kind, "bridge") ? 0 : bridge_port_towards(l.index, &way->next)) ?: way->ifindex;
}

/*
 * Return the rate of this datapath's ports towards the ranks. Each port counts once, because an aggregator with a port
 * for each rank is the switch of the ranks.
 */
static __u32 rate(void *arg, const struct group_record *r)
{
	const struct serve *s = arg;
	__u32 sum = 0, seen[FPISA_MAX_RANKS];
	char dev[IF_NAMESIZE];

	for (__u32 k = 0, n = 0; k < r->size; k++) {
		const struct fpisa_address local = group_local(r, k);
		struct route way = {0};
		__u32 i = 0, port;

		if (route_get(r->rank[k].address, local, 0, &way) || way.local)
			continue;
		port = port_of(&way);
		while (i < n && seen[i] != port)
			i++;
		if (i < n)
			continue;
		seen[n++] = port;
		if (if_indextoname(port, dev))
			sum += fpisa_link_rate(dev);
	}
	return s->policy.rate ?: sum;
}

static __u64 random_word(void *arg)
{
	struct serve *s = arg;
	__u64 word = 0;

	while (!s->failed && !word)
		if (getrandom(&word, sizeof(word), 0) != sizeof(word))
			s->failed = fail(-EIO, NULL, "serve: cannot get random numbers; allow it to call getrandom()");
	return word ?: 1;
}

static const struct manager_ops ops = {
	.send = conn_send,
	.hang_up = conn_hang_up,
	.refused = conn_refused,
	.make = make,
	.remove = remove_job,
	.record = record,
	.aggregator = note_aggregator,
	.say = say,
	.rate = rate,
	.random = random_word,
};

static void found(void *arg, __u32 place, const struct group_record *r)
{
	struct serve *s = arg;

	manager_restore(&s->manager, place, r);
	s->found++;
}

/* -- events ---------------------------------------------------------------------- */

/* Take a new configuration. Existing connections do not change. A removed key is refused from now on. */
static void take_news(struct serve *s, const struct helper_news *news)
{
	if (news->err) {
		log_line(&s->errors, s->manager.now_ms,
			 "fpisa: serve: the new configuration was not accepted; see the message above; fpisa serve continues with the previous configuration");
		return;
	}
	s->policy = news->policy;
	s->keys = news->keys;
	s->conns.keys = s->policy.keyed ? &s->keys : NULL;
	log_line(&s->news, s->manager.now_ms, "configuration read again; keys: %zu", s->policy.keyed ? s->keys.n : 0);
}

static void take_answers(struct serve *s)
{
	struct helper_answer a;
	int rc;

	while ((rc = helper_answer(&s->helper, &a)) > 0) {
		if (a.what == HELPER_MAKE)
			manager_made(&s->manager, &a.made);
		if (a.what == HELPER_READ)
			take_news(s, &a.news);
		for (__u32 i = 0; a.what == HELPER_LOOK && i < GROUPS; i++)
			manager_kill(&s->manager, i, a.kill[i]);
	}
	explicit_bzero(&a, sizeof(a));
	if (rc < 0)
		s->failed = rc;
}

/*
 * Read the messages of aggregators before a check for silence, because their messages may be pending behind many
 * others.
 */
static void hear_aggregators(struct serve *s)
{
	for (int i = 0; i < AGGREGATORS; i++)
		if (s->manager.aggregator[i].caller)
			conn_work(&s->conns, conn_of(s->manager.aggregator[i].caller));
}

static void time_passes(struct serve *s)
{
	if (s->manager.now_ms >= s->tick_ms) {
		s->tick_ms = s->manager.now_ms + TICK_MS;
		hear_aggregators(s);
		manager_tick(&s->manager);
		conns_tick(&s->conns);
	}
	if (s->manager.now_ms >= s->look_ms) {
		s->look_ms = s->manager.now_ms + LOOK_MS;
		log_turn(&s->news, s->manager.now_ms);
		log_turn(&s->errors, s->manager.now_ms);
		give_counts(s);
		manager_record_gathering(&s->manager);
		ask(s, &(struct helper_request){.what = HELPER_LOOK});
	}
}

/*
 * Handle events until the process must end. Take one event at a time, because an event may end other connections with
 * pending events. epoll reports all other events again.
 */
static int loop(struct serve *s)
{
	while (!s->failed) {
		struct epoll_event e;
		int n;

		conns_flush(&s->conns);
		n = epoll_wait(s->conns.epoll, &e, 1, TAILQ_EMPTY(&s->conns.dirty) ? TICK_MS : 0);
		s->manager.now_ms = process_ms();
		s->manager.wall_s = (__u64)time(NULL);
		if (n > 0 && e.data.ptr == &s->signals) {
			if (process_take_signal(s->signals, &s->helper, &s->failed)) {
				give_counts(s);
				return 0;
			}
		} else if (n > 0 && e.data.ptr == &s->helper)
			take_answers(s);
		else if (n > 0 && !e.data.ptr)
			conns_strangers(&s->conns);
		else if (n > 0)
			conn_work(&s->conns, e.data.ptr);
		time_passes(s);
		if (!s->failed)
			s->failed = helper_turn(&s->helper);
	}
	return s->failed;
}

/* -- start ------------------------------------------------------------------------- */

static int watch_events(struct serve *s)
{
	struct epoll_event helper = {.events = EPOLLIN, .data.ptr = &s->helper},
			   signals = {.events = EPOLLIN, .data.ptr = &s->signals};

	s->signals = process_signals();
	if (s->signals < 0)
		return -EIO;
	if (epoll_ctl(s->conns.epoll, EPOLL_CTL_ADD, s->helper.fd, &helper) ||
	    epoll_ctl(s->conns.epoll, EPOLL_CTL_ADD, s->signals, &signals))
		return fail(-errno, NULL, "serve: cannot wait for the helper process (epoll)");
	return 0;
}

/* Open the logs, so that this process never waits for a reader of its output. */
static void open_logs(struct serve *s)
{
	log_open(&s->conns.refusals, STDOUT_FILENO);
	s->conns.refusals.hint = "fpisa status counts refusals by reason";
	log_open(&s->news, STDOUT_FILENO);
	log_open(&s->errors, STDERR_FILENO);
	if (s->errors.fd != STDERR_FILENO)
		dup2(s->errors.fd, STDERR_FILENO);
}

static int start(struct serve *s, struct config *c, const char *pin, struct colocated *loaded)
{
	const struct manager_policy *p = &s->policy;
	struct rlimit files = {MANAGER_DESCRIPTORS, MANAGER_DESCRIPTORS};
	struct helper_ready datapath;
	char a[ENDPOINT_LEN];
	__u16 port;
	int err;

	open_logs(s);
	s->policy = c->manager;
	s->manager.policy = p;
	s->manager.ops = &ops;
	s->manager.arg = s;
	s->manager.now_ms = process_ms();
	s->conns.manager = &s->manager;
	/* Before loading, check everything that needs no datapath. */
	if (p->key_file && fpisa_psks_read(&s->keys, p->key_file))
		return refuse(-EINVAL, "serve: %s", fpisa_error());
	err = process_check(p) ?: colocate(c, pin, loaded) ?: helper_start(&s->helper, pin, c, &datapath, found, s);
	if (!err)
		err = manager_policy_fit(&s->policy, datapath.slots);
	if (err)
		return err;
	s->manager.aggregator_port = (__u16)datapath.port;
	s->conns.keys = p->key_file ? &s->keys : NULL;
	setrlimit(RLIMIT_NOFILE, &files);
	port = manager_policy_port(p) ?: s->manager.aggregator_port;
	err = conns_open(&s->conns, p, port) ?: watch_events(s) ?: process_drop(p);
	if (err)
		return err;
	/* After this point the start cannot fail, so the objects of the helper stay even if this process ends soon. */
	ask(s, &(struct helper_request){.what = HELPER_LOOK});
	/* Write without stdio, so that a manager with a closed stdout also serves, and ends without an error. */
	dprintf(STDOUT_FILENO, "serving groups at %s; groups found: %d\n", listen_text(p->listen, port, a), s->found);
	process_tell_systemd();
	return 0;
}

static int serve_groups(struct config *c, const char *pin)
{
	struct serve *s = calloc(1, sizeof(*s));
	struct colocated loaded = {.n = 0};
	int err;

	if (!s)
		return fail(-ENOMEM, NULL, "serve: cannot store its state");
	err = start(s, c, pin, &loaded);
	if (err) {
		helper_end(&s->helper);
		colocate_undo(&loaded, pin);
	} else {
		err = loop(s);
	}
	explicit_bzero(&s->keys, sizeof(s->keys));
	free(s);
	return err;
}

enum { OPT_SERVE_MANAGER = OPT_VERB, OPT_SERVE_ADDRESS, OPT_SERVE_RATE, OPT_SERVE_COLOCATED };

/* Parse the options, which must precede the file. */
static int take_options(int argc, char **argv, struct common *common, struct config_given *own)
{
	static const struct option options[] = {COMMON_OPTIONS,
						{"manager", required_argument, NULL, OPT_SERVE_MANAGER},
						{"address", required_argument, NULL, OPT_SERVE_ADDRESS},
						{"rate", required_argument, NULL, OPT_SERVE_RATE},
						{"colocated", required_argument, NULL, OPT_SERVE_COLOCATED},
						{0}};
	int opt, err = 0;

	while (!err && (opt = next_option(argc, argv, options)) != -1)
		switch (opt) {
		case OPT_SERVE_MANAGER:
			own->manager = optarg;
			break;
		case OPT_SERVE_ADDRESS:
			err = parse_machines("--address", optarg, &own->address, &own->other);
			break;
		case OPT_SERVE_RATE:
			err = manager_parse_rate(optarg, &own->rate);
			break;
		case OPT_SERVE_COLOCATED:
			own->colocated = optarg;
			break;
		default:
			err = common_option(common, opt);
		}
	if (!err && argc - optind > 1)
		err = refuse(BAD_USAGE, "serve: more than one configuration file; give one at most");
	return err;
}

int verb_serve(int argc, char **argv)
{
	struct common common = COMMON_INIT;
	struct config_given own = {0};
	struct config *c = NULL;
	const char *file;
	int err = take_options(argc, argv, &common, &own);

	if (err)
		return BAD_USAGE;
	file = optind < argc ? argv[optind] : CONFIG_FILE;
	err = config_read(&c, file);
	if (!err && !c->manager_line)
		err = refuse(-EINVAL, "%s has no section [manager], which sets the limits of groups; see fpisa(8)",
			     file);
	err = err ?: config_give(c, &own);
	if (!err) {
		const char *pin = common.pin ?: c->common.pin;

		err = config_manager_elsewhere(c) ? agent_run(c, pin) : serve_groups(c, pin);
	}
	config_free(c);
	return err;
}
