/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Privileges of verbs: capabilities of this process. doc/privileges.md has
 * the table of what each verb needs.
 */
#ifndef FPISA_PRIVILEGE_H
#define FPISA_PRIVILEGE_H

#include <stdbool.h>

/* Operations that need capabilities. Reading a loaded datapath needs none, only the right to open its pins. */
enum privilege {
	PRIVILEGE_LOAD,	   /* programs and maps into the kernel, attach them: load, resources, job add */
	PRIVILEGE_ATTACH,  /* attach and detach: unload */
	PRIVILEGE_LOOK,	   /* at programs and maps of others, by their number: job shrink */
	PRIVILEGE_TRACE,   /* see which namespace a process is in that has more capabilities */
	PRIVILEGE_UPGRADE, /* look, and attach */
};

bool privilege_has(enum privilege p);

/* 0, or -EPERM after an error line that names what `what` lacks. */
int privilege_check(enum privilege p, const char *what);

/*
 * Give up, for good, all capabilities except those for loading; with
 * `chown` also keep the one that gives files to a group. -errno, reported.
 */
int privilege_keep_load(bool chown);

/* Give up all capabilities. -errno, reported. */
int privilege_drop(void);

#endif
