// SPDX-License-Identifier: GPL-2.0-only
/*
 * Parse the header of a .npy file in NumPy's format versions 1 to 3. The header
 * consists of a magic number, the length of a text, and the text. The text is a
 * Python dictionary of three keys in any order:
 *
 * 	{'descr': '<f4', 'fortran_order': False, 'shape': (8, 1000), }
 *
 * gradients.h documents the functions.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report.h"
#include "gradients.h"

#define MAGIC "\x93NUMPY"
#define MAGIC_LEN 6
#define BLANKS " \n\t"
#define DESCR_LEN 32 /* number of characters of a refused descr that a message shows */

bool npy_begins(const void *file, size_t size)
{
	return size >= MAGIC_LEN && !memcmp(file, MAGIC, MAGIC_LEN);
}

/* Skip blanks, and skip `word` if it follows. */
static bool take(const char **at, const char *word)
{
	size_t n = strlen(word);

	*at += strspn(*at, BLANKS);
	if (strncmp(*at, word, n))
		return false;
	*at += n;
	return true;
}

/*
 * Parse a shape. Shapes (n,) and (n, m) are valid. For any shape, keep the first two dimensions, because a shape with
 * more is refused later.
 */
static bool take_shape(const char **at, struct npy *h)
{
	h->shape[0] = h->shape[1] = 1;
	if (!take(at, "("))
		return false;
	for (bool comma = true; !take(at, ")"); h->dimensions++) {
		uint64_t n;
		char *end;

		errno = 0;
		n = strtoull(*at, &end, 10);
		if (!comma || !isdigit((unsigned char)**at) || errno)
			return false;
		if (h->dimensions < 2)
			h->shape[h->dimensions] = n;
		*at = end;
		take(at, "L"); /* Python 2 ends a long integer with an L */
		comma = take(at, ",");
	}
	return true;
}

/* Parse a descr. A descr that is not a string describes a record. */
static int take_descr(const char **at, const char *path, struct npy *h)
{
	static const struct {
		char kind[3];
		__u8 format;
	} kinds[] = {{"f2", FPISA_FORMAT_FP16}, {"f4", FPISA_FORMAT_FP32}, {"f8", FPISA_FORMAT_FP64}};
	const char *s = "a record", *end;
	int n = strlen(s);

	if (take(at, "'") && (end = strchr(*at, '\''))) {
		s = *at;
		n = end - s;
		*at = end + 1;
	}
	for (size_t i = 0; n == 3 && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if ((*s == '<' || *s == '>') && !strncmp(s + 1, kinds[i].kind, 2)) {
			h->big_endian = *s == '>';
			h->f = fpisa_format_of(kinds[i].format);
			return 0;
		}
	for (int i = 0; i < n; i++)
		if (!isprint((unsigned char)s[i]))
			return -EBADMSG;
	/* numpy does not have a name for bf16, nor for floating-point formats of one byte. */
	if ((n == 3 && (!strncmp(s + 1, "u2", 2) || !strncmp(s + 1, "V2", 2))) || !strncmp(s, "|u1", n) ||
	    !strncmp(s, "|V1", n))
		return refuse(
			-EINVAL,
			"%s: its values are %.*s, not f2, f4 or f8; if they are the bits of bf16, e4m3 or e5m2, save "
			"a.tofile(FILE) and give --raw bf16, else save a.astype('<f4')",
			path, n, s);
	return refuse(-EINVAL, "%s: its values are %.*s, not f2, f4 or f8; save a.astype('<f4')", path,
		      n < DESCR_LEN ? n : DESCR_LEN, s);
}

/* Parse the dictionary. Return -EBADMSG without reporting an error if the text is not a valid dictionary. */
static int take_dictionary(const char *at, const char *path, struct npy *h)
{
	static const char *const keys[] = {"'descr'", "'fortran_order'", "'shape'"};
	bool comma = true, order = true, shape = true;
	unsigned int seen = 0;
	int k, err = 0;

	if (!take(&at, "{"))
		return -EBADMSG;
	while (!take(&at, "}")) {
		for (k = 0; k < 3 && !take(&at, keys[k]); k++)
			;
		if (!comma || k == 3 || seen >> k & 1 || !take(&at, ":"))
			return -EBADMSG;
		seen |= 1u << k;
		if (k == 0)
			err = take_descr(&at, path, h);
		else if (k == 1)
			order = (h->by_columns = take(&at, "True")) || take(&at, "False");
		else
			shape = take_shape(&at, h);
		if (err || !order || !shape)
			return err ?: -EBADMSG;
		comma = take(&at, ",");
	}
	at += strspn(at, BLANKS);
	return *at || seen != 7 ? -EBADMSG : 0;
}

int npy_header(struct npy *h, const char *path, const void *file, size_t size)
{
	const unsigned char *p = file;
	size_t start, length;
	char *text;
	int err;

	*h = (struct npy){0};
	start = size > MAGIC_LEN && p[MAGIC_LEN] == 1 ? 10 : 12;
	if (size < start)
		return refuse(-EINVAL, "%s: its .npy header is cut off; copy the whole file", path);
	if (p[MAGIC_LEN] < 1 || p[MAGIC_LEN] > 3)
		return refuse(-EINVAL,
			      "%s is a .npy file of version %u.%u; save it with numpy.save() as version 1 to "
			      "3",
			      path, p[MAGIC_LEN], p[MAGIC_LEN + 1]);
	length = p[8] | p[9] << 8;
	if (start == 12)
		length |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
	if (length > size - start)
		return refuse(-EINVAL, "%s: its .npy header is cut off; copy the whole file", path);
	h->data = start + length;
	text = strndup((const char *)p + start, length);
	if (!text)
		return fail(-ENOMEM, NULL, "%s", path);
	for (char *c = text; (c = strchr(c, '"'));)
		*c = '\''; /* a quote is single or double */
	err = strlen(text) == length ? take_dictionary(text, path, h) : -EBADMSG;
	free(text);
	if (err == -EBADMSG)
		return refuse(-EINVAL, "%s: its .npy header is garbled; save it with numpy.save()", path);
	if (!err && h->dimensions != 1 && h->dimensions != 2)
		err = refuse(-EINVAL, "%s: its array has %d dimensions; save it as [workers, elements]", path,
			     h->dimensions);
	return err;
}
