/* SPDX-License-Identifier: GPL-2.0-only */
/* The objects of the further families, embedded by their skeletons. */
#include "families.h"
#include "fpisa/job.h"
#include "fpisa_w1c1.skel.h"
#include "fpisa_w1c8.skel.h"
#include "fpisa_w1r32.skel.h"
#include "fpisa_w1r64.skel.h"
#include "fpisa_w2c1.skel.h"
#include "fpisa_w2c8.skel.h"
#include "fpisa_w2r32.skel.h"
#include "fpisa_w2r64.skel.h"
#include "fpisa_w4c8.skel.h"
#include "fpisa_w4r64.skel.h"
#include "fpisa_w8r64.skel.h"

const char *family_name(unsigned int family)
{
	static const char *const names[FPISA_FAMILIES] = {
		"w4r32", "w2r32", "w1r32", "w8r64", "w4r64", "w2r64", "w1r64", "w4c8", "w2c8", "w2c1", "w1c1",
		"w1c8",
	};

	return family < FPISA_FAMILIES ? names[family] : NULL;
}

const void *family_object(unsigned int family, size_t *size)
{
	static const void *(*const objects[FPISA_FAMILIES])(size_t *) = {
		NULL,
		fpisa_w2r32_bpf__elf_bytes,
		fpisa_w1r32_bpf__elf_bytes,
		fpisa_w8r64_bpf__elf_bytes,
		fpisa_w4r64_bpf__elf_bytes,
		fpisa_w2r64_bpf__elf_bytes,
		fpisa_w1r64_bpf__elf_bytes,
		fpisa_w4c8_bpf__elf_bytes,
		fpisa_w2c8_bpf__elf_bytes,
		fpisa_w2c1_bpf__elf_bytes,
		fpisa_w1c1_bpf__elf_bytes,
		fpisa_w1c8_bpf__elf_bytes,
	};

	return family < FPISA_FAMILIES && objects[family] ? objects[family](size) : NULL;
}
