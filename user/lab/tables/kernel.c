// SPDX-License-Identifier: GPL-2.0-only
/*
 * Run bpf/lab/tables.bpf.c from user space. Load the program, fill its maps and run it, or do the same computation
 * without the kernel.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>

#include "fpisa_tables.skel.h"
#include "tables.h"

int tables_kernel_open(struct fpisa_tables_bpf **out)
{
	struct fpisa_tables_bpf *k;
	int err = 0;

	k = fpisa_tables_bpf__open_and_load();
	if (!k)
		return -errno;

	struct bpf_map *const map[FPISA_TABLES] = {
		[FPISA_TABLE_PRODUCT] = k->maps.fpisa_products,	 [FPISA_TABLE_SQUARE] = k->maps.fpisa_squares,
		[FPISA_TABLE_RECIPROCAL] = k->maps.fpisa_recips, [FPISA_TABLE_LOG2] = k->maps.fpisa_logs,
		[FPISA_TABLE_SQRT] = k->maps.fpisa_roots,
	};

	for (int t = 0; !err && t < FPISA_TABLES; t++)
		for (__u32 i = 0; !err && i < fpisa_table_entries(t); i++)
			err = bpf_map_update_elem(bpf_map__fd(map[t]), &i, &tables_entry[t][i], BPF_ANY);
	if (err) {
		err = -errno;
		fpisa_tables_bpf__destroy(k);
		return err;
	}
	*out = k;
	return 0;
}

void tables_kernel_close(struct fpisa_tables_bpf *k)
{
	fpisa_tables_bpf__destroy(k);
}

int tables_kernel_run(const struct fpisa_tables_bpf *k, struct fpisa_run *run)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = run, .data_size_in = sizeof(*run), .data_out = run,
		    .data_size_out = sizeof(*run));

	if (bpf_prog_test_run_opts(bpf_program__fd(k->progs.fpisa_tables), &opts))
		return -errno;
	return opts.retval == XDP_PASS ? 0 : -EINVAL;
}

void tables_user_run(struct fpisa_run *run)
{
	for (__u32 i = 0; i < run->count; i++)
		fpisa_run_one(&run->item[i], run->function, run->format, run->rounding, tables_look);
}
