/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Create the foreign data wrapper (doc/fdw.md), which is in a separate library. */
\echo Use "ALTER EXTENSION fpisa UPDATE" to load this file. \quit

CREATE FUNCTION fpisa_fdw_handler() RETURNS fdw_handler
    LANGUAGE c STRICT AS '$libdir/fpisa_fdw';
CREATE FUNCTION fpisa_fdw_validator(text[], oid) RETURNS void
    LANGUAGE c STRICT AS '$libdir/fpisa_fdw';
CREATE FOREIGN DATA WRAPPER fpisa HANDLER fpisa_fdw_handler VALIDATOR fpisa_fdw_validator;
COMMENT ON FOREIGN DATA WRAPPER fpisa IS 'tables whose rows lie at workers, pruned and added up in the network';
