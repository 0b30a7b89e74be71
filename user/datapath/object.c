// SPDX-License-Identifier: GPL-2.0-only
/* The BPF objects, which are embedded as skeletons: opening, setting types, and loading. */
#include <bpf/libbpf.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/report.h"
#include "fpisa.skel.h"
#include "fpisa_egress.skel.h"
#include "kernel.h"
#include "log.h"
#include "object.h"

static int explain(int err)
{
	char said[512];

	snprintf(said, sizeof(said), "%s", reason(err));
	if (refuse_kernel())
		return -EOPNOTSUPP;
	return refuse(err, "cannot load the datapath: %s; %s", said, load_hint(err));
}

/*
 * Remove the initial stages. In the object, every element of fpisa_stages is the entry, for loaders that only load this
 * object. Here the entry would replace programs in the active bank, so remove these relocations from the copy for
 * libbpf.
 */
static void drop_initial_stages(void *elf)
{
	const Elf64_Ehdr *h = elf;
	Elf64_Shdr *s = (Elf64_Shdr *)((char *)elf + h->e_shoff);
	const char *names = (const char *)elf + s[h->e_shstrndx].sh_offset;

	for (int i = 0; i < h->e_shnum; i++)
		if (!strcmp(names + s[i].sh_name, ".rel.maps"))
			s[i].sh_type = SHT_NULL;
}

static int open_skeleton(struct fpisa_bpf **out, const struct bpf_object_open_opts *opts)
{
	struct fpisa_bpf *skel = calloc(1, sizeof(*skel));
	int err = skel ? fpisa_bpf__create_skeleton(skel) : -ENOMEM;
	void *copy = NULL;

	if (!err) {
		copy = malloc(skel->skeleton->data_sz);
		err = copy ? 0 : -ENOMEM;
	}
	if (!err) {
		memcpy(copy, skel->skeleton->data, skel->skeleton->data_sz);
		drop_initial_stages(copy);
		skel->skeleton->data = copy;
		err = bpf_object__open_skeleton(skel->skeleton, opts);
	}
	free(copy);
	if (err)
		fpisa_bpf__destroy(skel);
	else
		*out = skel;
	return err;
}

int object_open(struct fpisa_bpf **out, const char *pin, bool steered)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .pin_root_path = pin);
	struct bpf_program *prog;
	struct bpf_map *map;
	struct fpisa_bpf *skel;
	int err;

	log_start();
	err = open_skeleton(&skel, &opts);
	if (err)
		return refuse(err, "cannot open the datapath object: %s; %s", reason(err), load_hint(err));
	/* libbpf does not recognise the sections "prog" and "stage". */
	bpf_object__for_each_program(prog, skel->obj) {
		bpf_program__set_type(prog, BPF_PROG_TYPE_XDP);
		bpf_program__set_expected_attach_type(prog, steered ? BPF_XDP_CPUMAP : 0);
	}
	if (!pin)
		bpf_object__for_each_map(map, skel->obj)
			err = err ?: bpf_map__set_pin_path(map, NULL);
	if (err) {
		fpisa_bpf__destroy(skel);
		return fail(err, NULL, "cannot prepare the datapath object");
	}
	*out = skel;
	return 0;
}

struct bpf_object *object_of(const struct fpisa_bpf *skel)
{
	return skel->obj;
}

int object_load(struct fpisa_bpf *skel)
{
	int err = refuse_realtime();

	if (err)
		return err;
	log_start();
	err = fpisa_bpf__load(skel);
	return err ? explain(err) : 0;
}

void object_close(struct fpisa_bpf *skel)
{
	fpisa_bpf__destroy(skel);
}

int egress_load(int (*lookup)(void *arg, const char *name), void *arg, int *prog_fd)
{
	struct fpisa_egress_bpf *skel;
	struct bpf_map *map;
	int err = 0;

	log_start();
	skel = fpisa_egress_bpf__open();
	if (!skel)
		return refuse(-errno, "cannot open the egress object: %s; install this release again", reason(-errno));
	bpf_object__for_each_map(map, skel->obj) {
		int fd;

		if (bpf_map__is_internal(map))
			continue;
		fd = lookup(arg, bpf_map__name(map));
		err = fd < 0 ? fd : bpf_map__set_pin_path(map, NULL) ?: bpf_map__reuse_fd(map, fd);
		if (fd >= 0)
			close(fd);
		if (err) {
			refuse(err, "egress program: cannot set up the map %s: %s", bpf_map__name(map), reason(err));
			goto out;
		}
	}
	err = fpisa_egress_bpf__load(skel);
	if (err) {
		refuse(err, "cannot load the egress program: %s; --verbose shows the verifier's log", reason(err));
		goto out;
	}
	*prog_fd = fcntl(bpf_program__fd(skel->progs.fpisa_egress), F_DUPFD_CLOEXEC, 3);
	if (*prog_fd < 0)
		err = fail(-errno, NULL, "cannot duplicate the descriptor of the egress program");
out:
	fpisa_egress_bpf__destroy(skel);
	return err;
}
