/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Key files: read, find and add keys; psk.h has the contracts. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include "lib/base/error.h"
#include "psk.h"

#define DIGITS "0123456789abcdef"
#define FILE_MOST 32768

int fpisa_psk_name_valid(const char *name)
{
	size_t n = strlen(name);

	return n && n < FPISA_PSK_NAME &&
	       strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == n;
}

static int digit(char c)
{
	const char *at = c ? strchr(DIGITS, c) : NULL;

	return at ? (int)(at - DIGITS) : -1;
}

int fpisa_psk_parse(const char *line, struct fpisa_psk *psk)
{
	const char *id = strchr(line, ':'), *secret = id ? strchr(id + 1, ':') : NULL;
	size_t name = id ? (size_t)(id - line) : 0;

	*psk = (struct fpisa_psk){0};
	if (!secret || name >= sizeof(psk->name) || secret - id != FPISA_PSK_ID ||
	    strlen(secret + 1) != 2 * FPISA_PSK_BYTES)
		return -EINVAL;
	memcpy(psk->name, line, name);
	memcpy(psk->id, id + 1, FPISA_PSK_ID - 1);
	if (!fpisa_psk_name_valid(psk->name) || strspn(psk->id, DIGITS) != FPISA_PSK_ID - 1)
		return -EINVAL;
	for (int i = 0; i < FPISA_PSK_BYTES; i++) {
		int high = digit(secret[1 + 2 * i]), low = digit(secret[2 + 2 * i]);

		if (high < 0 || low < 0)
			return -EINVAL;
		psk->secret[i] = (unsigned char)(high << 4 | low);
	}
	return 0;
}

int fpisa_psk_identity_valid(const char *identity)
{
	const char *id = strchr(identity, ':');
	char name[FPISA_PSK_NAME] = "";

	if (!id || id - identity >= FPISA_PSK_NAME)
		return 0;
	memcpy(name, identity, (size_t)(id - identity));
	return fpisa_psk_name_valid(name) && strlen(id + 1) == FPISA_PSK_ID - 1 &&
	       strspn(id + 1, DIGITS) == FPISA_PSK_ID - 1;
}

int fpisa_psk_same(const struct fpisa_psk *a, const struct fpisa_psk *b)
{
	return !strcmp(a->name, b->name) && !strcmp(a->id, b->id) && !memcmp(a->secret, b->secret, sizeof(a->secret));
}

void fpisa_psk_identity(const struct fpisa_psk *psk, char identity[FPISA_PSK_IDENTITY])
{
	snprintf(identity, FPISA_PSK_IDENTITY, "%s:%s", psk->name, psk->id);
}

const struct fpisa_psk *fpisa_psk_find(const struct fpisa_psks *keys, const char *identity)
{
	const struct fpisa_psk *found = NULL;
	char name[FPISA_PSK_IDENTITY];

	/* Compare all keys, even after a match, so that the time reveals nothing. */
	for (size_t i = 0; i < keys->n; i++) {
		fpisa_psk_identity(&keys->psk[i], name);
		if (!strcmp(name, identity))
			found = &keys->psk[i];
	}
	return found;
}

static size_t of_name(const struct fpisa_psks *keys, const char *name)
{
	size_t n = 0;

	for (size_t i = 0; i < keys->n; i++)
		n += !strcmp(keys->psk[i].name, name);
	return n;
}

/* Check the owner and permissions of the file, because a secret that others can read or replace is worthless. */
static int check_owner(int fd, const char *file)
{
	struct stat st;

	if (fstat(fd, &st))
		return fpisa_fail(-errno, "%s: %s", file, fpisa_why(-errno));
	if (!S_ISREG(st.st_mode))
		return fpisa_fail(-EINVAL, "%s is not a regular file; name a regular file as the key file", file);
	if (st.st_uid && st.st_uid != geteuid())
		return fpisa_fail(-EACCES,
				  "%s belongs to user %u; chown it to root or to the user who runs this "
				  "program",
				  file, st.st_uid);
	if (st.st_mode & 077)
		return fpisa_fail(-EACCES,
				  "%s: users other than its owner may use it (mode %03o); run chmod 600 %s, and "
				  "create new keys if others may have read it",
				  file, st.st_mode & 0777, file);
	return 0;
}

