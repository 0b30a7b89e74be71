/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* GnuTLS by dlopen; tls.h has the contract. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include "lib/base/error.h"
#include "tls.h"

#define INSTALL "apt install libgnutls30, or its like"

static struct fpisa_tls functions;
static char why[256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Kept for the life of the process. */
static void load(void)
{
	void *handle = dlopen("libgnutls.so.30", RTLD_NOW | RTLD_LOCAL);

	if (!handle) {
		strncpy(why, dlerror(), sizeof(why) - 1);
		return;
	}
#define X(name)                                                                                              \
	functions.name = (__typeof__(functions.name))dlsym(handle, #name);                                   \
	if (!functions.name)                                                                                 \
		strcpy(why, "no " #name "() in libgnutls");
	FPISA_TLS_FUNCTIONS(X)
#undef X
}

const struct fpisa_tls *fpisa_tls(void)
{
	pthread_once(&once, load);
	if (!*why)
		return &functions;
	fpisa_fail(-ENOENT, "groups with a key: %s; " INSTALL, why);
	return NULL;
}
