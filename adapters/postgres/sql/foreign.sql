-- What servers, mappings and tables may say, and what is asked of workers. None of them is there: plans need none.
\set VERBOSITY terse
CREATE SERVER far FOREIGN DATA WRAPPER fpisa;
CREATE SERVER far FOREIGN DATA WRAPPER fpisa OPTIONS (workers '');
CREATE SERVER far FOREIGN DATA WRAPPER fpisa OPTIONS (workers '127.0.0.1', host 'x');
CREATE SERVER far FOREIGN DATA WRAPPER fpisa OPTIONS (workers '127.0.0.1', aggregator '127.0.0.1');
CREATE SERVER far FOREIGN DATA WRAPPER fpisa OPTIONS (workers '127.0.0.1', aggregator '127.0.0.1', queries 'heap 5 limit 10');
CREATE SERVER far FOREIGN DATA WRAPPER fpisa OPTIONS (workers '127.0.0.1', aggregator '127.0.0.1', queries 'topn 5');
CREATE SERVER far FOREIGN DATA WRAPPER fpisa OPTIONS (workers '127.0.0.1', aggregator '127.0.0.1', queries 'topn 64 limit 10');
CREATE SERVER far FOREIGN DATA WRAPPER fpisa OPTIONS (workers '127.0.0.1', aggregator '127.0.0.1', queries 'table 5 limit 10 key-bytes 12');
CREATE SERVER far FOREIGN DATA WRAPPER fpisa OPTIONS (workers '127.0.0.1', aggregator '127.0.0.1', queries 'table 5 limit 10 ascending');
CREATE SERVER far FOREIGN DATA WRAPPER fpisa OPTIONS (workers '127.0.0.1', timeout '0');
CREATE SERVER far FOREIGN DATA WRAPPER fpisa OPTIONS (workers '127.0.0.1', aggregator '127.0.0.1',
    queries 'topn 1 limit 100, topn 2 limit 100 ascending,table 3 limit 10, table 4 limit 1000 key-bytes 8 local-port 18002 worker-port 18003');
CREATE USER MAPPING FOR CURRENT_USER SERVER far;
CREATE USER MAPPING FOR CURRENT_USER SERVER far OPTIONS (key 'x', key_file 'y');
CREATE USER MAPPING FOR CURRENT_USER SERVER far OPTIONS (key 'a:01234567:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef', token 'nonsense');
CREATE USER MAPPING FOR CURRENT_USER SERVER far OPTIONS (key 'a:01234567:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef', token '0x1f');
CREATE FOREIGN TABLE bad (a int) SERVER far OPTIONS (column_name 'a');
CREATE FOREIGN TABLE bad (a int OPTIONS (bytes '32')) SERVER far;
CREATE FOREIGN TABLE bad (a int OPTIONS (column_name 'a,b')) SERVER far;
CREATE FOREIGN TABLE t (i int NOT NULL, l bigint, d date NOT NULL, s text OPTIONS (bytes '3') NOT NULL, u text, x real NOT NULL, y real,
    z double precision) SERVER far;
CREATE TABLE near (i int, x real);

-- The first rows.
EXPLAIN (COSTS OFF) SELECT * FROM t ORDER BY x LIMIT 10;
EXPLAIN (COSTS OFF) SELECT i FROM t ORDER BY y DESC LIMIT 10 OFFSET 10;
EXPLAIN (COSTS OFF) SELECT i FROM t ORDER BY x DESC NULLS LAST LIMIT 100;
EXPLAIN (COSTS OFF) SELECT i FROM t ORDER BY x DESC LIMIT 101;
EXPLAIN (COSTS OFF) SELECT i FROM t ORDER BY x DESC LIMIT 70000;
EXPLAIN (COSTS OFF) SELECT i FROM t ORDER BY x FETCH FIRST 3 ROWS WITH TIES;
EXPLAIN (COSTS OFF) SELECT i FROM t ORDER BY x, i LIMIT 3;
EXPLAIN (COSTS OFF) SELECT i FROM t ORDER BY z LIMIT 3;
EXPLAIN (COSTS OFF) SELECT i FROM t ORDER BY x + 1 LIMIT 3;
EXPLAIN (COSTS OFF) SELECT i FROM t WHERE i > 0 ORDER BY x LIMIT 3;
EXPLAIN (COSTS OFF) SELECT DISTINCT i, x FROM t ORDER BY x LIMIT 3;
EXPLAIN (COSTS OFF) SELECT row_number() OVER (), x FROM t ORDER BY x LIMIT 3;
EXPLAIN (COSTS OFF) SELECT t.i FROM t, near WHERE t.i = near.i ORDER BY t.x LIMIT 3;
EXPLAIN (COSTS OFF) SELECT i FROM t ORDER BY x LIMIT 0;
EXPLAIN (COSTS OFF) SELECT i FROM t ORDER BY x LIMIT (SELECT 3);
EXPLAIN (COSTS OFF) SELECT * FROM (SELECT x FROM t ORDER BY x LIMIT 3) s WHERE x > 0;
SET fpisa.pruning = workers;
EXPLAIN (COSTS OFF) SELECT * FROM t ORDER BY x LIMIT 10;
SET fpisa.pruning = none;
EXPLAIN (COSTS OFF) SELECT * FROM t ORDER BY x LIMIT 10;
RESET fpisa.pruning;
SET fpisa.pushdown = off;
EXPLAIN (COSTS OFF) SELECT * FROM t ORDER BY x LIMIT 10;
EXPLAIN (COSTS OFF) SELECT i, max(x) FROM t GROUP BY i;
RESET fpisa.pushdown;

