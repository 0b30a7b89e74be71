/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A stand-in for GnuTLS with the same contracts but without cryptography, to test its caller
 * user/lib/manager/channel.c.
 *
 * A rank's handshake is 0x16, the length of an identity, the identity, and SECRET bytes of the key. A manager's
 * handshake is 0x16 alone. A length from 0xf0 on is an error. Records follow in both directions: 0x17, a length of 2
 * bytes and the content, or 0x15 and an error.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include "lib/manager/tls.h"
#include "tls_fake.h"

#define SECRET TLS_FAKE_SECRET
#define RECORD_MOST 400 /* bytes that the stand-in sends in a record */
#define HANDSHAKE_MOST (2 + 256 + SECRET)

struct gnutls_session_int {
	unsigned int flags;
	void *owner, *transport;
	gnutls_pull_func pull;
	gnutls_push_func push;
	void *credentials;
	int pull_error, greeted, open;
	uint8_t hello[HANDSHAKE_MOST], head[3];
	size_t n_hello, n_head;
	size_t record; /* bytes of the current record that have not arrived */
	uint8_t out[3 + RECORD_MOST];
	size_t n_out, out_at, accepted; /* `accepted`: the caller's bytes in the waiting record */
};

struct gnutls_psk_server_credentials_st {
	gnutls_psk_server_credentials_function *find;
};

struct gnutls_psk_client_credentials_st {
	char identity[256];
};

struct tls_fake tls_fake;

/* -- bytes ------------------------------------------------------------------------------- */

static ssize_t blocked(const struct gnutls_session_int *s, int error)
{
	return s->pull_error == EAGAIN || s->pull_error == EINTR ? GNUTLS_E_AGAIN : error;
}

/* Fill `to` up to `n` bytes, of which the first *has are present. Return 1, or an error. */
static ssize_t fill(struct gnutls_session_int *s, uint8_t *to, size_t *has, size_t n)
{
	while (*has < n) {
		ssize_t got;

		s->pull_error = 0;
		got = s->pull(s->transport, to + *has, n - *has);
		if (got < 0)
			return blocked(s, GNUTLS_E_PULL_ERROR);
		if (!got)
			return GNUTLS_E_PREMATURE_TERMINATION;
		*has += (size_t)got;
	}
	return 1;
}

static int error_of(uint8_t which)
{
	static const int errors[] = {GNUTLS_E_WARNING_ALERT_RECEIVED, GNUTLS_E_FATAL_ALERT_RECEIVED,
				     GNUTLS_E_DECRYPTION_FAILED,      GNUTLS_E_UNEXPECTED_PACKET_LENGTH,
				     GNUTLS_E_PREMATURE_TERMINATION,  GNUTLS_E_INTERRUPTED,
				     GNUTLS_E_UNEXPECTED_PACKET,      GNUTLS_E_INSUFFICIENT_CREDENTIALS};

	return errors[which % 8];
}

/* Send the waiting bytes. Return 1, or an error. */
static ssize_t drain(struct gnutls_session_int *s)
{
	while (s->out_at < s->n_out) {
		ssize_t n;

		s->pull_error = 0;
		n = s->push(s->transport, s->out + s->out_at, s->n_out - s->out_at);
		if (n < 0)
			return blocked(s, GNUTLS_E_PUSH_ERROR);
		s->out_at += (size_t)n;
	}
	s->n_out = s->out_at = 0;
	return 1;
}

/* -- the handshake ------------------------------------------------------------------------ */

static int proven(struct gnutls_session_int *s, const char *identity, const uint8_t *secret)
{
	struct gnutls_psk_server_credentials_st *c = s->credentials;
	gnutls_datum_t key = {.size = 0};
	int known = 0;

	if (c->find(s, identity, &key))
		return 0;
	if (key.size != 32)
		abort();
	for (size_t i = 0; i < tls_fake.n_known; i++)
		known |= !memcmp(tls_fake.known[i], key.data, SECRET) && !memcmp(secret, key.data, SECRET);
	free(key.data);
	return known;
}

