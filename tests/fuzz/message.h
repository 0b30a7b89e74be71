/* SPDX-License-Identifier: GPL-2.0-only */
/* Messages between rank and manager, from libFuzzer's input */
#ifndef FUZZ_MESSAGE_H
#define FUZZ_MESSAGE_H

#include "input.h"
#include "lib/manager/protocol.h"

/*
 * Return a message of any type that this side sends, in the form of an honest sender. If the input says so, change some
 * bytes.
 */
struct fpisa_manager_message message_any(struct input *in, enum fpisa_manager_side from);

#endif
