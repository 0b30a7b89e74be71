-- Sums and averages are rounded once, in whatever order the rows come.
CREATE TABLE v (i int, x real, y double precision);
INSERT INTO v VALUES (1, 1e30, 1e300), (2, 1, 1), (3, -1e30, -1e300), (4, NULL, NULL), (5, 0.1, 0.1);
SELECT fpisa_sum(x), fpisa_sum(y), fpisa_avg(x), fpisa_avg(y) FROM v;
SELECT fpisa_sum(x ORDER BY i DESC), fpisa_sum(y ORDER BY x) FROM v;
SELECT i % 2 AS odd, fpisa_sum(x), fpisa_sum(y) FROM v GROUP BY ROLLUP (i % 2) ORDER BY 1;
SELECT fpisa_sum(DISTINCT x), fpisa_sum(x) FILTER (WHERE i > 2) FROM v;
-- Rows that leave a window are subtracted.
SELECT i, fpisa_sum(x) OVER w, fpisa_avg(y) OVER w FROM v
	WINDOW w AS (ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) ORDER BY i;
SELECT i, fpisa_sum(x) OVER (ORDER BY i ROWS BETWEEN CURRENT ROW AND CURRENT ROW)
	FROM (VALUES (1, 'NaN'::real), (2, 'Infinity'), (3, '-Infinity'), (4, 0), (5, NULL)) t(i, x) ORDER BY i;
-- The sum of reals as double precision is rounded once, to more bits.
SELECT fpisa_sum(x), fpisa_sum8(x), fpisa_sum8(x) FILTER (WHERE i = 5) FROM v;
SELECT i, fpisa_sum8(x) OVER (ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM v ORDER BY i;
-- Sums of no values.
SELECT fpisa_sum(x), fpisa_avg(y) FROM v WHERE i > 5;
SELECT fpisa_sum(x), fpisa_avg(y) FROM v WHERE i = 4;
-- A sum of zero is +0. Special values.
SELECT fpisa_sum(x) FROM (VALUES ('-0'::real), ('-0')) t(x);
SELECT fpisa_sum(x), fpisa_avg(x) FROM (VALUES ('Infinity'::real), ('-Infinity')) t(x);
SELECT fpisa_sum(x), fpisa_avg(x) FROM (VALUES ('-Infinity'::float8), (1)) t(x);
-- Like sum(), the functions fail if the result is out of range.
SELECT fpisa_sum(x) FROM (VALUES (3e38::real), (3e38)) t(x);
SELECT fpisa_sum(x), fpisa_avg(x) FROM (VALUES (3e38::real), (3e38), (-3e38)) t(x);
SELECT fpisa_avg(y) FROM (VALUES (1.5e308::float8), (1.5e308)) t(y);
-- Sums with parallel workers.
CREATE TABLE p AS SELECT CASE i % 3 WHEN 0 THEN 1e30 WHEN 1 THEN 1 ELSE -1e30 END::real AS x FROM generate_series(0, 29999) i;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET max_parallel_workers_per_gather = 3;
EXPLAIN (COSTS OFF) SELECT fpisa_sum(x), fpisa_avg(x) FROM p;
SELECT fpisa_sum(x), fpisa_avg(x) FROM p;
DROP TABLE v, p;
