/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Either end of a connection between a rank and the manager. The connection carries whole messages over a non-blocking
 * socket, with TLS if there is a key. The owner polls its descriptor for the events of fpisa_channel_events(), then
 * calls fpisa_channel_work().
 */
#ifndef FPISA_MANAGER_CHANNEL_H
#define FPISA_MANAGER_CHANNEL_H

#include "protocol.h"
#include "psk.h"

#define FPISA_CHANNEL_QUEUE 32 /* maximum number of messages that wait to be sent */

struct fpisa_channel;

/*
 * Set up a channel over a connected socket, which the channel owns from now on, even if this fails. A manager passes
 * its keys, or NULL for none. With `plain`, the channel also accepts clients without a key. A rank passes one key, or
 * NULL. The keys must exist as long as the channel; the manager may change its keys. Return 0, or -ENOMEM, or -ENOENT
 * without GnuTLS, with the message set.
 */
int fpisa_channel_serve(struct fpisa_channel **c, int fd, const struct fpisa_psks *keys, int plain);
int fpisa_channel_call(struct fpisa_channel **c, int fd, const struct fpisa_psk *psk);

/*
 * Use the channel for another protocol with the same envelope. check() checks a message sent by `from`, and replaces
 * fpisa_manager_check().
 */
typedef enum fpisa_manager_reason fpisa_channel_check(const struct fpisa_manager_message *m,
						      enum fpisa_manager_side from);
void fpisa_channel_speak(struct fpisa_channel *c, fpisa_channel_check *check);

int fpisa_channel_fd(const struct fpisa_channel *c);
short fpisa_channel_events(const struct fpisa_channel *c); /* return the events for poll() */

/* Return whether messages can be sent; false while the handshake is in progress. */
int fpisa_channel_open(const struct fpisa_channel *c);

/* Return whether part of a message has arrived. */
int fpisa_channel_half(const struct fpisa_channel *c);

/* Return whether fpisa_channel_work() would find data from the other side, or the end of the connection. */
int fpisa_channel_unread(const struct fpisa_channel *c);

/* Return whether -EPROTO of fpisa_channel_work() means that the peer has another version of the protocol. */
int fpisa_channel_other_version(const struct fpisa_channel *c);

/*
 * Send a manager's refusal to a peer whose connection is about to be closed. Send nothing during a handshake, when the
 * peer cannot read a refusal. Call this function only once.
 */
void fpisa_channel_refuse(struct fpisa_channel *c, enum fpisa_manager_reason reason, const char *text);

/*
 * Refuse a socket without creating a channel. Send an unencrypted answer, do not process received data, and close the
 * socket.
 */
void fpisa_channel_turn_away(int fd, enum fpisa_manager_reason reason, const char *text);

/*
 * Return the name of the key, without its id, by which the peer of an open channel has authenticated, or "" without a
 * key.
 */
const char *fpisa_channel_name(const struct fpisa_channel *c);

/*
 * Return whether the peer of an open channel has authenticated by a key that the manager no longer has. Without a key
 * return 0.
 */
int fpisa_channel_key_removed(const struct fpisa_channel *c);

/*
 * Return the identity with which the other side began a handshake, even if the key does not exist or the other side
 * does not have it. Return "" if there is no identity, or if it is invalid.
 */
const char *fpisa_channel_identity(const struct fpisa_channel *c);

/*
 * Queue a message, which is sent as soon as possible. Return 0, or -ENOBUFS if the queue is full because the other side
 * does not read.
 */
int fpisa_channel_send(struct fpisa_channel *c, const struct fpisa_manager_message *m);

/*
 * Continue the handshake, send waiting messages, and receive. Return 1 if *m is the next message, which is well formed;
 * there may be more messages. Return 0 if there is no message now. If the connection has ended, set the error message
 * and return -ECONNRESET if the other side closed it, -EPROTO after invalid data, -EACCES if a key was refused, or
 * another negative errno. This function does not block.
 */
int fpisa_channel_work(struct fpisa_channel *c, struct fpisa_manager_message *m);

/* Continue only the handshake, and receive no message. Return 0, or an error as fpisa_channel_work() does. */
int fpisa_channel_greet(struct fpisa_channel *c);

/*
 * Leave the connection to another process that was forked from this one. fpisa_channel_close() then sends nothing to
 * the other side.
 */
void fpisa_channel_forget(struct fpisa_channel *c);

/* Send as much as possible now, and receive no message. Return 0, or an error as fpisa_channel_work() does. */
int fpisa_channel_flush(struct fpisa_channel *c);

/* Return how many further messages fit into the queue. */
int fpisa_channel_room(const struct fpisa_channel *c);

/* Return whether all queued messages have been sent. */
int fpisa_channel_flushed(const struct fpisa_channel *c);

void fpisa_channel_close(struct fpisa_channel *c); /* c may be NULL */

#endif
