/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Keys that ranks and the manager share, in a file of lines NAME:ID:SECRET:
 * who it is that asks, which of his keys, 64 hexadecimal digits. Two keys of
 * a name may stand there, so that one takes the other's place while both are
 * in use; a rank uses the last key of its file.
 */
#ifndef FPISA_MANAGER_PSK_H
#define FPISA_MANAGER_PSK_H

#include <stddef.h>

#define FPISA_PSK_NAME 32 /* with the 0 behind it */
#define FPISA_PSK_ID 9
#define FPISA_PSK_IDENTITY (FPISA_PSK_NAME + FPISA_PSK_ID) /* "NAME:ID", as TLS says it */
#define FPISA_PSK_BYTES 32
#define FPISA_PSK_OF_A_NAME 2
#define FPISA_PSK_MOST 128 /* of a file */

struct fpisa_psk {
	char name[FPISA_PSK_NAME];
	char id[FPISA_PSK_ID]; /* 8 hexadecimal digits */
	unsigned char secret[FPISA_PSK_BYTES];
};

struct fpisa_psks {
	size_t n;
	struct fpisa_psk psk[FPISA_PSK_MOST];
};

/* 1 to 31 of A-Z a-z 0-9 . _ - */
int fpisa_psk_name_valid(const char *name);

/* A line without its end; -EINVAL if it is none, and no message. */
int fpisa_psk_parse(const char *line, struct fpisa_psk *psk);

/*
 * All keys of a file, at least one. -EACCES if others than its owner may read or write it, or if that is neither
 * the caller nor root; -EINVAL of a line that is no key; other errors of opening it. The message is set.
 */
int fpisa_psks_read(struct fpisa_psks *keys, const char *file);

/* The last key of a file, which is the one that a rank uses; nothing of the others stays. Errors as of reading, or -ENOMEM. */
int fpisa_psk_last(struct fpisa_psk *psk, const char *file);

/* The key of an identity, "NAME:ID"; NULL: there is none. */
const struct fpisa_psk *fpisa_psk_find(const struct fpisa_psks *keys, const char *identity);

/* Could a key have it: NAME:ID? */
int fpisa_psk_identity_valid(const char *identity);

void fpisa_psk_identity(const struct fpisa_psk *psk, char identity[FPISA_PSK_IDENTITY]);

/*
 * Draws a key and appends it to the file, which is made for its owner alone if it is not there. -EEXIST if the name
 * has two already; errors as of reading. The message is set.
 */
int fpisa_psk_new(const char *name, const char *file, struct fpisa_psk *psk);

#endif
