// SPDX-License-Identifier: GPL-2.0-only
/* doctor: findings, printed at once or gathered for JSON */
#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>

#include "cli/print.h"
#include "doctor.h"

static const char *const level_names[LEVELS] = {"ok", "warn", "fault"};

void finding(struct doctor *d, enum level level, const char *subject, const char *check, const char *fix,
	     const char *fmt, ...)
{
	struct json_object *o;
	char text[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	d->count[level]++;
	if (!d->found) {
		printf("%-5s  %s: %s: %s%s%s\n", level_names[level], subject, check, text, fix ? "; fix: " : "",
		       fix ? fix : "");
		return;
	}
	o = json_object_new_object();
	json_add_string(o, "level", level_names[level]);
	json_add_string(o, "subject", subject);
	json_add_string(o, "check", check);
	json_add_string(o, "text", text);
	json_add_string(o, "fix", fix);
	json_object_array_add(d->found, o);
}

const char *pin_option(const struct doctor *d)
{
	static char text[PATH_MAX + 8];

	snprintf(text, sizeof(text), d->pin ? " --pin %s" : "", d->pin);
	return text;
}

int report_findings(struct doctor *d)
{
	struct json_object *o;

	if (!d->found) {
		printf("%d ok, %d warnings, %d faults\n", d->count[LEVEL_OK], d->count[LEVEL_WARN],
		       d->count[LEVEL_FAULT]);
		return 0;
	}
	o = json_object_new_object();
	json_object_object_add(o, "findings", d->found);
	for (int i = 0; i < LEVELS; i++)
		json_add_number(o, level_names[i], d->count[i]);
	return print_json(o, false);
}
