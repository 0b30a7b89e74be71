// SPDX-License-Identifier: GPL-2.0-only
/* fpisa-lab: what `fpisa demo` and the other verbs of the laboratory run. */
#include "lab/analyze/analyze.h"
#include "lab/bench/bench.h"
#include "lab/demo/demo.h"
#include "lab/soak/soak.h"
#include "lab/tables/tables.h"
#include "cli/verb.h"

static const struct verb verbs[] = {
	{"demo", verb_demo, "[OPTION...] [--json]", "sum real gradients over real packets, and check every bit",
	 demo_help, demo_options_help, true},
	{"analyze", verb_analyze, "FILE... [--workers N] [OPTION...] [--json]",
	 "the error of sums of real values: its size, its sources, its dependence on order", analyze_help},
	{"soak", verb_soak, "[OPTION...] [--json]", "sums under every fault at once, all recomputed", soak_help,
	 .unpinned = true},
	{"bench arith", verb_bench_arith, "[OPTION...] [--json]", "ns an element of adds and read-outs, side by side",
	 bench_arith_help},
	{"bench wire", verb_bench_wire, "[DEV...] [OPTION...] [--json]",
	 "goodput and CPU time by settings, and the best of them", bench_wire_help},
	{"bench worker", verb_bench_worker, "ADDR [OPTION...] [--json]", "a worker of bench wire on another machine",
	 bench_worker_help},
	{"bench", verb_bench, "[DEV...] [OPTION...] [--json]", "bench arith, then bench wire with its options", NULL},
	{"tables", verb_tables, "[--samples N] [--seed S] [--json]",
	 "errors of multiply, reciprocal, log2 and square root", tables_help},
};

int main(int argc, char **argv)
{
	return verbs_main(&(struct verbs){VERBS(verbs)}, argc, argv);
}
