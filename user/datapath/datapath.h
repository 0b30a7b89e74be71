/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The datapath for user space. Only this layer uses libbpf, pins and attachments. Verbs, demo and tests use the
 * functions below. Each file uses only files that precede it in this list:
 *
 *	log.c, info.c  messages of libbpf; properties of a program or a map from the kernel
 *	kernel.c    probes of kernel features
 *	pin*.c      pin directories: their contents, their owner, the search for them, one writer at a time
 *	interface.c  attach and detach; attached programs in this and in other network namespaces
 *	slots.c     the number of slots
 *	object.c    the objects of family 0 and of egress; families.c, the other families, embedded
 *	family.c    load programs of a family into the program array
 *	steer.c     the CPUs over which slots are spread
 *	egress.c    the egress program, and the ports through which replies leave
 *	routes.c    settings that the datapath needs to find routes to a job's ranks
 *	open.c      open a datapath and read its maps
 *	fanout.c    the ports of jobs' results
 *	groups.c    records of the manager's groups, in separate maps
 *	job.c       create, shrink and remove jobs; job_check.c, checks that do not use the kernel; job.h, for queries too
 *	load.c      load objects, fill maps and pin; upgrade.c, replace running programs; unload.c
 *	status.c, resources.c, trial.c  for the verbs status and resources, and for doctor
 *
 * All functions return 0, or report an error once on stderr and return a negative errno. Comments name the functions
 * that report no errors. A failed call removes all objects that it has created.
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

#define DATAPATH_PIN "/sys/fs/bpf/fpisa" /* default pin directory of load */

enum datapath_mode {
	DATAPATH_NATIVE = 1,
	DATAPATH_SKB,
	DATAPATH_OFFLOAD, /* only reported; this program does not attach in this mode */
};

extern const struct name xdp_mode_names[];
extern const struct name attach_mode_names[]; /* the attach modes that load offers */

/* -- load and unload ---------------------------------------------------- */

#define DATAPATH_NO_GROUP ((gid_t)-1)

struct datapath_load {
	const char *pin; /* pin directory; NULL: DATAPATH_PIN */
	enum datapath_mode mode;
	__u32 port; /* UDP port, host order; 0: FPISA_PORT, or the port of the loaded datapath */
	/* number of slots, FPISA_LEAST_SLOTS to FPISA_MAX_SLOTS; 0: the default, or that of the loaded datapath */
	__u32 slots;
	gid_t group;			/* Unix group that may read the maps, or DATAPATH_NO_GROUP */
	struct fpisa_steering steering; /* cpus 0: no steering, or that of the loaded datapath; queue 0: the default */
	bool drop;			/* drop capabilities as soon as possible, for callers that only load */
};

/*
 * Return the interface that `fpisa load DEV` attaches to, with its name in `name`. In native mode and for a VLAN
 * device, this is the interface below it, because only that interface receives frames in its driver. Otherwise, or if
 * the VLAN device itself has a program, return DEV.
 */
const char *datapath_place(const char *dev, enum datapath_mode mode, char name[IF_NAMESIZE]);

/*
 * Return whether the interface is a VLAN device without an XDP program, so that in native mode the datapath must be on
 * the interface below it. If so, set *at and *below to these interfaces. Report no errors.
 */
struct link;
bool datapath_below(__u32 ifindex, struct link *at, struct link *below);

/*
 * Attach to `n` interfaces. First load objects and fill maps, unless a datapath is already pinned in the directory. The
 * datapath outlives the caller.
 */
int datapath_load(const struct datapath_load *o, char *const *devs, int n);

/* Another network namespace in which a datapath runs. */
struct datapath_other_netns {
	char dev[IF_NAMESIZE]; /* an interface of the datapath in that namespace, or "" */
	char enter[300];       /* prefix of a command that enters that namespace */
	bool hidden; /* the namespace of some process could not be examined (CAP_SYS_ADMIN without CAP_SYS_PTRACE) */
};

