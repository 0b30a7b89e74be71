// SPDX-License-Identifier: GPL-2.0-only
/* The manager's part of the configuration file; policy.h has the contracts. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/names.h"
#include "cli/options.h"
#include "policy.h"

#define UDP_FIRST 18100
#define UDP_LAST 18999

enum {
	OPT_KEY_FILE = OPT_VERB,
	OPT_WITHOUT_KEY,
	OPT_USER,
	OPT_LISTEN,
	OPT_PORT,
	OPT_JOBS,
	OPT_SLOTS,
	OPT_SIZE,
	OPT_UDP_PORTS,
	OPT_NETWORKS,
	OPT_FORMATS,
	OPT_MODES,
	OPT_FANOUT,
	OPT_KEY_GROUPS,
	OPT_KEY_JOBS,
	OPT_KEY_SLOTS,
	OPT_MANAGER,
	OPT_ADDRESS,
	OPT_RATE,
	OPT_AGGREGATOR_KEYS,
	OPT_COLOCATED,
	OPT_LEAVES,
	OPT_ROOTS,
};

const struct option manager_options[] = {{"key-file", required_argument, NULL, OPT_KEY_FILE},
					 {"without-key", no_argument, NULL, OPT_WITHOUT_KEY},
					 {"user", required_argument, NULL, OPT_USER},
					 {"listen", required_argument, NULL, OPT_LISTEN},
					 {"port", required_argument, NULL, OPT_PORT},
					 {"jobs", required_argument, NULL, OPT_JOBS},
					 {"slots", required_argument, NULL, OPT_SLOTS},
					 {"size", required_argument, NULL, OPT_SIZE},
					 {"udp-ports", required_argument, NULL, OPT_UDP_PORTS},
					 {"networks", required_argument, NULL, OPT_NETWORKS},
					 {"formats", required_argument, NULL, OPT_FORMATS},
					 {"modes", required_argument, NULL, OPT_MODES},
					 {"fanout", required_argument, NULL, OPT_FANOUT},
					 {"key-groups", required_argument, NULL, OPT_KEY_GROUPS},
					 {"key-jobs", required_argument, NULL, OPT_KEY_JOBS},
					 {"key-slots", required_argument, NULL, OPT_KEY_SLOTS},
					 {"manager", required_argument, NULL, OPT_MANAGER},
					 {"address", required_argument, NULL, OPT_ADDRESS},
					 {"rate", required_argument, NULL, OPT_RATE},
					 {"aggregator-keys", required_argument, NULL, OPT_AGGREGATOR_KEYS},
					 {"colocated", required_argument, NULL, OPT_COLOCATED},
					 {"leaves", no_argument, NULL, OPT_LEAVES},
					 {"roots", required_argument, NULL, OPT_ROOTS},
					 {0}};

const struct option manager_key_options[] = {{"groups", required_argument, NULL, OPT_KEY_GROUPS},
					     {"jobs", required_argument, NULL, OPT_KEY_JOBS},
					     {"slots", required_argument, NULL, OPT_KEY_SLOTS},
					     {0}};

const struct option manager_rack_options[] = {{"hosts", required_argument, NULL, 0}, {0}};

void manager_policy_init(struct manager_policy *p)
{
	*p = (struct manager_policy){
		.jobs = ~0ull,
		.size = FPISA_MAX_RANKS,
		.roots = 1,
		.udp_first = UDP_FIRST,
		.udp_last = UDP_LAST,
		.formats = UINT32_MAX,
		.modes = UINT32_MAX,
		.quota = {.groups = FPISA_MAX_JOBS, .jobs = FPISA_MAX_JOBS},
	};
}

struct manager_quota manager_quota_of(const struct manager_policy *p, const char *name)
{
	struct manager_quota q = p->quota;

	for (int i = 0; i < p->keys; i++) {
		const struct manager_quota *own = &p->key[i].quota;

		if (strcmp(p->key[i].name, name))
			continue;
		q.groups = own->groups ?: q.groups;
		q.jobs = own->jobs ?: q.jobs;
		q.slots = own->slots ?: q.slots;
	}
	return q;
}

__u32 manager_window(__u32 wanted, __u32 free, __u32 others)
{
	__u32 least = wanted < FPISA_MANAGER_LEAST_WINDOW ? wanted : FPISA_MANAGER_LEAST_WINDOW;
	__u32 kept = others * FPISA_MANAGER_LEAST_WINDOW, most = others ? free / 4 : free;

	if (least + kept <= free && most > free - kept)
		most = free - kept;
	while (wanted > least && wanted > most)
		wanted /= 2;
	return wanted <= free ? wanted : 0;
}

static bool is_in(const struct manager_network *n, const struct fpisa_address *address)
{
	const struct fpisa_address own = fpisa_network_of(address, n->bits);

	/* The network ::/0 does not contain IPv4 addresses. */
	return fpisa_same_address(&own, &n->address) && fpisa_is_ipv4(&own) == fpisa_is_ipv4(address);
}

