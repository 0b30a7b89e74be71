/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Messages over a socket with or without TLS; channel.h has the contracts. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>
#include "channel.h"
#include "lib/base/error.h"
#include "tls.h"

#define TLS_RECORD 0x16 /* first byte of a handshake */
#define PLAIN_RECORD ((unsigned char)FPISA_MANAGER_MAGIC)

#define NO_MESSAGE "the received data is not a message of this protocol; check the address and port"

enum state { GREETING, HANDSHAKE, OPEN, REFUSED };

struct fpisa_channel {
	int fd;
	enum state state;
	enum fpisa_manager_side side; /* side of this process */
	int plain;		      /* only at a manager: also serve ranks without a key */
	int error;		      /* errno of the socket below TLS */
	int heard;		      /* some bytes of a rank's handshake have arrived */
	int refused_in_clear;	      /* the other side has answered the handshake with an unencrypted message */
	int other_version;	      /* the other side has another version of the protocol */
	fpisa_channel_check *check;
	const struct fpisa_psks *keys;	   /* keys of a manager */
	const struct fpisa_psk *psk;	   /* key of a rank */
	struct fpisa_psk peer;		   /* only at a manager: key with which the other side authenticated */
	char identity[FPISA_PSK_IDENTITY]; /* identity of the key that the other side claims to have */
	const struct fpisa_tls *tls;
	gnutls_session_t session; /* TLS session; NULL: no TLS */
	gnutls_psk_client_credentials_t client;
	gnutls_psk_server_credentials_t server;
	size_t blocked; /* bytes that GnuTLS has accepted but not sent */
	size_t in, out; /* number of bytes in the buffers */
	union {
		struct fpisa_manager_message message;
		unsigned char bytes[FPISA_MANAGER_BYTES];
	} taken;
	unsigned char queue[FPISA_CHANNEL_QUEUE * FPISA_MANAGER_BYTES];
};

static int lost(int error)
{
	if (error == EAGAIN || error == EINTR)
		return 0;
	return fpisa_fail(error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH ? -ETIMEDOUT :
			  error == ECONNREFUSED						      ? -ECONNREFUSED :
												-ECONNRESET,
			  "the connection ended: %s", strerror(error));
}

/* -- TLS -------------------------------------------------------------------- */

/* Store errno, because an error of GnuTLS does not contain the error number of the socket. */
static ssize_t moved(struct fpisa_channel *c, ssize_t n)
{
	if (n < 0) {
		c->error = errno;
		c->tls->gnutls_transport_set_errno(c->session, errno);
	}
	return n;
}

static ssize_t push(gnutls_transport_ptr_t p, const void *data, size_t size)
{
	struct fpisa_channel *c = p;

	return moved(c, send(c->fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT));
}

/*
 * Receive bytes for GnuTLS. A manager without keys answers a handshake unencrypted. This answer is not a TLS record, so
 * leave it unread.
 */
static ssize_t pull(gnutls_transport_ptr_t p, void *data, size_t size)
{
	struct fpisa_channel *c = p;
	unsigned char first;
	ssize_t n;

	if (c->side == FPISA_MANAGER_RANK && !c->heard && recv(c->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) == 1 &&
	    first == PLAIN_RECORD) {
		c->refused_in_clear = 1;
		c->tls->gnutls_transport_set_errno(c->session, EIO);
		return -1;
	}
	n = moved(c, recv(c->fd, data, size, MSG_DONTWAIT));
	c->heard |= n > 0;
	return n;
}

/* Return a random key for an unknown identity, or NULL if getrandom() fails. */
static const struct fpisa_psk *key_of_nobody(void)
{
	static struct fpisa_psk nobody;
	static int drawn;

	if (!drawn)
		drawn = getrandom(nobody.secret, sizeof(nobody.secret), 0) == sizeof(nobody.secret);
	return drawn ? &nobody : NULL;
}

/*
 * Find the key of an identity. GnuTLS frees the key. A handshake fails in the same way for an unknown identity and for
 * a wrong secret, so clients cannot find out which identities exist.
 */
static int find_key(gnutls_session_t session, const char *identity, gnutls_datum_t *key)
{
	struct fpisa_channel *c = fpisa_tls()->gnutls_session_get_ptr(session);
	const struct fpisa_psk *psk = fpisa_psk_find(c->keys, identity);

	if (fpisa_psk_identity_valid(identity))
		strcpy(c->identity, identity);
	if (!psk)
		psk = key_of_nobody();
	key->data = psk ? (*c->tls->gnutls_malloc)(sizeof(psk->secret)) : NULL;
	if (!key->data)
		return -1;
	memcpy(key->data, psk->secret, sizeof(psk->secret));
	key->size = sizeof(psk->secret);
	/* Copy the key, because the keys may change during the connection. */
	c->peer = *psk;
	return 0;
}