struct datapath_unloaded {
	bool removed;			       /* the pins, and so all maps and programs, were removed */
	struct datapath_other_netns elsewhere; /* namespace that uses the pins, if they were not removed */
};

/*
 * Detach from the `n` interfaces, or from all of this network namespace if n is 0. After that, remove the pins if the
 * datapath runs in no visible namespace, and no namespace is hidden.
 */
int datapath_unload(const char *pin, char *const *devs, int n, struct datapath_unloaded *u);

/* Detach from one interface. The datapath stays pinned, even if it runs on no interface. */
struct datapath;
int datapath_detach(const struct datapath *dp, const char *dev);

/*
 * Replace the running programs by this build's programs, under traffic. The datapath's maps, jobs and counters stay.
 * The new programs are put into the idle bank, and all stages of a frame run in the same bank. `pin` is as in
 * datapath_open(). If the upgrade fails or is killed, the running programs continue, and the upgrade can be repeated.
 */
int datapath_upgrade(const char *pin);

/* -- open and read ------------------------------------------------------ */

struct datapath {
	char pin[PATH_MAX];
	bool read_only; /* the caller may only read the pins */
	int lock;	/* descriptor of the locked pin directory; -1: not locked */
	int jobs_fd, sessions_fd, peers_fd, last_seen_fd, slots_fd, counters_fd, control_fd, stages_fd, fanout_fd,
		replies_fd, histogram_fd, nh_keys_fd, leaves_fd;
	struct fpisa_steering steering; /* cpus 0: frames are summed on the CPU that receives them */
	int steered_fd;			/* counters of steering; -1: the datapath does not steer */
	/* id of the map fpisa_jobs; a program that uses this map belongs to this datapath */
	__u32 jobs_id;
	int cpus;		       /* number of possible CPUs */
	__u32 slots_n;		       /* number of slots that the jobs share, with two versions each */
	struct fpisa_job *jobs;	       /* array of FPISA_MAX_JOBS jobs, mapped, or a copy if read_only */
	struct fpisa_control *control; /* control state, mapped, or a copy if read_only */
	/* FPISA_MAX_JOBS sessions and 2 * slots_n slots, which datapath_map_state() maps */
	struct fpisa_session *sessions;
	struct fpisa_slot *slots;
	/* open maps of fpisa_fanout; 0: not open; opening them again by id may be impossible */
	int ports_fd[FPISA_MAX_JOBS];
};

/*
 * Open the datapath pinned in `pin`. If `pin` is NULL, look in DATAPATH_PIN, then in the directories in which `ip link
 * set dev DEV xdp obj fpisa.o` pins, and then in that of bpftool.
 */
int datapath_open(struct datapath *dp, const char *pin);
void datapath_refresh(struct datapath *dp); /* renew the copies in a datapath that is read_only */
void datapath_close(struct datapath *dp);   /* close a datapath, which may be zeroed or opened, and unlock it */

/* Map the sessions and slots of a datapath that may be written. */
int datapath_map_state(struct datapath *dp);

/* Check that this datapath is still pinned. Return -ESTALE if it was unloaded. */
int datapath_check_pinned(const struct datapath *dp);

/*
 * Lock the pin directory for one writer. Signals that would end the process are blocked until the lock is released.
 * Errors include those of datapath_check_pinned().
 */
int datapath_lock(struct datapath *dp);
void datapath_unlock(struct datapath *dp);

/* Block these signals over several calls of datapath_lock(). Calls can be nested. */
void datapath_hold_signals(void);
void datapath_release_signals(void);

/*
 * If a signal that would end `what` is pending, report this and return -EINTR. The signal is delivered when signals are
 * released.
 */
int datapath_interrupted(const char *what);

/* Copy an active job. Return -ENOENT if no job has this number. */
int datapath_job(const struct datapath *dp, __u32 job, struct fpisa_job *out);
int datapath_session(const struct datapath *dp, __u32 job, struct fpisa_session *out);
int datapath_peer(const struct datapath *dp, __u32 job, __u32 rank, struct fpisa_peer *out);
int datapath_last_seen(const struct datapath *dp, __u32 job, __u32 rank, struct fpisa_last_seen *out);
int datapath_slot(const struct datapath *dp, __u32 key, struct fpisa_slot *out);

