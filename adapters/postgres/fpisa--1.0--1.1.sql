/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
\echo Use "ALTER EXTENSION fpisa UPDATE TO '1.1'" to load this file. \quit

CREATE FUNCTION fpisa_real_partial(internal) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION fpisa_double_partial(internal) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION fpisa_real_expansion(internal) RETURNS real[]
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION fpisa_double_expansion(internal) RETURNS double precision[]
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION fpisa_bytes_add(internal, bytea) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION fpisa_real_terms_add(internal, real[]) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION fpisa_double_terms_add(internal, double precision[]) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE AGGREGATE fpisa_partial(real) (
	STYPE = internal, SSPACE = 80, SFUNC = fpisa_real_add, FINALFUNC = fpisa_real_partial,
	COMBINEFUNC = fpisa_real_combine, SERIALFUNC = fpisa_real_serialize, DESERIALFUNC = fpisa_real_deserialize,
	MSTYPE = internal, MSSPACE = 80, MSFUNC = fpisa_real_add, MINVFUNC = fpisa_real_remove, MFINALFUNC = fpisa_real_partial,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE fpisa_partial(real) IS 'the exact sum and its counts as bytes, for fpisa_merge()';

CREATE AGGREGATE fpisa_partial(double precision) (
	STYPE = internal, SSPACE = 80, SFUNC = fpisa_double_add, FINALFUNC = fpisa_double_partial,
	COMBINEFUNC = fpisa_double_combine, SERIALFUNC = fpisa_double_serialize, DESERIALFUNC = fpisa_double_deserialize,
	MSTYPE = internal, MSSPACE = 80, MSFUNC = fpisa_double_add, MINVFUNC = fpisa_double_remove, MFINALFUNC = fpisa_double_partial,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE fpisa_partial(double precision) IS 'the exact sum and its counts as bytes, for fpisa_merge()';

CREATE AGGREGATE fpisa_expansion(real) (
	STYPE = internal, SSPACE = 80, SFUNC = fpisa_real_add, FINALFUNC = fpisa_real_expansion,
	COMBINEFUNC = fpisa_real_combine, SERIALFUNC = fpisa_real_serialize, DESERIALFUNC = fpisa_real_deserialize,
	MSTYPE = internal, MSSPACE = 80, MSFUNC = fpisa_real_add, MINVFUNC = fpisa_real_remove, MFINALFUNC = fpisa_real_expansion,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE fpisa_expansion(real) IS 'values that add up to the exact sum, the first is the sum rounded';

CREATE AGGREGATE fpisa_expansion(double precision) (
	STYPE = internal, SSPACE = 80, SFUNC = fpisa_double_add, FINALFUNC = fpisa_double_expansion,
	COMBINEFUNC = fpisa_double_combine, SERIALFUNC = fpisa_double_serialize, DESERIALFUNC = fpisa_double_deserialize,
	MSTYPE = internal, MSSPACE = 80, MSFUNC = fpisa_double_add, MINVFUNC = fpisa_double_remove, MFINALFUNC = fpisa_double_expansion,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE fpisa_expansion(double precision) IS 'values that add up to the exact sum, the first is the sum rounded';

CREATE AGGREGATE fpisa_merge(bytea) (
	STYPE = internal, SSPACE = 80, SFUNC = fpisa_bytes_add, FINALFUNC = fpisa_double_partial,
	COMBINEFUNC = fpisa_double_combine, SERIALFUNC = fpisa_double_serialize, DESERIALFUNC = fpisa_double_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE fpisa_merge(bytea) IS 'one partial of many';

CREATE AGGREGATE fpisa_merge(real[]) (
	STYPE = internal, SSPACE = 80, SFUNC = fpisa_real_terms_add, FINALFUNC = fpisa_real_expansion,
	COMBINEFUNC = fpisa_real_combine, SERIALFUNC = fpisa_real_serialize, DESERIALFUNC = fpisa_real_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE fpisa_merge(real[]) IS 'one expansion of many';

CREATE AGGREGATE fpisa_merge(double precision[]) (
	STYPE = internal, SSPACE = 80, SFUNC = fpisa_double_terms_add, FINALFUNC = fpisa_double_expansion,
	COMBINEFUNC = fpisa_double_combine, SERIALFUNC = fpisa_double_serialize, DESERIALFUNC = fpisa_double_deserialize,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE fpisa_merge(double precision[]) IS 'one expansion of many';

CREATE FUNCTION fpisa_partial_rows(bytea) RETURNS bigint
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION fpisa_partial_rows(bytea) IS 'how many values a partial has';
CREATE FUNCTION fpisa_partial_sum(bytea) RETURNS double precision
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION fpisa_partial_sum(bytea) IS 'the sum that a partial has, rounded once';
CREATE FUNCTION fpisa_partial_sum_real(bytea) RETURNS real
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION fpisa_partial_sum_real(bytea) IS 'the sum that a partial has, rounded once';
CREATE FUNCTION fpisa_partial_avg(bytea) RETURNS double precision
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION fpisa_partial_avg(bytea) IS 'the average of a partial, rounded once';
