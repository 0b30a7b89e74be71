/* SPDX-License-Identifier: GPL-2.0-only */
/* The model of headers. See headers.h for the contracts. */
#include <linux/if_ether.h>
#include "headers.h"

uint32_t headers_be16(const struct frame *f, uint32_t at)
{
	return (uint32_t)f->data[at] << 8 | f->data[at + 1];
}

bool headers_ip_intact(const uint8_t *ip)
{
	uint32_t s = 0;

	for (int i = 0; i < 20; i += 2)
		s += (uint32_t)ip[i] << 8 | ip[i + 1];
	return (s >> 16) + (s & 0xffff) == 0xffff;
}

static bool is_ipv6(const struct frame *f)
{
	return f->len >= 14 && headers_be16(f, 12) == ETH_P_IPV6;
}

uint32_t headers_shift(const struct frame *f)
{
	return is_ipv6(f) ? 20 : 0;
}

struct fpisa_address headers_from(const struct frame *f)
{
	struct fpisa_address from;
	__be32 v4;

	if (is_ipv6(f)) {
		memcpy(&from, f->data + 22, sizeof(from));
		return from;
	}
	memcpy(&v4, f->data + 26, sizeof(v4));
	return fpisa_ipv4(v4);
}

uint32_t headers_ecn(const struct frame *f)
{
	return is_ipv6(f) ? f->data[15] >> 4 & 3 : f->data[15] & 3;
}

const struct fpisa_hdr *headers_fpisa(const struct frame *f)
{
	uint32_t at = FPISA_OFFSET + headers_shift(f);

	return f->len < at + FPISA_HDR_LEN ? NULL : (const struct fpisa_hdr *)(f->data + at);
}

bool headers_to(const struct frame *f, const struct fpisa_address *address)
{
	struct fpisa_address to;
	__be32 v4;

	if (is_ipv6(f))
		return !memcmp(f->data + 38, address, 16);
	memcpy(&v4, f->data + 30, sizeof(v4));
	to = fpisa_ipv4(v4);
	return !memcmp(&to, address, sizeof(to));
}

/* Return whether this number of a next header is that of an extension header, by IANA's list. */
static bool is_extension(uint8_t next)
{
	static const uint8_t all[] = {0, 43, 44, 50, 51, 60, 135, 139, 140};

	return memchr(all, next, sizeof(all));
}

static enum fpisa_verdict ipv6_verdict(const struct frame *f, bool for_us, bool known, uint32_t ports, uint32_t *payload)
{
	const uint8_t *p = f->data;

	if (f->len < FPISA_OFFSET + 20 || p[14] >> 4 != 6)
		return FPISA_V_not_ours;
	if (is_extension(p[20]))
		return known ? FPISA_V_extension : FPISA_V_not_ours;
	if (f->len < FPISA_OFFSET + 20 + 2 || p[20] != 17 || headers_be16(f, 56) < FPISA_PORT ||
	    headers_be16(f, 56) > FPISA_PORT + ports || p[62] != 'F' || p[63] != 'P')
		return FPISA_V_not_ours;
	if (!for_us)
		return FPISA_V_wrong_destination;
	if (headers_be16(f, 18) != headers_be16(f, 58) || headers_be16(f, 58) < 8 + 76 ||
	    headers_be16(f, 18) + 54 > f->len)
		return FPISA_V_truncated;
	*payload = headers_be16(f, 58) - 8 - 76;
	return FPISA_V_ok;
}

enum fpisa_verdict headers_verdict(const struct frame *f, bool for_us, bool known, uint32_t ports, uint32_t *payload)
{
	const uint8_t *p = f->data;

	if (is_ipv6(f))
		return ipv6_verdict(f, for_us, known, ports, payload);
	if (f->len < FPISA_OFFSET + 2 || headers_be16(f, 12) != ETH_P_IP || p[14] != 0x45 || p[23] != 17 ||
	    headers_be16(f, 20) & 0x1fff || headers_be16(f, 36) < FPISA_PORT ||
	    headers_be16(f, 36) > FPISA_PORT + ports || p[42] != 'F' || p[43] != 'P')
		return FPISA_V_not_ours;
	if (!for_us)
		return FPISA_V_wrong_destination;
	if (headers_be16(f, 20) & 0x2000)
		return FPISA_V_fragment;
	if (!headers_ip_intact(p + 14))
		return FPISA_V_ip_checksum;
	if (headers_be16(f, 16) != headers_be16(f, 38) + 20 || headers_be16(f, 38) < 8 + 76 ||
	    headers_be16(f, 16) + 14 > f->len)
		return FPISA_V_truncated;
	*payload = headers_be16(f, 38) - 8 - 76;
	return FPISA_V_ok;
}

static bool is_tag(uint32_t type)
{
	return type == ETH_P_8021Q || type == ETH_P_8021AD;
}

bool headers_untag(const struct frame *sent, struct frame *in, int *tag)
{
	*in = *sent;
	*tag = -1;
	if (in->len < 18 || !is_tag(headers_be16(in, 12)))
		return true;
	if (headers_be16(in, 12) == ETH_P_8021AD || is_tag(headers_be16(in, 16)))
		return false;
	*tag = headers_be16(in, 14) & 0xfff;
	in->len -= 4;
	memmove(in->data + 12, in->data + 16, in->len - 12);
	return true;
}