static int take_line(struct fpisa_psks *keys, char *line, const char *file, int number)
{
	struct fpisa_psk *psk = &keys->psk[keys->n];
	char identity[FPISA_PSK_IDENTITY];
	size_t n;

	line += strspn(line, " \t");
	for (n = strlen(line); n && strchr(" \t\r", line[n - 1]); n--)
		line[n - 1] = 0;
	if (!*line || *line == '#')
		return 0;
	if (keys->n == FPISA_PSK_MOST)
		return fpisa_fail(-E2BIG, "%s:%d: more than %d keys are not supported; remove unused keys", file,
				  number, FPISA_PSK_MOST);
	if (fpisa_psk_parse(line, psk))
		return fpisa_fail(-EINVAL, "%s:%d: the line is not a key NAME:ID:SECRET; create one with fpisa key new",
				  file, number);
	fpisa_psk_identity(psk, identity);
	if (fpisa_psk_find(keys, identity))
		return fpisa_fail(-EINVAL, "%s:%d: key %s is given twice; remove one of the two lines", file, number,
				  identity);
	if (of_name(keys, psk->name) == FPISA_PSK_OF_A_NAME)
		return fpisa_fail(-EINVAL,
				  "%s:%d: this is the third key of %s, but only two are supported; remove the oldest",
				  file, number, psk->name);
	keys->n++;
	return 0;
}

static int read_keys(struct fpisa_psks *keys, int fd, const char *file)
{
	char text[FILE_MOST + 1], *rest = text, *line;
	size_t n = 0;
	ssize_t got;
	int rc = 0;

	keys->n = 0;
	while ((got = read(fd, text + n, FILE_MOST - n)) > 0)
		n += (size_t)got;
	if (got < 0)
		rc = fpisa_fail(-errno, "%s: cannot read: %s", file, fpisa_why(-errno));
	else if (n == FILE_MOST || memchr(text, 0, n))
		rc = fpisa_fail(-EINVAL, "%s is not a key file; create one with fpisa key new", file);
	text[n] = 0;
	for (int number = 1; !rc && (line = strsep(&rest, "\n")); number++)
		rc = take_line(keys, line, file, number);
	explicit_bzero(text, sizeof(text));
	return rc;
}

int fpisa_psks_read(struct fpisa_psks *keys, const char *file)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), rc;

	keys->n = 0;
	if (fd < 0 && errno == EACCES)
		return fpisa_fail(-EACCES, "%s: %s: only its owner may read it, and this process runs as user %u", file,
				  strerror(EACCES), geteuid());
	if (fd < 0)
		return fpisa_fail(-errno, "%s: %s; %s", file, strerror(errno),
				  fpisa_hint(-errno, "create a key file with fpisa key new"));
	rc = check_owner(fd, file);
	if (!rc)
		rc = read_keys(keys, fd, file);
	if (!rc && !keys->n)
		rc = fpisa_fail(-EINVAL, "%s has no key; add one with fpisa key new", file);
	if (rc)
		explicit_bzero(keys, sizeof(*keys));
	close(fd);
	return rc;
}

int fpisa_psk_last(struct fpisa_psk *psk, const char *file)
{
	struct fpisa_psks *keys = calloc(1, sizeof(*keys));
	int rc;

	if (!keys)
		return fpisa_fail(-ENOMEM, "not enough memory for keys; " FPISA_MORE_MEMORY);
	rc = fpisa_psks_read(keys, file);
	if (!rc)
		*psk = keys->psk[keys->n - 1];
	explicit_bzero(keys, sizeof(*keys));
	free(keys);
	return rc;
}

/* -- a new key -------------------------------------------------------------- */

