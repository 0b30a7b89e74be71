/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Privileges of verbs, as capabilities of this process. doc/privileges.md has a table of the privileges that each verb
 * needs.
 */
#ifndef FPISA_PRIVILEGE_H
#define FPISA_PRIVILEGE_H

#include <stdbool.h>

/* Operations that need capabilities. Reading a loaded datapath needs no capability, but permission to open its pins. */
enum privilege {
	PRIVILEGE_LOAD,	   /* load programs and maps into the kernel and attach them, for load, resources and job add */
	PRIVILEGE_ATTACH,  /* attach and detach, for unload */
	PRIVILEGE_LOOK,	   /* examine programs and maps of other processes by id, for job shrink */
	PRIVILEGE_TRACE,   /* see the namespace of a process that has more capabilities */
	PRIVILEGE_UPGRADE, /* examine and attach */
};

bool privilege_has(enum privilege p);

/* Check the privilege. Return 0, or print an error that names the capabilities that `what` lacks and return -EPERM. */
int privilege_check(enum privilege p, const char *what);

/*
 * Drop all capabilities permanently, except those for loading. With `chown`, also keep the capability to change the
 * Unix group of files. Return 0, or print an error and return a negative errno.
 */
int privilege_keep_load(bool chown);

/* Drop all capabilities. Return 0, or print an error and return a negative errno. */
int privilege_drop(void);

#endif
