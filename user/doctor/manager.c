// SPDX-License-Identifier: GPL-2.0-only
/* doctor: the manager of groups, as configured by [manager] of the file: keys, process, port, resources left */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/tcp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/print.h"
#include "config/config.h"
#include "datapath/groups.h"
#include "doctor.h"
#include "fpisa.h"
#include "host/listen.h"
#include "lib/address.h"
#include "lib/manager/interface.h"
#include "manager/group.h"

#define LEAST_WINDOW 8 /* smallest window of a job */

static const char subject[] = "manager";

const char *doctor_key_fix(const char *file, char *fix, size_t size)
{
	struct stat st;

	if (stat(file, &st) || !(st.st_mode & 077) || st.st_uid != geteuid())
		return NULL;
	snprintf(fix, size, "chmod 600 %s", file);
	return fix;
}

/* -- the configuration ---------------------------------------------------------- */

static bool has_key(const struct fpisa_psks *keys, const char *name)
{
	for (size_t i = 0; i < keys->n; i++)
		if (!strcmp(keys->psk[i].name, name))
			return true;
	return false;
}

/*
 * Check the keys. If `elsewhere`, this host is an aggregator of another host's manager, which uses the last key and
 * sets no limits for keys.
 */
static void check_keys(struct doctor *d, const struct manager_policy *p, bool elsewhere)
{
	struct fpisa_psks keys = {0};
	char fix[PATH_MAX + 64];
	int err;

	if (!p->key_file) {
		finding(d, p->networks || elsewhere ? LEVEL_OK : LEVEL_WARN, subject, "keys", NULL,
			"the manager has no keys: %s",
			elsewhere ?
				"the manager of this aggregator does not need a key" :
			p->networks ?
				"hosts in `networks` get jobs" :
				"every host that reaches the manager gets jobs; set key-file or networks in [manager]");
		return;
	}
	err = fpisa_psks_read(&keys, p->key_file);
	if (err == -EACCES && geteuid())
		finding(d, LEVEL_OK, subject, "keys", NULL, "this user may not read %s", p->key_file);
	else if (err == -ENOENT) {
		snprintf(fix, sizeof(fix), "fpisa key new %s %s", p->keys ? p->key[0].name : "workers", p->key_file);
		finding(d, LEVEL_FAULT, subject, "keys", elsewhere ? NULL : fix, "%s%s", fpisa_error(),
			elsewhere ? "; copy a line of the manager's key file into this file" : "");
	} else if (err)
		finding(d, LEVEL_FAULT, subject, "keys", doctor_key_fix(p->key_file, fix, sizeof(fix)), "%s",
			fpisa_error());
	else
		finding(d, LEVEL_OK, subject, "keys", NULL, "%zu %s in %s", keys.n, keys.n == 1 ? "key is" : "keys are",
			p->key_file);
	for (int i = 0; !err && !elsewhere && i < p->keys; i++) {
		char check[FPISA_PSK_NAME + 8];

		if (has_key(&keys, p->key[i].name))
			continue;
		snprintf(check, sizeof(check), "key %s", p->key[i].name);
		snprintf(fix, sizeof(fix), "fpisa key new %s %s", p->key[i].name, p->key_file);
		finding(d, LEVEL_WARN, subject, check, fix, "the key has limits in the configuration, but is not in %s",
			p->key_file);
	}
	explicit_bzero(&keys, sizeof(keys));
}

static void check_user(struct doctor *d, const struct manager_policy *p)
{
	const char *name = p->user ?: "nobody";
	const struct passwd *user = getpwnam(name);
	char fix[128];

	snprintf(fix, sizeof(fix), "useradd --system --no-create-home %s", name);
	if (!user)
		finding(d, LEVEL_FAULT, subject, "user", fix,
			"user %s does not exist; the manager's network process runs as this user", name);
	else if (!user->pw_uid)
		finding(d, LEVEL_FAULT, subject, "user", NULL, "%s is root; name another in [manager], user = NAME",
			name);
	else
		finding(d, LEVEL_OK, subject, "user", NULL, "the network process runs as %s", name);
}

/* -- the running manager --------------------------------------------------------- */

/* Return the parent of the helper `pid`, or 0 if it cannot be seen. */
static pid_t parent_of(pid_t pid)
{
	char path[32], line[512], *at;
	int parent = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	at = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
	fclose(f);
	return at && sscanf(at, ") %*c %d", &parent) == 1 ? parent : 0;
}

