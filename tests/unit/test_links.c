// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test user/job/links.c, which finds the limit that an aggregator's links set for its job, with the interfaces defined
 * here.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* links.c calls these stand-ins, which replace this machine's interfaces. */
#define link_get made_up_link
#define fpisa_link_rate made_up_rate
#define if_nametoindex made_up_index
#include "job/links.c"
/* cmocka has another fail(). */
#include <cmocka.h>

#define LO 1
#define VETH 2
#define SLOW_NIC 3 /* 10 Gbit/s; FAST_NIC has 40 */
#define FAST_NIC 4
#define SILENT_NIC 5 /* a card without a cable, so its rate is unknown */
#define BRIDGE 6     /* a bridge of veths, which report a rate */

static const struct interface {
	const char *name, *kind;
	uint32_t mbits;
} interfaces[] = {[LO] = {"lo", "", 0},
		  [VETH] = {"veth0", "veth", 10000},
		  [SLOW_NIC] = {"nic0", "", 10000},
		  [FAST_NIC] = {"nic1", "", 40000},
		  [SILENT_NIC] = {"nic2", "", 0},
		  [BRIDGE] = {"br0", "bridge", 10000}};

int link_get(__u32 ifindex, struct link *l)
{
	if (!ifindex || ifindex > BRIDGE)
		return -ENODEV;
	*l = (struct link){.index = ifindex};
	strcpy(l->name, interfaces[ifindex].name);
	strcpy(l->kind, interfaces[ifindex].kind);
	return 0;
}

uint32_t fpisa_link_rate(const char *dev)
{
	for (size_t i = 1; i <= BRIDGE; i++)
		if (!strcmp(interfaces[i].name, dev))
			return interfaces[i].mbits;
	return 0;
}

unsigned int if_nametoindex(const char *name)
{
	return !strcmp(name, "lo") ? LO : 0;
}

/* Return the text for workers at these ports, a list that 0 ends. Return "" if there is no text. */
static const char *said(double worker_gbits, ...)
{
	__u32 ifindex[FPISA_MAX_WORKERS], n = 0, port;
	static char text[512];
	va_list ap;

	*text = 0;
	va_start(ap, worker_gbits);
	while ((port = va_arg(ap, __u32)))
		ifindex[n++] = port;
	va_end(ap);
	if (!job_links_text(ifindex, n, worker_gbits * 1e9, text, sizeof(text)))
		assert_string_equal(text, "");
	return text;
}

static void says(const char *text, const char *part)
{
	if (!strstr(text, part))
		print_error("'%s' instead of '%s'\n", text, part);
	assert_non_null(strstr(text, part));
}

static void test_one_port(void **state)
{
	(void)state;
	says(said(0, SLOW_NIC, SLOW_NIC, SLOW_NIC, SLOW_NIC, 0),
	     "4 workers of 10 Gbit/s send to 1 aggregator, whose links let each use 25% of its own: a sum takes 2.7 times as long as by a ring");
	says(said(0, SLOW_NIC, SLOW_NIC, 0),
	     "2 workers of 10 Gbit/s send to 1 aggregator, whose links let each use 50% of its own: a sum takes 2 times");
	/* A 40 Gbit/s link is sufficient for four 10 Gbit/s links, but not for four of 25. */
	assert_string_equal(said(10, FAST_NIC, FAST_NIC, FAST_NIC, FAST_NIC, 0), "");
	says(said(25, FAST_NIC, FAST_NIC, FAST_NIC, FAST_NIC, 0), "let each use 40% of its own: a sum takes 1.7 times");
	says(said(25, FAST_NIC, FAST_NIC, FAST_NIC, FAST_NIC, 0), "fpisa plan --workers 4 --rate 25000M --colocated");
	/* slower than the workers, but not slower than a ring */
	says(said(15, FAST_NIC, FAST_NIC, FAST_NIC, FAST_NIC, 0), "let each use 67% of its own: a sum takes 1 times");
}

static void test_several_ports(void **state)
{
	(void)state;
	/* Each worker has its own port. */
	assert_string_equal(said(0, SLOW_NIC, 0), "");
	assert_string_equal(said(10, SLOW_NIC, FAST_NIC, 0), "");
	/* The port that is full first decides. Here three workers share 10 Gbit/s, and one worker has 40. */
	says(said(10, SLOW_NIC, SLOW_NIC, SLOW_NIC, FAST_NIC, 0), "let each use 33% of its own: a sum takes 2 times");
	/* Workers are assumed to be as fast as the fastest port. */
	says(said(0, SLOW_NIC, FAST_NIC, 0), "2 workers of 40 Gbit/s");
}

static void test_unknown(void **state)
{
	(void)state;
	/*
	 * A veth, or a bridge of veths, does not have the rate of a wire. A card without a cable and a port that is
	 * gone have no known rate.
	 */
	assert_string_equal(said(0, VETH, VETH, VETH, 0), "");
	assert_string_equal(said(0, BRIDGE, BRIDGE, BRIDGE, 0), "");
	assert_string_equal(said(0, SILENT_NIC, SILENT_NIC, 0), "");
	assert_string_equal(said(0, SLOW_NIC, SLOW_NIC, VETH, 0), "");
	assert_string_equal(said(0, 7, 7, 7, 0), "");
	/* The option --rate gives the rate. */
	says(said(10, VETH, VETH, VETH, 0),
	     "3 workers of 10 Gbit/s send to 1 aggregator, whose links let each use 33% of its own");
	says(said(10, SLOW_NIC, SLOW_NIC, VETH, 0), "let each use 50% of its own");
	/*
	 * If a rank of the job is on this host, the job has other aggregators. A port that does not exist has no rate.
	 */
	assert_string_equal(said(10, LO, SLOW_NIC, SLOW_NIC, SLOW_NIC, 0), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_port),
		cmocka_unit_test(test_several_ports),
		cmocka_unit_test(test_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
