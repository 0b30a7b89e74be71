/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * libFuzzer target: columns, rows and errors that libfpisa gives to the foreign data wrapper
 * (adapters/postgres/fdw/values.c, query.c), with stand-ins for the server's functions. The input chooses a scan, the
 * columns of the answer, which may differ from those of the scan, and texts.
 *
 * For any input, a datum is made from the text of its own column, and is NULL exactly if the text is NULL. An error
 * message is in the server's encoding.
 */
#include "check.h"
#include "fdw/fdw.h"
#include <setjmp.h>
#include "catalog/pg_type_d.h"
#include "executor/tuptable.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "input.h"

#undef vsnprintf /* the server defines its own vsnprintf */

#define MOST 8 /* maximum number of columns in a scan */
#define TEXT 64
#define TABLE 1 /* Oid of the foreign table */

static struct input in;
static sigjmp_buf error;
static char message[2048];
static struct fpisa_query_column column[2 * MOST + 8];
static uint32 columns;
static const char *row[2 * MOST + 8];
static char texts[2 * MOST + 8][TEXT];
static Oid type_of[MOST + 1]; /* types of the table's columns, counted from 1 */
static bool sure[MOST + 1];   /* true for columns that are NOT NULL */
static void *allocated[4 * MOST + 16];
static size_t allocations;

/* -- the server's memory and errors ------------------------------------------------------- */

void *palloc0(Size n)
{
	CHECK(allocations < lengthof(allocated));
	return allocated[allocations++] = calloc(1, n + !n);
}

char *pstrdup(const char *text)
{
	return strcpy(palloc0(strlen(text) + 1), text);
}

static void forget(void)
{
	while (allocations)
		free(allocated[--allocations]);
}

bool errstart_cold(int level, const char *domain)
{
	(void)domain;
	CHECK(level == ERROR);
	*message = 0;
	return true;
}

int errcode(int state)
{
	CHECK(state);
	return 0;
}

int errmsg(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	return 0;
}

int errhint(const char *fmt, ...)
{
	CHECK(*fmt);
	return 0;
}

/* Check enough of UTF-8 to show whether the wrapper verifies a message. */
bool pg_verifymbstr(const char *text, int n, bool no_error)
{
	CHECK(no_error);
	for (int i = 0; i < n; i++) {
		int more = (unsigned char)text[i] >= 0xc2 && (unsigned char)text[i] < 0xe0;

		if ((unsigned char)text[i] >= 0x80 && (!more || (text[i + 1] & 0xc0) != 0x80))
			return false;
		i += more;
	}
	return true;
}

void errfinish(const char *file, int line, const char *function)
{
	CHECK(*file && line && *function && *message);
	CHECK(pg_verifymbstr(message, (int)strlen(message), true));
	siglongjmp(error, 1);
}

void float_overflow_error(void)
{
	siglongjmp(error, 1);
}

/* -- the server's catalog and types --------------------------------------------------------- */

Oid get_atttype(Oid table, AttrNumber number)
{
	CHECK(table == TABLE && number > 0 && number <= MOST);
	return type_of[number];
}

void get_atttypetypmodcoll(Oid table, AttrNumber number, Oid *type, int32 *typmod, Oid *collation)
{
	*type = get_atttype(table, number);
	*typmod = -1;
	*collation = InvalidOid;
}

bool fdw_not_null(Oid table, AttrNumber number)
{
	CHECK(table == TABLE && number > 0 && number <= MOST);
	return sure[number];
}

char *get_attname(Oid table, AttrNumber number, bool missing_ok)
{
	static char name[] = "c";

	CHECK(table == TABLE && number > 0 && number <= MOST && !missing_ok);
	return name;
}

char *format_type_be(Oid type)
{
	return pstrdup(type ? "a type" : "???");
}

char *format_type_with_typemod(Oid type, int32 typmod)
{
	CHECK(typmod == -1);
	return format_type_be(type);
}

char *psprintf(const char *format, ...)
{
	(void)format;
	return pstrdup("numeric(1,0)");
}

void getTypeInputInfo(Oid type, Oid *function, Oid *io_param)
{
	*function = *io_param = type;
}

void fmgr_info(Oid function, FmgrInfo *info)
{
	info->fn_oid = function;
}

bool list_member_int(const List *list, int x)
{
	for (int i = 0; i < list_length(list); i++)
		if (list->elements[i].int_value == x)
			return true;
	return false;
}

char *pg_any_to_server(const char *text, int n, int encoding)
{
	CHECK(encoding == PG_UTF8);
	if (!pg_verifymbstr(text, n, true))
		siglongjmp(error, 1);
	return unconstify(char *, text);
}

