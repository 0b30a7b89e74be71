/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Test that the loader drops capabilities (user/host/privilege.c), as /proc/self/status shows. Each test runs in a
 * child. Without privilege there are fewer capabilities to drop.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#undef fail /* cli/report.h has another fail() */
#include <linux/capability.h>
#include "cli/report.h"
#include "host/privilege.h"

#define BIT(cap) (1ull << (cap))

static char said[256];

/* Replace the function of cli/report.c. Store the text instead of printing it. */
int fail(int err, const char *hint, const char *fmt, ...)
{
	(void)hint;
	snprintf(said, sizeof(said), "%s", fmt);
	return err;
}

int refuse(int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(said, sizeof(said), fmt, ap);
	va_end(ap);
	return err;
}

static uint64_t status(const char *key, int base)
{
	FILE *f = fopen("/proc/self/status", "re");
	uint64_t value = ~0ull;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, key, strlen(key)))
			value = strtoull(line + strlen(key) + 1, NULL, base);
	if (f)
		fclose(f);
	return value;
}

/* Exit with the line of the first expectation that is not met, or 0 if all are met. */
#define EXPECT(what)                            \
	do {                                    \
		if (!(what))                    \
			_exit(__LINE__ & 0xff); \
	} while (0)

static void give_up(uint64_t before, bool chown)
{
	const uint64_t loading = BIT(CAP_NET_ADMIN) | BIT(CAP_BPF) | BIT(CAP_PERFMON);
	uint64_t most = loading | BIT(CAP_SYS_RESOURCE) | (chown ? BIT(CAP_CHOWN) : 0);
	bool whole = (before & loading) == loading;

	EXPECT(!privilege_keep_load(chown));
	EXPECT(status("CapEff:", 16) == (before & (whole ? most : most | BIT(CAP_SYS_ADMIN))));
	EXPECT(status("CapPrm:", 16) == status("CapEff:", 16) && !status("CapInh:", 16) && !status("CapAmb:", 16));
	EXPECT(status("NoNewPrivs:", 10) == 1);
	EXPECT(!whole || !privilege_check(PRIVILEGE_LOAD, "x"));
	EXPECT(privilege_check(PRIVILEGE_LOOK, "look") || !whole);
	EXPECT(!privilege_drop());
	EXPECT(!status("CapEff:", 16) && !status("CapPrm:", 16));
	EXPECT(privilege_check(PRIVILEGE_LOAD, "load") < 0);
	EXPECT(!strcmp(said, "load: no privilege; run as root, or with CAP_NET_ADMIN, CAP_BPF, CAP_PERFMON"));
	EXPECT(privilege_check(PRIVILEGE_LOOK, "job shrink") < 0);
	EXPECT(!strcmp(said, "job shrink: no privilege; run as root, or with CAP_SYS_ADMIN"));
	_exit(0);
}

static void loader_gives_up(void **state)
{
	uint64_t before = status("CapEff:", 16);

	(void)state;
	for (int chown = 0; chown < 2; chown++) {
		pid_t child = fork();
		int how;

		if (!child)
			give_up(before, chown);
		assert_true(child > 0 && waitpid(child, &how, 0) == child);
		assert_true(WIFEXITED(how));
		assert_int_equal(WEXITSTATUS(how), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(loader_gives_up)};

	return cmocka_run_group_tests_name("unit/privilege", tests, NULL, NULL);
}
