// SPDX-License-Identifier: GPL-2.0-only
/* Trial loads and attachments, for doctor. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "datapath.h"
#include "info.h"
#include "kernel.h"
#include "log.h"
#include "object.h"
#include "steer.h"

int datapath_trial_load(bool steer, __u8 tag[8], __u8 steer_tag[8], char *why, size_t size)
{
	struct datapath_program p = {0}, first = {0};
	struct fpisa_steer_bpf *steering = NULL;
	struct fpisa_bpf *skel = NULL;
	int err;

	err = steer ? steer_load(NULL, FPISA_DEFAULT_SLOTS, &steering) : 0;
	if (!err && steer)
		err = program_info(bpf_program__fd(steer_program(steering)), &first);
	if (!err)
		err = object_open(&skel, NULL, false);
	if (!err)
		err = object_load(skel);
	if (err)
		snprintf(why, size, "%s", reason(err));
	if (!err)
		err = program_info(bpf_program__fd(bpf_object__find_program_by_name(object_of(skel), "fpisa")), &p);
	memcpy(tag, p.tag, sizeof(p.tag));
	memcpy(steer_tag, first.tag, sizeof(first.tag));
	if (steering)
		steer_close(steering);
	if (skel)
		object_close(skel);
	return err;
}

int datapath_trial_attach(__u32 ifindex, char *why, size_t size)
{
	int fd = kernel_load_pass(), err;

	*why = 0;
	if (fd < 0)
		return fd;
	log_start();
	err = bpf_xdp_attach(ifindex, fd, XDP_FLAGS_UPDATE_IF_NOEXIST | XDP_FLAGS_DRV_MODE, NULL);
	if (err) {
		snprintf(why, size, "%s", reason(err));
	} else {
		LIBBPF_OPTS(bpf_xdp_attach_opts, opts, .old_prog_fd = fd);

		bpf_xdp_detach(ifindex, XDP_FLAGS_DRV_MODE, &opts);
	}
	close(fd);
	return err;
}
