/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The parts of version 1.0 of ADBC (arrow.apache.org/adbc) that programs of queries use. ADBC defines the layouts and
 * names.
 */
#ifndef FPISA_QUERY_ADBC_H
#define FPISA_QUERY_ADBC_H

#include <stddef.h>
#include <stdint.h>

#include "query/lib/arrow.h"

#define ADBC_VERSION_1_0_0 1000000
#define ADBC_STATUS_OK 0
#define ADBC_ENTRY "AdbcDriverInit"
#define ADBC_INGEST_OPTION_TARGET_TABLE "adbc.ingest.target_table"

typedef uint8_t AdbcStatusCode;

struct AdbcError {
	char *message;
	int32_t vendor_code;
	char sqlstate[5];
	void (*release)(struct AdbcError *);
	void *private_data, *private_driver; /* since version 1.1 */
};

struct AdbcDatabase {
	void *private_data, *private_driver;
};

struct AdbcConnection {
	void *private_data, *private_driver;
};

struct AdbcStatement {
	void *private_data, *private_driver;
};

/* A function that this program does not use has the type of `unused`. */
struct AdbcDriver {
	void *private_data, *private_manager;
	AdbcStatusCode (*release)(struct AdbcDriver *, struct AdbcError *);
	AdbcStatusCode (*DatabaseInit)(struct AdbcDatabase *, struct AdbcError *);
	AdbcStatusCode (*DatabaseNew)(struct AdbcDatabase *, struct AdbcError *);
	AdbcStatusCode (*DatabaseSetOption)(struct AdbcDatabase *, const char *, const char *, struct AdbcError *);
	AdbcStatusCode (*DatabaseRelease)(struct AdbcDatabase *, struct AdbcError *);
	void (*unused_connection[5])(void);
	AdbcStatusCode (*ConnectionInit)(struct AdbcConnection *, struct AdbcDatabase *, struct AdbcError *);
	AdbcStatusCode (*ConnectionNew)(struct AdbcConnection *, struct AdbcError *);
	void (*unused_option[2])(void);
	AdbcStatusCode (*ConnectionRelease)(struct AdbcConnection *, struct AdbcError *);
	void (*unused_bind[2])(void);
	AdbcStatusCode (*StatementBindStream)(struct AdbcStatement *, struct ArrowArrayStream *, struct AdbcError *);
	AdbcStatusCode (*StatementExecuteQuery)(struct AdbcStatement *, struct ArrowArrayStream *, int64_t *,
						struct AdbcError *);
	void (*unused_partitions[2])(void);
	AdbcStatusCode (*StatementNew)(struct AdbcConnection *, struct AdbcStatement *, struct AdbcError *);
	void (*unused_prepare)(void);
	AdbcStatusCode (*StatementRelease)(struct AdbcStatement *, struct AdbcError *);
	AdbcStatusCode (*StatementSetOption)(struct AdbcStatement *, const char *, const char *, struct AdbcError *);
	AdbcStatusCode (*StatementSetSqlQuery)(struct AdbcStatement *, const char *, struct AdbcError *);
	void (*unused_plan)(void);
	void (*unused_later[64])(void); /* room for drivers that fill in the struct of a later version */
};

typedef AdbcStatusCode (*AdbcDriverInitFunc)(int version, void *driver, struct AdbcError *);

#endif
