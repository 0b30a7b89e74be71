/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The datapath as user space sees it: the only layer that knows libbpf, pins
 * and attach. Verbs, demo and tests stand on these functions. Its files stand
 * on those above them in this list, never below:
 *
 *	log.c, info.c  libbpf's messages; what the kernel tells of a program or a map
 *	kernel.c    what this kernel can do
 *	pin*.c      pin directories: what is in one, whose it is, where one is, one writer at a time
 *	interface.c  attach, detach, what is attached, here and in other network namespaces
 *	slots.c     how many slots it has
 *	object.c    the objects of family 0 and of egress; families.c, the others, embedded
 *	family.c    programs of a family into the program array
 *	steer.c     which CPUs slots are spread over
 *	egress.c    the egress program, and the ports that replies leave by
 *	routes.c    what lets the datapath find routes to a job's ranks
 *	open.c      open, read maps
 *	fanout.c    the ports of jobs' results
 *	groups.c    records of the manager's groups, in maps beside the jobs
 *	job.c       make, shrink and remove jobs; job_check.c, what needs no kernel; job.h, for queries too
 *	load.c      load, fill, pin; upgrade.c, new programs in the place of running ones; unload.c
 *	status.c, resources.c, trial.c  for the verbs status and resources, and for doctor
 *
 * All return 0 or -errno and have then reported the error, once, on stderr;
 * readers that report nothing say so. Nothing of a failed call stays.
 */
#ifndef FPISA_DATAPATH_H
#define FPISA_DATAPATH_H

#include <limits.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "cli/names.h"
#include "fpisa/discard.h"
#include "fpisa/job.h"
#include "fpisa/steer.h"
#include "fpisa/verdict.h"

#define DATAPATH_PIN "/sys/fs/bpf/fpisa" /* default directory of load */

enum datapath_mode {
	DATAPATH_NATIVE = 1,
	DATAPATH_SKB,
	DATAPATH_OFFLOAD, /* read only: nothing here attaches so */
};

extern const struct name xdp_mode_names[];
extern const struct name attach_mode_names[]; /* of those, what load offers */

/* -- load and unload ---------------------------------------------------- */

#define DATAPATH_NO_GROUP ((gid_t)-1)

struct datapath_load {
	const char *pin; /* directory, NULL: DATAPATH_PIN */
	enum datapath_mode mode;
	__u32 port;  /* UDP, host order; 0: FPISA_PORT, or what is loaded already */
	__u32 slots; /* FPISA_LEAST_SLOTS to FPISA_MAX_SLOTS; 0: the default, or what is loaded already */
	gid_t group; /* that may read the maps, or DATAPATH_NO_GROUP */
	struct fpisa_steering steering; /* cpus 0: none, or what is loaded already; queue 0: the default */
	bool drop; /* give up capabilities as soon as they are not needed: for callers that do nothing else */
};

/*
 * Attach to `n` interfaces. Loads objects and fills maps first unless the
 * pin directory holds a loaded datapath. Outlives the caller.
 */
int datapath_load(const struct datapath_load *o, char *const *devs, int n);

/* Another network namespace in which a datapath runs. */
struct datapath_other_netns {
	char dev[IF_NAMESIZE]; /* one of its interfaces there, or "" */
	char enter[300];       /* what to put before a command, for that namespace */
	bool hidden; /* with CAP_SYS_ADMIN, without CAP_SYS_PTRACE: a process did not say which namespace it is in */
};

struct datapath_unloaded {
	bool removed;			       /* pins and all */
	struct datapath_other_netns elsewhere; /* why not */
};

/*
 * Detach from the `n` interfaces, or from all of this network namespace if n
 * is 0, and remove the pins if it then runs in no namespace that can be seen, and none is hidden.
 */
int datapath_unload(const char *pin, char *const *devs, int n, struct datapath_unloaded *u);

/* Detach from one interface; the datapath stays where it is pinned, also without any. */
struct datapath;
int datapath_detach(const struct datapath *dp, const char *dev);

/*
 * Put this build's programs in the place of the running ones, under traffic. The
 * datapath's maps, jobs and counters stay. The programs go into the idle bank; a frame
 * has all its stages from one bank. `pin` as in datapath_open(). If the upgrade fails
 * or is killed midway, the running programs go on and another try is possible.
 */
