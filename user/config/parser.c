// SPDX-License-Identifier: GPL-2.0-only
/*
 * Read and check a configuration file; config.h has the syntax. No library is used for two reasons. libinih, as Debian
 * builds it, truncates lines at 200 bytes, and 64 workers need more. libconfuse and libconfig stop at the first error.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/options.h"
#include "cli/report.h"
#include "config.h"

#define MAX_BYTES (1 << 20)
#define MAX_KEYS 64
#define KEYS_LEN 512

enum section { NOWHERE, SKIPPED, DATAPATH, INTERFACE, JOB, MANAGER, KEY, RACK };

struct reader {
	struct config *c;
	enum section section;
	struct manager_quota *quota; /* quota of the current section [key NAME] */
	int line, errors;
	int rack_line;		    /* line of the latest [rack NAME]; 0: none */
	int errors_before;	    /* number of errors before the current section */
	int key_line[MAX_KEYS];	    /* line of each key of the current section, by index in its table; 0: not given */
	bool sound[FPISA_MAX_JOBS]; /* jobs of the file whose sections have no errors */
	char place[CONFIG_PLACE_LEN];
};

void config_at(const struct config *c, int line, char place[CONFIG_PLACE_LEN])
{
	snprintf(place, CONFIG_PLACE_LEN, "%s:%d", c->file, line);
	report_at(place);
}

static void at(struct reader *r, int line)
{
	config_at(r->c, line, r->place);
}

/* -- the keys of a section ---------------------------------------------- */

static const struct option *table(enum section s)
{
	static struct option job[JOB_OPTIONS_MAX];

	if (s == MANAGER)
		return manager_options;
	if (s == KEY)
		return manager_key_options;
	if (s == RACK)
		return manager_rack_options;
	if (s != JOB)
		return load_options;
	if (!job->name)
		job_options(job, 0);
	return job;
}

/* Return whether the option is a key of the section. */
static bool is_key(enum section s, const struct option *o)
{
	bool mode = !strcmp(o->name, "mode");

	if (s == JOB || s == MANAGER || s == KEY || s == RACK)
		return true;
	if (s == INTERFACE)
		return mode;
	return o->val == OPT_PIN || (o->val >= OPT_VERB && !mode);
}

static const struct option *find_key(enum section s, const char *name)
{
	for (const struct option *o = table(s); o->name; o++)
		if (is_key(s, o) && !strcmp(o->name, name))
			return o;
	return NULL;
}

static int refuse_key(enum section s, const char *name)
{
	char known[KEYS_LEN] = "";
	size_t n = 0;

	for (const struct option *o = table(s); o->name; o++)
		if (is_key(s, o) && n < sizeof(known))
			n += snprintf(known + n, sizeof(known) - n, "%s%s", n ? ", " : "", o->name);
	return refuse(-EINVAL, "'%s' is not a key of this section; the keys are %s", name, known);
}

/* Call the parser of the verb with the arguments that getopt_long() would pass. */
static int take(struct reader *r, const struct option *o, char *value)
{
	struct config *c = r->c;

	if (o->has_arg == no_argument && strcmp(value, "yes")) {
		if (strcmp(value, "no"))
			return refuse(-EINVAL, "%s: '%s' is not yes or no", o->name, value);
		return 0;
	}
	if (r->section == JOB)
		return job_option(&c->job[c->jobs - 1].spec, o->val, value);
	if (r->section == MANAGER)
		return manager_option(&c->manager, o->val, value);
	if (r->section == KEY)
		return manager_key_option(r->quota, o->val, value);
	if (r->section == RACK)
		return manager_rack_hosts(&c->manager, value);
	optarg = value;
	if (r->section == INTERFACE)
		return load_option(&c->interface[c->interfaces - 1].load, o->val, &c->common);
	return load_option(&c->load, o->val, &c->common);
}

