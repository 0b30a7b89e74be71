/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
\echo Use "CREATE EXTENSION fpisa" to load this file. \quit

CREATE FUNCTION fpisa_real_add(internal, real) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION fpisa_real_remove(internal, real) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION fpisa_real_combine(internal, internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION fpisa_real_serialize(internal) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION fpisa_real_deserialize(bytea, internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION fpisa_real_sum(internal) RETURNS real
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION fpisa_real_avg(internal) RETURNS double precision
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

CREATE FUNCTION fpisa_double_add(internal, double precision) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION fpisa_double_remove(internal, double precision) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION fpisa_double_combine(internal, internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION fpisa_double_serialize(internal) RETURNS bytea
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION fpisa_double_deserialize(bytea, internal) RETURNS internal
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION fpisa_double_sum(internal) RETURNS double precision
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION fpisa_double_avg(internal) RETURNS double precision
	AS 'MODULE_PATHNAME' LANGUAGE C IMMUTABLE PARALLEL SAFE;

/*
 * SSPACE is the size of a state with three limbs, plus the allocator's overhead. Three limbs are sufficient for most
 * groups.
 */
CREATE AGGREGATE fpisa_sum(real) (
	STYPE = internal, SSPACE = 80, SFUNC = fpisa_real_add, FINALFUNC = fpisa_real_sum,
	COMBINEFUNC = fpisa_real_combine, SERIALFUNC = fpisa_real_serialize, DESERIALFUNC = fpisa_real_deserialize,
	MSTYPE = internal, MSSPACE = 80, MSFUNC = fpisa_real_add, MINVFUNC = fpisa_real_remove,
	MFINALFUNC = fpisa_real_sum, PARALLEL = SAFE
);
COMMENT ON AGGREGATE fpisa_sum(real) IS 'the exact sum, rounded once';

CREATE AGGREGATE fpisa_sum(double precision) (
	STYPE = internal, SSPACE = 80, SFUNC = fpisa_double_add, FINALFUNC = fpisa_double_sum,
	COMBINEFUNC = fpisa_double_combine, SERIALFUNC = fpisa_double_serialize, DESERIALFUNC = fpisa_double_deserialize,
	MSTYPE = internal, MSSPACE = 80, MSFUNC = fpisa_double_add, MINVFUNC = fpisa_double_remove,
	MFINALFUNC = fpisa_double_sum, PARALLEL = SAFE
);
COMMENT ON AGGREGATE fpisa_sum(double precision) IS 'the exact sum, rounded once';

CREATE AGGREGATE fpisa_avg(real) (
	STYPE = internal, SSPACE = 80, SFUNC = fpisa_real_add, FINALFUNC = fpisa_real_avg,
	COMBINEFUNC = fpisa_real_combine, SERIALFUNC = fpisa_real_serialize, DESERIALFUNC = fpisa_real_deserialize,
	MSTYPE = internal, MSSPACE = 80, MSFUNC = fpisa_real_add, MINVFUNC = fpisa_real_remove,
	MFINALFUNC = fpisa_real_avg, PARALLEL = SAFE
);
COMMENT ON AGGREGATE fpisa_avg(real) IS 'the exact average, rounded once';

CREATE AGGREGATE fpisa_avg(double precision) (
	STYPE = internal, SSPACE = 80, SFUNC = fpisa_double_add, FINALFUNC = fpisa_double_avg,
	COMBINEFUNC = fpisa_double_combine, SERIALFUNC = fpisa_double_serialize, DESERIALFUNC = fpisa_double_deserialize,
	MSTYPE = internal, MSSPACE = 80, MSFUNC = fpisa_double_add, MINVFUNC = fpisa_double_remove,
	MFINALFUNC = fpisa_double_avg, PARALLEL = SAFE
);
COMMENT ON AGGREGATE fpisa_avg(double precision) IS 'the exact average, rounded once';