int datapath_upgrade(const char *pin);

/* -- open and read ------------------------------------------------------ */

struct datapath {
	char pin[PATH_MAX];
	bool read_only; /* the pins may be read, no more */
	int lock;	/* fd of the pin directory, -1 while not locked */
	int jobs_fd, sessions_fd, peers_fd, last_seen_fd, slots_fd, counters_fd, control_fd, stages_fd, fanout_fd,
		replies_fd, histogram_fd, nh_keys_fd;
	struct fpisa_steering steering; /* cpus 0: frames are summed where they come in */
	int steered_fd;			/* counters of that, -1 without */
	__u32 jobs_id;			/* of the map fpisa_jobs: a program that uses it is ours */
	int cpus;			/* possible ones */
	__u32 slots_n;			/* that its jobs share, each of two versions */
	struct fpisa_job *jobs;		/* FPISA_MAX_JOBS, mapped, or a copy where read_only */
	struct fpisa_control *control;	/* mapped */
	struct fpisa_session *sessions; /* FPISA_MAX_JOBS, and 2 * slots_n: mapped by datapath_map_state() */
	struct fpisa_slot *slots;
	int ports_fd[FPISA_MAX_JOBS]; /* maps of fpisa_fanout that were opened, 0: none; a process may open them by id no more */
};

/*
 * The datapath pinned in `pin`; NULL looks in DATAPATH_PIN, then where
 * `ip link set dev DEV xdp obj fpisa.o` pins, then where bpftool does.
 */
int datapath_open(struct datapath *dp, const char *pin);
void datapath_refresh(struct datapath *dp); /* the copies of a datapath that is read_only */
void datapath_close(struct datapath *dp);   /* of a datapath that is zeroed or opened; also unlocks it */

/* Map the sessions and slots of a datapath that may be written. */
int datapath_map_state(struct datapath *dp);

/* Is this datapath still what is pinned? -ESTALE if it was unloaded, or another -errno; reported. */
int datapath_check_pinned(const struct datapath *dp);

/* Lock the pin directory for one writer; signals that would end the process wait meanwhile. Errors are those of datapath_check_pinned(), too. */
int datapath_lock(struct datapath *dp);
void datapath_unlock(struct datapath *dp);

/* Make those signals wait over several such calls, too. Calls nest. */
void datapath_hold_signals(void);
void datapath_release_signals(void);

/* -EINTR, reported, if a signal that would end `what` waits; it comes when signals are released. */
int datapath_interrupted(const char *what);

/* Copy of an active job; -ENOENT, reported, if there is none of that number. */
int datapath_job(const struct datapath *dp, __u32 job, struct fpisa_job *out);
int datapath_session(const struct datapath *dp, __u32 job, struct fpisa_session *out);
int datapath_peer(const struct datapath *dp, __u32 job, __u32 rank, struct fpisa_peer *out);
int datapath_last_seen(const struct datapath *dp, __u32 job, __u32 rank, struct fpisa_last_seen *out);
int datapath_slot(const struct datapath *dp, __u32 key, struct fpisa_slot *out);

/* Sum over CPUs; key: job number, or FPISA_MAX_JOBS for frames of no job. */
int datapath_counters(const struct datapath *dp, __u32 key, struct fpisa_counters *sum);

/* Counters of one CPU of dp->steering. */
struct datapath_cpu {
	__u32 cpu;
	__u64 sent;  /* frames, to it */
	__u64 taken; /* by it */
	__u64 left;  /* of those sent: wait in its queue, or were dropped because it was full */
};

/* Read how the datapath pinned in `dir` steers; cpus 0: it does not steer. Reports nothing. */
int datapath_steering(const char *dir, struct fpisa_steering *s);

/* Fills out[dp->steering.cpus]. */
int datapath_steered(const struct datapath *dp, struct datapath_cpu *out);

/* Read what the adds of a job discarded since the job was made. */
int datapath_histogram(const struct datapath *dp, __u32 job, struct fpisa_histogram *out);

/* -- jobs --------------------------------------------------------------- */