static int read_key(struct reader *r, char *name, char *value)
{
	const struct option *o;
	int *line;

	if (r->section == SKIPPED)
		return 0;
	if (r->section == NOWHERE)
		return refuse(
			-EINVAL,
			"'%s' is outside a section; begin one first: [datapath], [interface DEV], [job N], [manager], "
			"[key NAME] or [rack NAME]",
			name);
	o = find_key(r->section, name);
	if (!o)
		return refuse_key(r->section, name);
	line = &r->key_line[o - table(r->section)];
	if (*line)
		return refuse(-EINVAL, "%s is given twice, first in line %d", name, *line);
	*line = r->line;
	if (!*value)
		return refuse(-EINVAL, "%s has no value; give one, or remove the line", name);
	return take(r, o, value);
}

/* -- sections ----------------------------------------------------------- */

/* Check a job at the end of its section. If one of its keys is wrong, check only the list of workers. */
static void end_job(struct reader *r)
{
	struct config_job *j = &r->c->job[r->c->jobs - 1];
	int line = r->key_line[find_key(JOB, "workers") - table(JOB)], err;
	bool wrong = r->errors > r->errors_before;

	at(r, line ?: j->line);
	if (!line)
		err = refuse(-EINVAL, "job %u: workers is missing; add workers = ADDR,...", j->number);
	else if (!j->spec.workers)
		return;
	else
		err = job_spec_complete(&j->spec, j->number);
	at(r, j->line);
	if (!err && wrong)
		return;
	if (!err)
		err = datapath_job_check(j->number, &j->spec.job);
	r->errors += !!err;
	r->sound[r->c->jobs - 1] = !err;
}

static void end_section(struct reader *r)
{
	const struct fpisa_steering *s = &r->c->load.steering;

	if (r->section == JOB)
		end_job(r);
	if (r->section == MANAGER) {
		at(r, r->c->manager_line);
		r->errors += !!manager_policy_check(&r->c->manager);
	}
	if (r->section == RACK && !r->key_line[0]) {
		at(r, r->rack_line);
		r->errors++;
		refuse(-EINVAL, "rack %s has no hosts; add hosts = ADDR,ADDR/LENGTH,...",
		       r->c->manager.rack[r->c->manager.racks - 1]);
	}
	if (r->section == DATAPATH && s->queue && !s->cpus) {
		at(r, r->c->datapath_line);
		r->errors++;
		refuse(-EINVAL, "cpu-queue requires cpus; set cpus, or remove cpu-queue");
	}
}

static int begin_datapath(struct reader *r, const char *name)
{
	if (*name)
		return refuse(-EINVAL, "[datapath] does not take a name; remove it");
	if (r->c->datapath_line)
		return refuse(-EINVAL, "[datapath] is given twice, first in line %d", r->c->datapath_line);
	r->c->datapath_line = r->line;
	r->section = DATAPATH;
	return 0;
}

static int begin_interface(struct reader *r, const char *name)
{
	struct config *c = r->c;

	if (!*name || strlen(name) >= IF_NAMESIZE || strpbrk(name, "/ \t"))
		return refuse(-EINVAL, "'%s' is not an interface's name; see ip link", name);
	for (int i = 0; i < c->interfaces; i++)
		if (!strcmp(c->interface[i].name, name))
			return refuse(-EINVAL, "interface %s is given twice, first in line %d", name,
				      c->interface[i].line);
	if (c->interfaces == DATAPATH_MAX_INTERFACES)
		return refuse(-E2BIG, "more than %d interfaces are not supported; remove some", DATAPATH_MAX_INTERFACES);
	c->interface[c->interfaces++] =
		(struct config_interface){.line = r->line, .name = name, .load = {.mode = DATAPATH_NATIVE}};
	r->section = INTERFACE;
	return 0;
}

