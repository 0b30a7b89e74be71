/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Keys that ranks and the manager share, in a file of lines NAME:ID:SECRET. NAME is the client, ID tells its keys
 * apart, SECRET is 64 hexadecimal digits. A name may have two keys, so that a new key can replace the old one while
 * both are in use; a rank uses the last key of its file.
 */
#ifndef FPISA_MANAGER_PSK_H
#define FPISA_MANAGER_PSK_H

#include <stddef.h>

#define FPISA_PSK_NAME 32 /* including the terminating 0 */
#define FPISA_PSK_ID 9
#define FPISA_PSK_IDENTITY (FPISA_PSK_NAME + FPISA_PSK_ID) /* "NAME:ID", as in TLS */
#define FPISA_PSK_BYTES 32
#define FPISA_PSK_OF_A_NAME 2
#define FPISA_PSK_MOST 128 /* keys in a file */

struct fpisa_psk {
	char name[FPISA_PSK_NAME];
	char id[FPISA_PSK_ID]; /* 8 hexadecimal digits */
	unsigned char secret[FPISA_PSK_BYTES];
};

struct fpisa_psks {
	size_t n;
	struct fpisa_psk psk[FPISA_PSK_MOST];
};

/* Return whether the name consists of 1 to 31 of A-Z a-z 0-9 . _ - */
int fpisa_psk_name_valid(const char *name);

/* Parse a line without its newline. Return -EINVAL, without a message, if it is not a key. */
int fpisa_psk_parse(const char *line, struct fpisa_psk *psk);

/*
 * Read all keys of a file, at least one. Return -EACCES if others than its owner may read or write it, or if its owner
 * is neither the caller nor root. Return -EINVAL for a line that is not a key. Other errors come from opening it. The
 * message is set.
 */
int fpisa_psks_read(struct fpisa_psks *keys, const char *file);

/*
 * Read the last key of a file, which is the key that a rank uses. The other keys are wiped. Errors as for
 * fpisa_psks_read(), or -ENOMEM.
 */
int fpisa_psk_last(struct fpisa_psk *psk, const char *file);

/* Return the key of an identity, "NAME:ID"; NULL if there is no such key. */
const struct fpisa_psk *fpisa_psk_find(const struct fpisa_psks *keys, const char *identity);

/* Return whether the identity has the form of a key's: NAME:ID. */
int fpisa_psk_identity_valid(const char *identity);

void fpisa_psk_identity(const struct fpisa_psk *psk, char identity[FPISA_PSK_IDENTITY]);

/*
 * Draw a key and append it to the file, which is created for its owner alone if it does not exist. -EEXIST if the
 * name has two keys already; errors as for fpisa_psks_read(). The message is set.
 */
int fpisa_psk_new(const char *name, const char *file, struct fpisa_psk *psk);

#endif
