// SPDX-License-Identifier: GPL-2.0-only
/* Programs of the further families, loaded into a running datapath when a job needs them. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "cli.h"
#include "datapath_internal.h"
#include "families.h"

static bool present(const struct datapath *dp, __u8 family)
{
	for (__u32 bank = 0; bank < FPISA_BANKS; bank++) {
		for (__u32 k = 0; k <= FPISA_GATE; k++) {
			__u32 index = fpisa_bank_of(family, bank) + k, id;

			if (bpf_map_lookup_elem(dp->stages_fd, &index, &id))
				return false;
		}
	}
	return true;
}

static int fill(const struct datapath *dp, __u8 family, const struct bpf_object *o)
{
	for (__u32 bank = 0; bank < FPISA_BANKS; bank++) {
		for (__u32 k = 0; k <= FPISA_GATE; k++) {
			__u32 index = fpisa_bank_of(family, bank) + k;
			struct bpf_program *prog;
			char name[16] = "fpisa_gate";
			int fd;

			if (k != FPISA_GATE)
				snprintf(name, sizeof(name), "fpisa_mau%u", k);
			prog = bpf_object__find_program_by_name(o, name);
			if (!prog)
				return refuse(-ENOENT, "family %s: no program %s", family_name(family), name);
			fd = bpf_program__fd(prog);
			if (bpf_map_update_elem(dp->stages_fd, &index, &fd, BPF_ANY))
				return fail(-errno, NULL, "family %s: put %s into fpisa_stages", family_name(family), name);
		}
	}
	return 0;
}

struct bpf_object *family_open(__u8 family, const char *pin)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .pin_root_path = pin, .object_name = family_name(family));
	struct bpf_program *prog;
	struct bpf_object *o;
	size_t size = 0;
	const void *bytes = family_object(family, &size);

	log_start();
	o = bpf_object__open_mem(bytes, size, &opts);
	if (!o) {
		refuse(-errno, "family %s: open object: %s", family_name(family), reason(-errno));
		return NULL;
	}
	bpf_object__for_each_program(prog, o) {
		bpf_program__set_type(prog, BPF_PROG_TYPE_XDP);
		bpf_program__set_expected_attach_type(prog, 0);
	}
	return o;
}

int family_load(const struct datapath *dp, __u8 family)
{
	struct bpf_object *o;
	int err;

	if (!family || present(dp, family))
		return 0;
	o = family_open(family, dp->pin);
	if (!o)
		return -EINVAL;
	err = bpf_object__load(o);
	if (err)
		refuse(err, "family %s: load programs: %s; --verbose shows the verifier's log", family_name(family),
		       reason(err));
	else
		err = fill(dp, family, o);
	bpf_object__close(o);
	return err;
}