static int give_credentials(struct fpisa_channel *c)
{
	gnutls_datum_t key = {.size = FPISA_PSK_BYTES};
	char identity[FPISA_PSK_IDENTITY];
	int rc;

	if (c->side == FPISA_MANAGER_MANAGER) {
		rc = c->tls->gnutls_psk_allocate_server_credentials(&c->server);
		if (rc)
			return rc;
		c->tls->gnutls_psk_set_server_credentials_function(c->server, find_key);
		return c->tls->gnutls_credentials_set(c->session, GNUTLS_CRD_PSK, c->server);
	}
	rc = c->tls->gnutls_psk_allocate_client_credentials(&c->client);
	if (rc)
		return rc;
	fpisa_psk_identity(c->psk, identity);
	key.data = (unsigned char *)c->psk->secret;
	rc = c->tls->gnutls_psk_set_client_credentials(c->client, identity, &key, GNUTLS_PSK_KEY_RAW);
	return rc ? rc : c->tls->gnutls_credentials_set(c->session, GNUTLS_CRD_PSK, c->client);
}

static int start_tls(struct fpisa_channel *c)
{
	unsigned int flags = c->side == FPISA_MANAGER_MANAGER ? GNUTLS_SERVER : GNUTLS_CLIENT;
	int rc;

	rc = fpisa_tls_load();
	if (rc)
		return rc;
	c->tls = fpisa_tls();
	rc = c->tls->gnutls_init(&c->session, flags | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL | GNUTLS_NO_TICKETS);
	if (!rc)
		rc = c->tls->gnutls_priority_set_direct(c->session, FPISA_TLS_PRIORITY, NULL);
	if (!rc)
		rc = give_credentials(c);
	if (rc)
		return fpisa_fail(-ENOMEM, "cannot start TLS: %s", c->tls->gnutls_strerror(rc));
	c->tls->gnutls_session_set_ptr(c->session, c);
	c->tls->gnutls_transport_set_ptr(c->session, c);
	c->tls->gnutls_transport_set_push_function(c->session, push);
	c->tls->gnutls_transport_set_pull_function(c->session, pull);
	c->state = HANDSHAKE;
	return 0;
}

static void end_tls(struct fpisa_channel *c)
{
	if (c->session)
		c->tls->gnutls_deinit(c->session);
	if (c->client)
		c->tls->gnutls_psk_free_client_credentials(c->client);
	if (c->server)
		c->tls->gnutls_psk_free_server_credentials(c->server);
	c->session = NULL;
	c->client = NULL;
	c->server = NULL;
}

/* Turn a GnuTLS error into an error with the message set. Return 0 if the operation has to be repeated. */
static int tls_failed(struct fpisa_channel *c, ssize_t rc)
{
	if (rc == GNUTLS_E_AGAIN || rc == GNUTLS_E_INTERRUPTED || !c->tls->gnutls_error_is_fatal((int)rc))
		return 0;
	if (c->state == HANDSHAKE && rc != GNUTLS_E_PUSH_ERROR && rc != GNUTLS_E_PULL_ERROR &&
	    rc != GNUTLS_E_PREMATURE_TERMINATION) {
		c->tls->gnutls_alert_send_appropriate(c->session, (int)rc);
		return fpisa_fail(
			-EACCES,
			"the two sides have no key in common (TLS: %s); copy a line of one key file to the other",
			c->tls->gnutls_strerror((int)rc));
	}
	if (rc == GNUTLS_E_PULL_ERROR || rc == GNUTLS_E_PUSH_ERROR)
		return lost(c->error);
	/*
	 * The second error means that the connection ended in the middle of a record, the third that an earlier call
	 * has found the end.
	 */
	if (rc == GNUTLS_E_PREMATURE_TERMINATION || rc == GNUTLS_E_UNEXPECTED_PACKET_LENGTH ||
	    rc == GNUTLS_E_INVALID_SESSION)
		return fpisa_fail(-ECONNRESET, "the peer closed the connection; look in its log");
	return fpisa_fail(-EPROTO, "TLS failed: %s", c->tls->gnutls_strerror((int)rc));
}

static int shake_hands(struct fpisa_channel *c)
{
	int rc = c->tls->gnutls_handshake(c->session);

	if (c->refused_in_clear) {
		end_tls(c);
		c->state = OPEN;
		return 0;
	}
	if (rc)
		return tls_failed(c, rc);
	c->state = OPEN;
	return 0;
}

/* -- sending and receiving ------------------------------------------------------------------ */

static struct fpisa_manager_message refusal(enum fpisa_manager_reason reason, const char *text)
{
	struct fpisa_manager_message m = fpisa_manager_message(FPISA_MANAGER_REFUSED);

