// SPDX-License-Identifier: GPL-2.0-only
/*
 * Simulate a busy machine. LD_PRELOAD loads this library, which makes one pin fail for lack of descriptors (SCARCE_PIN),
 * or the description of one interface fail for lack of kernel memory (SCARCE_LINK).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

int bpf_obj_get(const char *path)
{
	const char *pin = getenv("SCARCE_PIN"), *name = strrchr(path, '/');
	int (*next)(const char *) = (int (*)(const char *))dlsym(RTLD_NEXT, "bpf_obj_get");

	if (!pin || strcmp(name ? name + 1 : path, pin))
		return next(path);
	errno = ENFILE;
	return -ENFILE;
}

int bpf_xdp_query(int ifindex, int flags, void *opts)
{
	const char *link = getenv("SCARCE_LINK");
	int (*next)(int, int, void *) = (int (*)(int, int, void *))dlsym(RTLD_NEXT, "bpf_xdp_query");

	return link && (int)if_nametoindex(link) == ifindex ? -ENOMEM : next(ifindex, flags, opts);
}
