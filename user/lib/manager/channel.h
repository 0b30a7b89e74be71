/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A connection between a rank and the manager, from either end: whole
 * messages over a socket that never blocks, in TLS where there is a key.
 * Whoever has it polls its descriptor for what fpisa_channel_events() says,
 * then calls fpisa_channel_work().
 */
#ifndef FPISA_MANAGER_CHANNEL_H
#define FPISA_MANAGER_CHANNEL_H

#include "protocol.h"
#include "psk.h"

#define FPISA_CHANNEL_QUEUE 32 /* messages that may wait to leave */

struct fpisa_channel;

/*
 * Set up a channel over a connected socket, which the channel owns from now on, also when this fails. A manager passes the
 * keys that it knows, or NULL for none; with `plain` it serves clients without a key. A rank passes one key, or NULL. The keys must stay;
 * a manager's may change. -ENOMEM, or -ENOENT without GnuTLS, with the message set.
 */
int fpisa_channel_serve(struct fpisa_channel **c, int fd, const struct fpisa_psks *keys, int plain);
int fpisa_channel_call(struct fpisa_channel **c, int fd, const struct fpisa_psk *psk);

/* Messages of another protocol in the same envelope: what checks one that `from` has sent, in the place of fpisa_manager_check(). */
typedef enum fpisa_manager_reason fpisa_channel_check(const struct fpisa_manager_message *m,
						      enum fpisa_manager_side from);
void fpisa_channel_speak(struct fpisa_channel *c, fpisa_channel_check *check);

int fpisa_channel_fd(const struct fpisa_channel *c);
short fpisa_channel_events(const struct fpisa_channel *c); /* of poll() */

/* Can messages be sent, or is the handshake under way still? */
int fpisa_channel_open(const struct fpisa_channel *c);

/* Has part of a message arrived? */
int fpisa_channel_half(const struct fpisa_channel *c);

/* Is -EPROTO of fpisa_channel_work() for this? */
int fpisa_channel_other_version(const struct fpisa_channel *c);

/* A manager's last word to who is to be closed upon, if it can hear one: not within a handshake. Once. */
void fpisa_channel_refuse(struct fpisa_channel *c, enum fpisa_manager_reason reason, const char *text);

/* The same of a socket that gets no channel, in clear, without a look at what it has sent. It is closed. */
void fpisa_channel_turn_away(int fd, enum fpisa_manager_reason reason, const char *text);

/* Name of the key, without its id, by which the peer of an open channel has authenticated; "" if it has none. */
const char *fpisa_channel_name(const struct fpisa_channel *c);

/* The identity by which the other side began a handshake, whether there is such a key and it has it or not; "": none, or no possible one. */
const char *fpisa_channel_identity(const struct fpisa_channel *c);

/* Takes a message to leave as soon as it can. -ENOBUFS: the other side does not read. */
int fpisa_channel_send(struct fpisa_channel *c, const struct fpisa_manager_message *m);

/*
 * Goes on with the handshake, sends what waits, takes in what came. 1: *m is the next message, well formed, and
 * there may be more; 0: nothing now; -errno with the message set: the connection is over, -ECONNRESET because the other side
 * ended it, -EPROTO because of what it sent, -EACCES because of its key, or ours. Not blocking.
 */
int fpisa_channel_work(struct fpisa_channel *c, struct fpisa_manager_message *m);

/* Goes on with the handshake and no further: no message is taken in. 0, or an error as above. */
int fpisa_channel_greet(struct fpisa_channel *c);

/* Another process, forked from this one, has the connection: fpisa_channel_close() says nothing to the other side. */
void fpisa_channel_forget(struct fpisa_channel *c);

/* Sends what can be sent now, and takes nothing in. 0, or an error as above. */
int fpisa_channel_flush(struct fpisa_channel *c);

/* Has all that was to be sent left? */
int fpisa_channel_flushed(const struct fpisa_channel *c);

void fpisa_channel_close(struct fpisa_channel *c); /* NULL is fine */

#endif
