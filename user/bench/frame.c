// SPDX-License-Identifier: GPL-2.0-only
/* Frames as the wire brings them, for BPF_PROG_TEST_RUN; bench.h has the contracts. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <string.h>

#include "bench.h"
#include "cli/report.h"

static uint16_t ip_sum(const uint8_t *ip)
{
	uint32_t sum = 0;

	for (int i = 0; i < FPISA_IP_LEN; i += 2)
		sum += (uint32_t)ip[i] << 8 | ip[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t) ~(sum + (sum >> 16)));
}

struct fpisa_hdr *bench_frame(struct bench_frame *f, const struct fpisa_job *j, uint32_t id, uint32_t rank,
			      uint32_t payload)
{
	const uint16_t udp_len = FPISA_UDP_LEN + FPISA_HDR_LEN + payload;
	const struct ethhdr eth = {
		.h_dest = {2, 0, 0, 0, 0, 1}, .h_source = {2, 0, 0, 0, 1, rank}, .h_proto = htons(ETH_P_IP)};
	const struct udphdr udp = {
		.source = j->rank[rank].port, .dest = htons(FPISA_PORT), .len = htons(udp_len)};
	struct fpisa_hdr *h = (struct fpisa_hdr *)(f->data + FPISA_OFFSET);
	struct iphdr ip = {.version = 4,
			   .ihl = 5,
			   .ttl = 64,
			   .protocol = IPPROTO_UDP,
			   .tot_len = htons(FPISA_IP_LEN + udp_len),
			   .saddr = j->rank[rank].addr,
			   .daddr = j->address};

	ip.check = ip_sum((const uint8_t *)&ip);
	memcpy(f->data, &eth, sizeof(eth));
	memcpy(f->data + FPISA_ETH_LEN, &ip, sizeof(ip));
	memcpy(f->data + FPISA_ETH_LEN + FPISA_IP_LEN, &udp, sizeof(udp));
	f->len = FPISA_PAYLOAD_OFFSET + payload;
	*h = (struct fpisa_hdr){.magic = FPISA_MAGIC, .version = FPISA_VERSION, .job = id};
	return h;
}

void *bench_payload(struct bench_frame *f)
{
	return f->data + FPISA_PAYLOAD_OFFSET;
}

void bench_seal(struct bench_frame *f)
{
	struct fpisa_hdr *h = (struct fpisa_hdr *)(f->data + FPISA_OFFSET);
	struct fpisa_sum s = {0};

	fpisa_sum_words(&s, h, FPISA_SUM_HDR_WORDS);
	fpisa_sum_words(&s, bench_payload(f), (int)(f->len - FPISA_PAYLOAD_OFFSET) / 8);
	h->checksum = fpisa_sum_fold(&s);
}

int bench_run(int prog_fd, const struct bench_frame *f, uint32_t *ns, uint32_t *action)
{
	LIBBPF_OPTS(bpf_test_run_opts, o, .data_in = f->data, .data_size_in = f->len, .repeat = 1);

	if (bpf_prog_test_run_opts(prog_fd, &o))
		return fail(-errno, NULL, "bench: run a program");
	*ns = o.duration;
	*action = o.retval;
	return 0;
}