/* Return a datum that holds the text. */
Datum InputFunctionCall(FmgrInfo *info, char *text, Oid io_param, int32 modifier)
{
	CHECK(info->fn_oid == io_param && modifier == -1);
	if (io_param == TEXTOID ||
	    (io_param != FLOAT4OID && io_param != FLOAT8OID && *text && strspn(text, "-0123456789") == strlen(text)))
		return PointerGetDatum(text);
	siglongjmp(error, 1);
}

TupleTableSlot *ExecStoreVirtualTuple(TupleTableSlot *slot)
{
	slot->tts_flags = 1;
	return slot;
}

/* -- the library ---------------------------------------------------------------------------- */

uint32_t fpisa_query_precision(const struct fpisa_query *q, uint32_t i, uint32_t *scale)
{
	(void)q;
	CHECK(i < columns);
	*scale = 0;
	return column[i].type == FPISA_COLUMN_DECIMAL;
}

uint32_t fpisa_query_columns(const struct fpisa_query *q, const struct fpisa_query_column **c)
{
	(void)q;
	*c = column;
	return columns;
}

const char *fpisa_query_error(void)
{
	return *texts[0] ? texts[0] : "failed";
}

/* Variables of query.c's wait, which this program replaces */
volatile sig_atomic_t InterruptPending;
struct Latch *MyLatch;

void ProcessInterrupts(void)
{
}

void ResetLatch(Latch *latch)
{
	(void)latch;
}

int WaitLatchOrSocket(Latch *latch, int events, pgsocket fd, long timeout, uint32 event)
{
	(void)latch;
	(void)fd;
	(void)timeout;
	(void)event;
	return events & WL_SOCKET_READABLE;
}

int fpisa_query_fd(const struct fpisa_query *q)
{
	(void)q;
	return -1;
}

/* Return the state that the input chooses. */
int fpisa_query_work(struct fpisa_query *q, int timeout_ms)
{
	(void)q;
	(void)timeout_ms;
	return in.left ? (int8)input_byte(&in) % 3 : -ECONNRESET;
}

int fpisa_query_open(struct fpisa_query **q, const struct fpisa_query_options *o)
{
	(void)q;
	CHECK(o->size == sizeof(*o) && (o->key || o->key_file));
	return in.left ? -(int)input_byte(&in) : 0;
}

/* -- a scan and its answer ------------------------------------------------------------------- */

static List *list_of(const int *values, int n)
{
	List *l = n ? palloc0(offsetof(List, initial_elements) + sizeof(ListCell) * (size_t)n) : NIL;

	if (!l)
		return NIL;
	l->type = T_IntList;
	l->length = l->max_length = n;
	l->elements = l->initial_elements;
	for (int i = 0; i < n; i++)
		l->elements[i].int_value = values[i];
	return l;
}

static Oid any_type(void)
{
	static const Oid types[] = {FLOAT4OID, FLOAT8OID, INT4OID, INT8OID, TEXTOID, DATEOID};

	return types[input_byte(&in) % lengthof(types)];
}

/* Return the number of the answer's columns after the keys of groups. */
static int aggregates(const struct fdw_scan *s)
{
	return s->shape.aggregated ? 1 + FDW_AGGREGATES * list_length(s->shape.aggregated) :
	       s->shape.value	   ? FDW_AGGREGATES :
				     1;
}

static void begin_scan(struct fdw_scan *s)
{
	uint8 kind = input_byte(&in);
	int n = input_byte(&in) % MOST, by = input_byte(&in) % 4, outputs[MOST], keys[4], aggregated[] = {1, 2};

	*s = (struct fdw_scan){.table = TABLE,
			       .shape = {.kind = kind & 1 ? FDW_TABLE : FDW_SCAN, .value = kind & 2 ? 1 : 0}};
	if ((kind & 7) == 5)
		s->shape.aggregated = list_of(aggregated, 2);
	for (int i = 1; i <= MOST; i++) {
		type_of[i] = any_type();
		sure[i] = input_byte(&in) & 1;
	}
	for (int i = 0; i < by; i++)
		keys[i] = 1 + input_byte(&in) % MOST;
	for (int i = 0; i < n; i++) {
		int which = input_byte(&in);

		/* Each column of a row is read once. */
		outputs[i] = s->shape.kind != FDW_TABLE ? i + 1 :
			     which & 0x80 || !by	? FDW_COUNT - which % aggregates(s) :
							  which % by;
	}
	s->shape.by = s->shape.kind == FDW_TABLE ? list_of(keys, by) : NIL;
	s->shape.outputs = list_of(outputs, n);
}

