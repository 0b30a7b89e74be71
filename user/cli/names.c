// SPDX-License-Identifier: GPL-2.0-only
/* Names of the parameters; names.h has the contracts. */
#include <string.h>

#include "fpisa.h"
#include "fpisa/format.h"
#include "names.h"
#include "report.h"

#define MODE(id, name) {FPISA_MODE_##id, name},
#define ROUND(id, name) {FPISA_ROUND_##id, name},
#define PIPELINE(id, name) {FPISA_PIPELINE_##id, name},
#define CLZ(id, name) {FPISA_CLZ_##id, name},
#define FORMAT(id, name, type) {FPISA_FORMAT_##id, name},
#define OP(id, name) {FPISA_OP_##id, name},
#define FANOUT(id, name) {FPISA_FANOUT_##id, name},
#define TRANSPORT(id, name) {FPISA_TRANSPORT_##id, name},

const struct name mode_names[] = {FPISA_MODE_NAMES(MODE, ){0}};
const struct name rounding_names[] = {FPISA_ROUND_NAMES(ROUND, ){0}};
const struct name pipeline_names[] = {FPISA_PIPELINE_NAMES(PIPELINE, ){0}};
const struct name clz_names[] = {FPISA_CLZ_NAMES(CLZ, ){0}};
const struct name format_names[] = {FPISA_FORMAT_NAMES(FORMAT, ){0}};
const struct name op_names[] = {FPISA_OP_NAMES(OP, ){0}};
const struct name fanout_names[] = {FPISA_FANOUT_NAMES(FANOUT, ){0}};
const struct name transport_names[] = {FPISA_TRANSPORT_NAMES(TRANSPORT, ){0}};

const char *name_of(const struct name *names, int id)
{
	for (; names->name; names++)
		if (names->id == id)
			return names->name;
	return "?";
}

int parse_name(const char *what, const char *s, const struct name *names, int *id)
{
	char known[128] = "";

	for (const struct name *n = names; n->name; n++) {
		if (!strcmp(s, n->name)) {
			*id = n->id;
			return 0;
		}
		strcat(known, n == names ? "" : " or ");
		strcat(known, n->name);
	}
	return refuse(BAD_USAGE, "%s: '%s' is not %s", what, s, known);
}