/* Sum counters over CPUs. `key` is a job number, or FPISA_MAX_JOBS for frames without a job. */
int datapath_counters(const struct datapath *dp, __u32 key, struct fpisa_counters *sum);

/* Counters of one CPU of dp->steering. */
struct datapath_cpu {
	__u32 cpu;
	__u64 sent;  /* frames sent to the CPU */
	__u64 taken; /* frames that the CPU has taken */
	/* frames that were sent but not taken, which wait in the queue, or were dropped because the queue was full */
	__u64 left;
};

/*
 * Read the steering of the datapath that is pinned in `dir`. cpus is 0 if the datapath does not steer. Report no
 * errors.
 */
int datapath_steering(const char *dir, struct fpisa_steering *s);

/* Fill in out[dp->steering.cpus]. */
int datapath_steered(const struct datapath *dp, struct datapath_cpu *out);

/* Read the counts of bits that the adds of a job discarded since the job was created. */
int datapath_histogram(const struct datapath *dp, __u32 job, struct fpisa_histogram *out);

/* -- jobs --------------------------------------------------------------- */

/*
 * Create job number `job` from *j and start it. The caller sets all members of *j except active, live, slot_base, guard
 * and family, which this function sets. ifindex[r] is the interface towards rank r. Refuse numbers in use, members
 * listed twice, and jobs that exceed the format's headroom or the slot space.
 */
int datapath_job_add(struct datapath *dp, __u32 job, struct fpisa_job *j, const __u32 *ifindex);

/* Return whether the job of this number is active and has this token, which must not be 0. */
static inline bool datapath_has_job(const struct datapath *dp, __u32 job, __u64 token)
{
	return job < FPISA_MAX_JOBS && token && dp->jobs[job].token == token &&
	       __atomic_load_n(&dp->jobs[job].active, __ATOMIC_ACQUIRE);
}

/*
 * Delete a job. datapath_job_end() is for callers that found the job before they had the lock. datapath_job_end()
 * deletes the job only if the job has this token. If the job is gone, or if its number now belongs to another job,
 * datapath_job_end() returns 0.
 */
int datapath_job_del(struct datapath *dp, __u32 job);
int datapath_job_end(struct datapath *dp, __u32 job, __u64 token);

/*
 * Prepare jobs of these numbers, a bitmap, so that creating the jobs does not wait for a grace period. Each job may
 * have up to datapath_job_room() workers. Half of the numbers have room for 8 workers, a quarter for 16, and the others
 * for all.
 */
int datapath_jobs_prepare(struct datapath *dp, __u64 jobs);

/*
 * Return the maximum number of workers that a job of this number may have so that its creation does not wait. Report no
 * errors.
 */
__u32 datapath_job_room(struct datapath *dp, __u32 job);

/* Restore the settings that the datapath needs to find the ranks of a running job, in case they were removed. */
int datapath_job_reassert(const struct datapath *dp, __u32 job);

/*
 * Return whether the job was created in this network namespace. The routes, addresses and interface numbers of a job
 * are valid only in the namespace of its creation. Report no errors.
 */
bool datapath_job_here(const struct datapath *dp, __u32 job);

/* Return the first rank of another family than rank 0, or the number of ranks if there is none. */
static inline __u32 datapath_other_family(const struct fpisa_job *j)
{
	__u32 r = 1;

	while (r < j->workers && fpisa_is_ipv6(&j->rank[r].addr) == fpisa_is_ipv6(&j->rank[0].addr))
		r++;
	return r;
}

/* Return whether the job has ranks of both families. */
static inline bool datapath_is_mixed(const struct fpisa_job *j)
{
	return datapath_other_family(j) < j->workers;
}

