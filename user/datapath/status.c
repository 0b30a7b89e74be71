// SPDX-License-Identifier: GPL-2.0-only
/* Pins and attached programs, for the verb status. */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/report.h"
#include "datapath.h"
#include "info.h"
#include "interface.h"
#include "pin.h"

static int list_interface(const struct datapath_interface *i, int unused, void *arg)
{
	struct datapath_status *s = arg;

	(void)unused;
	if (s->interfaces < DATAPATH_MAX_INTERFACES)
		s->interface[s->interfaces++] = *i;
	return 0;
}

static void list_stages(const struct datapath *dp, struct datapath_status *s)
{
	for (__u32 bank = 0; bank < FPISA_BANKS; bank++)
		for (__u32 k = 0; k < FPISA_STAGES; k++) {
			__u32 index = bank * FPISA_BANK_SIZE + k, id = 0;
			int fd = -1;

			if (!bpf_map_lookup_elem(dp->stages_fd, &index, &id))
				fd = bpf_prog_get_fd_by_id(id);
			s->stage[bank][k].id = id;
			if (fd < 0)
				continue;
			program_info(fd, &s->stage[bank][k]);
			close(fd);
		}
}

static int count_entries(int fd)
{
	char key[8], next[8];
	int n = 0;

	while (!bpf_map_get_next_key(fd, n ? key : NULL, next)) {
		memcpy(key, next, sizeof(key));
		n++;
	}
	return n;
}

int datapath_status(const struct datapath *dp, struct datapath_status *s)
{
	pin_name *names;
	int n = pin_list(dp->pin, &names), err = 0;

	memset(s, 0, sizeof(*s));
	if (n < 0)
		return n;
	if (n)
		qsort(names, n, sizeof(names[0]), (int (*)(const void *, const void *))strcmp);
	for (int i = 0; i < n; i++) {
		int fd = pin_open(dp->pin, names[i]);

		/*
		 * Ignore EACCES. Users who may only read the maps may not open the programs, because a program could
		 * write the maps.
		 */
		if (fd == -EACCES)
			continue;
		if (fd < 0) {
			err = fail(fd, NULL, "%s/%s", dp->pin, names[i]);
			break;
		}
		if (!is_map(fd)) {
			if (s->programs < DATAPATH_MAX_PROGRAMS && !program_info(fd, &s->program[s->programs]))
				s->programs++;
		} else if (s->maps < DATAPATH_MAX_MAPS && !map_info(fd, names[i], &s->map[s->maps])) {
			s->maps++;
		}
		if (!strcmp(names[i], "fpisa_lpm"))
			s->trie_entries = count_entries(fd);
		close(fd);
	}
	free(names);
	if (err)
		return err;
	for (int i = 0; i < FPISA_MAX_JOBS; i++)
		s->jobs += !!dp->jobs[i].active;
	list_stages(dp, s);
	err = interfaces_each(dp->jobs_id, dp->control->entry, list_interface, s);
	return err < 0 ? err : 0;
}
