/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* A shared handle's requests while no caller waits for any; shared.h says who moves them when. */
#ifndef FPISA_BACKGROUND_H
#define FPISA_BACKGROUND_H

struct fpisa;

/* The engine calls it: one turn, and the callbacks of what has ended. Set before the handle is shared. */
struct fpisa_engine_item;
void fpisa_background_run(struct fpisa_engine_item *item);

/*
 * Locked, at the end of what may have begun a request or have left one: the engine has the handle, or the
 * caller who moves its requests learns that he must not sleep as long as he meant to.
 */
void fpisa_background_resume(struct fpisa *f);

/* Waits until no request has its callback to come. */
void fpisa_background_drain(struct fpisa *f);

#endif