/* Choose the answer's columns: the requested number or another, with any types. */
static void begin_answer(const struct fdw_scan *s)
{
	uint8 how = input_byte(&in);

	columns = (uint32)(s->shape.kind == FDW_TABLE ? list_length(s->shape.by) + aggregates(s) :
							list_length(s->shape.outputs));
	if (how >= 0xf0)
		columns = how & 15;
	for (uint32 i = 0; i < columns; i++) {
		uint8 type = input_byte(&in);

		column[i] = (struct fpisa_query_column){.name = "c", .type = type & 7, .not_null = type >> 7};
	}
}

static void any_text(uint32 i)
{
	static const char *const some[] = {"1", "-2.5e3", "nan", "inf", "-Infinity", "1e99", "0x10", " 1"};
	uint8 how = input_byte(&in);

	row[i] = texts[i];
	memset(texts[i], 0, TEXT);
	if (how >= 0xf0)
		row[i] = NULL;
	else if (how >= 0x80)
		strcpy(texts[i], some[how & 7]);
	else
		input_take(&in, texts[i], how % TEXT);
}

static void check_datum(const struct fdw_scan *s, const TupleTableSlot *slot, int i)
{
	int output = s->shape.outputs->elements[i].int_value, keys = list_length(s->shape.by);
	const char *text = row[s->shape.kind == FDW_TABLE ? (output >= 0 ? output : keys - 1 - output) : i];
	int to = s->shape.kind == FDW_TABLE ? i : output - 1;
	Oid type = TupleDescAttr(slot->tts_tupleDescriptor, to)->atttypid;

	CHECK(slot->tts_isnull[to] == !text);
	if (s->shape.kind != FDW_TABLE || output >= 0)
		CHECK(text || !sure[s->shape.kind != FDW_TABLE ? output : s->shape.by->elements[output].int_value]);
	if (text && type == FLOAT4OID) {
		float x = DatumGetFloat4(slot->tts_values[to]), y = strtof(text, NULL);

		CHECK(!memcmp(&x, &y, sizeof(x)));
	} else if (text && type == FLOAT8OID) {
		double x = DatumGetFloat8(slot->tts_values[to]), y = strtod(text, NULL);

		CHECK(!memcmp(&x, &y, sizeof(x)));
	} else if (text) {
		CHECK(DatumGetPointer(slot->tts_values[to]) == text);
	}
}

static void take_row(const struct fdw_scan *s, TupleTableSlot *slot)
{
	for (uint32 i = 0; i < columns; i++)
		any_text(i);
	slot->tts_flags = 0;
	memset(slot->tts_values, 0x5a, sizeof(Datum) * MOST);
	if (sigsetjmp(error, 0))
		return;
	fdw_store_row(s, row, slot);
	CHECK(slot->tts_flags);
	for (int i = 0; i < list_length(s->shape.outputs); i++)
		check_datum(s, slot, i);
}

static void wait_for_it(const struct fdw_secrets *secrets)
{
	const struct fpisa_query_options o = {.timeout_ms = 1};
	int rc;

	if (sigsetjmp(error, 0))
		return;
	fdw_open_query(&o, secrets, &rc);
	CHECK(!rc || rc == -EADDRINUSE);
	CHECK(fdw_wait(NULL) > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static union {
		struct TupleDescData d;
		char room[sizeof(struct TupleDescData) + MOST * sizeof(FormData_pg_attribute)];
	} description;
	static Datum values[MOST];
	static bool nulls[MOST];
	TupleTableSlot slot = {.tts_tupleDescriptor = &description.d, .tts_values = values, .tts_isnull = nulls};
	ForeignScanState node = {.ss.ss_ScanTupleSlot = &slot};
	struct fdw_scan s;

	in = (struct input){data, size};
	any_text(0);
	wait_for_it(&(struct fdw_secrets){.key = input_byte(&in) ? "a:1:2" : NULL});
	begin_scan(&s);
	description.d.natts = MOST;
	for (int i = 0; i < MOST; i++) {
		TupleDescAttr(&description.d, i)->atttypid = any_type();
		TupleDescAttr(&description.d, i)->atttypmod = -1;
	}
	if (!sigsetjmp(error, 0)) {
		fdw_prepare_columns(&node, &s);
		begin_answer(&s);
		if (s.shape.kind == FDW_TABLE)
			fdw_check_types(&s);
		while (in.left && columns)
			take_row(&s, &slot);
	}
	forget();
	return 0;
}
