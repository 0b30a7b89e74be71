/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Progress of a shared handle's requests while no caller waits for one; shared.h lists the drivers and their
 * transitions.
 */
#ifndef FPISA_BACKGROUND_H
#define FPISA_BACKGROUND_H

struct fpisa;

/*
 * Run one turn and call the callbacks of requests that have ended. The engine calls this function. Set it as the item's
 * run() before the handle is shared.
 */
struct fpisa_engine_item;
void fpisa_background_run(struct fpisa_engine_item *item);

/*
 * Let the engine drive the handle, or make the thread that drives the handle sleep for a shorter time. Call this with
 * the lock, at the end of a function that may have begun a request or stopped driving.
 */
void fpisa_background_resume(struct fpisa *f);

/* Wait until no callback of a request is due. */
void fpisa_background_drain(struct fpisa *f);

#endif
