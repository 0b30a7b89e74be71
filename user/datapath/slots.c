// SPDX-License-Identifier: GPL-2.0-only
/* The number of slots of a datapath. All maps of registers and of slots have as many entries as fpisa_slots. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <unistd.h>

#include "cli/report.h"
#include "fpisa/job.h"
#include "pin.h"
#include "slots.h"

/* Return the slots of the datapath pinned in `dir`, 0 if no datapath is pinned, or -errno. */
static int slots_pinned(const char *dir)
{
	int fd = pin_open(dir, "fpisa_slots"), err;
	struct bpf_map_info info = {0};
	__u32 len = sizeof(info);

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	err = bpf_obj_get_info_by_fd(fd, &info, &len) ? -errno : 0;
	close(fd);
	return err ?: (int)info.max_entries / 2;
}

int slots_choose(const char *dir, __u32 asked, __u32 *slots)
{
	int now = slots_pinned(dir);

	if (now < 0)
		return fail(now, NULL, "%s/fpisa_slots: cannot open", dir);
	if (now && asked && asked != (__u32)now)
		return refuse(-EEXIST,
			      "%s: a datapath with %d slots is loaded; leave --slots out, or first run fpisa unload",
			      dir, now);
	*slots = now ? (__u32)now : asked ?: FPISA_DEFAULT_SLOTS;
	return 0;
}

int slots_fit(struct bpf_object *o, __u32 slots)
{
	static const struct {
		const char *name;
		int share; /* divisor of the number of entries */
	} maps[] = {{"fpisa_exponents", 1},
		    {"fpisa_mantissas", 1},
		    {"fpisa_slots", 1},
		    {"fpisa_man64", 1},
		    {"fpisa_limbs", FPISA_EXACT_SHARE},
		    {"fpisa_partials", FPISA_EXACT_SHARE},
		    {"fpisa_limbs64", FPISA_EXACT_SHARE}};

	for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
		struct bpf_map *map = bpf_object__find_map_by_name(o, maps[i].name);
		int err = map ? bpf_map__set_max_entries(map, 2 * slots / maps[i].share) : 0;

		if (err)
			return fail(err, NULL, "%s: cannot make room for %u slots", maps[i].name, slots);
	}
	return 0;
}
