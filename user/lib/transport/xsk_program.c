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
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "fpisa/wire.h"
#include "lib/base/error.h"
#include "outer.h"
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
#define SKIP(n) ((struct bpf_insn){BPF_JMP | BPF_JA, 0, 0, n, 0})
/* Jump to the end, which passes the frame, and whose offset is filled in last. */
#define PASS_IF_ABOVE(dst, src) ((struct bpf_insn){BPF_JMP | BPF_JGT | BPF_X, dst, src, TO_PASS, 0})
#define PASS_UNLESS(dst, value) ((struct bpf_insn){BPF_JMP32 | BPF_JNE | BPF_K, dst, 0, TO_PASS, (__s32)(value)})
#define SKIP_UNLESS_SAME(dst, src, n) ((struct bpf_insn){BPF_JMP32 | BPF_JNE | BPF_X, dst, src, n, 0})
/* A 64-bit load, which takes two instructions. */
#define MAP(dst, how, map) ((struct bpf_insn){BPF_LD | BPF_DW | BPF_IMM, dst, how, 0, map}), ((struct bpf_insn){0})
#define CALL(function) ((struct bpf_insn){BPF_JMP | BPF_CALL, 0, 0, 0, function})
#define EXIT ((struct bpf_insn){BPF_JMP | BPF_EXIT, 0, 0, 0, 0})
#define TO_PASS (-1)

#define IP_AT FPISA_ETH_LEN
#define OURS(member) (int)offsetof(struct fpisa_xsk_filter, member)

enum { R0, R1, R2, R3, R4, R5, R6 };

struct code {
	struct bpf_insn at[96];
	int n;
};

#define PUT(c, ...)                                    \
	put(c, (const struct bpf_insn[]){__VA_ARGS__}, \
	    sizeof((struct bpf_insn[]){__VA_ARGS__}) / sizeof(struct bpf_insn))

static void put(struct code *c, const struct bpf_insn *more, size_t n)
{
	memcpy(c->at + c->n, more, n * sizeof(*more));
	c->n += (int)n;
}

/* Load the frame's bounds into r2 and r3, and pass a frame that is not a whole datagram over the family. */
static void check_headers(struct code *c, int ipv6)
{
	PUT(c, MOVE(R6, R1), LOAD(BPF_W, R2, R6, offsetof(struct xdp_md, data)),
	    LOAD(BPF_W, R3, R6, offsetof(struct xdp_md, data_end)), MOVE(R4, R2),
	    ADD(R4, ipv6 ? FPISA_OFFSET6 : FPISA_OFFSET), PASS_IF_ABOVE(R4, R3),
	    LOAD(BPF_H, R5, R2, offsetof(struct ethhdr, h_proto)), PASS_UNLESS(R5, htons(ipv6 ? ETH_P_IPV6 : ETH_P_IP)),
	    LOAD(BPF_B, R5, R2, IP_AT));
	if (ipv6) {
		/* An extension header, such as that of a fragment, has another number. */
		PUT(c, AND(R5, 0xf0), PASS_UNLESS(R5, 0x60), LOAD(BPF_B, R5, R2, IP_AT + 6),
		    PASS_UNLESS(R5, IPPROTO_UDP));
		return;
	}
	PUT(c, PASS_UNLESS(R5, 0x45), /* the packet has no IP options */
	    LOAD(BPF_H, R5, R2, IP_AT + 6), AND(R5, htons(0x3fff)), PASS_UNLESS(R5, 0), /* and is not a fragment */
	    LOAD(BPF_B, R5, R2, IP_AT + 9), PASS_UNLESS(R5, IPPROTO_UDP));
}

#define WORD 3 /* instructions that compare a word */

/*
 * Compare `words` words of the frame, from byte `at` on, with those of the filter in r1, from byte `ours` on. If they
 * differ, pass the frame, or skip `more` further instructions if `more` is not TO_PASS.
 */
static void compare(struct code *c, int at, int ours, int words, int more)
{
	for (int i = 0; i < words; i++)
		PUT(c, LOAD(BPF_W, R5, R2, (__s16)(at + 4 * i)), LOAD(BPF_W, R4, R1, (__s16)(ours + 4 * i)),
		    SKIP_UNLESS_SAME(R5, R4, (__s16)(more == TO_PASS ? TO_PASS : WORD * (words - 1 - i) + more)));
}

static void check_filter(struct code *c, int ipv6, int filter)
{
	const int words = ipv6 ? 4 : 1,
		  skipped = ipv6 ? 0 : 3 * (int)sizeof(__u32); /* IPv4 addresses are the last word */
	const int source = IP_AT + (ipv6 ? 8 : 12), destination = source + 4 * words, ports = destination + 4 * words;

	PUT(c, MAP(R1, BPF_PSEUDO_MAP_VALUE, filter));
	compare(c, source, OURS(source) + skipped, words, TO_PASS);
	compare(c, destination, OURS(destination) + skipped, words, 1);
	PUT(c, SKIP((__s16)(WORD * words)));
	compare(c, destination, OURS(group) + skipped, words, TO_PASS);
	compare(c, ports, OURS(from), 1, TO_PASS);
}

static int load(const struct fpisa_xsk_lib *lib, int sockets, int filter, int ipv6)
{
	struct code c = {.n = 0};

	check_headers(&c, ipv6);
	check_filter(&c, ipv6, filter);
	PUT(&c, LOAD(BPF_W, R2, R6, offsetof(struct xdp_md, rx_queue_index)), MAP(R1, BPF_PSEUDO_MAP_FD, sockets),
	    SET(R3, XDP_PASS), /* action for a queue without a socket */
	    CALL(BPF_FUNC_redirect_map), EXIT, SET(R0, XDP_PASS), EXIT);
	for (int i = 0; i < c.n; i++)
		if (c.at[i].off == TO_PASS)
			c.at[i].off = (int16_t)(c.n - 2 - i - 1);
	return lib->bpf_prog_load(BPF_PROG_TYPE_XDP, "fpisa_xsk", "Dual BSD/GPL", c.at, (size_t)c.n, NULL);
}

static int load_with(struct fpisa_xsk_program *p, const struct fpisa_xsk_lib *lib, int filter, int ipv6)
{
	void *ours = mmap(NULL, sizeof(*p->ours), PROT_READ | PROT_WRITE, MAP_SHARED, filter, 0);

	if (ours == MAP_FAILED)
		return -errno;
	p->ours = ours;
	p->sockets = lib->bpf_map_create(BPF_MAP_TYPE_XSKMAP, "fpisa_xsk", sizeof(int), sizeof(int), 1, NULL);
	if (p->sockets < 0)
		return p->sockets;
	p->program = load(lib, p->sockets, filter, ipv6);
	return p->program < 0 ? p->program : 0;
}

int fpisa_xsk_program_load(struct fpisa_xsk_program *p, const struct fpisa_xsk_lib *lib, int ipv6)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);
	int filter = lib->bpf_map_create(BPF_MAP_TYPE_ARRAY, "fpisa_xsk_ours", sizeof(int), sizeof(*p->ours), 1, &opts);
	int rc;

	*p = FPISA_XSK_NO_PROGRAM;
	if (filter < 0)
		return filter;
	rc = load_with(p, lib, filter, ipv6);
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
