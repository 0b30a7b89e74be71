// SPDX-License-Identifier: GPL-2.0-only
/* Names of the parameters; names.h has the contracts. */
#include <string.h>

#include "fpisa.h"
#include "fpisa/format.h"
#include "names.h"
#include "report.h"

const struct name mode_names[] = {{FPISA_MODE_FPISA, "fpisa"},
				  {FPISA_MODE_FPISA_A, "fpisa-a"},
				  {FPISA_MODE_FPISA64, "fpisa64"},
				  {FPISA_MODE_EXACT, "exact"},
				  {0}};
const struct name rounding_names[] = {{FPISA_ROUND_DOWN, "down"}, {FPISA_ROUND_NEAREST, "nearest"}, {0}};
const struct name pipeline_names[] = {{FPISA_PIPELINE_STAGED, "staged"}, {FPISA_PIPELINE_FUSED, "fused"}, {0}};
const struct name clz_names[] = {{FPISA_CLZ_LPM, "lpm"}, {FPISA_CLZ_BITS, "bits"}, {0}};
const struct name format_names[] = {
	{FPISA_FORMAT_FP32, "fp32"},   {FPISA_FORMAT_FP16, "fp16"},	{FPISA_FORMAT_BF16, "bf16"},
	{FPISA_FORMAT_FP64, "fp64"},   {FPISA_FORMAT_E4M3, "e4m3"},	{FPISA_FORMAT_E5M2, "e5m2"},
	{FPISA_FORMAT_INT32, "int32"}, {FPISA_FORMAT_MXINT8, "mxint8"}, {0}};
const struct name op_names[] = {{FPISA_OP_SUM, "sum"},
				{FPISA_OP_MIN, "min"},
				{FPISA_OP_MAX, "max"},
				{FPISA_OP_AVG, "avg"},
				{FPISA_OP_SCALE, "scale"},
				{FPISA_OP_NORM, "norm"},
				{0}};
const struct name fanout_names[] = {{FPISA_FANOUT_MULTICAST, "multicast"}, {FPISA_FANOUT_UNICAST, "unicast"}, {0}};
const struct name transport_names[] = {{FPISA_TRANSPORT_UDP, "udp"}, {FPISA_TRANSPORT_XSK, "xsk"}, {0}};

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
