// SPDX-License-Identifier: GPL-2.0-only
/* Programs of the further families, loaded into a running datapath when a job needs them. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/report.h"
#include "families.h"
#include "family.h"
#include "log.h"
#include "pin.h"
#include "slots.h"

/* Return the number of a family's programs, and the name of program k of a family other than 0. */
static __u32 programs_of(__u8 family)
{
	return fpisa_family_has_trees(family) ? FPISA_GREET + 1 : FPISA_ADMISSION + 1;
}

static void name_program(__u32 k, char name[16])
{
	/* From FPISA_ADMISSION to FPISA_GREET. */
	static const char *const names[] = {"fpisa_admission", "fpisa_part", "fpisa_up", "fpisa_down", "fpisa_greet"};

	if (k < FPISA_ADMISSION)
		snprintf(name, 16, "fpisa_mau%u", k);
	else
		snprintf(name, 16, "%s", names[k - FPISA_ADMISSION]);
}

static bool present(const struct datapath *dp, __u8 family)
{
	for (__u32 bank = 0; bank < FPISA_BANKS; bank++) {
		for (__u32 k = 0; k < programs_of(family); k++) {
			__u32 index = fpisa_bank_of(family, bank) + k, id;

			if (bpf_map_lookup_elem(dp->stages_fd, &index, &id))
				return false;
		}
	}
	return true;
}

int family_fill(int stages_fd, const struct bpf_object *o, __u8 family, __u32 bank)
{
	/* The admission of family 0 is the entry itself. */
	for (__u32 k = 0; k < programs_of(family); k++) {
		__u32 index = fpisa_bank_of(family, bank) + k;
		struct bpf_program *prog;
		char name[16] = "fpisa";
		int fd;

		if (family || k < FPISA_ADMISSION)
			name_program(k, name);
		prog = bpf_object__find_program_by_name(o, name);
		if (!prog)
			return refuse(-ENOENT,
				      "family %s: the object does not have the program %s; install this release again",
				      family_name(family), name);
		fd = bpf_program__fd(prog);
		if (bpf_map_update_elem(stages_fd, &index, &fd, BPF_ANY))
			return fail(-errno, NULL, "family %s: cannot install the program %s (map fpisa_stages)",
				    family_name(family), name);
	}
	return 0;
}

struct bpf_object *family_open(__u8 family, const char *pin, bool steered)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .pin_root_path = pin, .object_name = family_name(family));
	struct bpf_program *prog;
	struct bpf_object *o;
	size_t size = 0;
	const void *bytes = family_object(family, &size);

	log_start();
	o = bpf_object__open_mem(bytes, size, &opts);
	if (!o) {
		refuse(-errno, "family %s: cannot open the object: %s; install this release again", family_name(family),
		       reason(-errno));
		return NULL;
	}
	bpf_object__for_each_program(prog, o) {
		bpf_program__set_type(prog, BPF_PROG_TYPE_XDP);
		bpf_program__set_expected_attach_type(prog, steered ? BPF_XDP_CPUMAP : 0);
	}
	return o;
}

/* Load the programs of a family and put them into the banks of the bitmap `banks`. */
static int load_into(const struct datapath *dp, __u8 family, __u32 banks)
{
	struct bpf_object *o = family_open(family, dp->pin, dp->steering.cpus);
	int err;

	if (!o)
		return -EINVAL;
	err = slots_fit(o, dp->slots_n);
	if (!err) {
		err = bpf_object__load(o);
		if (err)
			refuse(err, "family %s: cannot load programs: %s; --verbose shows the verifier's log",
			       family_name(family), reason(err));
	}
	for (__u32 bank = 0; !err && bank < FPISA_BANKS; bank++)
		if (banks >> bank & 1)
			err = family_fill(dp->stages_fd, o, family, bank);
	if (!err)
		err = pin_share(dp->pin);
	bpf_object__close(o);
	return err;
}

int family_load(const struct datapath *dp, __u8 family)
{
	if (!family || present(dp, family))
		return 0;
	return load_into(dp, family, (1u << FPISA_BANKS) - 1);
}

int family_renew(const struct datapath *dp, __u32 bank)
{
	int err = 0;

	for (__u8 family = 1; !err && family < FPISA_FAMILIES; family++)
		if (present(dp, family))
			err = load_into(dp, family, 1u << bank);
	return err;
}
