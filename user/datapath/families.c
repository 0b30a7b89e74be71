// SPDX-License-Identifier: GPL-2.0-only
/* The objects of the further families, embedded as skeletons. */
#include "families.h"
#include "families.skel.h"
#include "fpisa/job.h"

const char *family_name(unsigned int family)
{
#define X(number, name, bytes, bits, limbs) [number] = #name,
	static const char *const names[FPISA_FAMILIES] = {FPISA_EACH_FAMILY(X)};
#undef X

	return family < FPISA_FAMILIES ? names[family] : NULL;
}

const void *family_object(unsigned int family, size_t *size)
{
#define X(number, name, bytes, bits, limbs) [number] = fpisa_##name##_bpf__elf_bytes,
	static const void *(*const objects[FPISA_FAMILIES])(size_t *) = {FPISA_FURTHER_FAMILIES(X)};
#undef X

	return family < FPISA_FAMILIES && objects[family] ? objects[family](size) : NULL;
}
