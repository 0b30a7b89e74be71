// SPDX-License-Identifier: GPL-2.0-only
/* The program fpisa-lab, which implements the verbs of the laboratory, such as `fpisa demo`. */
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
	 "measure the error of sums of real values: its size, sources and dependence on order", analyze_help},
	{"soak", verb_soak, "[OPTION...] [--json]", "sum under every fault at once, and recompute every sum", soak_help,
	 .unpinned = true},
	{"bench arith", verb_bench_arith, "[OPTION...] [--json]",
	 "measure adds and read-outs side by side, in ns per element", bench_arith_help},
	{"bench wire", verb_bench_wire, "[DEV...] [OPTION...] [--json]",
	 "measure goodput and CPU time by settings, and name the best", bench_wire_help},
	{"bench worker", verb_bench_worker, "ADDR [OPTION...] [--json]",
	 "run a worker of bench wire on another machine", bench_worker_help},
	{"bench", verb_bench, "[DEV...] [OPTION...] [--json]", "run bench arith, then bench wire with its options", NULL},
	{"tables", verb_tables, "[--samples N] [--seed S] [--json]",
	 "measure the errors of multiply, reciprocal, log2 and square root", tables_help},
};

int main(int argc, char **argv)
{
	return verbs_main(&(struct verbs){VERBS(verbs)}, argc, argv);
}
