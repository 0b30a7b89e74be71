// SPDX-License-Identifier: GPL-2.0-only
/* Options and their arguments; options.h has the contracts. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/address.h"
#include "options.h"

const char *default_pin(void)
{
	const char *pin = getenv("FPISA_PIN");

	return pin && *pin ? pin : NULL;
}

int next_option(int argc, char **argv, const struct option *options)
{
	static __u64 seen;
	const char *word;
	int index = 0, opt;

	if (optind <= 1)
		seen = 0;
	opt = getopt_long(argc, argv, "", options, &index);
	if (opt == -1 || opt == '?')
		return opt;
	word = argv[optind - (optarg && optarg == argv[optind - 1] ? 2 : 1)] + strlen("--");
	if (strcspn(word, "=") != strlen(options[index].name)) {
		refuse(BAD_USAGE, "unrecognized option '--%.*s'; did you mean --%s?", (int)strcspn(word, "="), word,
		       options[index].name);
		return '?';
	}
	if (seen >> index & 1) {
		refuse(BAD_USAGE, "--%s is given twice", options[index].name);
		return '?';
	}
	seen |= 1ull << index;
	return opt;
}

int common_option(struct common *c, int opt)
{
	switch (opt) {
	case OPT_PIN:
		c->pin = optarg;
		return *optarg ? 0 : refuse(BAD_USAGE, "--pin: the name is empty; give a directory");
	case OPT_JSON:
		c->json = true;
		return 0;
	case OPT_VERBOSE:
		verbose = true;
		return 0;
	}
	return BAD_USAGE;
}

static int all_options(struct common *c, int argc, char **argv, const struct option *options)
{
	int opt;

	while ((opt = next_option(argc, argv, options)) != -1)
		if (common_option(c, opt))
			return BAD_USAGE;
	return 0;
}

int common_options(struct common *c, int argc, char **argv)
{
	static const struct option options[] = {COMMON_OPTIONS, JSON_OPTION, {0}};

	return all_options(c, argc, argv, options);
}

int bare_options(struct common *c, int argc, char **argv)
{
	static const struct option options[] = {COMMON_OPTIONS, {0}};

	return all_options(c, argc, argv, options);
}

int no_operands(const char *verb, int argc, char **argv)
{
	return optind < argc ? refuse(BAD_USAGE, "%s: unexpected argument '%s'", verb, argv[optind]) : 0;
}

int parse_number(const char *what, const char *s, uint64_t min, uint64_t max, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(s, &end, 10);
	if (*s >= '0' && *s <= '9' && !*end && !errno && *out >= min && *out <= max)
		return 0;
	*out = 0;
	return refuse(BAD_USAGE, "%s: '%s' is not a number from %llu to %llu", what, s, (unsigned long long)min,
		      (unsigned long long)max);
}

int parse_share(const char *what, const char *s, double *out)
{
	char *end;

	*out = strtod(s, &end);
	if (end == s || *end || !(*out >= 0 && *out <= 0.9))
		return refuse(BAD_USAGE, "%s: '%s' is not a number from 0 to 0.9", what, s);
	return 0;
}

int parse_numbers(const char *what, const char *thing, const char *s, __u32 *number, __u32 max, __u32 *n)
{
	unsigned long first, last;
	const char *at = s;
	char *end;

	for (*n = 0;; at = end + 1) {
		first = last = strtoul(at, &end, 10);
		if (*at < '0' || *at > '9')
			break;
		if (*end == '-') {
			at = end + 1;
			last = strtoul(at, &end, 10);
			if (*at < '0' || *at > '9')
				break;
		}
		if (first > last || last > UINT16_MAX)
			break;
		for (; first <= last; first++) {
			for (__u32 i = 0; i < *n; i++)
				if (number[i] == first)
					return refuse(BAD_USAGE, "%s: %s %lu is given twice", what, thing, first);
			if (*n == max)
				return refuse(BAD_USAGE, "%s: more than %u %ss are not supported", what, max, thing);
			number[(*n)++] = first;
		}
		if (!*end)
			return 0;
		if (*end != ',')
			break;
	}
	return refuse(BAD_USAGE, "%s: '%s' is not a list of %ss such as 0,2-5", what, s, thing);
}

int parse_cpus(const char *what, const char *s, __u32 *cpu, __u32 max, __u32 *n)
{
	return parse_numbers(what, "CPU", s, cpu, max, n);
}

int parse_hex(const char *what, const char *s, uint64_t *out)
{
	const char *digits = !strncmp(s, "0x", 2) ? s + 2 : s;
	size_t n = strlen(digits);

	if (!n || n > 16 || strspn(digits, "0123456789abcdefABCDEF") != n)
		return refuse(BAD_USAGE, "%s: '%s' is not 1 to 16 hexadecimal digits", what, s);
	*out = strtoull(digits, NULL, 16);
	return 0;
}

int parse_rate(const char *what, const char *text, double *bits)
{
	char *end;
	double n = strtod(text, &end), unit = *end == 'G' ? 1e9 : *end == 'M' ? 1e6 : 0;

	if (!unit || end[1] || !(n > 0 && n * unit <= 1e13) || text[0] == '+' || text[0] == ' ')
		return refuse(BAD_USAGE, "%s: '%s' is not a link's rate, such as 10G or 100M", what, text);
	*bits = n * unit;
	return 0;
}

int parse_address(const char *what, const char *s, struct fpisa_address *out)
{
	if (!fpisa_address_read(s, out))
		return refuse(BAD_USAGE, "%s: '%s' is not an IPv4 or IPv6 address", what, s);
	return 0;
}

int parse_ipv4(const char *what, const char *s, __be32 *out)
{
	struct fpisa_address a;

	if (!fpisa_address_read(s, &a))
		return refuse(BAD_USAGE, "%s: '%s' is not an IPv4 address", what, s);
	if (fpisa_is_ipv6(&a))
		return refuse(BAD_USAGE, "%s: %s is an IPv6 address, which is not supported here; give an IPv4 address",
			      what, s);
	*out = a.w[3];
	return 0;
}

bool is_machine(const struct fpisa_address *a)
{
	if (!fpisa_is_ipv4(a))
		return fpisa_is_address(a) && !fpisa_is_multicast(a) && !fpisa_is_loopback6(a) &&
		       !fpisa_is_link_local(a);
	return a->b[12] && a->b[12] != IN_LOOPBACKNET && a->b[12] < 224;
}

int parse_listen(const char *what, const char *s, struct fpisa_address *out)
{
	if (fpisa_is_link_local_text(s))
		return refuse(
			BAD_USAGE,
			"%s: %s is a link-local address, which is valid on one link only; give a global or a unique local address",
			what, s);
	return parse_address(what, s, out);
}

int parse_machine(const char *what, const char *s, struct fpisa_address *out)
{
	int err = parse_listen(what, s, out);

	if (!err && !is_machine(out))
		err = refuse(BAD_USAGE, "%s: %s is not the address of a host", what, s);
	return err;
}

int parse_machines(const char *what, const char *s, struct fpisa_address *out, struct fpisa_address *other)
{
	const int n = (int)strcspn(s, ",");
	char first[64]; /* longer than any address */
	int err;

	snprintf(first, sizeof(first), "%.*s", n, s);
	*other = FPISA_NO_ADDRESS;
	err = parse_machine(what, first, out);
	if (err || !s[n])
		return err;
	err = parse_machine(what, s + n + 1, other);
	if (!err && fpisa_is_ipv4(out) == fpisa_is_ipv4(other))
		return refuse(BAD_USAGE, "%s: %s and %s have the same family; give one address, or one of each family",
			      what, first, s + n + 1);
	return err;
}

int parse_machine_ipv4(const char *what, const char *s, __be32 *out)
{
	struct fpisa_address a;
	int err = parse_ipv4(what, s, out);

	a = err ? FPISA_NO_ADDRESS : fpisa_ipv4(*out);
	if (!err && !is_machine(&a))
		err = refuse(BAD_USAGE, "%s: %s is not the address of a host", what, s);
	return err;
}
