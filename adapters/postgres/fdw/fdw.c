/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The entry point of the foreign data wrapper, and its session settings. fdw.h has an overview. */
#include "fdw.h"
#include "fmgr.h"
#include "utils/guc.h"
#include "utils/plancache.h"

PG_MODULE_MAGIC;

int fdw_pruning = FPISA_PRUNING_AUTO;
bool fdw_pushdown = true, fdw_preaggregate, fdw_exact_sum;
int fdw_whole_table = FDW_WHOLE_NOTICE;
double fdw_loss;

static const struct config_enum_entry prunings[] = {
#define PRUNING(id, name) {name, FPISA_PRUNING_##id, false},
	FPISA_PRUNING_NAMES(PRUNING, ){NULL, 0, false},
};

static const struct config_enum_entry whole_tables[] = {
	{"allow", FDW_WHOLE_ALLOW, false},
	{"notice", FDW_WHOLE_NOTICE, false},
	{"refuse", FDW_WHOLE_REFUSE, false},
	{NULL, 0, false},
};

/* Plan prepared statements and those of functions again, because the setting says which function sum() is. */
static void assign_exact_sum(bool value, void *extra)
{
	(void)extra;
	if (value != fdw_exact_sum)
		ResetPlanCache();
}

PGDLLEXPORT void _PG_init(void);

void _PG_init(void)
{
	DefineCustomEnumVariable("fpisa.pruning",
				 "Sets where rows are dropped or added up: auto, network, workers or none.", NULL,
				 &fdw_pruning, FPISA_PRUNING_AUTO, prunings, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("fpisa.pushdown",
				 "Enables asking workers for first rows and sums by key instead of all rows.", NULL,
				 &fdw_pushdown, true, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("fpisa.preaggregate",
				 "Enables adding up rows by key at each worker before it sends "
				 "them.",
				 NULL, &fdw_preaggregate, false, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("fpisa.exact_sum",
				 "Computes sum() and avg() of real and double precision exactly, at the workers.",
				 "Without it workers do not compute them, because their last bits depend on the order "
				 "of rows.",
				 &fdw_exact_sum, false, PGC_USERSET, 0, NULL, assign_exact_sum, NULL);
	DefineCustomEnumVariable("fpisa.whole_table",
				 "Sets what happens if a statement reads all rows of a table: allow, notice or refuse.",
				 NULL, &fdw_whole_table, FDW_WHOLE_NOTICE, whole_tables, PGC_USERSET, 0, NULL, NULL,
				 NULL);
	DefineCustomRealVariable("fpisa.debug_loss",
				 "Sets the share of frames that workers and this server drop, "
				 "for tests.",
				 NULL, &fdw_loss, 0, 0, 0.9, PGC_SUSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	MarkGUCPrefixReserved("fpisa");
}

PG_FUNCTION_INFO_V1(fpisa_fdw_handler);
PGDLLEXPORT Datum fpisa_fdw_handler(PG_FUNCTION_ARGS)
{
	FdwRoutine *f = makeNode(FdwRoutine);

	f->GetForeignRelSize = fdw_rel_size;
	f->GetForeignPaths = fdw_paths;
	f->GetForeignPlan = fdw_plan;
	f->GetForeignUpperPaths = fdw_upper_paths;
	f->BeginForeignScan = fdw_begin;
	f->IterateForeignScan = fdw_iterate;
	f->ReScanForeignScan = fdw_rescan;
	f->EndForeignScan = fdw_end;
	f->ExplainForeignScan = fdw_explain;
	f->ImportForeignSchema = fdw_import;
	PG_RETURN_POINTER(f);
}
