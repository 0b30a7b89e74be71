// SPDX-License-Identifier: GPL-2.0-only
/*
 * The header of a .npy file, versions 1 to 3 of NumPy's description: a magic,
 * the length of a text, and the text, a Python dictionary of three keys in
 * any order:
 *
 *	{'descr': '<f4', 'fortran_order': False, 'shape': (8, 1000), }
 *
 * gradients.h has the contracts.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report.h"
#include "gradients.h"

#define MAGIC "\x93NUMPY"
#define MAGIC_LEN 6
#define DESCR_LEN 32 /* of what is shown of a descr that is refused */

/* What is left of the text, and what of it has been understood. */
struct text {
	const char *at, *end;
	bool descr, order, shape;
};

bool npy_begins(const void *file, size_t size)
{
	return size >= MAGIC_LEN && !memcmp(file, MAGIC, MAGIC_LEN);
}

static void skip_space(struct text *t)
{
	while (t->at < t->end && (*t->at == ' ' || *t->at == '\n' || *t->at == '\t'))
		t->at++;
}

/* Takes `word` if it is next. */
static bool take(struct text *t, const char *word)
{
	size_t n = strlen(word);

	skip_space(t);
	if ((size_t)(t->end - t->at) < n || memcmp(t->at, word, n))
		return false;
	t->at += n;
	return true;
}

/* A string in quotes of either kind, without escapes. */
static bool take_string(struct text *t, const char **s, size_t *n)
{
	const char *close;

	skip_space(t);
	if (t->at == t->end || (*t->at != '\'' && *t->at != '"'))
		return false;
	close = memchr(t->at + 1, *t->at, t->end - t->at - 1);
	if (!close)
		return false;
	*s = t->at + 1;
	*n = close - *s;
	t->at = close + 1;
	return !memchr(*s, '\\', *n);
}

/* Decimal digits; Python 2 ended a long one with L. */
static bool take_count(struct text *t, uint64_t *n)
{
	const char *start;

	skip_space(t);
	start = t->at;
	for (*n = 0; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++)
		if (__builtin_mul_overflow(*n, 10, n) || __builtin_add_overflow(*n, *t->at - '0', n))
			return false;
	if (t->at == start)
		return false;
	take(t, "L");
	return true;
}

/* (n,), (n, m) or one that is refused for its dimensions, of which only the first two are kept. */
static bool take_shape(struct text *t, struct npy *h)
{
	uint64_t n;

	h->dimensions = 0;
	h->shape[0] = h->shape[1] = 1;
	if (!take(t, "("))
		return false;
	while (!take(t, ")")) {
		if (!take_count(t, &n))
			return false;
		if (h->dimensions < 2)
			h->shape[h->dimensions] = n;
		h->dimensions++;
		if (!take(t, ",")) {
			if (!take(t, ")"))
				return false;
			break;
		}
	}
	return true;
}

static bool printable(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (s[i] < ' ' || s[i] > '~')
			return false;
	return true;
}

/* A descr that is no string is that of a record. */
static int take_descr(struct text *t, const char *path, struct npy *h)
{
	static const struct {
		char kind[3];
		__u8 format;
	} kinds[] = {{"f2", FPISA_FORMAT_FP16}, {"f4", FPISA_FORMAT_FP32}, {"f8", FPISA_FORMAT_FP64}};
	const char *s = "a record";
	size_t n = strlen(s);

	if (take_string(t, &s, &n) && n == 3 && (*s == '<' || *s == '>'))
		for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
			if (!memcmp(s + 1, kinds[i].kind, 2)) {
				h->big_endian = *s == '>';
				h->f = fpisa_format_of(kinds[i].format);
				return 0;
			}
	if (!printable(s, n))
		return -EBADMSG;
	return refuse(-EINVAL, "%s: its values are %.*s, not f2, f4 or f8; save a.astype('<f4')", path,
		      n < DESCR_LEN ? (int)n : DESCR_LEN, s);
}

/* One key and its value. -EBADMSG, not reported, if it is none. */
static int take_member(struct text *t, const char *path, struct npy *h)
{
	if ((take(t, "'descr'") || take(t, "\"descr\"")) && !t->descr) {
		t->descr = true;
		return take(t, ":") ? take_descr(t, path, h) : -EBADMSG;
	}
	if ((take(t, "'fortran_order'") || take(t, "\"fortran_order\"")) && !t->order) {
		t->order = true;
		if (!take(t, ":"))
			return -EBADMSG;
		h->by_columns = take(t, "True");
		return h->by_columns || take(t, "False") ? 0 : -EBADMSG;
	}
	if ((take(t, "'shape'") || take(t, "\"shape\"")) && !t->shape) {
		t->shape = true;
		return take(t, ":") && take_shape(t, h) ? 0 : -EBADMSG;
	}
	return -EBADMSG;
}

static int take_dictionary(struct text *t, const char *path, struct npy *h)
{
	int err = take(t, "{") ? 0 : -EBADMSG;

	while (!err && !take(t, "}")) {
		err = take_member(t, path, h);
		if (!err && !take(t, ",")) {
			err = take(t, "}") ? 0 : -EBADMSG;
			break;
		}
	}
	skip_space(t);
	if (!err && (t->at != t->end || !t->descr || !t->order || !t->shape))
		err = -EBADMSG;
	return err;
}

int npy_header(struct npy *h, const char *path, const void *file, size_t size)
{
	const unsigned char *p = file;
	size_t start, length;
	struct text t = {0};
	int err;

	*h = (struct npy){0};
	start = size > MAGIC_LEN && p[MAGIC_LEN] == 1 ? 10 : 12;
	if (size < start)
		return refuse(-EINVAL, "%s: its .npy header is cut off; copy the whole file", path);
	if (p[MAGIC_LEN] < 1 || p[MAGIC_LEN] > 3)
		return refuse(-EINVAL,
			      "%s: is .npy of version %u.%u; save it with numpy.save() as version 1 to 3",
			      path, p[MAGIC_LEN], p[MAGIC_LEN + 1]);
	length = p[8] | p[9] << 8;
	if (start == 12)
		length |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
	if (length > size - start)
		return refuse(-EINVAL, "%s: its .npy header is cut off; copy the whole file", path);
	t.at = (const char *)p + start;
	t.end = t.at + length;
	h->data = start + length;
	err = take_dictionary(&t, path, h);
	if (err == -EBADMSG)
		return refuse(-EINVAL, "%s: its .npy header is garbled; save it with numpy.save()", path);
	if (!err && h->dimensions != 1 && h->dimensions != 2)
		err = refuse(-EINVAL, "%s: its array has %d dimensions; save it as [workers, elements]", path,
			     h->dimensions);
	return err;
}
