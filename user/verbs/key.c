// SPDX-License-Identifier: GPL-2.0-only
/* fpisa key new NAME FILE */
#include <stdio.h>
#include <string.h>

#include "cli/options.h"
#include "cli/print.h"
#include "fpisa.h"
#include "lib/manager/psk.h"
#include "verbs.h"

int verb_key_new(int argc, char **argv)
{
	struct common common = COMMON_INIT;
	char identity[FPISA_PSK_IDENTITY];
	struct json_object *o;
	struct fpisa_psk psk;
	int err;

	if (common_options(&common, argc, argv))
		return BAD_USAGE;
	if (argc - optind != 2)
		return refuse(BAD_USAGE, "key new requires a name and a file");
	err = fpisa_psk_new(argv[optind], argv[optind + 1], &psk);
	if (err)
		return refuse(err, "key new: %s", fpisa_error());
	fpisa_psk_identity(&psk, identity);
	explicit_bzero(&psk, sizeof(psk));
	note_done("key new");
	if (!common.json) {
		printf("%s: key %s added\n", argv[optind + 1], identity);
		return 0;
	}
	o = json_done("key new");
	json_add_string(o, "key", identity);
	json_add_string(o, "file", argv[optind + 1]);
	return print_json(o, false);
}
