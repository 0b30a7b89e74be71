/* SPDX-License-Identifier: GPL-2.0-only */
/* Names of the parameters, as options take them and outputs show them */
#ifndef FPISA_CLI_NAMES_H
#define FPISA_CLI_NAMES_H

#include "fpisa/names.h"

struct name {
	int id;
	const char *name;
};

extern const struct name mode_names[], rounding_names[], pipeline_names[], clz_names[], format_names[], fanout_names[],
	op_names[], transport_names[];

const char *name_of(const struct name *names, int id);
int parse_name(const char *what, const char *s, const struct name *names, int *id);

#endif
