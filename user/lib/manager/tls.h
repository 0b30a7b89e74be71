/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* GnuTLS, loaded when the first connection with a key is opened, so programs without groups do not need it. */
#ifndef FPISA_MANAGER_TLS_H
#define FPISA_MANAGER_TLS_H

#include <gnutls/gnutls.h>

#define FPISA_TLS_FUNCTIONS(X)                        \
	X(gnutls_init)                                \
	X(gnutls_deinit)                              \
	X(gnutls_bye)                                 \
	X(gnutls_handshake)                           \
	X(gnutls_alert_send_appropriate)              \
	X(gnutls_record_send)                         \
	X(gnutls_record_recv)                         \
	X(gnutls_record_check_pending)                \
	X(gnutls_priority_set_direct)                 \
	X(gnutls_credentials_set)                     \
	X(gnutls_session_set_ptr)                     \
	X(gnutls_session_get_ptr)                     \
	X(gnutls_transport_set_ptr)                   \
	X(gnutls_transport_set_pull_function)         \
	X(gnutls_transport_set_push_function)         \
	X(gnutls_transport_set_errno)                 \
	X(gnutls_psk_allocate_client_credentials)     \
	X(gnutls_psk_set_client_credentials)          \
	X(gnutls_psk_free_client_credentials)         \
	X(gnutls_psk_allocate_server_credentials)     \
	X(gnutls_psk_set_server_credentials_function) \
	X(gnutls_psk_free_server_credentials)         \
	X(gnutls_psk_server_get_username)             \
	X(gnutls_error_is_fatal)                      \
	X(gnutls_strerror)                            \
	X(gnutls_malloc)

struct fpisa_tls {
#define X(name) __typeof__(&name) name;
	FPISA_TLS_FUNCTIONS(X)
#undef X
};

/*
 * Return the functions, which are loaded once per process. Return NULL with the message set if GnuTLS is not installed,
 * or cannot be opened.
 */
const struct fpisa_tls *fpisa_tls(void);
int fpisa_tls_load(void); /* return 0, or a negative errno with the message set */

/*
 * Priorities for TLS 1.3 alone, with a pre-shared key, an ephemeral Diffie-Hellman exchange, and cipher suites with the
 * hash of the key.
 */
#define FPISA_TLS_PRIORITY                                                                              \
	"NORMAL:-VERS-ALL:+VERS-TLS1.3:-KX-ALL:+ECDHE-PSK:-CIPHER-ALL:+AES-128-GCM:+CHACHA20-POLY1305:" \
	"-GROUP-ALL:+GROUP-X25519:+GROUP-SECP256R1"

#endif
