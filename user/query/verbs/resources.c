// SPDX-License-Identifier: GPL-2.0-only
/* The verb `fpisa query resources` shows for the programs of queries what `fpisa resources` shows for the datapath. */
#include "query/datapath/query.h"
#include "verbs.h"
#include "verbs/resources.h"

int verb_query_resources(int argc, char **argv)
{
	return resources_verb("query resources", datapath_query_resources, argc, argv);
}