	m.number = FPISA_MANAGER_EVERY;
	m.refusal = (struct fpisa_manager_refusal){.reason = reason, .index = FPISA_MANAGER_NO_JOB};
	snprintf(m.refusal.text, sizeof(m.refusal.text), "%s", text);
	return m;
}

static void say_in_clear(int fd, enum fpisa_manager_reason reason, const char *why)
{
	const struct fpisa_manager_message m = refusal(reason, why);
	unsigned char unread[4096];

	send(fd, &m, sizeof(m), MSG_NOSIGNAL | MSG_DONTWAIT);
	/*
	 * Read the pending bytes. Closing a socket with unread bytes resets the connection, and the other side might
	 * then not receive the answer.
	 */
	recv(fd, unread, sizeof(unread), MSG_DONTWAIT);
}

/* Refuse a peer that does not speak the protocol. */
static void refuse_in_clear(struct fpisa_channel *c, enum fpisa_manager_reason reason, const char *why)
{
	say_in_clear(c->fd, reason, why);
	c->state = REFUSED;
}

void fpisa_channel_turn_away(int fd, enum fpisa_manager_reason reason, const char *text)
{
	say_in_clear(fd, reason, text);
	close(fd);
}

void fpisa_channel_refuse(struct fpisa_channel *c, enum fpisa_manager_reason reason, const char *text)
{
	const struct fpisa_manager_message m = refusal(reason, text);

	if (c->state == GREETING)
		refuse_in_clear(c, reason, text);
	else if (c->state == OPEN && !fpisa_channel_send(c, &m))
		fpisa_channel_flush(c);
}

/*
 * Decide by the first byte of a connection whether the manager continues with a key, continues without a key, or
 * refuses the connection with a reason.
 */
