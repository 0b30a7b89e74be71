// SPDX-License-Identifier: GPL-2.0-only
/*
 * Run `bench wire` on interfaces of this machine, with `bench worker` on other
 * machines. This side learns about the workers only from the jobs' counters of
 * sent results. Keep the jobs of a run until all workers have joined the jobs of
 * the next run, because a worker may still request a result.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/report.h"
#include "datapath/pin.h"
#include "host/route.h"
#include "lib/base/clock.h"
#include "wire.h"

#define PIN "/sys/fs/bpf/fpisa_bench"
#define POLL_US 200
#define SILENCE_NS 120000000000ull

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
	interrupted = sig;
}

static const char *pin_of(const struct bench_wire *w)
{
	return w->c.pin ?: PIN;
}

/* Check that every size fits every port, before workers are awaited. */
static int check_mtu(const struct bench_wire *w)
{
	for (int i = 0; i < w->devs; i++) {
		int mtu = interface_mtu(w->dev[i]);

		if (mtu < 0)
			return fail(mtu, NULL, "%s: cannot read the MTU", w->dev[i]);
		for (uint32_t k = 0; k < w->elements.n; k++) {
			int bytes =
				FPISA_PAYLOAD_OFFSET - FPISA_ETH_LEN + (int)(w->elements.elements[k] * sizeof(float));

			if (bytes > mtu)
				return refuse(
					-EMSGSIZE,
					"%s: %u elements make a frame of %d bytes, but the MTU is %d; give --elements "
					"LIST, here and on the workers",
					w->dev[i], w->elements.elements[k], bytes, mtu);
		}
	}
	return 0;
}

int bench_nic_open(struct bench_wire *w)
{
	const struct datapath_load how = {.pin = pin_of(w), .mode = DATAPATH_NATIVE, .group = DATAPATH_NO_GROUP};
	int err = check_mtu(w);

	if (err)
		return err;
	if (!access(pin_of(w), F_OK))
		return refuse(-EEXIST, "%s already exists; to remove a datapath there, run fpisa unload --pin %s",
			      pin_of(w), pin_of(w));
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	signal(SIGHUP, on_signal);
	err = datapath_load(&how, w->dev, w->devs);
	if (!err) {
		w->loaded = true;
		err = datapath_open(&w->dp, pin_of(w));
	}
	if (!err) {
		w->entry_fd = pin_open(pin_of(w), "fpisa");
		err = w->entry_fd < 0 ? fail(w->entry_fd, NULL, "%s/fpisa: cannot open", pin_of(w)) : 0;
	}
	if (!err) {
		w->stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
		err = w->stats_fd < 0 ? fail(-errno, NULL, "bench: cannot count the run time of programs") : 0;
	}
	if (!err)
		fprintf(stderr, "on each worker, run fpisa bench worker ADDRESS with the same options, without "
				"--workers\n");
	return err;
}

void bench_nic_close(struct bench_wire *w)
{
	struct datapath_unloaded u;

	datapath_close(&w->dp);
	if (w->loaded)
		datapath_unload(pin_of(w), NULL, 0, &u);
	if (w->stats_fd >= 0)
		close(w->stats_fd);
	if (w->entry_fd >= 0)
		close(w->entry_fd);
}

static uint64_t run_time_ns(const struct bench_wire *w)
{
	struct bpf_prog_info info = {0};
	__u32 len = sizeof(info);

	return bpf_obj_get_info_by_fd(w->entry_fd, &info, &len) ? 0 : info.run_time_ns;
}

/* Count the results that the jobs of this run have sent. */
static int count(const struct bench_wire *w, const struct bench_setting *s, uint64_t *results)
{
	struct fpisa_counters c;
	int err = 0;

	*results = 0;
	for (uint32_t t = 0; !err && t < s->threads; t++) {
		err = datapath_counters(&w->dp, bench_wire_job(w->run) + t, &c);
		*results += err ? 0 : c.v_result;
	}
	return err;
}

/* Figures at one point in time. */
struct moment {
	uint64_t results, wall, run;
};

static int look(const struct bench_wire *w, const struct bench_setting *s, struct moment *m)
{
	int err = interrupted ? refuse(-EINTR, "bench: interrupted") : count(w, s, &m->results);

	m->wall = fpisa_now();
	m->run = run_time_ns(w);
	return err;
}

/* Find the last sample with at most `warm` results, and the first sample with `all` results. */
static int watch(const struct bench_wire *w, const struct bench_setting *s, uint64_t warm, uint64_t all,
		 struct moment *from, struct moment *to)
{
	uint64_t since = fpisa_now();
	int err;

	*from = (struct moment){.wall = since, .run = run_time_ns(w)};
	for (;;) {
		uint64_t before = to->results;

		err = look(w, s, to);
		if (err || to->results >= all)
			return err;
		if (to->results <= warm)
			*from = *to;
		if (to->results != before)
			since = to->wall;
		if (to->wall - since > SILENCE_NS)
			return refuse(-ETIMEDOUT,
				      "bench: no result for %llu s; does fpisa bench worker run on all "
				      "workers, with the same options?",
				      SILENCE_NS / 1000000000);
		usleep(POLL_US);
	}
}

int bench_nic_round(struct bench_wire *w, struct bench_setting *s, uint64_t round)
{
	struct moment from = {0}, to = {0};
	uint64_t warm = 0, all = 0;
	int err = bench_wire_jobs(w, s, w->run);

	for (uint32_t t = 0; t < s->threads; t++) {
		uint64_t first, share = bench_wire_share(w, s->threads, t, &first);

		warm += (bench_wire_warm(share, s->window, s->elements) + s->elements - 1) / s->elements;
		all += (share + s->elements - 1) / s->elements;
	}
	if (!err)
		err = watch(w, s, warm, warm + all, &from, &to);
	if (!err && w->before)
		err = bench_wire_end_jobs(w, w->before, w->run - 1);
	w->before = s;
	if (!err) {
		double bytes = (double)(to.results - from.results) * s->elements * w->workers * sizeof(float);

		s->goodput[round] = bytes * 8 / (double)(to.wall - from.wall);
		s->aggregator[round] = (double)(to.run - from.run) / bytes;
	}
	return err;
}
