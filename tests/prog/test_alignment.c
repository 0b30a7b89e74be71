/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Load every object under BPF_F_STRICT_ALIGNMENT, as on machines without efficient unaligned access. The verifier
 * assumes that a frame starts at NET_IP_ALIGN (2), so the FPISA header lies at 2 + 42 = 44, which is aligned to 4 but
 * not to 8.
 *
 * The steering programs read no 64-bit words and are accepted. The entry program and every stage sum the header in
 * 64-bit words, because each can send a reply of its own, and the egress program does so in a result without payload.
 * The verifier refuses them at these words, for this reason only. So the datapath needs machines that read unaligned
 * words, such as x86-64 and arm64.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <bpf/libbpf.h>
#include <cmocka.h>
#include <linux/bpf.h>
#include "datapath/families.h"
#include "fpisa_egress.skel.h"
#include "fpisa_steer.skel.h"
#include "harness.h"

static void strict(struct bpf_object *o)
{
	struct bpf_program *p;
	struct bpf_map *m;

	bpf_object__for_each_program(p, o) {
		if (bpf_program__type(p) != BPF_PROG_TYPE_XDP) {
			bpf_program__set_type(p, BPF_PROG_TYPE_XDP);
			bpf_program__set_expected_attach_type(p, 0);
		}
		bpf_program__set_flags(p, bpf_program__flags(p) | BPF_F_STRICT_ALIGNMENT);
	}
	bpf_object__for_each_map(m, o)
		bpf_map__set_pin_path(m, NULL);
}

/* The last message of the verifier about alignment */
static char misaligned[256];

static int listen(enum libbpf_print_level level, const char *format, va_list args)
{
	static char text[1 << 16];
	const char *at;

	(void)level;
	vsnprintf(text, sizeof(text), format, args);
	at = strstr(text, "misaligned ");
	if (at)
		snprintf(misaligned, sizeof(misaligned), "%.*s", (int)strcspn(at, "\n"), at);
	return 0;
}

/*
 * Check that the object is refused because of a 64-bit word of the header, whose offset in the header is a multiple of
 * 8.
 */
static void refused_for_header(struct bpf_object *o, const char *name)
{
	unsigned int base, at;
	int err;

	assert_non_null(o);
	strict(o);
	*misaligned = 0;
	libbpf_set_print(listen);
	err = bpf_object__load(o);
	libbpf_set_print(NULL);
	bpf_object__close(o);
	if (!err)
		fail_msg("%s is accepted now: say so here", name);
	if (sscanf(misaligned, "misaligned packet access off 2+%*[^+]+%u+%u size 8", &base, &at) != 2 ||
	    base + at < FPISA_OFFSET || base + at >= FPISA_PAYLOAD_OFFSET || (base + at - FPISA_OFFSET) % 8)
		fail_msg("%s is refused for another reason: %s", name, misaligned);
}

static void egress(void **state)
{
	size_t size;
	const void *bytes = fpisa_egress_bpf__elf_bytes(&size);

	(void)state;
	NEED_BPF();
	refused_for_header(bpf_object__open_mem(bytes, size, NULL), "the egress program");
}

static void steering(void **state)
{
	struct fpisa_steer_bpf *skel;

	(void)state;
	NEED_BPF();
	skel = fpisa_steer_bpf__open();
	assert_non_null(skel);
	strict(skel->obj);
	assert_int_equal(fpisa_steer_bpf__load(skel), 0);
	fpisa_steer_bpf__destroy(skel);
}

static void entry_and_stages(void **state)
{
	size_t size;
	const void *bytes = fpisa_bpf__elf_bytes(&size);

	(void)state;
	NEED_BPF();
	refused_for_header(bpf_object__open_mem(bytes, size, NULL), "fpisa.o");
}

static void families(void **state)
{
	(void)state;
	NEED_BPF();
	for (uint8_t k = 1; k < FPISA_FAMILIES && family_name(k); k++) {
		size_t size;
		const void *bytes = family_object(k, &size);

		refused_for_header(bpf_object__open_mem(bytes, size, NULL), family_name(k));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(egress),
		cmocka_unit_test(steering),
		cmocka_unit_test(entry_and_stages),
		cmocka_unit_test(families),
	};

	return cmocka_run_group_tests_name("prog/strict", tests, harness_setup, harness_teardown);
}
