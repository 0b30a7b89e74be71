// SPDX-License-Identifier: GPL-2.0-only
/* Run programs on frames by BPF_PROG_TEST_RUN. bench.h documents the functions. */
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/ipv6.h>

#include "bench.h"
#include "cli/report.h"
#include "lab/testbed/frame.h"

void bench_seal(const struct fpisa_job *j, struct bench_frame *f)
{
	frame_seal(j, frame_hdr(f->data), frame_payload(f->data), f->len - FPISA_PAYLOAD_OFFSET);
}

/* Insert `more` bytes at `at`. */
static void insert(struct bench_frame *f, uint32_t at, uint32_t more)
{
	memmove(f->data + at + more, f->data + at, f->len - at);
	f->len += more;
}

static void write_type(struct bench_frame *f, uint16_t type)
{
	const __be16 value = htons(type);

	memcpy(f->data + 2 * ETH_ALEN, &value, sizeof(value));
}

void bench_dress(const struct fpisa_job *j, uint32_t rank, struct bench_frame *f)
{
	struct ipv6hdr ip = {.version = 6, .nexthdr = IPPROTO_UDP, .hop_limit = 64};
	const __be16 tag = htons(j->vlan);

	if (fpisa_is_ipv6(&j->address)) {
		insert(f, FPISA_ETH_LEN, FPISA_IPV6_LEN - FPISA_IP_LEN);
		ip.payload_len = htons((uint16_t)(f->len - FPISA_ETH_LEN - FPISA_IPV6_LEN));
		memcpy(&ip.saddr, &j->rank[rank].addr, sizeof(ip.saddr));
		memcpy(&ip.daddr, &j->address, sizeof(ip.daddr));
		memcpy(f->data + FPISA_ETH_LEN, &ip, sizeof(ip));
		write_type(f, ETH_P_IPV6);
	}
	if (!j->vlan)
		return;
	insert(f, 2 * ETH_ALEN, FPISA_VLAN_LEN);
	write_type(f, ETH_P_8021Q);
	memcpy(f->data + FPISA_ETH_LEN, &tag, sizeof(tag));
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