bool manager_network_allowed(const struct manager_policy *p, const struct fpisa_address *address)
{
	for (int i = 0; i < p->networks; i++)
		if (is_in(&p->network[i], address))
			return true;
	return !p->networks;
}

int manager_rack_of(const struct manager_policy *p, const struct fpisa_address *address)
{
	for (int i = 0; i < p->rack_networks; i++)
		if (is_in(&p->rack_network[i].network, address))
			return p->rack_network[i].rack;
	return -1;
}

bool manager_is_exact(const struct fpisa_manager_spec *s)
{
	struct fpisa_format f = fpisa_format_of(s->format ?: FPISA_FORMAT_FP32);

	return fpisa_family_limbs(fpisa_family(f, s->mode ?: FPISA_MODE_FPISA));
}

bool manager_may_add(const struct manager_policy *p, const char *owner)
{
	if (!*owner)
		return p->without_key && !p->keyed && !p->aggregator_keys;
	for (int i = 0; i < p->aggregator_keys; i++)
		if (!strcmp(p->aggregator_key[i], owner))
			return true;
	return false;
}

/* -- keys ------------------------------------------------------------------ */

/*
 * Return the first `n` bytes of `text`. Return all of a text that is longer than any valid text, because its beginning
 * might be valid.
 */
static const char *first_of(const char *text, size_t n, char *out, size_t size)
{
	if (n >= size)
		return text;
	memcpy(out, text, n);
	out[n] = 0;
	return out;
}

/* Call take() for each part of a list, "a,b,c". */
static int each(const char *list, int (*take)(struct manager_policy *p, const char *one), struct manager_policy *p)
{
	char one[64];
	size_t n;

	for (;; list += n + 1) {
		int err;

		n = strcspn(list, ",");
		err = take(p, first_of(list, n, one, sizeof(one)));
		if (err || !list[n])
			return err;
	}
}

/* Parse ADDR/LENGTH, or a host's address. */
static int parse_network(const char *what, const char *s, struct manager_network *out)
{
	const char *slash = strchr(s, '/');
	char address[FPISA_ADDRESS_LEN];
	struct fpisa_address a, network;
	uint64_t length;
	int err;

	err = parse_address(what, first_of(s, strcspn(s, "/"), address, sizeof(address)), &a);
	if (err)
		return err;
	length = fpisa_is_ipv4(&a) ? 32 : 128;
	if (slash)
		err = parse_number(what, slash + 1, 0, length, &length);
	if (err)
		return err;
	length += fpisa_is_ipv4(&a) ? 96 : 0;
	network = fpisa_network_of(&a, (unsigned int)length);
	if (!fpisa_same_address(&a, &network))
		return refuse(BAD_USAGE, "%s: %s has bits set after its prefix length; clear them, as in 10.0.0.0/8",
			      what, s);
	*out = (struct manager_network){.address = a, .bits = (unsigned int)length};
	return 0;
}

static int take_network(struct manager_policy *p, const char *s)
{
	struct manager_network n;
	int err = parse_network("--networks", s, &n);

	if (err)
		return err;
	if (p->networks == MANAGER_NETWORKS)
		return refuse(BAD_USAGE, "--networks: more than %d networks are not supported; merge some",
			      MANAGER_NETWORKS);
	p->network[p->networks++] = n;
	return 0;
}

/* Add a network to the last rack. */
static int take_rack_network(struct manager_policy *p, const char *s)
{
	struct manager_network n;
	int err = parse_network("--hosts", s, &n);

	if (err)
		return err;
	for (int i = 0; i < p->rack_networks; i++) {
		const struct manager_network *o = &p->rack_network[i].network;

		if (is_in(n.bits < o->bits ? &n : o, n.bits < o->bits ? &o->address : &n.address))
			return refuse(BAD_USAGE,
				      "--hosts: %s is in rack %s already, at least in part; give each host once", s,
				      p->rack[p->rack_network[i].rack]);
	}
	if (p->rack_networks == MANAGER_RACK_NETWORKS)
		return refuse(BAD_USAGE, "--hosts: more than %d addresses and networks are not supported; merge some",
			      MANAGER_RACK_NETWORKS);
	p->rack_network[p->rack_networks].network = n;
	p->rack_network[p->rack_networks++].rack = p->racks - 1;
	return 0;
}

static int take_format(struct manager_policy *p, const char *s)
{
	int id, err = parse_name("--formats", s, format_names, &id);

	if (!err)
		p->formats |= 1u << id;
	return err;
}

