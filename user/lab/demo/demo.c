// SPDX-License-Identifier: GPL-2.0-only
/*
 * The verb `fpisa demo` runs an aggregator with its workers on one machine,
 * uses real packets, and checks every bit of the result. demo.h has the
 * overview.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/progress.h"
#include "cli/report.h"
#include "demo.h"
#include "lib/base/clock.h"
#include "lab/testbed/lab.h"

/* -- cleaning up -------------------------------------------------------- */

static struct demo *running;

/*
 * On a signal, end the workers and then this process. Namespaces, links, pins and
 * programs disappear with the processes. The handler calls only async-signal-safe
 * functions, so it may run at any time. The exit status is the same as a shell's
 * for the signal.
 */
static void on_signal(int sig)
{
	static const char text[] = "\nfpisa: demo: interrupted, everything is removed\n";
	ssize_t ignored;

	demo_kill(running);
	ignored = write(STDERR_FILENO, text, sizeof(text) - 1);
	(void)ignored;
	_exit(128 + sig);
}

static const char *lost(void)
{
	return demo_lost(running);
}

static void catch_signals(struct demo *d)
{
	struct sigaction sa = {.sa_handler = on_signal}, before;

	running = d;
	sigaddset(&sa.sa_mask, SIGINT);
	sigaddset(&sa.sa_mask, SIGTERM);
	sigaddset(&sa.sa_mask, SIGHUP);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	/* If SIGHUP is ignored, as with nohup, continue to ignore it. */
	if (!sigaction(SIGHUP, NULL, &before) && before.sa_handler != SIG_IGN)
		sigaction(SIGHUP, &sa, NULL);
}

/* -- the demo ------------------------------------------------------------ */

static int load(struct demo *d)
{
	const struct demo_options *o = &d->o;
	const struct datapath_load how = {
		.pin = DATAPATH_PIN, .mode = o->xdp, .group = DATAPATH_NO_GROUP, .steering = o->steering};
	char names[FPISA_MAX_WORKERS][IF_NAMESIZE], *devs[FPISA_MAX_WORKERS];
	int err;

	for (uint32_t r = 0; r < o->workers; r++) {
		star_port(names[r], &d->star, r);
		devs[r] = names[r];
	}
	err = datapath_load(&how, devs, o->workers);
	return err ?: datapath_open(&d->dp[0], DATAPATH_PIN);
}

static int add_job(struct demo *d)
{
	__u32 ifindex[FPISA_MAX_WORKERS];

	for (uint32_t r = 0; r < d->o.workers; r++) {
		char name[IF_NAMESIZE];

		star_port(name, &d->star, r);
		ifindex[r] = if_nametoindex(name);
	}
	return datapath_job_add(&d->dp[0], DEMO_JOB, &d->job, ifindex);
}

static int prepare(struct demo *d)
{
	int err;

	d->star = (struct star){.address = DEMO_ADDRESS,
				.network = DEMO_NETWORK,
				.mtu = star_mtu(d->job.elements * d->f.bytes),
				.port = DEMO_PORT};
	progress_step("making network namespaces");
	err = lab_enter("demo");
	if (!err)
		err = demo_spawn(d);
	if (!err)
		err = demo_await(d, DEMO_READY, NULL);
	if (!err)
		err = d->o.colocated ? demo_hosts_make(d) : star_make(&d->star, d->process, d->o.workers);
	if (!err)
		err = demo_release(d);
	if (!err)
		err = demo_await(d, DEMO_LINKED, NULL);
	if (err)
		return err;
	progress_step("loading the datapath");
	return d->o.colocated ? demo_hosts_load(d) : load(d) ?: add_job(d);
}

static int sum(struct demo *d)
{
	uint32_t hosts = d->o.colocated ? d->o.workers : 0;
	int err;

	progress_step("joining");
	err = demo_release(d);
	if (!err)
		err = demo_await(d, DEMO_JOINED, NULL);
	if (!err)
		err = demo_hosts_traffic(d->traffic, hosts);
	if (err)
		return err;
	d->start_ns = fpisa_now();
	err = demo_release(d);
	if (!err)
		err = demo_await(d, DEMO_DONE, demo_progress);
	return err ?: demo_hosts_traffic(d->traffic, hosts);
}

/* Add up the counters of all aggregators. */
static int count(struct demo *d, struct fpisa_counters *sum)
{
	struct fpisa_counters one;
	struct fpisa_histogram h;
	int err = 0;

	*sum = (struct fpisa_counters){0};
	for (uint32_t i = 0; !err && i < demo_aggregators(d); i++) {
		err = datapath_counters(&d->dp[i], DEMO_JOB, &one);
		for (size_t k = 0; !err && k < sizeof(one) / sizeof(__u64); k++)
			((__u64 *)sum)[k] += ((const __u64 *)&one)[k];
		if (err || !(d->job.flags & FPISA_JOB_HISTOGRAM))
			continue;
		err = datapath_histogram(&d->dp[i], DEMO_JOB, &h);
		for (int b = 0; !err && b < FPISA_BUCKETS; b++)
			d->histogram.bucket[b] += h.bucket[b];
	}
	return err;
}

int verb_demo(int argc, char **argv)
{
	static struct demo d;
	struct fpisa_counters counters;
	struct demo_check k;
	int err, verdict;

	err = demo_parse(&d.o, &d.job, argc, argv);
	/* Check the job first, in order to refuse a job that no datapath supports immediately. */
	if (!err)
		err = datapath_job_check(DEMO_JOB, &d.job);
	if (err)
		return err;
	d.parent = getpid();
	for (uint32_t i = 0; i < FPISA_MAX_SHARDS; i++)
		d.dp[i].lock = -1;
	catch_signals(&d);
	report_cause(lost);
	err = demo_data(&d);
	if (!err)
		err = prepare(&d);
	if (!err)
		err = sum(&d);
	if (!err)
		err = count(&d, &counters);
	if (!err) {
		progress_step("checking");
		verdict = demo_check(&d, &counters, &k);
		progress_end();
		err = demo_report(&d, &counters, &k) ?: verdict;
	}
	progress_end();
	demo_kill(&d);
	for (uint32_t i = 0; i < FPISA_MAX_SHARDS; i++)
		datapath_close(&d.dp[i]);
	report_cause(NULL);
	return err;
}
