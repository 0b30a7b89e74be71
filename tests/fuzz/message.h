/* SPDX-License-Identifier: GPL-2.0-only */
/* Messages between rank and manager, out of libFuzzer's input. */
#ifndef FUZZ_MESSAGE_H
#define FUZZ_MESSAGE_H

#include "input.h"
#include "lib/manager/protocol.h"

/* A message of any type of that side: as an honest one would send it, and then, if the input says so, with bytes changed. */
struct fpisa_manager_message message_any(struct input *in, enum fpisa_manager_side from);

#endif
