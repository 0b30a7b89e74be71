-- Joins of tables at the same workers. Show which joins the aggregator's filter prunes, and by which columns. Plans do
-- not need running workers.
SET fpisa.pruning = network;
CREATE SERVER far FOREIGN DATA WRAPPER fpisa OPTIONS (workers '127.0.0.1', aggregator '127.0.0.1', queries 'join 1 key-bytes 16 filter bitmap');
CREATE SERVER far FOREIGN DATA WRAPPER fpisa OPTIONS (workers '127.0.0.1', aggregator '127.0.0.1', queries 'join 1 key-bytes 16');
CREATE SERVER far FOREIGN DATA WRAPPER fpisa OPTIONS (workers '127.0.0.1', aggregator '127.0.0.1', queries 'join 1 key-bytes 16 filter cuckoo');
CREATE SERVER far FOREIGN DATA WRAPPER fpisa OPTIONS (workers '127.0.0.1', aggregator '127.0.0.1', queries 'table 1 limit 9 key-bytes 16 filter-bytes 8');
CREATE SERVER far FOREIGN DATA WRAPPER fpisa OPTIONS (workers '127.0.0.1', aggregator '127.0.0.1', queries 'table 1 limit 9 filter bloom filter-bytes 8');
CREATE SERVER far FOREIGN DATA WRAPPER fpisa OPTIONS (workers '127.0.0.1', aggregator '127.0.0.1', queries
    'join 1 key-bytes 16 filter bitmap filter-keys 6000000 filter-bytes 8, join 2 key-bytes 32 filter bloom filter-bytes 16, table 3 limit 9 key-bytes 16 filter bloom filter-bytes 4');
CREATE SERVER other FOREIGN DATA WRAPPER fpisa OPTIONS (workers '127.0.0.1', aggregator '127.0.0.1', queries 'topn 1 limit 9');
CREATE USER MAPPING FOR CURRENT_USER SERVER far OPTIONS (key 'a:01234567:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef');
CREATE FOREIGN TABLE big (k int NOT NULL, l bigint, d date, s text, x real NOT NULL, y real) SERVER far OPTIONS (rows '1000000');
CREATE FOREIGN TABLE small (k int, l bigint, d date, s text, n int) SERVER far OPTIONS (rows '1000', table_name 'tiny');
CREATE FOREIGN TABLE elsewhere (k int, n int) SERVER other;
CREATE TABLE near (k int, n int);
SET enable_mergejoin = off;
SET enable_nestloop = off;

-- Joins of rows.
EXPLAIN (COSTS OFF) SELECT * FROM big, small WHERE big.l = small.l AND small.n = 1 AND big.x > 0;
EXPLAIN (COSTS OFF) SELECT * FROM small JOIN big USING (l) WHERE small.n < 5;
EXPLAIN (COSTS OFF) SELECT * FROM big JOIN small USING (l, k, d) WHERE small.n < 5;
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE k IN (SELECT k FROM small WHERE n = 1);
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE EXISTS (SELECT FROM small WHERE small.k = big.k AND n = 1);
EXPLAIN (COSTS OFF) SELECT * FROM big a, big b WHERE a.k = b.k AND b.d = '2024-01-01';
EXPLAIN (COSTS OFF) SELECT * FROM small a, small b WHERE a.k = b.k AND a.n = 2 AND b.n = 2;
EXPLAIN (COSTS OFF) SELECT big.d, fpisa_sum(x) FROM big, small WHERE big.l = small.l AND small.n = 1 GROUP BY big.d;

-- Outer joins, and queries for rows that are not in a join.
EXPLAIN (COSTS OFF) SELECT * FROM big LEFT JOIN small ON big.k = small.k AND small.n = 1;
EXPLAIN (COSTS OFF) SELECT * FROM (SELECT * FROM small WHERE n = 1) s LEFT JOIN big USING (k);
EXPLAIN (COSTS OFF) SELECT * FROM big FULL JOIN (SELECT * FROM small WHERE n = 1) s USING (k);
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE NOT EXISTS (SELECT FROM small WHERE small.k = big.k AND n = 1);
EXPLAIN (COSTS OFF) SELECT * FROM big WHERE k NOT IN (SELECT k FROM small WHERE n = 1);
EXPLAIN (COSTS OFF) SELECT * FROM near LEFT JOIN (big JOIN (SELECT * FROM small WHERE n = 1) s USING (k)) USING (k);
EXPLAIN (COSTS OFF) SELECT * FROM near LEFT JOIN big USING (k) JOIN small ON big.l = small.l WHERE small.n = 1;

