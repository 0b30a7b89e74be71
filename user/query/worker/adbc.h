/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The parts of two public C interfaces that the worker uses. These are the Arrow C data and stream interface
 * (arrow.apache.org/docs/format/CDataInterface.html), and version 1.0 of ADBC (arrow.apache.org/adbc). The interfaces
 * define the layouts and names.
 */
#ifndef FPISA_QUERY_ADBC_H
#define FPISA_QUERY_ADBC_H

#include <stddef.h>
#include <stdint.h>

struct ArrowSchema {
	const char *format, *name, *metadata;
	int64_t flags, n_children;
	struct ArrowSchema **children, *dictionary;
	void (*release)(struct ArrowSchema *);
	void *private_data;
};

struct ArrowArray {
	int64_t length, null_count, offset, n_buffers, n_children;
	const void **buffers;
	struct ArrowArray **children, *dictionary;
	void (*release)(struct ArrowArray *);
	void *private_data;
};

struct ArrowArrayStream {
	int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *);
	int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *); /* NULL at the end of the stream */
	const char *(*get_last_error)(struct ArrowArrayStream *);
	void (*release)(struct ArrowArrayStream *);
	void *private_data;
};

#define ADBC_VERSION_1_0_0 1000000
#define ADBC_STATUS_OK 0

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
	void (*unused_bind[3])(void);
	AdbcStatusCode (*StatementExecuteQuery)(struct AdbcStatement *, struct ArrowArrayStream *, int64_t *,
						struct AdbcError *);
	void (*unused_partitions[2])(void);
	AdbcStatusCode (*StatementNew)(struct AdbcConnection *, struct AdbcStatement *, struct AdbcError *);
	void (*unused_prepare)(void);
	AdbcStatusCode (*StatementRelease)(struct AdbcStatement *, struct AdbcError *);
	void (*unused_statement_option)(void);
	AdbcStatusCode (*StatementSetSqlQuery)(struct AdbcStatement *, const char *, struct AdbcError *);
	void (*unused_plan)(void);
	void (*unused_later[64])(void); /* room for drivers that fill in the struct of a later version */
};

typedef AdbcStatusCode (*AdbcDriverInitFunc)(int version, void *driver, struct AdbcError *);

#endif
