// SPDX-License-Identifier: GPL-2.0-only
/* Run programs on frames by BPF_PROG_TEST_RUN. bench.h documents the functions. */
#include <bpf/bpf.h>
#include <errno.h>

#include "bench.h"
#include "cli/report.h"
#include "lab/testbed/frame.h"

void bench_seal(const struct fpisa_job *j, struct bench_frame *f)
{
	frame_seal(j, frame_hdr(f->data), frame_payload(f->data), f->len - FPISA_PAYLOAD_OFFSET);
}

int bench_run(int prog_fd, const struct bench_frame *f, uint32_t *ns, uint32_t *action)
{
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = f->data, .data_size_in = f->len, .repeat = 1);

	if (bpf_prog_test_run_opts(prog_fd, &o))
		return fail(-errno, NULL, "bench: cannot run a program");
	*ns = o.duration;
	*action = o.retval;
	return 0;
}

#define LIVE_FRAMES 4096

int bench_run_live(int prog_fd, const struct bench_frame *f, uint32_t *ns)
{
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = f->data, .data_size_in = f->len, .repeat = LIVE_FRAMES,
		    .flags = BPF_F_TEST_XDP_LIVE_FRAMES);

	*ns = 0;
	if (bpf_prog_test_run_opts(prog_fd, &o))
		return errno == EINVAL ? 0 : fail(-errno, NULL, "bench: cannot run a program on live frames");
	*ns = o.duration;
	return 0;
}