-- Joins that a filter does not support.
EXPLAIN (COSTS OFF) SELECT * FROM big JOIN small USING (k);
EXPLAIN (COSTS OFF) SELECT * FROM big JOIN small USING (s) WHERE n = 1;
EXPLAIN (COSTS OFF) SELECT * FROM big JOIN small ON big.k = small.l WHERE n = 1;
EXPLAIN (COSTS OFF) SELECT * FROM big JOIN small ON big.k + 1 = small.k WHERE n = 1;
EXPLAIN (COSTS OFF) SELECT * FROM big JOIN small ON big.k < small.k WHERE n = 1;
EXPLAIN (COSTS OFF) SELECT * FROM big JOIN small USING (k) WHERE big.k = 1 AND n = 1;
EXPLAIN (COSTS OFF) SELECT * FROM big JOIN small USING (k) WHERE n % 2 = 1;
EXPLAIN (COSTS OFF) SELECT * FROM big JOIN elsewhere USING (k) WHERE n = 1;
EXPLAIN (COSTS OFF) SELECT * FROM big JOIN near USING (k) WHERE n = 1;

-- Text columns with a common prefix.
EXPLAIN (COSTS OFF) SELECT * FROM big JOIN small USING (k) WHERE small.s LIKE 'it''s%';
EXPLAIN (COSTS OFF) SELECT k FROM small WHERE s LIKE 'a%b' OR s LIKE 'c%';
EXPLAIN (COSTS OFF) SELECT k FROM small WHERE s LIKE 'a_%';
EXPLAIN (COSTS OFF) SELECT k FROM small WHERE s LIKE 'a\_%';
EXPLAIN (COSTS OFF) SELECT k FROM small WHERE s LIKE '%' AND s LIKE 'ab';

-- Joins with a subquery of groups.
EXPLAIN (COSTS OFF) SELECT * FROM (SELECT d, k, fpisa_sum(x) FROM big GROUP BY d, k) g JOIN small USING (k) WHERE small.n = 1;
EXPLAIN (COSTS OFF) SELECT * FROM (SELECT d, k, max(x) AS m FROM big GROUP BY d, k HAVING max(x) > 1) g WHERE k IN (SELECT k FROM small WHERE n = 1);
EXPLAIN (COSTS OFF) SELECT * FROM (SELECT k, k AS again, max(x) FROM big GROUP BY 1, 2) g JOIN small ON g.k = small.k AND again = small.n WHERE small.n < 5;
EXPLAIN (COSTS OFF) SELECT * FROM (SELECT l, k, max(x) FROM big GROUP BY l, k) g JOIN small USING (l) WHERE small.n = 1;
EXPLAIN (COSTS OFF) SELECT * FROM (SELECT l, sum(x) FROM big GROUP BY l) g JOIN small USING (l) WHERE small.n = 1;
EXPLAIN (COSTS OFF) SELECT * FROM (SELECT k, max(x) FROM big GROUP BY k ORDER BY 2 LIMIT 3) g JOIN small USING (k) WHERE small.n = 1;
EXPLAIN (COSTS OFF) SELECT * FROM (SELECT k, max(x), row_number() OVER () FROM big GROUP BY k) g JOIN small USING (k) WHERE small.n = 1;
EXPLAIN (COSTS OFF) SELECT * FROM (SELECT DISTINCT ON (d) d, k FROM big GROUP BY d, k) g JOIN small USING (k) WHERE small.n = 1;
EXPLAIN (COSTS OFF) SELECT * FROM (SELECT d, k, max(x) FROM big GROUP BY ROLLUP (d, k)) g JOIN small USING (k) WHERE small.n = 1;
EXPLAIN (COSTS OFF) SELECT * FROM (SELECT k, max(x) FROM big GROUP BY k) g LEFT JOIN small ON g.k = small.k AND small.n = 1;
EXPLAIN (COSTS OFF) SELECT * FROM (SELECT d, max(k) AS k FROM big GROUP BY d) g JOIN small USING (k) WHERE small.n = 1;
SET fpisa.preaggregate = on;
EXPLAIN (COSTS OFF) SELECT * FROM (SELECT k, max(x) FROM big GROUP BY k) g JOIN small USING (k) WHERE small.n = 1;
RESET fpisa.preaggregate;

-- Session settings, and queries at the aggregator.
SET fpisa.pruning = workers;
EXPLAIN (COSTS OFF) SELECT * FROM big JOIN small USING (k) WHERE small.n = 1;
SET fpisa.pruning = network;
SET fpisa.pushdown = off;
EXPLAIN (COSTS OFF) SELECT * FROM big JOIN small USING (k) WHERE small.n = 1;
RESET fpisa.pushdown;
ALTER SERVER far OPTIONS (SET queries 'join 1 key-bytes 16 filter bitmap filter-bytes 4, table 3 limit 9 key-bytes 16');
EXPLAIN (COSTS OFF) SELECT * FROM big JOIN small USING (l) WHERE small.n = 1;
EXPLAIN (COSTS OFF) SELECT * FROM (SELECT k, max(x) FROM big GROUP BY k) g JOIN small USING (k) WHERE small.n = 1;
ALTER SERVER far OPTIONS (SET queries 'topn 1 limit 9');
EXPLAIN (COSTS OFF) SELECT * FROM big JOIN small USING (l) WHERE small.n = 1;
DROP TABLE near;
DROP SERVER far CASCADE;
DROP SERVER other CASCADE;