static int greet(struct fpisa_channel *c)
{
	unsigned char first;
	ssize_t n = recv(c->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
	const char *why;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return fpisa_fail(-ECONNRESET, "the peer closed the connection; look in its log");
	if (first == TLS_RECORD && c->keys)
		return start_tls(c);
	if (first == PLAIN_RECORD && c->plain) {
		c->state = OPEN;
		return 0;
	}
	if (first != TLS_RECORD && first != PLAIN_RECORD) {
		refuse_in_clear(c, FPISA_MANAGER_R_malformed, NO_MESSAGE);
		return fpisa_fail(-EPROTO, NO_MESSAGE);
	}
	why = c->keys ? "a key is needed here; set FPISA_KEY or options.key_file to the file that has one" :
			"the manager has no keys; leave FPISA_KEY and options.key_file out";
	refuse_in_clear(c, FPISA_MANAGER_R_key, why);
	return fpisa_fail(-EACCES, "%s", why);
}

int fpisa_channel_flush(struct fpisa_channel *c)
{
	while (c->out) {
		ssize_t n = !c->session ? send(c->fd, c->queue, c->out, MSG_NOSIGNAL | MSG_DONTWAIT) :
			    c->blocked	? c->tls->gnutls_record_send(c->session, NULL, 0) :
					  c->tls->gnutls_record_send(c->session, c->queue, c->out);

		if (n < 0 && c->session) {
			c->blocked = c->blocked ? c->blocked : c->out;
			return tls_failed(c, n);
		}
		if (n < 0)
			return lost(errno);
		c->blocked = 0;
		c->out -= (size_t)n;
		memmove(c->queue, c->queue + n, c->out);
	}
	return 0;
}

static int take(struct fpisa_channel *c)
{
	ssize_t n = c->session ?
			    c->tls->gnutls_record_recv(c->session, c->taken.bytes + c->in, FPISA_MANAGER_BYTES - c->in) :
			    recv(c->fd, c->taken.bytes + c->in, FPISA_MANAGER_BYTES - c->in, MSG_DONTWAIT);

	if (!n)
		return fpisa_fail(-ECONNRESET, "the peer closed the connection; look in its log");
	if (n < 0)
		return c->session ? tls_failed(c, n) : lost(errno);
	c->in += (size_t)n;
	return 1;
}

/* -- messages --------------------------------------------------------------- */

static int new_channel(struct fpisa_channel **out, int fd, enum fpisa_manager_side side)
{
	struct fpisa_channel *c = calloc(1, sizeof(*c));

	if (!c) {
		close(fd);
		return fpisa_fail(-ENOMEM, "not enough memory for a connection; " FPISA_MORE_MEMORY);
	}
	c->fd = fd;
	c->side = side;
	c->check = fpisa_manager_check;
	*out = c;
	return 0;
}

int fpisa_channel_serve(struct fpisa_channel **c, int fd, const struct fpisa_psks *keys, int plain)
{
	int rc = new_channel(c, fd, FPISA_MANAGER_MANAGER);

	if (rc)
		return rc;
	(*c)->keys = keys;
	(*c)->plain = plain;
	return 0;
}

int fpisa_channel_call(struct fpisa_channel **c, int fd, const struct fpisa_psk *psk)
{
	int rc = new_channel(c, fd, FPISA_MANAGER_RANK);

	if (rc)
		return rc;
	(*c)->psk = psk;
	(*c)->state = OPEN;
	rc = psk ? start_tls(*c) : 0;
	if (rc) {
		fpisa_channel_close(*c);
		*c = NULL;
	}
	return rc;
}

void fpisa_channel_speak(struct fpisa_channel *c, fpisa_channel_check *check)
{
	c->check = check;
}

int fpisa_channel_fd(const struct fpisa_channel *c)
{
	return c->fd;
}

/*
 * Return the events for poll(). A handshake sends less than any socket buffer holds, so it only waits for data from the
 * other side.
 */
short fpisa_channel_events(const struct fpisa_channel *c)
{
	return (short)(POLLIN | (c->state == OPEN && c->out ? POLLOUT : 0));
}

int fpisa_channel_open(const struct fpisa_channel *c)
{
	return c->state == OPEN;
}

int fpisa_channel_half(const struct fpisa_channel *c)
{
	return c->state == OPEN && c->in;
}

int fpisa_channel_unread(const struct fpisa_channel *c)
{
	struct pollfd p = {.fd = c->fd, .events = POLLIN};

	return (c->session && c->tls->gnutls_record_check_pending(c->session)) || poll(&p, 1, 0) > 0;
}

int fpisa_channel_other_version(const struct fpisa_channel *c)
{
	return c->other_version;
}

const char *fpisa_channel_name(const struct fpisa_channel *c)
{
	return c->session ? c->peer.name : "";
}

int fpisa_channel_key_removed(const struct fpisa_channel *c)
{
	const struct fpisa_psk *now = c->session ? fpisa_psk_find(c->keys, c->identity) : NULL;

	return c->session && !(now && fpisa_psk_same(now, &c->peer));
}

const char *fpisa_channel_identity(const struct fpisa_channel *c)
{
	return c->identity;
}

int fpisa_channel_send(struct fpisa_channel *c, const struct fpisa_manager_message *m)
{
	if (c->out + sizeof(*m) > sizeof(c->queue))
		return fpisa_fail(-ENOBUFS, "the other side has not read its messages; is its process stopped?");
	memcpy(c->queue + c->out, m, sizeof(*m));
	c->out += sizeof(*m);
	return 0;
}

int fpisa_channel_greet(struct fpisa_channel *c)
{
	if (c->state == GREETING) {
		int rc = greet(c);

		if (rc)
			return rc;
	}
	return c->state == HANDSHAKE ? shake_hands(c) : 0;
}

int fpisa_channel_work(struct fpisa_channel *c, struct fpisa_manager_message *m)
{
	enum fpisa_manager_side other = c->side == FPISA_MANAGER_RANK ? FPISA_MANAGER_MANAGER : FPISA_MANAGER_RANK;
	enum fpisa_manager_reason reason;
	int rc = fpisa_channel_greet(c);

	if (rc || c->state != OPEN)
		return rc;
	rc = c->refused_in_clear ? 0 : fpisa_channel_flush(c);
	while (!rc && c->in < FPISA_MANAGER_BYTES) {
		rc = take(c);
		if (rc <= 0)
			return rc;
		rc = 0;
	}
	if (rc)
		return rc;
	c->in = 0;
	reason = c->check(&c->taken.message, other);
	c->other_version = reason == FPISA_MANAGER_R_version;
	/* In an unencrypted message, a manager may only say that it has no keys. */
	if (reason || (c->refused_in_clear && c->taken.message.type != FPISA_MANAGER_REFUSED))
		return fpisa_fail(-EPROTO, reason == FPISA_MANAGER_R_version ?
						   "the received message has another version of the protocol; "
						   "install one release on the aggregator and the workers" :
						   NO_MESSAGE);
	*m = c->taken.message;
	return 1;
}

int fpisa_channel_room(const struct fpisa_channel *c)
{
	return (int)((sizeof(c->queue) - c->out) / FPISA_MANAGER_BYTES);
}

int fpisa_channel_flushed(const struct fpisa_channel *c)
{
	return !c->out;
}

void fpisa_channel_forget(struct fpisa_channel *c)
{
	c->state = REFUSED;
}

void fpisa_channel_close(struct fpisa_channel *c)
{
	if (!c)
		return;
	if (c->session && c->state == OPEN && c->fd >= 0)
		c->tls->gnutls_bye(c->session, GNUTLS_SHUT_WR);
	end_tls(c);
	if (c->fd >= 0)
		close(c->fd);
	explicit_bzero(&c->taken, sizeof(c->taken));
	explicit_bzero(&c->peer, sizeof(c->peer));
	free(c);
}