/* Perform the handshake on the manager's side. */
static int greet_client(struct gnutls_session_int *s)
{
	char identity[256];
	size_t n;
	ssize_t rc = fill(s, s->hello, &s->n_hello, 2);

	if (rc < 0)
		return (int)rc;
	if (s->hello[0] != 0x16 || s->hello[1] >= 0xf0)
		return error_of(s->hello[1]);
	n = s->hello[1];
	rc = fill(s, s->hello, &s->n_hello, 2 + n + SECRET);
	if (rc < 0)
		return (int)rc;
	memcpy(identity, s->hello + 2, n);
	identity[n] = 0;
	if (!proven(s, identity, s->hello + 2 + n))
		return GNUTLS_E_DECRYPTION_FAILED;
	tls_fake.proven++;
	return 0;
}

/* Perform the handshake on the rank's side. */
static int greet_manager(struct gnutls_session_int *s)
{
	ssize_t rc;

	if (!s->greeted) {
		s->greeted = 1;
		s->out[0] = 0x16;
		s->n_out = 1;
	}
	rc = drain(s);
	if (rc > 0)
		rc = fill(s, s->hello, &s->n_hello, 2);
	if (rc < 0)
		return (int)rc;
	return s->hello[0] != 0x16 || s->hello[1] >= 0xf0 ? error_of(s->hello[1]) : 0;
}

static int handshake(gnutls_session_t s)
{
	int rc;

	if (s->open || !s->credentials)
		abort();
	rc = s->flags & GNUTLS_SERVER ? greet_client(s) : greet_manager(s);
	s->open = !rc;
	return rc;
}

/* -- records ------------------------------------------------------------------------------- */

static ssize_t record_recv(gnutls_session_t s, void *to, size_t size)
{
	size_t got = 0;
	ssize_t rc = 1;

	if (!s->open)
		abort();
	if (!s->record) {
		rc = fill(s, s->head, &s->n_head, s->head[0] == 0x15 && s->n_head ? 2 : 3);
		if (rc < 0)
			return rc == GNUTLS_E_PREMATURE_TERMINATION && !s->n_head ? 0 : rc;
		s->n_head = 0;
		if (s->head[0] != 0x17)
			return s->head[1] & 8 ? 0 : error_of(s->head[1]);
		s->record = s->head[1] | (size_t)s->head[2] << 8;
		if (!s->record)
			return GNUTLS_E_AGAIN;
	}
	rc = fill(s, to, &got, s->record < size ? s->record : size);
	s->record -= got;
	return got ? (ssize_t)got : rc;
}

static size_t record_pending(gnutls_session_t s)
{
	if (!s->open)
		abort();
	return 0; /* a record is read from the socket only on demand */
}

/* Behave like GnuTLS: keep accepted bytes that cannot be sent yet. The next call asks for them with NULL. */
static ssize_t record_send(gnutls_session_t s, const void *bytes, size_t n)
{
	ssize_t rc;

	if (!s->open || !bytes != !n || (s->n_out != 0) != !bytes)
		abort();
	if (bytes) {
		n = n < RECORD_MOST ? n : RECORD_MOST;
		s->out[0] = 0x17;
		s->out[1] = (uint8_t)n;
		s->out[2] = (uint8_t)(n >> 8);
		memcpy(s->out + 3, bytes, n);
		s->n_out = 3 + n;
		s->accepted = n;
	}
	rc = drain(s);
	return rc < 0 ? rc : (ssize_t)s->accepted;
}

/* -- other functions ------------------------------------------------------------------------- */

static int init(gnutls_session_t *s, unsigned int flags)
{
	*s = calloc(1, sizeof(**s));
	if (!*s)
		abort();
	(*s)->flags = flags;
	tls_fake.sessions++;
	return 0;
}

static void deinit(gnutls_session_t s)
{
	tls_fake.sessions--;
	free(s);
}

static int bye(gnutls_session_t s, gnutls_close_request_t how)
{
	return s->open && how == GNUTLS_SHUT_WR ? 0 : GNUTLS_E_INVALID_SESSION;
}

