/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Keys that ranks and the manager share, in a file of lines NAME:ID:SECRET. NAME is the client, ID distinguishes the
 * keys of the client, and SECRET has 64 hexadecimal digits. A name may have two keys, so that both keys can be used
 * while a new key replaces an old key. A rank uses the last key of its file.
 */
#ifndef FPISA_MANAGER_PSK_H
#define FPISA_MANAGER_PSK_H

#include <stddef.h>

#define FPISA_PSK_NAME 32 /* size of a name, including the terminating 0 */
#define FPISA_PSK_ID 9
#define FPISA_PSK_IDENTITY (FPISA_PSK_NAME + FPISA_PSK_ID) /* size of an identity, "NAME:ID", as in TLS */
#define FPISA_PSK_BYTES 32
#define FPISA_PSK_OF_A_NAME 2
#define FPISA_PSK_MOST 128 /* maximum number of keys in a file */

struct fpisa_psk {
	char name[FPISA_PSK_NAME];
	char id[FPISA_PSK_ID]; /* 8 hexadecimal digits */
	unsigned char secret[FPISA_PSK_BYTES];
};

struct fpisa_psks {
	size_t n;
	struct fpisa_psk psk[FPISA_PSK_MOST];
};

/* Return whether the name consists of 1 to 31 characters of A-Z a-z 0-9 . _ - */
int fpisa_psk_name_valid(const char *name);

/* Parse a line without its newline. Return 0, or -EINVAL without a message if the line is not a key. */
int fpisa_psk_parse(const char *line, struct fpisa_psk *psk);

/*
 * Read all keys of a file, at least one. Return -EACCES if others than its owner may read or write it, or if its owner
 * is neither the caller nor root. Return -EINVAL for a line that is not a key. Other errors are those of opening the
 * file. On an error, set the message.
 */
int fpisa_psks_read(struct fpisa_psks *keys, const char *file);

/*
 * Read the last key of a file, which is the key that a rank uses. Erase the other keys from memory. Errors are those of
 * fpisa_psks_read(), and -ENOMEM.
 */
int fpisa_psk_last(struct fpisa_psk *psk, const char *file);

/* Return the key of the identity "NAME:ID", or NULL if the key does not exist. */
const struct fpisa_psk *fpisa_psk_find(const struct fpisa_psks *keys, const char *identity);

/* Return whether the identity has the form NAME:ID. */
int fpisa_psk_identity_valid(const char *identity);

/* Return whether both are the same key. */
int fpisa_psk_same(const struct fpisa_psk *a, const struct fpisa_psk *b);

void fpisa_psk_identity(const struct fpisa_psk *psk, char identity[FPISA_PSK_IDENTITY]);

/*
 * Draw a key and append the key to the file. If the file does not exist, create it with access only for its owner.
 * Return -EEXIST if the name already has two keys. Other errors are those of fpisa_psks_read(). On an error, set the
 * message.
 */
int fpisa_psk_new(const char *name, const char *file, struct fpisa_psk *psk);

#endif