/* Return the process's limit of descriptors, from a file that all users may read, or -1 if unknown. */
static long long descriptors_of(pid_t pid)
{
	char path[32], line[128];
	long long n = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/limits", pid);
	f = fopen(path, "re");
	while (f && n < 0 && fgets(line, sizeof(line), f))
		if (sscanf(line, "Max open files %lld", &n) != 1)
			n = -1;
	if (f)
		fclose(f);
	return n;
}

/* Check the limit of file descriptors: each rank of each group has a connection, and so has each waiting client. */
static void check_descriptors(struct doctor *d, pid_t helper)
{
	pid_t manager = parent_of(helper);
	long long n = manager > 1 ? descriptors_of(manager) : -1;

	if (n < 0)
		return;
	if (n < MANAGER_DESCRIPTORS)
		finding(d, LEVEL_WARN, subject, "descriptors", "systemctl restart fpisa-manager",
			"process %d may open %lld files, but each rank of up to %d groups needs a connection: start it "
			"by its unit, or after ulimit -n %d",
			manager, n, GROUPS, MANAGER_DESCRIPTORS);
	else
		finding(d, LEVEL_OK, subject, "descriptors", NULL, "the limit is enough for all connections");
}

/* Parse a line of a table of the kernel. Return whether it has a listening socket; the words of *at are the kernel's. */
static bool parse_listener(const char *line, struct fpisa_address *at, unsigned int *port)
{
	unsigned int w[4] = {0}, state = 0;

	*at = FPISA_NO_ADDRESS;
	if (sscanf(line, "%*d: %8x%8x%8x%8x:%x %*[0-9A-F]:%*x %x", &w[0], &w[1], &w[2], &w[3], port, &state) == 6)
		for (int i = 0; i < 4; i++)
			at->w[i] = (FPISA_FORCE __be32)w[i];
	else if (sscanf(line, "%*d: %8x:%x %*x:%*x %x", &w[0], port, &state) == 3)
		*at = fpisa_ipv4((FPISA_FORCE __be32)w[0]);
	return state == TCP_LISTEN;
}

/* Return whether a table of the kernel, of IPv4 or IPv6, has a socket that listens at the address. */
static bool has_listener(const char *table, const struct fpisa_address *address, __u16 port)
{
	struct fpisa_address at;
	FILE *f = fopen(table, "re");
	bool found = false;
	unsigned int number;
	char line[256];

	while (f && !found && fgets(line, sizeof(line), f))
		found = parse_listener(line, &at, &number) && number == port &&
			(!fpisa_is_address(address) || !fpisa_is_address(&at) || fpisa_same_address(&at, address) ||
			 (fpisa_is_ipv4(address) && fpisa_is_ipv4(&at) && !at.w[3]));
	if (f)
		fclose(f);
	return found;
}

/* Return whether a process listens, by the kernel's tables: a firewall may keep only us out. */
static bool is_listening(const struct fpisa_address *address, __u16 port)
{
	return has_listener("/proc/self/net/tcp6", address, port) ||
	       (!fpisa_is_ipv6(address) && has_listener("/proc/self/net/tcp", address, port));
}

static void check_port(struct doctor *d, const struct manager_policy *p)
{
	__u16 port = manager_policy_port(p) ?: d->dp->control->port ?: FPISA_PORT;
	char a[ENDPOINT_LEN];

	listen_text(p->listen, port, a);
	if (is_listening(&p->listen, port))
		finding(d, LEVEL_OK, subject, "port", NULL, "the manager listens at TCP %s", a);
	else
		finding(d, LEVEL_FAULT, subject, "port", "systemctl restart fpisa-manager",
			"no process listens at TCP %s here: the manager was started with another file or with --manager, or in another network namespace",
			a);
}

static void check_pool(struct doctor *d, const struct manager_policy *p)
{
	__u32 numbers = 0, slots = 0, free_slots;

	for (__u32 job = 0; job < FPISA_MAX_JOBS; job++) {
		const struct fpisa_job *j = &d->dp->jobs[job];

		numbers += !j->active && p->jobs >> job & 1;
		if (j->active && !fpisa_is_query(j))
			slots += j->window;
	}
	free_slots = slots < d->dp->slots_n ? d->dp->slots_n - slots : 0;
	if (!numbers || free_slots < LEAST_WINDOW)
		finding(d, LEVEL_WARN, subject, "pool", NULL,
			"%u job numbers of the manager and %u slots of the datapath are free, too few for a job; fpisa group list "
			"and fpisa job list show the others' owners",
			numbers, free_slots);
	else
		finding(d, LEVEL_OK, subject, "pool", NULL,
			"%u of the manager's %d job numbers and %u of %u slots are free", numbers,
			__builtin_popcountll(p->jobs), free_slots < p->slots ? free_slots : p->slots, p->slots);
}