static int take_mode(struct manager_policy *p, const char *s)
{
	int id, err = parse_name("--modes", s, mode_names, &id);

	if (!err)
		p->modes |= 1u << id;
	return err;
}

int manager_parse_rate(const char *arg, __u32 *rate)
{
	double bits = 0;
	int err = parse_rate("--rate", arg, &bits);

	*rate = (__u32)(bits / 1e6);
	return err ?: *rate ? err : refuse(BAD_USAGE, "--rate: '%s' is less than 1M", arg);
}

static int take_aggregator_key(struct manager_policy *p, const char *s)
{
	if (!fpisa_psk_name_valid(s))
		return refuse(BAD_USAGE, "--aggregator-keys: '%s' is not the name of a key", s);
	if (p->aggregator_keys == MANAGER_AGGREGATOR_KEYS)
		return refuse(BAD_USAGE, "--aggregator-keys: more than %d keys are not supported; name fewer",
			      MANAGER_AGGREGATOR_KEYS);
	strcpy(p->aggregator_key[p->aggregator_keys++], s);
	return 0;
}

static int take_jobs(struct manager_policy *p, const char *arg)
{
	__u32 number[FPISA_MAX_JOBS], n;
	int err = parse_numbers("--jobs", "job", arg, number, FPISA_MAX_JOBS, &n);

	p->jobs = 0;
	for (__u32 i = 0; !err && i < n; i++) {
		if (number[i] >= FPISA_MAX_JOBS)
			return refuse(BAD_USAGE, "--jobs: job numbers are 0 to %d", FPISA_MAX_JOBS - 1);
		p->jobs |= 1ull << number[i];
	}
	return err;
}

/* Parse FIRST-LAST. */
static int take_ports(struct manager_policy *p, const char *arg)
{
	const char *dash = strchr(arg, '-');
	uint64_t first = 0, last = 0;
	char text[8];
	int err;

	if (!dash)
		return refuse(BAD_USAGE, "--udp-ports: '%s' is not FIRST-LAST, as in 20000-20999", arg);
	err = parse_number("--udp-ports", first_of(arg, (size_t)(dash - arg), text, sizeof(text)), 1024, 65535, &first);
	if (!err)
		err = parse_number("--udp-ports", dash + 1, first, 65535, &last);
	p->udp_first = first;
	p->udp_last = last;
	return err;
}

static int take_number(const char *what, const char *arg, __u32 most, __u32 *out)
{
	uint64_t n;
	int err = parse_number(what, arg, 1, most, &n);

	*out = n;
	return err;
}

int manager_key_option(struct manager_quota *q, int opt, const char *arg)
{
	switch (opt) {
	case OPT_KEY_GROUPS:
		return take_number("--groups", arg, FPISA_MAX_JOBS, &q->groups);
	case OPT_KEY_JOBS:
		return take_number("--jobs", arg, FPISA_MAX_JOBS, &q->jobs);
	case OPT_KEY_SLOTS:
		return take_number("--slots", arg, FPISA_MAX_SLOTS, &q->slots);
	}
	return BAD_USAGE;
}

/* Take an option about this host as another manager's aggregator, or about aggregators that register here. */
static int aggregator_option(struct manager_policy *p, int opt, const char *arg)
{
	switch (opt) {
	case OPT_MANAGER:
		p->manager = arg;
		return 0;
	case OPT_ADDRESS:
		return parse_machines("--address", arg, &p->address, &p->other);
	case OPT_RATE:
		return manager_parse_rate(arg, &p->rate);
	case OPT_COLOCATED:
		p->colocated = arg;
		return 0;
	default:
		p->aggregator_keys = 0;
		return each(arg, take_aggregator_key, p);
	}
}

int manager_option(struct manager_policy *p, int opt, const char *arg)
{
	__u32 number = 0;
	int id = 0, err;

	switch (opt) {
	case OPT_KEY_FILE:
		p->key_file = arg;
		p->keyed = true;
		return 0;
	case OPT_WITHOUT_KEY:
		p->without_key = true;
		return 0;
	case OPT_LEAVES:
		p->leaves = true;
		return 0;
	case OPT_ROOTS:
		return take_number("--roots", arg, FPISA_MAX_SHARDS, &p->roots);
	case OPT_USER:
		p->user = arg;
		return 0;
	case OPT_LISTEN:
		return parse_listen("--listen", arg, &p->listen);
	case OPT_PORT:
		err = take_number("--port", arg, 65535, &number);
		p->port = number;
		return err;
	case OPT_MANAGER:
	case OPT_ADDRESS:
	case OPT_RATE:
	case OPT_AGGREGATOR_KEYS:
	case OPT_COLOCATED:
		return aggregator_option(p, opt, arg);
	case OPT_JOBS:
		return take_jobs(p, arg);
	case OPT_SLOTS:
		return take_number("--slots", arg, FPISA_MAX_SLOTS, &p->slots);
	case OPT_SIZE:
		return take_number("--size", arg, FPISA_MAX_RANKS, &p->size);
	case OPT_UDP_PORTS:
		return take_ports(p, arg);
	case OPT_NETWORKS:
		return each(arg, take_network, p);
	case OPT_FORMATS:
		p->formats = 0;
		return each(arg, take_format, p);
	case OPT_MODES:
		p->modes = 0;
		return each(arg, take_mode, p);
	case OPT_FANOUT:
		err = parse_name("--fanout", arg, fanout_names, &id);
		p->unicast = id == FPISA_FANOUT_UNICAST;
		return err;
	}
	return manager_key_option(&p->quota, opt, arg);
}

