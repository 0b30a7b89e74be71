/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Loading of GnuTLS by dlopen(); tls.h has the contract. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "lib/base/error.h"
#include "tls.h"

#define LIBRARY "libgnutls.so.30"
#define INSTALL "install GnuTLS, on Debian with apt install libgnutls30"

static struct fpisa_tls functions;
static int loaded;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/*
 * Set the message for a failed dlopen(), which reports its reason only as text. Distinguish a missing library from a
 * process that cannot open more files.
 */
static int not_opened(const char *why)
{
	int rc = strstr(why, strerror(EMFILE)) ? -EMFILE : strstr(why, strerror(ENFILE)) ? -ENFILE : -ENOENT;

	return fpisa_fail(rc, "groups with a key: %s; %s", why, fpisa_hint(rc, INSTALL));
}

/* Load GnuTLS for the rest of the process's life. After a failure the next call tries again. */
static int load(void)
{
	void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		return not_opened(dlerror());
#define X(name)                                                                                                   \
	functions.name = (__typeof__(functions.name))dlsym(handle, #name);                                        \
	if (!functions.name) {                                                                                    \
		dlclose(handle);                                                                                  \
		return fpisa_fail(-ENOENT,                                                                        \
				  "groups with a key: the function " #name "() is not in " LIBRARY "; " INSTALL); \
	}
	FPISA_TLS_FUNCTIONS(X)
#undef X
	loaded = 1;
	return 0;
}

int fpisa_tls_load(void)
{
	int rc;

	pthread_mutex_lock(&lock);
	rc = loaded ? 0 : load();
	pthread_mutex_unlock(&lock);
	return rc;
}

const struct fpisa_tls *fpisa_tls(void)
{
	return fpisa_tls_load() ? NULL : &functions;
}