/* Name the aggregators that have gone since the manager was started. */
static void check_gone(struct doctor *d, const struct datapath_groups *g)
{
	char names[AGGREGATORS * (ENDPOINT_LEN + 2)] = "", a[ENDPOINT_LEN];
	struct aggregator_record r;
	size_t n = 0;

	for (__u32 i = 0; i < AGGREGATORS; i++)
		if (!datapath_aggregator_get(g, i, &r) && fpisa_is_address(&r.address) && r.gone)
			n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s", n ? ", " : "",
					      fpisa_endpoint_text(&r.address, (__u16)r.port, a));
	if (n)
		finding(d, LEVEL_WARN, subject, "aggregators", NULL,
			"groups get no shares of aggregators that are gone: %s; start fpisa serve on these hosts, or restart "
			"this manager to forget them",
			names);
}

/* Check the registration, which the agent records at the first place. A manager records other hosts there. */
static void check_registered(struct doctor *d, const struct manager_policy *p, const struct datapath_groups *g)
{
	struct aggregator_record r;
	char a[ENDPOINT_LEN];

	if (datapath_aggregator_get(g, 0, &r))
		return;
	if (fpisa_is_address(&r.address) && fpisa_address_is_here(&r.host))
		finding(d, LEVEL_OK, subject, "registered", NULL, "registered as aggregator %s with the manager at %s",
			fpisa_endpoint_text(&r.address, (__u16)r.port, a), p->manager ?: "the host of its --manager");
	else
		finding(d, LEVEL_FAULT, subject, "registered", NULL,
			"this aggregator is not registered with the manager at %s, so no group gets a share here; the log says why: "
			"journalctl -u fpisa-manager",
			p->manager ?: "the host of its --manager");
}

/*
 * Check the manager's process. `err` is 0 if the records of groups in *g could be opened, and -ENOENT if no manager has
 * ever run.
 */
static void check_process(struct doctor *d, const struct manager_policy *p, bool elsewhere,
			  const struct datapath_groups *g, int err)
{
	pid_t pid = 0;

	if (!err)
		err = datapath_groups_manager(g, &pid);
	if (err && err != -ENOENT) {
		finding(d, LEVEL_FAULT, subject, "process", NULL,
			"the manager's records in %s cannot be read, so whether fpisa serve is running is not known: %s",
			d->dp->pin, strerror(-err));
	} else if (!pid) {
		finding(d, LEVEL_FAULT, subject, "process", "systemctl enable --now fpisa-manager",
			"fpisa serve is not running: %s",
			elsewhere ? "no group gets a share here" : "no rank can join a group");
	} else {
		finding(d, LEVEL_OK, subject, "process", NULL, "fpisa serve is running, and the helper is process %d",
			pid);
		if (elsewhere) {
			check_registered(d, p, g);
		} else {
			check_descriptors(d, pid);
			check_port(d, p);
			check_gone(d, g);
		}
		check_pool(d, p);
	}
}

void doctor_manager(struct doctor *d, const char *file)
{
	const char *name = file ?: CONFIG_FILE;
	struct config *c = NULL;
	struct aggregator_record own;
	struct datapath_groups g;
	char fix[PATH_MAX + 32];
	bool elsewhere;
	int err;

	if (!file && access(name, R_OK))
		return;
	snprintf(fix, sizeof(fix), "fpisa config check %s", name);
	if (config_read(&c, name) || (d->dp && manager_policy_fit(&c->manager, d->dp->slots_n))) {
		finding(d, LEVEL_FAULT, subject, "configuration", fix, "%s has errors", name);
	} else if (c->manager_line) {
		err = d->dp ? datapath_groups_open(d->dp, false, &g) : -ENOENT;
		elsewhere = (!err && datapath_is_agent(d->dp, &g, &own)) || config_manager_elsewhere(c);
		check_keys(d, &c->manager, elsewhere);
		check_user(d, &c->manager);
		if (d->dp)
			check_process(d, &c->manager, elsewhere, &g, err);
		if (!err)
			datapath_groups_close(&g);
	} else if (file) {
		finding(d, LEVEL_FAULT, subject, "configuration", NULL, "%s has no section [manager]; see fpisa(8)",
			name);
	}
	config_free(c);
}
