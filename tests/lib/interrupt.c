// SPDX-License-Identifier: GPL-2.0-only
/*
 * Send a signal at a chosen step, for preload.py. Preloaded into fpisa, this library sends SIGTERM to fpisa when $STEP
 * happens for the $NTH time. Step "attach" is the attachment of a program to an interface. Any other step is the name
 * of a map, and happens when the map is created.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void step(const char *name)
{
	static int n;

	if (!strcmp(name, getenv("STEP")) && ++n == atoi(getenv("NTH")))
		kill(getpid(), SIGTERM);
}

int bpf_xdp_attach(int ifindex, int fd, unsigned int flags, const void *opts)
{
	int (*attach)(int, int, unsigned int, const void *) = dlsym(RTLD_NEXT, "bpf_xdp_attach");
	int err = attach(ifindex, fd, flags, opts);

	step("attach");
	return err;
}

int bpf_map_create(int type, const char *name, unsigned int key, unsigned int value, unsigned int entries,
		   const void *opts)
{
	int (*create)(int, const char *, unsigned int, unsigned int, unsigned int, const void *) =
		dlsym(RTLD_NEXT, "bpf_map_create");

	step(name ? name : "");
	return create(type, name, key, value, entries, opts);
}