/*
 * Refuse a job with ranks of both families; `why` is a reason, as in "a tree's ranks have one family". Return 0 for
 * another job.
 */
int datapath_refuse_mixed(__u32 job, const struct fpisa_job *j, const char *why);

/* Return whether the datapath may ask the kernel for routes to this job's ranks of one family, or does not need routes. */
int datapath_routes_asked(const struct fpisa_job *j, bool v6);

/*
 * Return whether the kernel accepts results, through lo, for this job's ranks on this machine. Also return true if the
 * job has no such ranks.
 */
bool datapath_local_taken(const struct fpisa_job *j);

/*
 * The steps of datapath_job_add() that do not use the kernel. datapath_job_check() sets guard and family, and refuses a
 * job that no datapath could run. datapath_job_place() sets slot_base to entries that no active job of
 * jobs[FPISA_MAX_JOBS] uses; the jobs share `slots`. datapath_job_fit() does the same without reporting an error, and
 * returns false if there are not enough slots. datapath_job_ports() refuses a job whose last port would be above 65535,
 * and a rank with the address and a port of the aggregator.
 */
int datapath_job_ports(__u32 port, __u32 job, const struct fpisa_job *j);
int datapath_job_check(__u32 job, struct fpisa_job *j);
bool datapath_job_fit(const struct fpisa_job *jobs, __u32 slots, struct fpisa_job *j);
int datapath_job_place(const struct fpisa_job *jobs, __u32 slots, __u32 job, struct fpisa_job *j);

/*
 * Return the size, in bytes, of the superaccumulators of a job that has passed datapath_job_check(), or 0 if the job
 * has none.
 */
__u64 datapath_job_limbs(const struct fpisa_job *j);

/*
 * Remove `ranks`, a bitmap, from the job's live ranks, and set *live to the remaining ranks. Refuse a job that the
 * manager has created.
 */
int datapath_job_shrink(struct datapath *dp, __u32 job, __u64 ranks, __u64 *live);

/* Count the leftovers of jobs: jobs, their fan-outs, and locks without an owner. No frame may be in progress. */
int datapath_leftovers(const struct datapath *dp, uint64_t *n);

/* Return whether the datapath with this jobs_id is still in the kernel. Report no errors. */
bool datapath_remains(__u32 jobs_id);

/* -- state of the datapath ------------------------------------------------- */

struct datapath_program {
	__u32 id;	/* id of the program; 0: no program */
	char family[8]; /* object of the program in datapath_resources(), else empty */
	char name[16];
	__u32 xlated_bytes, jited_bytes, verified_insns;
	__u8 tag[8]; /* hash of the instructions by the kernel */
};