/*
 * Append a line, after a newline if the last line lacks one. If writing fails, restore the file, because half a key
 * would make the whole file invalid.
 */
static int append(int fd, const char *file, const struct fpisa_psk *psk)
{
	char line[FPISA_PSK_IDENTITY + 2 * FPISA_PSK_BYTES + 4], identity[FPISA_PSK_IDENTITY];
	off_t size = lseek(fd, 0, SEEK_END);
	char last = '\n';
	int n, rc = 0;

	if (size < 0 || (size && pread(fd, &last, 1, size - 1) != 1))
		return fpisa_fail(-EIO, "%s: cannot read", file);
	fpisa_psk_identity(psk, identity);
	if (size + (off_t)sizeof(line) >= FILE_MOST)
		return fpisa_fail(-EFBIG,
				  "%s is full, because a key file has at most %d bytes; remove comments or old keys",
				  file, FILE_MOST);
	n = snprintf(line, sizeof(line), "%s%s:", last == '\n' ? "" : "\n", identity);
	for (int i = 0; i < FPISA_PSK_BYTES; i++)
		n += snprintf(line + n, sizeof(line) - (size_t)n, "%02x", psk->secret[i]);
	line[n++] = '\n';
	errno = ENOSPC; /* a short write does not set errno */
	if (write(fd, line, (size_t)n) != n || fsync(fd)) {
		rc = fpisa_fail(-errno, "%s: cannot write: %s", file, strerror(errno));
		if (ftruncate(fd, size))
			rc = fpisa_fail(rc, "%s: cannot write: %s; remove the incomplete last line", file,
					strerror(-rc));
	}
	explicit_bzero(line, sizeof(line));
	return rc;
}

int fpisa_psk_new(const char *name, const char *file, struct fpisa_psk *psk)
{
	static struct fpisa_psks keys;
	unsigned char id[(FPISA_PSK_ID - 1) / 2];
	int fd, rc;

	if (!fpisa_psk_name_valid(name))
		return fpisa_fail(-EINVAL, "'%s' is not a key name; use 1 to %d letters, digits, '.', '_' and '-'",
				  name, FPISA_PSK_NAME - 1);
	fd = open(file, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600);
	if (fd < 0)
		return fpisa_fail(-errno, "%s: %s", file, strerror(errno));
	rc = check_owner(fd, file);
	/*
	 * Keep the lock until the file is closed. Otherwise two processes that add keys at the same time could both
	 * pass the count.
	 */
	while (!rc && flock(fd, LOCK_EX))
		if (errno != EINTR)
			rc = fpisa_fail(-errno, "%s: cannot lock: %s", file, strerror(errno));
	if (!rc)
		rc = read_keys(&keys, fd, file);
	if (!rc && of_name(&keys, name) == FPISA_PSK_OF_A_NAME)
		rc = fpisa_fail(-EEXIST, "%s has two keys of %s; remove the older one when it is no longer used", file,
				name);
	/* A key beyond the limit would make the whole file invalid, as half a key would. */
	if (!rc && keys.n == FPISA_PSK_MOST)
		rc = fpisa_fail(-E2BIG, "%s has %d keys, the most that a file may have; remove unused keys", file,
				FPISA_PSK_MOST);
	explicit_bzero(&keys, sizeof(keys));
	*psk = (struct fpisa_psk){0};
	snprintf(psk->name, sizeof(psk->name), "%s", name);
	if (!rc && (getrandom(psk->secret, sizeof(psk->secret), 0) != sizeof(psk->secret) ||
		    getrandom(id, sizeof(id), 0) != sizeof(id)))
		rc = fpisa_fail(-EIO, "cannot create a key: getrandom(): %s; allow this process to call it",
				strerror(errno));
	if (!rc) {
		for (size_t i = 0; i < sizeof(id); i++)
			snprintf(psk->id + 2 * i, sizeof(psk->id) - 2 * i, "%02x", id[i]);
		rc = append(fd, file, psk);
	}
	close(fd);
	return rc;
}