static int begin_job(struct reader *r, const char *name)
{
	struct config *c = r->c;
	__u32 number;
	int err;

	err = job_parse_number(name, &number);
	if (err)
		return err;
	for (int i = 0; i < c->jobs; i++)
		if (c->job[i].number == number)
			return refuse(-EINVAL, "job %s is given twice, first in line %d", name, c->job[i].line);
	memset(&c->job[c->jobs], 0, sizeof(c->job[0]));
	c->job[c->jobs].line = r->line;
	c->job[c->jobs++].number = number;
	r->section = JOB;
	return 0;
}

static int begin_manager(struct reader *r, const char *name)
{
	if (*name)
		return refuse(-EINVAL, "[manager] does not take a name; remove it");
	if (r->c->manager_line)
		return refuse(-EINVAL, "[manager] is given twice, first in line %d", r->c->manager_line);
	r->c->manager_line = r->line;
	r->section = MANAGER;
	return 0;
}

static int begin_key(struct reader *r, const char *name)
{
	int err = manager_key_add(&r->c->manager, name, &r->quota);

	if (!err)
		r->section = KEY;
	return err;
}

static int begin_rack(struct reader *r, const char *name)
{
	int err = manager_rack_add(&r->c->manager, name);

	if (err)
		return err;
	r->rack_line = r->line;
	r->section = RACK;
	return 0;
}

/* Begin a section. Keys of a refused section are not checked. */
static int begin_section(struct reader *r, char *name)
{
	char *end = name + strcspn(name, "]"), *kind;

	r->section = SKIPPED;
	if (!*end || end[1])
		return refuse(-EINVAL,
			      "the line is not a section; use [datapath], [interface DEV], [job N], [manager], [key NAME] "
			      "or [rack NAME]");
	*end = 0;
	name += strspn(name, " \t");
	kind = strsep(&name, " \t");
	name = name ? name + strspn(name, " \t") : end;
	while (end > name && isspace((unsigned char)end[-1]))
		*--end = 0;
	if (!strcmp(kind, "datapath"))
		return begin_datapath(r, name);
	if (!strcmp(kind, "interface"))
		return begin_interface(r, name);
	if (!strcmp(kind, "job"))
		return begin_job(r, name);
	if (!strcmp(kind, "manager"))
		return begin_manager(r, name);
	if (!strcmp(kind, "key"))
		return begin_key(r, name);
	if (!strcmp(kind, "rack"))
		return begin_rack(r, name);
	return refuse(-EINVAL,
		      "[%s] is not a section; the sections are [datapath], [interface DEV], [job N], [manager], [key "
		      "NAME] and [rack NAME]",
		      kind);
}

/* -- lines --------------------------------------------------------------- */

/* Remove the comment, and blanks at both ends. */
static char *trim(char *s)
{
	char *end;

	s += strspn(s, " \t\r");
	for (end = s; *end; end++)
		if ((*end == '#' || *end == ';') && (end == s || isspace((unsigned char)end[-1])))
			break;
	while (end > s && isspace((unsigned char)end[-1]))
		end--;
	*end = 0;
	return s;
}

static void read_line(struct reader *r, char *s)
{
	char *equals;
	int err = 0;

	s = trim(s);
	if (*s == '[') {
		end_section(r);
		memset(r->key_line, 0, sizeof(r->key_line));
		r->errors_before = r->errors;
		at(r, r->line);
		err = begin_section(r, s + 1);
	} else if (*s) {
		at(r, r->line);
		equals = strchr(s, '=');
		if (equals) {
			*equals = 0;
			err = read_key(r, trim(s), trim(equals + 1));
		} else {
			err = refuse(-EINVAL, "'%s' is neither [SECTION] nor KEY = VALUE", s);
		}
	}
	r->errors += !!err;
}

/* Open the file. Refuse a pipe, because it may block, and `fpisa serve` reads the file again while groups exist. */
static int open_text(const char *file)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), err = 0;
	struct stat st;

	if (fd < 0)
		return fail(-errno, "write this file, see fpisa(8), or name another file", "%s", file);
	if (fstat(fd, &st))
		err = fail(-errno, NULL, "%s", file);
	else if (S_ISFIFO(st.st_mode))
		err = refuse(-EINVAL, "%s is a pipe; the configuration must be a regular file", file);
	if (err)
		close(fd);
	return err ?: fd;
}