struct datapath_map {
	__u32 id;
	char name[32];
	__u32 key_size, value_size, max_entries;
	__u64 bytes; /* bytes of kernel memory */
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

/* Find ifindex[] for devs[]. Refuse unknown interfaces, interfaces that are named twice, and too many interfaces. */
int find_interfaces(char *const *devs, int n, __u32 ifindex[DATAPATH_MAX_INTERFACES]);

struct datapath_status {
	int interfaces, programs, maps, trie_entries, jobs;
	struct datapath_interface interface[DATAPATH_MAX_INTERFACES];
	/* pinned programs; none if plain ip link has loaded the datapath */
	struct datapath_program program[DATAPATH_MAX_PROGRAMS];
	struct datapath_program stage[FPISA_BANKS][FPISA_STAGES];
	struct datapath_map map[DATAPATH_MAX_MAPS];
};

int datapath_status(const struct datapath *dp, struct datapath_status *s);

/*
 * Find how the program of this datapath is attached to an interface. Return 1, or 0 if it is not attached, or a
 * negative errno. Report no errors.
 */
int datapath_attached(const struct datapath *dp, __u32 ifindex, struct datapath_interface *i);

/* Return whether the datapath runs in another network namespace that the caller can examine. */
bool datapath_in_other_netns(const struct datapath *dp, struct datapath_other_netns *e);

struct datapath_resources {
	int programs, maps;
	struct datapath_program program[DATAPATH_MAX_PROGRAMS];
	struct datapath_map map[DATAPATH_MAX_MAPS];
};

/* Load every object without attaching or pinning, and measure it. */
int datapath_resources(struct datapath_resources *r);

/* -- checks for doctor; unless noted, these functions report no errors --------------- */

#define LACKS_LEN 1024

/*
 * Name the features in `needed` that the kernel lacks. Return their number, or -EPERM if the caller may not ask the
 * kernel.
 */
int datapath_kernel(char lacks[LACKS_LEN], int *needed);

/* Return advice on which kernel to boot instead. */
const char *datapath_kernel_hint(void);

/* Return 1 if programs are compiled, 0 if they are interpreted, or -errno. */
int datapath_jit(void);

/* Return whether RLIMIT_MEMLOCK bounds the maps of this process. */
bool datapath_memlock_limits(void);

/*
 * Load the programs of fpisa.o without attaching or pinning, and of fpisa_steer.o if `steer`. Set the tags of fpisa and
 * fpisa_steer. This function reports errors.
 */
int datapath_trial_load(bool steer, __u8 tag[8], __u8 steer_tag[8], char *why, size_t size);

/*
 * Attach an XDP program that passes all frames to the interface in driver mode, and detach it again. Return -EBUSY if
 * the interface has a program.
 */
int datapath_trial_attach(__u32 ifindex, char *why, size_t size);

/* Find the XDP program on an interface. The program's id is 0 if the interface has none. */
int datapath_program_on(__u32 ifindex, struct datapath_interface *i);

/*
 * Return whether a program of this name is attached to interfaces. Frames enter the datapath only through such
 * programs.
 */
bool datapath_is_entry(const char *name);

/*
 * Find the nearest interface above `ifindex` (with `up`) or below it (host/stack.h) that runs this datapath, or any
 * datapath if dp is NULL. Return false if no interface does.
 */
bool datapath_stacked(const struct datapath *dp, __u32 ifindex, bool up, struct datapath_interface *i);

/* Write the command that detaches an attached program, for a user of the pin directory `dir`. */
#define OFF_LEN (PATH_MAX + 64)
void datapath_off(const struct datapath_interface *i, const char *dir, char command[OFF_LEN]);

/*
 * Write the command that detaches the program from `dev`. It leaves the pins, and so the jobs, also if the program runs
 * on no other interface.
 */
#define DETACH_LEN (IF_NAMESIZE + 32)
const char *datapath_detach_text(const char *dev, enum datapath_mode mode, char command[DETACH_LEN]);

/*
 * Find the pin directory of the datapath that runs on an interface. Look in `first`, in the directories where verbs
 * look, and in the whole BPF filesystem.
 */
bool datapath_home(__u32 ifindex, const char *first, char dir[PATH_MAX]);

/*
 * Count the jobs of the datapath whose program is on an interface, in any pin directory. Return a negative errno if the
 * jobs cannot be read.
 */
int datapath_jobs_on(const struct datapath_interface *i);

/* Report that the attached program does not belong to the datapath in `dir`, with advice. Return -EBUSY. */
int datapath_refuse_program(const char *dev, const struct datapath_interface *i, const char *dir);

#define WHY_LEN (2 * PATH_MAX + 160)

/*
 * Check that a pin directory belongs to the caller or to root alone. Return 0, or -EPERM with the reason and, after ";
 * ", the advice in `why`, or another error.
 */
int datapath_trusts(const char *dir, char why[WHY_LEN]);

/*
 * Find the directory in which a datapath is pinned. Return -ENOENT if no datapath is pinned. Search as datapath_open()
 * does.
 */
int datapath_pinned(const char *pin, char dir[PATH_MAX]);

/* Read entry `key` of a job's fan-out. Set the port, and the id of the program that addresses copies, or 0. */
int datapath_port(const struct datapath *dp, __u32 job, __u32 key, __u32 *ifindex, __u32 *egress);

#endif
