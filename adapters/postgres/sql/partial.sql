-- The bytes of a partial depend only on the values.
SELECT fpisa_partial(x) FROM (VALUES (1::real), (-2.5)) t(x);
SELECT fpisa_partial(x ORDER BY x) = fpisa_partial(y ORDER BY y DESC) FROM (VALUES (1e30::real, 1e30::real::float8), (1, 1), (-1e30, -1e30::real)) t(x, y);
SELECT fpisa_partial(x) FROM (VALUES (NULL::real)) t(x);
SELECT fpisa_partial(x) FROM (VALUES ('NaN'::real), ('Infinity'), (0)) t(x);
SELECT i, fpisa_partial(x) OVER (ORDER BY i ROWS 1 PRECEDING) FROM (VALUES (1, 1::real), (2, 2), (3, -2)) t(i, x);
-- Partials of both types merge.
CREATE TABLE parts AS SELECT g, fpisa_partial(x) AS p, fpisa_expansion(x) AS e
	FROM (VALUES (1, 1e30::real), (1, 1), (2, -1e30), (2, 0.1), (3, NULL)) t(g, x) GROUP BY g;
SELECT g, fpisa_partial_rows(p), fpisa_partial_sum(p), fpisa_partial_sum_real(p), fpisa_partial_avg(p), e FROM parts ORDER BY g;
SELECT fpisa_partial_sum(m), fpisa_partial_sum_real(m), fpisa_partial_avg(m), fpisa_partial_rows(m), fpisa_merge
	FROM (SELECT fpisa_merge(p) AS m, fpisa_merge(e) FROM parts) q;
SELECT fpisa_partial_sum(fpisa_merge(p)) FROM (SELECT p FROM parts UNION ALL SELECT fpisa_partial(1e-300::float8)) q WHERE p IS NOT NULL;
SELECT fpisa_merge(p), fpisa_merge(e) FROM parts WHERE g = 3;
SELECT fpisa_merge(p) FROM (VALUES ('\x46530100000000000000000000000000'::bytea)) t(p);
-- An expansion is a list of values that add up to the sum. The first value is the rounded sum.
SELECT fpisa_expansion(x) FROM (VALUES (1::real), (1e-10), (1e-20)) t(x);
SELECT fpisa_expansion(x) FROM (VALUES (1::float8), (1e-40)) t(x);
SELECT fpisa_expansion(x) FROM (VALUES (1::real), (-1)) t(x);
SELECT fpisa_expansion(x) FROM (VALUES ('Infinity'::real), (1)) t(x);
SELECT fpisa_expansion(x) FROM (VALUES (3e38::real), (3e38)) t(x);
SELECT fpisa_merge(ARRAY[1, NULL]::real[]);
SELECT fpisa_merge('{}'::real[]);
-- Inputs that are not partials.
SELECT fpisa_merge(''::bytea);
SELECT fpisa_merge('\x465301'::bytea);
SELECT fpisa_merge('\x00530101ffff0000020000000000000003'::bytea);
SELECT fpisa_merge('\x46530201ffff0000020000000000000003'::bytea);
SELECT fpisa_merge('\x46530104ffff0000020000000000000003'::bytea);
SELECT fpisa_merge('\x46530102ffff0000020000000000000003'::bytea);
SELECT fpisa_partial_avg('\x4653010100100000020000000000000003'::bytea);
SELECT fpisa_partial_sum('\x46530101ffff0000000000000000000003'::bytea);
SELECT fpisa_partial_sum_real('\x465301000001000001000000000000000101'::bytea);
SELECT fpisa_merge(p) FROM (VALUES ('\x46530100000000000000000000000040'::bytea), ('\x46530100000000000000000000000040')) t(p);
DROP TABLE parts;