static int read_text(struct config *c)
{
	int fd = open_text(c->file), err = 0;
	size_t n = 0;
	ssize_t got;

	if (fd < 0)
		return fd;
	while ((got = read(fd, c->text + n, MAX_BYTES - n)) > 0)
		n += (size_t)got;
	if (got < 0)
		err = fail(-errno, NULL, "%s: cannot read", c->file);
	else if (n == MAX_BYTES || memchr(c->text, 0, n))
		err = refuse(-EINVAL, "%s is not a text file of less than %d bytes; name a configuration file", c->file,
			     MAX_BYTES);
	close(fd);
	return err;
}

/*
 * Check that there are enough slots for the jobs. If the file does not set `slots`, the loaded datapath may have any
 * number of slots, which config_apply() checks.
 */
static int place_jobs(struct reader *r)
{
	struct fpisa_job *jobs = calloc(FPISA_MAX_JOBS, sizeof(*jobs));
	struct config *c = r->c;

	for (int i = 0; jobs && i < c->jobs; i++) {
		struct config_job *j = &c->job[i];
		int err;

		if (!r->sound[i])
			continue;
		at(r, j->line);
		err = datapath_job_place(jobs, c->load.slots ?: FPISA_MAX_SLOTS, j->number, &j->spec.job);
		r->errors += !!err;
		jobs[j->number] = j->spec.job;
		jobs[j->number].active = !err;
	}
	free(jobs);
	return jobs ? 0 : fail(-ENOMEM, NULL, "%s", c->file);
}

/* Run the checks that need all sections to be valid. */
static void end_file(struct reader *r)
{
	const struct config *c = r->c;
	__u32 port = c->load.port ?: FPISA_PORT;

	if (c->load.slots) {
		struct manager_policy p = c->manager;

		at(r, c->manager_line);
		r->errors += !!manager_policy_fit(&p, c->load.slots);
	}
	if (r->rack_line && !c->manager.leaves) {
		at(r, r->rack_line);
		r->errors++;
		refuse(-EINVAL, "racks need leaves = yes in [manager]; add the line, or remove the racks");
	}
	if (r->errors)
		return;
	for (int i = 0; c->load.steering.cpus && i < c->interfaces; i++) {
		at(r, c->interface[i].line);
		if (c->interface[i].load.mode != DATAPATH_NATIVE)
			r->errors += !!refuse(-EINVAL, "mode must be native, because [datapath] sets cpus");
	}
	for (int i = 0; i < c->jobs; i++) {
		at(r, c->job[i].line);
		r->errors += !!datapath_job_ports(port, c->job[i].number, &c->job[i].spec.job);
	}
}

int config_read(struct config **out, const char *file)
{
	struct config *c = calloc(1, sizeof(*c));
	struct reader *r = calloc(1, sizeof(*r));
	char *rest, *line;
	int err;

	*out = c;
	if (!c || !r) {
		err = fail(-ENOMEM, NULL, "%s", file);
		goto out;
	}
	c->file = file;
	c->load.group = DATAPATH_NO_GROUP;
	manager_policy_init(&c->manager);
	c->text = calloc(1, MAX_BYTES + 1);
	err = c->text ? read_text(c) : fail(-ENOMEM, NULL, "%s", file);
	if (err)
		goto out;
	r->c = c;
	rest = c->text;
	while ((line = strsep(&rest, "\n"))) {
		r->line++;
		read_line(r, line);
	}
	end_section(r);
	err = place_jobs(r);
	if (!err)
		end_file(r);
	report_at(NULL);
	err = err ?: r->errors ? -EINVAL : 0;
out:
	free(r);
	return err;
}

void config_free(struct config *c)
{
	if (c)
		free(c->text);
	free(c);
}