-- Which rows.
EXPLAIN (COSTS OFF) SELECT i FROM t WHERE 3 < i AND l <= 5 AND s = 'a''b, c' AND s <> u AND d >= timestamp '1994-01-01' ORDER BY x LIMIT 3;
EXPLAIN (COSTS OFF) SELECT i FROM t WHERE 3 < i AND l <= 5 AND s = 'a''b, c' AND d >= date '1994-01-01'
    AND d < date '1994-01-01' + interval '1 year' AND y IS NOT NULL AND z IS NULL AND x BETWEEN 0.1 AND real '0.1' ORDER BY x LIMIT 3;
EXPLAIN (COSTS OFF) SELECT i FROM t WHERE i = 1 OR x > 1;
EXPLAIN (COSTS OFF) SELECT i FROM t WHERE d > timestamp '1994-01-01 12:00' AND d < 'infinity' AND s < 'a' AND i + 1 > 2 AND x > 'NaN' AND z = 'Infinity';
EXPLAIN (COSTS OFF) SELECT u, max(x) FROM t WHERE i > 1 GROUP BY u;
EXPLAIN (COSTS OFF) SELECT i, max(x) FROM t WHERE i > 1 AND random() < 2 GROUP BY i;
EXPLAIN (COSTS OFF) SELECT i, max(x) FROM t WHERE current_date > date '1994-01-01' GROUP BY i;
EXPLAIN (COSTS OFF) SELECT i, max(x) FROM t WHERE d < date '1994-01-01' GROUP BY i;

-- Groups.
EXPLAIN (COSTS OFF) SELECT i, max(x), min(x), count(x), fpisa_sum(x), fpisa_avg(x) FROM t GROUP BY i;
EXPLAIN (COSTS OFF) SELECT i, count(*), max(y) - min(y) FROM t GROUP BY i;
EXPLAIN (COSTS OFF) SELECT i, count(*), fpisa_sum(x) / i FROM t GROUP BY i HAVING max(x) > 3 ORDER BY 2;
EXPLAIN (COSTS OFF) SELECT s, i, count(y) FROM t GROUP BY s, i;
EXPLAIN (COSTS OFF) SELECT i FROM t GROUP BY i;
EXPLAIN (COSTS OFF) SELECT l, d, count(i) FROM t GROUP BY l, d;
EXPLAIN (COSTS OFF) SELECT i, max(y) FROM t GROUP BY i;
EXPLAIN (COSTS OFF) SELECT i, sum(x) FROM t GROUP BY i;
EXPLAIN (COSTS OFF) SELECT i, max(z) FROM t GROUP BY i;
EXPLAIN (COSTS OFF) SELECT i, fpisa_sum(z) FROM t GROUP BY i;
EXPLAIN (COSTS OFF) SELECT i, max(x), max(y) FROM t GROUP BY i;
EXPLAIN (COSTS OFF) SELECT i, max(x + 1) FROM t GROUP BY i;
EXPLAIN (COSTS OFF) SELECT i, count(DISTINCT x) FROM t GROUP BY i;
EXPLAIN (COSTS OFF) SELECT i, max(x) FILTER (WHERE i > 0) FROM t GROUP BY i;
EXPLAIN (COSTS OFF) SELECT i, max(x) FROM t WHERE i > 0 GROUP BY i;
EXPLAIN (COSTS OFF) SELECT i + 1, max(x) FROM t GROUP BY i + 1;
EXPLAIN (COSTS OFF) SELECT i + 1, max(x) FROM t GROUP BY i;
EXPLAIN (COSTS OFF) SELECT u, max(x) FROM t GROUP BY u;
EXPLAIN (COSTS OFF) SELECT i, max(x) FROM t GROUP BY ROLLUP (i);
EXPLAIN (COSTS OFF) SELECT l, d, z, s, i, max(x) FROM t GROUP BY l, d, z, s, i;
EXPLAIN (COSTS OFF) SELECT max(x) FROM t;
EXPLAIN (COSTS OFF) SELECT t.i, max(t.x) FROM t, near WHERE t.i = near.i GROUP BY t.i;
EXPLAIN (COSTS OFF) SELECT s.m FROM near, (SELECT i, max(x) AS m FROM t GROUP BY i) s WHERE s.i = near.i;

-- Tables are read, and no more.
INSERT INTO t VALUES (1);
UPDATE t SET i = 1;
DROP TABLE near;
DROP SERVER far CASCADE;