static int alert(gnutls_session_t s, int error)
{
	return s->open || error >= 0 ? GNUTLS_E_INVALID_REQUEST : 0;
}

static int priority(gnutls_session_t s, const char *text, const char **at)
{
	(void)at;
	return s && *text ? 0 : GNUTLS_E_INVALID_REQUEST;
}

static int credentials_set(gnutls_session_t s, gnutls_credentials_type_t type, void *c)
{
	s->credentials = type == GNUTLS_CRD_PSK ? c : NULL;
	return 0;
}

static void set_ptr(gnutls_session_t s, void *p)
{
	s->owner = p;
}

static void *get_ptr(gnutls_session_t s)
{
	return s->owner;
}

static void transport_set_ptr(gnutls_session_t s, gnutls_transport_ptr_t p)
{
	s->transport = p;
}

static void set_pull(gnutls_session_t s, gnutls_pull_func f)
{
	s->pull = f;
}

static void set_push(gnutls_session_t s, gnutls_push_func f)
{
	s->push = f;
}

static void set_errno(gnutls_session_t s, int error)
{
	s->pull_error = error;
}

static int new_client(gnutls_psk_client_credentials_t *c)
{
	*c = calloc(1, sizeof(**c));
	return *c ? 0 : GNUTLS_E_MEMORY_ERROR;
}

static int set_client(gnutls_psk_client_credentials_t c, const char *identity, const gnutls_datum_t *key,
		      gnutls_psk_key_flags flags)
{
	if (key->size != 32 || flags != GNUTLS_PSK_KEY_RAW || strlen(identity) >= sizeof(c->identity))
		abort();
	strcpy(c->identity, identity);
	return 0;
}

static void free_client(gnutls_psk_client_credentials_t c)
{
	free(c);
}

static int new_server(gnutls_psk_server_credentials_t *c)
{
	*c = calloc(1, sizeof(**c));
	return *c ? 0 : GNUTLS_E_MEMORY_ERROR;
}

static void set_server(gnutls_psk_server_credentials_t c, gnutls_psk_server_credentials_function *f)
{
	c->find = f;
}

static void free_server(gnutls_psk_server_credentials_t c)
{
	free(c);
}

static const char *username(gnutls_session_t s)
{
	return s->owner ? "" : NULL;
}

static int is_fatal(int error)
{
	return error != GNUTLS_E_AGAIN && error != GNUTLS_E_INTERRUPTED && error != GNUTLS_E_WARNING_ALERT_RECEIVED;
}

static const char *text_of(int error)
{
	return error ? "an error" : "none";
}

static gnutls_alloc_function allocate = malloc;

static const struct fpisa_tls functions = {
	.gnutls_init = init,
	.gnutls_deinit = deinit,
	.gnutls_bye = bye,
	.gnutls_handshake = handshake,
	.gnutls_alert_send_appropriate = alert,
	.gnutls_record_send = record_send,
	.gnutls_record_recv = record_recv,
	.gnutls_record_check_pending = record_pending,
	.gnutls_priority_set_direct = priority,
	.gnutls_credentials_set = credentials_set,
	.gnutls_session_set_ptr = set_ptr,
	.gnutls_session_get_ptr = get_ptr,
	.gnutls_transport_set_ptr = transport_set_ptr,
	.gnutls_transport_set_pull_function = set_pull,
	.gnutls_transport_set_push_function = set_push,
	.gnutls_transport_set_errno = set_errno,
	.gnutls_psk_allocate_client_credentials = new_client,
	.gnutls_psk_set_client_credentials = set_client,
	.gnutls_psk_free_client_credentials = free_client,
	.gnutls_psk_allocate_server_credentials = new_server,
	.gnutls_psk_set_server_credentials_function = set_server,
	.gnutls_psk_free_server_credentials = free_server,
	.gnutls_psk_server_get_username = username,
	.gnutls_error_is_fatal = is_fatal,
	.gnutls_strerror = text_of,
	.gnutls_malloc = &allocate,
};

const struct fpisa_tls *fpisa_tls(void)
{
	return &functions;
}

int fpisa_tls_load(void)
{
	return 0;
}