/*
 * Make job number `job` from *j and start it. The caller fills all of it but
 * active, live, slot_base, guard and family, which are set here, in *j too. ifindex[r] is the
 * interface towards rank r. Refuses numbers in use, members listed twice,
 * what the format's headroom or the slot space does not hold.
 */
int datapath_job_add(struct datapath *dp, __u32 job, struct fpisa_job *j, const __u32 *ifindex);
int datapath_job_del(struct datapath *dp, __u32 job);

/*
 * Lets jobs of these numbers, a bitmap, be made later without a wait for a grace period, up to
 * datapath_job_room() workers each: half of them have room for 8, a quarter for 16, the others for all.
 */
int datapath_jobs_prepare(struct datapath *dp, __u64 jobs);

/* Return the number of workers that a job of this number may have without such a wait. Reports nothing. */
__u32 datapath_job_room(struct datapath *dp, __u32 job);

/* Set up again what lets the datapath find the ranks of a running job, in case somebody has removed it. */
int datapath_job_reassert(const struct datapath *dp, __u32 job);

/* Return whether the job was made in this network namespace. Its routes, addresses and interface numbers mean nothing in another. Reports nothing. */
bool datapath_job_here(const struct datapath *dp, __u32 job);

/* Check that the datapath may ask the kernel for routes to this job's ranks, or need not. */
int datapath_routes_asked(const struct fpisa_job *j);

/* Does the kernel take results for this job's ranks on this machine, by lo, or has it none? */
bool datapath_local_taken(const struct fpisa_job *j);

/*
 * The steps of datapath_job_add() that do not look at the kernel. _check() sets
 * guard and family and refuses a job that no datapath could run. _place() sets
 * slot_base beside the active ones among jobs[FPISA_MAX_JOBS], of which there is room for `slots`. _fit()
 * does the same without a report, and returns false if there is no room. _ports() refuses a job that needs
 * more ports, from the datapath's on, than exist.
 */
int datapath_job_ports(__u32 port, __u32 job, const struct fpisa_job *j);
int datapath_job_check(__u32 job, struct fpisa_job *j);
bool datapath_job_fit(const struct fpisa_job *jobs, __u32 slots, struct fpisa_job *j);
int datapath_job_place(const struct fpisa_job *jobs, __u32 slots, __u32 job, struct fpisa_job *j);

/* Return the bytes of superaccumulators of a job that has passed _check(); 0 if the job has none. */
__u64 datapath_job_limbs(const struct fpisa_job *j);

/* Take `ranks`, a bitmap, out of the job's live ranks; *live gets what is left. Refuses a job that the manager has made. */
int datapath_job_shrink(struct datapath *dp, __u32 job, __u64 ranks, __u64 *live);

/* Count the entries that jobs have left: jobs, their fan-outs, locks that nobody will release. No frame is under way. */
int datapath_leftovers(const struct datapath *dp, uint64_t *n);

/* Return whether the datapath with this jobs_id is still in the kernel. Reports nothing. */
bool datapath_remains(__u32 jobs_id);

/* -- what is there ------------------------------------------------------ */

struct datapath_program {
	__u32 id;	/* 0: none */
	char family[8]; /* of resources: which object; else empty */
	char name[16];
	__u32 xlated_bytes, jited_bytes, verified_insns;
	__u8 tag[8]; /* the kernel's hash of the instructions */
};

struct datapath_map {
	__u32 id;
	char name[32];
	__u32 key_size, value_size, max_entries;
	__u64 bytes; /* of kernel memory */
};

struct datapath_interface {
	char name[IF_NAMESIZE];
	__u32 ifindex;
	enum datapath_mode mode;
	struct datapath_program program;
};

#define DATAPATH_MAX_INTERFACES 256
#define DATAPATH_MAX_PROGRAMS 160
#define DATAPATH_MAX_MAPS 128

/* ifindex[] of devs[]; refuses unknown ones, those named twice, and too many. */
int find_interfaces(char *const *devs, int n, __u32 ifindex[DATAPATH_MAX_INTERFACES]);

