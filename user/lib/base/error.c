/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Error messages of the library; error.h has the contracts. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "error.h"
#include "fpisa.h"
#include "fpisa/verdict.h"
#include "fpisa/wire.h"
#include "locale.h"

static __thread char message[FPISA_MESSAGE_SIZE];
__thread struct fpisa_ranks fpisa_missing_at_join;

const char *fpisa_error(void)
{
	return message;
}

int fpisa_fail(int error, const char *format, ...)
{
	locale_t before = fpisa_locale_enter();
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	fpisa_locale_leave(before);
	return error;
}

/* Return a hint if a resource of this process or host is exhausted. Return NULL for other errors. */
static const char *remedy(int error)
{
	switch (error) {
	case -ENOMEM:
	case -ENOBUFS:
		return FPISA_MORE_MEMORY;
	case -EMFILE:
		return "raise the process's limit of open files (ulimit -n)";
	case -ENFILE:
		return "raise the host's limit of open files (sysctl fs.file-max)";
	}
	return NULL;
}

const char *fpisa_hint(int error, const char *hint)
{
	return remedy(error) ?: hint;
}

const char *fpisa_why(int error)
{
	static __thread char text[160];
	const char *hint = fpisa_hint(error, "");

	snprintf(text, sizeof(text), "%s%s%s", strerror(-error), *hint ? "; " : "", hint);
	return text;
}

int fpisa_given(const void *pointer, const char *name)
{
	return pointer ? 0 : fpisa_fail(-EINVAL, "%s is NULL; pass a valid pointer", name);
}

int fpisa_no_host(const char *address)
{
	return fpisa_fail(-EINVAL, "'%s' is not the address of a host; pass an address such as 10.0.0.1:18000", address);
}

int fpisa_copy_sized(void *to, size_t known, const void *from, size_t least, const char *name)
{
	const unsigned char *bytes = from;
	size_t size;
	int rc = fpisa_given(from, name);

	if (rc)
		return rc;
	memcpy(&size, from, sizeof(size));
	if (size < least || size > 4096)
		return fpisa_fail(-EINVAL, "%s.size is %zu; set it to sizeof(struct fpisa_%s)", name, size, name);
	for (size_t i = known; i < size; i++)
		if (bytes[i])
			return fpisa_fail(-EINVAL, "%s sets a member that this libfpisa does not know; update libfpisa",
					  name);
	memset(to, 0, known);
	memcpy(to, from, size < known ? size : known);
	return 0;
}

const char *fpisa_reason(uint16_t verdict)
{
	static const char *const text[] = {
#define X(name, class, sentence) sentence,
		FPISA_VERDICTS(X)
#undef X
	};

	return verdict < FPISA_VERDICT_COUNT ? text[verdict] : "unknown reason";
}

const char *fpisa_rank_names(char *buf, size_t size, const struct fpisa_ranks *ranks)
{
	size_t used = 0;

	buf[0] = '\0';
	FPISA_EACH_RANK(r, ranks) {
		if (used + sizeof("rank 4095, ...") > size) {
			snprintf(buf + used, size - used, "...");
			break;
		}
		used += (size_t)snprintf(buf + used, size - used, "rank %u%s", r,
					 fpisa_ranks_next(ranks, r + 1) < FPISA_MAX_RANKS ? ", " : "");
	}
	return buf;
}
