/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The XDP program of a worker's interface, and the libraries that load it; xsk.h has the contracts. The program is so
 * short that this file contains its instructions, so that no object file has to be found and parsed.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>
#include "fpisa/wire.h"
#include "lib/base/error.h"
#include "xsk.h"

#define INSTALL "install libxdp1 and libbpf1, or use transport udp"

int fpisa_xsk_libraries(struct fpisa_xsk_lib *lib)
{
	/* Keep the library for the life of the process. libxdp also loads libbpf. */
	void *handle = dlopen("libxdp.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		return fpisa_fail(-ENOENT, "transport xsk: %s; " INSTALL, dlerror());
#define X(name)                                                  \
	lib->name = (__typeof__(lib->name))dlsym(handle, #name); \
	if (!lib->name)                                          \
		return fpisa_fail(-ENOENT,                       \
				  "transport xsk: the function " #name "() is not in libxdp and libbpf; " INSTALL);
	FPISA_XSK_FUNCTIONS(X)
#undef X
	return 0;
}

#define LOAD(width, dst, src, at) ((struct bpf_insn){BPF_LDX | BPF_MEM | (width), dst, src, at, 0})
#define MOVE(dst, src) ((struct bpf_insn){BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0, 0})
#define SET(dst, value) ((struct bpf_insn){BPF_ALU64 | BPF_MOV | BPF_K, dst, 0, 0, value})
#define ADD(dst, value) ((struct bpf_insn){BPF_ALU64 | BPF_ADD | BPF_K, dst, 0, 0, value})
#define AND(dst, value) ((struct bpf_insn){BPF_ALU64 | BPF_AND | BPF_K, dst, 0, 0, value})
/* Jump to `pass`, whose offset is filled in at the end. */
#define PASS_IF_ABOVE(dst, src) ((struct bpf_insn){BPF_JMP | BPF_JGT | BPF_X, dst, src, TO_PASS, 0})
#define PASS_UNLESS(dst, value) ((struct bpf_insn){BPF_JMP32 | BPF_JNE | BPF_K, dst, 0, TO_PASS, (__s32)(value)})
#define PASS_UNLESS_SAME(dst, src) ((struct bpf_insn){BPF_JMP32 | BPF_JNE | BPF_X, dst, src, TO_PASS, 0})
#define SKIP_IF_SAME(dst, src, n) ((struct bpf_insn){BPF_JMP32 | BPF_JEQ | BPF_X, dst, src, n, 0})
/* A 64-bit load, which takes two instructions. */
#define MAP(dst, how, map) ((struct bpf_insn){BPF_LD | BPF_DW | BPF_IMM, dst, how, 0, map}), ((struct bpf_insn){0})
#define TO_PASS (-1)

#define IP_AT FPISA_ETH_LEN
#define UDP_AT (FPISA_ETH_LEN + FPISA_IP_LEN)
#define OURS(member) offsetof(struct fpisa_xsk_filter, member)

static int load(const struct fpisa_xsk_lib *lib, int sockets, int filter)
{
	enum { R0, R1, R2, R3, R4, R5, R6 };
	struct bpf_insn code[] = {
		MOVE(R6, R1),
		LOAD(BPF_W, R2, R6, offsetof(struct xdp_md, data)),
		LOAD(BPF_W, R3, R6, offsetof(struct xdp_md, data_end)),
		MOVE(R4, R2),
		ADD(R4, FPISA_OFFSET),
		PASS_IF_ABOVE(R4, R3),
		LOAD(BPF_H, R5, R2, offsetof(struct ethhdr, h_proto)),
		PASS_UNLESS(R5, htons(ETH_P_IP)),
		LOAD(BPF_B, R5, R2, IP_AT),
		PASS_UNLESS(R5, 0x45), /* the packet has no IP options */
		LOAD(BPF_H, R5, R2, IP_AT + 6),
		AND(R5, htons(0x3fff)), /* the packet is not a fragment */
		PASS_UNLESS(R5, 0),
		LOAD(BPF_B, R5, R2, IP_AT + 9),
		PASS_UNLESS(R5, IPPROTO_UDP),
		MAP(R1, BPF_PSEUDO_MAP_VALUE, filter),
		LOAD(BPF_W, R5, R2, IP_AT + 12),
		LOAD(BPF_W, R4, R1, OURS(source)),
		PASS_UNLESS_SAME(R5, R4),
		LOAD(BPF_W, R5, R2, IP_AT + 16),
		LOAD(BPF_W, R4, R1, OURS(destination)),
		SKIP_IF_SAME(R5, R4, 2),
		LOAD(BPF_W, R4, R1, OURS(group)),
		PASS_UNLESS_SAME(R5, R4),
		LOAD(BPF_H, R5, R2, UDP_AT),
		LOAD(BPF_H, R4, R1, OURS(from)),
		PASS_UNLESS_SAME(R5, R4),
		LOAD(BPF_H, R5, R2, UDP_AT + 2),
		LOAD(BPF_H, R4, R1, OURS(to)),
		PASS_UNLESS_SAME(R5, R4),
		LOAD(BPF_W, R2, R6, offsetof(struct xdp_md, rx_queue_index)),
		MAP(R1, BPF_PSEUDO_MAP_FD, sockets),
		SET(R3, XDP_PASS), /* action for a queue without a socket */
		{BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_redirect_map},
		{BPF_JMP | BPF_EXIT, 0, 0, 0, 0},
		SET(R0, XDP_PASS),
		{BPF_JMP | BPF_EXIT, 0, 0, 0, 0},
	};
	const int n = sizeof(code) / sizeof(code[0]), pass = n - 2;

	for (int i = 0; i < n; i++)
		if (code[i].off == TO_PASS)
			code[i].off = (int16_t)(pass - i - 1);
	return lib->bpf_prog_load(BPF_PROG_TYPE_XDP, "fpisa_xsk", "Dual BSD/GPL", code, (size_t)n, NULL);
}

static int load_with(struct fpisa_xsk_program *p, const struct fpisa_xsk_lib *lib, int filter)
{
	void *ours = mmap(NULL, sizeof(*p->ours), PROT_READ | PROT_WRITE, MAP_SHARED, filter, 0);

	if (ours == MAP_FAILED)
		return -errno;
	p->ours = ours;
	p->sockets = lib->bpf_map_create(BPF_MAP_TYPE_XSKMAP, "fpisa_xsk", sizeof(int), sizeof(int), 1, NULL);
	if (p->sockets < 0)
		return p->sockets;
	p->program = load(lib, p->sockets, filter);
	return p->program < 0 ? p->program : 0;
}

int fpisa_xsk_program_load(struct fpisa_xsk_program *p, const struct fpisa_xsk_lib *lib)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);
	int filter = lib->bpf_map_create(BPF_MAP_TYPE_ARRAY, "fpisa_xsk_ours", sizeof(int), sizeof(*p->ours), 1, &opts);
	int rc;

	*p = FPISA_XSK_NO_PROGRAM;
	if (filter < 0)
		return filter;
	rc = load_with(p, lib, filter);
	close(filter);
	if (rc)
		fpisa_xsk_program_close(p);
	return rc;
}

void fpisa_xsk_program_close(struct fpisa_xsk_program *p)
{
	if (p->program >= 0)
		close(p->program);
	if (p->sockets >= 0)
		close(p->sockets);
	if (p->ours)
		munmap(p->ours, sizeof(*p->ours));
	*p = FPISA_XSK_NO_PROGRAM;
}