struct datapath_status {
	int interfaces, programs, maps, trie_entries, jobs;
	struct datapath_interface interface[DATAPATH_MAX_INTERFACES];
	struct datapath_program program[DATAPATH_MAX_PROGRAMS]; /* pinned ones, none after plain ip link */
	struct datapath_program stage[FPISA_BANKS][FPISA_STAGES];
	struct datapath_map map[DATAPATH_MAX_MAPS];
};

int datapath_status(const struct datapath *dp, struct datapath_status *s);

/* Find how this datapath's program is attached to an interface; return 0 if it is not. Reports nothing. */
int datapath_attached(const struct datapath *dp, __u32 ifindex, struct datapath_interface *i);

/* Return whether the datapath runs in another network namespace that can be seen. */
bool datapath_in_other_netns(const struct datapath *dp, struct datapath_other_netns *e);

struct datapath_resources {
	int programs, maps;
	struct datapath_program program[DATAPATH_MAX_PROGRAMS];
	struct datapath_map map[DATAPATH_MAX_MAPS];
};

/* Load every object without attaching or pinning, and measure them. */
int datapath_resources(struct datapath_resources *r);

/* -- what is possible; all that follow report nothing ---------------------- */

#define LACKS_LEN 1024

/*
 * Name the features, of `needed`, that the kernel lacks. Return how many, or -EPERM if
 * the caller may not ask the kernel.
 */
int datapath_kernel(char lacks[LACKS_LEN], int *needed);

/* Return what to boot instead. */
const char *datapath_kernel_hint(void);

/* 1 if programs are compiled, 0 if they are interpreted. */
int datapath_jit(void);

/* Does RLIMIT_MEMLOCK bound the maps of this process? */
bool datapath_memlock_limits(void);

/*
 * Loads the programs of fpisa.o without attaching or pinning, and of
 * fpisa_steer.o if `steer`; tags are those of fpisa and fpisa_steer. This one reports, too.
 */
int datapath_trial_load(bool steer, __u8 tag[8], __u8 steer_tag[8], char *why, size_t size);

/* Attaches an XDP program that passes everything to the driver and detaches it. -EBUSY if there is one. */
int datapath_trial_attach(__u32 ifindex, char *why, size_t size);

/* Find the XDP program on an interface, whichever it is; its id is 0 if there is none. */
int datapath_program_on(__u32 ifindex, struct datapath_interface *i);

/* Return whether a program of this name belongs on interfaces. Frames enter by no other program. */
bool datapath_is_entry(const char *name);

/*
 * The nearest interface above `ifindex` (`up`) or below it (host/stack.h) that runs a datapath: this one, or with dp NULL any. False: none
 * does.
 */
bool datapath_stacked(const struct datapath *dp, __u32 ifindex, bool up, struct datapath_interface *i);

/* The command that takes off what is attached, seen from `dir`. */
#define OFF_LEN (PATH_MAX + 64)
void datapath_off(const struct datapath_interface *i, const char *dir, char command[OFF_LEN]);

/* The pin directory of the datapath that runs on an interface: `first`, one where verbs look, or any of a BPF filesystem. */
bool datapath_home(__u32 ifindex, const char *first, char dir[PATH_MAX]);

/* Count the jobs of the datapath whose program is on an interface, wherever it is pinned; -errno if that cannot be seen. */
int datapath_jobs_on(const struct datapath_interface *i);

/* -EBUSY, reported: a program that is not of the datapath in `dir` is attached, and what to do. */
int datapath_refuse_program(const char *dev, const struct datapath_interface *i, const char *dir);

#define WHY_LEN (2 * PATH_MAX + 160)

/* Check that a pin directory belongs to the caller or to root alone. 0; -EPERM, why and after "; " what to do; or another error. */
int datapath_trusts(const char *dir, char why[WHY_LEN]);

/* Find the directory in which a datapath is pinned; -ENOENT if there is none. Searches as datapath_open() does. */
int datapath_pinned(const char *pin, char dir[PATH_MAX]);

/* Entry `key` of a job's fan-out: the port, and the id of the program that addresses copies, 0 if none. */
int datapath_port(const struct datapath *dp, __u32 job, __u32 key, __u32 *ifindex, __u32 *egress);

#endif
