/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A connection between a rank and the manager, from either end: whole messages over a socket that never blocks, in
 * TLS if there is a key. The owner polls its descriptor for the events of fpisa_channel_events(), then calls
 * fpisa_channel_work().
 */
#ifndef FPISA_MANAGER_CHANNEL_H
#define FPISA_MANAGER_CHANNEL_H

#include "protocol.h"
#include "psk.h"

#define FPISA_CHANNEL_QUEUE 32 /* messages that may wait to leave */

struct fpisa_channel;

/*
 * Set up a channel over a connected socket, which the channel owns from now on, even if this fails. A manager passes
 * the keys that it knows, or NULL for none; with `plain` it serves clients without a key. A rank passes one key, or
 * NULL. The keys must stay; a manager's may change. -ENOMEM, or -ENOENT without GnuTLS, with the message set.
 */
int fpisa_channel_serve(struct fpisa_channel **c, int fd, const struct fpisa_psks *keys, int plain);
int fpisa_channel_call(struct fpisa_channel **c, int fd, const struct fpisa_psk *psk);

/* Check of messages of another protocol in the same envelope, sent by `from`, in place of fpisa_manager_check(). */
typedef enum fpisa_manager_reason fpisa_channel_check(const struct fpisa_manager_message *m,
						      enum fpisa_manager_side from);
void fpisa_channel_speak(struct fpisa_channel *c, fpisa_channel_check *check);

int fpisa_channel_fd(const struct fpisa_channel *c);
short fpisa_channel_events(const struct fpisa_channel *c); /* events for poll() */

/* Can messages be sent, or is the handshake still in progress? */
int fpisa_channel_open(const struct fpisa_channel *c);

/* Has part of a message arrived? */
int fpisa_channel_half(const struct fpisa_channel *c);

/* Would fpisa_channel_work() find something that the other side has sent, or its end? */
int fpisa_channel_unread(const struct fpisa_channel *c);

/* Is -EPROTO of fpisa_channel_work() for this? */
int fpisa_channel_other_version(const struct fpisa_channel *c);

/*
 * Send a manager's refusal to a peer whose connection is about to be closed, if the peer can read one: not within a
 * handshake. Call it once.
 */
void fpisa_channel_refuse(struct fpisa_channel *c, enum fpisa_manager_reason reason, const char *text);

/* Refuse a socket that gets no channel: answer in clear, without reading what it has sent, and close it. */
void fpisa_channel_turn_away(int fd, enum fpisa_manager_reason reason, const char *text);

/* Return the name of the key, without its id, by which the peer of an open channel has authenticated; "" without a key. */
const char *fpisa_channel_name(const struct fpisa_channel *c);

/*
 * Return the identity with which the other side began a handshake, whether or not such a key exists and the other
 * side has it. "" if there is no identity or it is not a possible one.
 */
const char *fpisa_channel_identity(const struct fpisa_channel *c);

/* Queue a message; it leaves as soon as it can. -ENOBUFS: the other side does not read. */
int fpisa_channel_send(struct fpisa_channel *c, const struct fpisa_manager_message *m);

/*
 * Go on with the handshake, send what waits, take in what came. Return 1 if *m is the next message, well formed, and
 * there may be more. Return 0 if there is nothing now, -errno with the message set if the connection is over.
 * -ECONNRESET: the other side ended it. -EPROTO: bad data from it. -EACCES: its key or ours. Does not block.
 */
int fpisa_channel_work(struct fpisa_channel *c, struct fpisa_manager_message *m);

/* Go on with the handshake only: no message is taken in. 0, or an error as above. */
int fpisa_channel_greet(struct fpisa_channel *c);

/*
 * Forget a connection that another process, forked from this one, keeps: fpisa_channel_close() sends nothing to the
 * other side.
 */
void fpisa_channel_forget(struct fpisa_channel *c);

/* Send what can be sent now, and take nothing in. 0, or an error as above. */
int fpisa_channel_flush(struct fpisa_channel *c);

/* Has everything queued been sent? */
int fpisa_channel_flushed(const struct fpisa_channel *c);

void fpisa_channel_close(struct fpisa_channel *c); /* NULL is allowed */

#endif