int manager_key_add(struct manager_policy *p, const char *name, struct manager_quota **q)
{
	if (!fpisa_psk_name_valid(name))
		return refuse(BAD_USAGE, "'%s' is not the name of a key", name);
	for (int i = 0; i < p->keys; i++)
		if (!strcmp(p->key[i].name, name))
			return refuse(BAD_USAGE, "key %s is given twice", name);
	if (p->keys == MANAGER_KEYS)
		return refuse(BAD_USAGE, "more than %d keys are not supported; remove some sections [key NAME]",
			      MANAGER_KEYS);
	snprintf(p->key[p->keys].name, sizeof(p->key[0].name), "%s", name);
	*q = &p->key[p->keys++].quota;
	return 0;
}

int manager_rack_add(struct manager_policy *p, const char *name)
{
	if (!fpisa_psk_name_valid(name))
		return refuse(BAD_USAGE, "'%s' is not the name of a rack; use 1 to %d letters, digits, '.', '_' and '-'",
			      name, FPISA_PSK_NAME - 1);
	for (int i = 0; i < p->racks; i++)
		if (!strcmp(p->rack[i], name))
			return refuse(BAD_USAGE, "rack %s is given twice; list all of its hosts in one section", name);
	if (p->racks == MANAGER_RACKS)
		return refuse(BAD_USAGE, "more than %d racks are not supported; remove some sections [rack NAME]",
			      MANAGER_RACKS);
	strcpy(p->rack[p->racks++], name);
	return 0;
}

int manager_rack_hosts(struct manager_policy *p, const char *list)
{
	return each(list, take_rack_network, p);
}

int manager_policy_fit(struct manager_policy *p, __u32 slots)
{
	if (p->slots > slots)
		return refuse(-EINVAL,
			      "[manager], slots = %u: the datapath has %u; give fewer, or load the datapath with a "
			      "larger --slots",
			      p->slots, slots);
	p->slots = p->slots ?: slots;
	p->exact_slots = slots / FPISA_EXACT_SHARE;
	p->quota.slots = p->quota.slots ?: p->slots;
	return 0;
}

/* An invalid port is not an error here: the lookup of the host refuses it. */
__u16 manager_policy_port(const struct manager_policy *p)
{
	char copy[256], *number = NULL;
	__u16 port = FPISA_PORT;

	if (!p->manager || !p->colocated)
		return p->port;
	snprintf(copy, sizeof(copy), "%s", p->manager);
	if (fpisa_cut_endpoint(copy, &number) && number && sscanf(number, "%5hu", &port) != 1)
		port = 0;
	return port;
}

/* Return the length of the host's part of "HOST:PORT", with its brackets. */
static int host_length(const char *text)
{
	const char *bracket = strchr(text, ']'), *colon = strrchr(text, ':');

	return bracket ? (int)(bracket + 1 - text) : colon ? (int)(colon - text) : (int)strlen(text);
}

int manager_policy_check(const struct manager_policy *p)
{
	if (p->port && p->port != manager_policy_port(p))
		return refuse(BAD_USAGE,
			      "port = %u, but the other hosts look for the manager at port %u; write manager = %.*s:%u",
			      p->port, manager_policy_port(p), host_length(p->manager), p->manager, p->port);
	if (p->roots > 1 && !p->leaves)
		return refuse(BAD_USAGE, "roots = %u needs leaves = yes; add the line, or remove roots", p->roots);
	if (!p->key_file && !p->without_key)
		return refuse(BAD_USAGE,
			      "key-file is missing; create one with fpisa key new, or set without-key = yes to serve "
			      "every host");
	return 0;
}

const struct passwd *manager_user(const struct manager_policy *p)
{
	const char *user = p->user ?: "nobody";
	const struct passwd *account = getpwnam(user);

	if (!account)
		refuse(-ENOENT, "user '%s' does not exist; name another in [manager], user = NAME", user);
	else if (!account->pw_uid)
		refuse(-EINVAL, "user '%s' is root; name another in [manager], user = NAME", user);
	return account && account->pw_uid ? account : NULL;
}
