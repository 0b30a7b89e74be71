/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Create fpisa_sum8(real), the exact sum rounded to double precision. */
\echo Use "ALTER EXTENSION fpisa UPDATE" to load this file. \quit

CREATE FUNCTION fpisa_real_sum8(internal) RETURNS double precision
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE AGGREGATE fpisa_sum8(real) (
	STYPE = internal, SSPACE = 80, SFUNC = fpisa_real_add, FINALFUNC = fpisa_real_sum8,
	COMBINEFUNC = fpisa_real_combine, SERIALFUNC = fpisa_real_serialize, DESERIALFUNC = fpisa_real_deserialize,
	MSTYPE = internal, MSSPACE = 80, MSFUNC = fpisa_real_add, MINVFUNC = fpisa_real_remove,
	MFINALFUNC = fpisa_real_sum8, PARALLEL = SAFE
);
COMMENT ON AGGREGATE fpisa_sum8(real) IS 'the exact sum, rounded once to double precision';
