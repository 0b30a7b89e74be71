/* SPDX-License-Identifier: GPL-2.0-only */
/* Privileges of verbs: capabilities of this process. doc/privileges.md has a table of the needs of each verb. */
#ifndef FPISA_PRIVILEGE_H
#define FPISA_PRIVILEGE_H

#include <stdbool.h>

/* Operations that need capabilities. Reading a loaded datapath needs no capability, only the right to open its pins. */
enum privilege {
	PRIVILEGE_LOAD,	   /* load programs and maps into the kernel, and attach them: load, resources, job add */
	PRIVILEGE_ATTACH,  /* attach and detach: unload */
	PRIVILEGE_LOOK,	   /* examine programs and maps of other processes, by their number: job shrink */
	PRIVILEGE_TRACE,   /* see the namespace of a process that has more capabilities */
	PRIVILEGE_UPGRADE, /* examine, and attach */
};

bool privilege_has(enum privilege p);

/* Check the privilege. Return 0, or -EPERM after an error line that names what `what` lacks. */
int privilege_check(enum privilege p, const char *what);

/*
 * Drop all capabilities permanently, except those for loading. With `chown`, also keep the capability to give files to
 * a Unix group. Return 0 or -errno, reported.
 */
int privilege_keep_load(bool chown);

/* Drop all capabilities. Return 0 or -errno, reported. */
int privilege_drop(void);

#endif
