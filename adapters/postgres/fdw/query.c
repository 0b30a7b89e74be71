/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Run libfpisa queries in a session. This includes the key, the errors, and cancellation of the statement. */
#include "fdw.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"

#define TURN_MS 10 /* longest time in the library before the statement can be cancelled */
#define WAIT_MS 1000

static int sqlstate(int error)
{
	switch (-error) {
	case EACCES:
		return ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION;
	case ECONNREFUSED:
	case ECONNRESET:
	case ETIMEDOUT:
	case EHOSTUNREACH:
	case ENETUNREACH:
		return ERRCODE_CONNECTION_FAILURE;
	case ENOENT:
		return ERRCODE_FDW_TABLE_NOT_FOUND;
	case ENOMEM:
		return ERRCODE_OUT_OF_MEMORY;
	case EILSEQ:
		return ERRCODE_DATA_CORRUPTED;
	}
	return ERRCODE_FDW_ERROR;
}

void fdw_fail(int error)
{
	char *text = pstrdup(fpisa_query_error());

	/* A worker's error may quote any bytes of its file, but a client accepts only valid characters. */
	if (!pg_verifymbstr(text, (int)strlen(text), true))
		for (char *p = text; *p; p++)
			*p = IS_HIGHBIT_SET(*p) ? '?' : *p;
	ereport(ERROR, errcode(sqlstate(error)), errmsg("%s", text));
}

struct fpisa_query *fdw_open_query(const struct fpisa_query_options *wanted, const struct fdw_secrets *secrets,
				   int *error)
{
	struct fpisa_query_options o = *wanted;
	struct fpisa_query *q = NULL;

	o.size = sizeof(o);
	o.key = secrets->key;
	o.key_file = secrets->key_file;
	o.token = secrets->token;
	if (!secrets->key && !secrets->key_file)
		ereport(ERROR, errcode(ERRCODE_FDW_OPTION_NAME_NOT_FOUND), errmsg("the user mapping has no key"),
			errhint("Use ALTER USER MAPPING ... OPTIONS (ADD key '...')."));
	*error = fpisa_query_open(&q, &o);
	if (*error && *error != -EADDRINUSE)
		fdw_fail(*error);
	return q;
}

struct fpisa_query *fdw_ask(const struct fpisa_query_options *options, const struct fdw_secrets *secrets)
{
	int error;
	struct fpisa_query *q = fdw_open_query(options, secrets, &error);

	if (!q)
		fdw_fail(error);
	return q;
}

int fdw_wait_for(struct fpisa_query *q)
{
	int state = fpisa_query_work(q, 0);

	while (!state) {
		CHECK_FOR_INTERRUPTS();
		state = fpisa_query_work(q, TURN_MS);
		if (state)
			break;
		if (WaitLatchOrSocket(MyLatch, WL_LATCH_SET | WL_SOCKET_READABLE | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
				      fpisa_query_fd(q), WAIT_MS, PG_WAIT_EXTENSION) &
		    WL_LATCH_SET)
			ResetLatch(MyLatch);
	}
	return state;
}

int fdw_wait(struct fpisa_query *q)
{
	int state = fdw_wait_for(q);

	if (state < 0)
		fdw_fail(state);
	return state;
}
