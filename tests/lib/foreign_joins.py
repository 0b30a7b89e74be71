# SPDX-License-Identifier: GPL-2.0-only
"""Random joins of random tables. Schema `far` has the tables as foreign tables at workers, schema `near` as tables of PostgreSQL."""
from foreign_random import literal

COLUMNS = ("k", "int32", "integer"), ("l", "int64", "bigint"), ("d", "date", "date"), ("s", "text", "text"), ("n", "int32", "integer"), \
    ("x", "real", "real")
DATES = ["1970-01-01", "1969-12-31", "2024-02-29", "1970-01-05"]
TEXTS = ["", "a", "ab", "b", "é", "it's"]
EQUAL = "k", "l", "d", "s"  # join columns
OFTEN = 0.65  # share of joins that a filter may prune


class Tables:
    """Tables big, small and third, with the same columns. Some tables allow NULL in keys."""

    def __init__(self, rng, rows=None, not_null=None):
        self.rng = rng
        self.not_null = {c: not_null if not_null is not None else rng.random() < 0.6 for c in EQUAL}
        self.keys = rng.choice([3, 40, 400])
        self.rows = rows or {"big": [self.row() for _ in range(rng.choice([50, 400]))],
                             "small": [self.row() for _ in range(rng.choice([0, 3, 30]))],
                             "third": [self.row() for _ in range(rng.choice([3, 30]))]}
        # The planner's estimate decides which table prunes the other. The estimate may be wrong.
        self.thought = {"big": 10 ** 6, "small": rng.choice([10, 10, 10, 10 ** 8]), "third": rng.choice([10, 1000])}

    def row(self):
        rng = self.rng
        values = {"k": rng.randrange(-self.keys // 4, self.keys), "l": rng.choice([rng.randrange(self.keys), -1, 2 ** 40 + 1]),
                  "d": rng.choice(DATES), "s": rng.choice(TEXTS)}
        row = [None if not self.not_null[c] and rng.random() < 0.1 else v for c, v in values.items()]
        return (*row, rng.randrange(6), rng.choice([1e30, -1e30, 1.0, 0.5, -2.25]))

    @property
    def schema(self):
        return [f"{name} {kind}{' not null' if self.not_null.get(name, True) else ''}" for name, kind, _ in COLUMNS]

    def sql(self, server):
        """Return the statements that recreate the tables in both schemas."""
        columns = [(name, sql, " NOT NULL" if self.not_null.get(name, True) else "") for name, _, sql in COLUMNS]
        text = "SET client_min_messages = error; DROP SCHEMA IF EXISTS near, far CASCADE; CREATE SCHEMA near; CREATE SCHEMA far;"
        for name, rows in self.rows.items():
            near = ", ".join(f"{c} {t}{nn}" for c, t, nn in columns)
            far = ", ".join(f"{c} {t}{' OPTIONS (bytes $$5$$)' if c == 's' else ''}{nn}" for c, t, nn in columns).replace("$$", "'")
            text += f"CREATE TABLE near.{name} ({near});"
            text += f"INSERT INTO near.{name} VALUES {', '.join('(' + ', '.join(map(literal, r)) + ')' for r in rows)};" if rows else ""
            text += f"CREATE FOREIGN TABLE far.{name} ({far}) SERVER {server} OPTIONS (rows '{self.thought[name]}');"
        return text

    # -- statements ---------------------------------------------------------------

    def where(self, alias):
        """Return a random condition on `alias`. Workers can evaluate most of these conditions."""
        rng = self.rng
        return rng.choice([f"{alias}.n = {rng.randrange(6)}", f"{alias}.n < {rng.randrange(6)}", f"{alias}.s LIKE 'a%'",
                           f"{alias}.s = 'b'", f"{alias}.d <= date '1970-01-01'", f"{alias}.l IS NOT NULL AND {alias}.n > 2",
                           f"{alias}.n = 1 AND {alias}.l % 2 = 1", f"{alias}.n % 2 = 1", "true"])

    def on(self, a, b, columns=EQUAL):
        names = self.rng.sample(columns, min(len(columns), self.rng.choice([1, 1, 2])))
        if "s" in names and len(columns) == len(EQUAL) and self.rng.random() < OFTEN:
            names = ["k", "l"]
        return " AND ".join(f"{a}.{c} = {b}.{c}" for c in names)

    def rows_query(self):
        big, small = self.rng.choice([("big", "small"), ("big", "small"), ("small", "big"), ("big", "big")])
        on, where, also = self.on("a", "b"), self.where("b"), self.where("a")
        some = f"(SELECT * FROM {small} b WHERE {where}) b"
        pruned = [
            f"SELECT a.*, b.n FROM {big} a JOIN {small} b ON {on} WHERE {where} AND {also}",
            f"SELECT a.*, b.n FROM {big} a, {small} b WHERE {on} AND {where}",
            f"SELECT a.* FROM {big} a WHERE EXISTS (SELECT FROM {small} b WHERE {on} AND {where})",
            f"SELECT a.* FROM {big} a WHERE a.k IN (SELECT k FROM {small} b WHERE {where}) AND {also}",
            f"SELECT a.* FROM {big} a WHERE (a.k, a.l) IN (SELECT k, l FROM {small} b WHERE {where})",
            f"SELECT a.*, b.* FROM {big} a LEFT JOIN {small} b ON {on} WHERE {where} AND b.n IS NOT NULL",
            f"SELECT a.x, b.n, c.n FROM {big} a JOIN {small} b ON {on} JOIN third c ON {self.on('b', 'c')} WHERE {where} AND {self.where('c')}",
            f"SELECT a.x, b.n, c.n FROM third c LEFT JOIN {big} a ON {self.on('a', 'c')} JOIN {some} ON {on}",
            f"SELECT a.d, fpisa_sum(a.x), count(*) FROM {big} a JOIN {small} b ON {on} WHERE {where} GROUP BY a.d"]
        others = [
            f"SELECT a.* FROM {big} a WHERE NOT EXISTS (SELECT FROM {small} b WHERE {on} AND {where})",
            f"SELECT a.* FROM {big} a WHERE a.k NOT IN (SELECT k FROM {small} b WHERE {where})",
            f"SELECT a.*, b.* FROM {big} a LEFT JOIN {small} b ON {on} AND {where}",
            f"SELECT a.*, b.* FROM {big} a LEFT JOIN {small} b ON {on} WHERE {where}",
            f"SELECT a.*, b.* FROM {some} LEFT JOIN {big} a ON {on}",
            f"SELECT a.*, b.* FROM {big} a FULL JOIN {some} ON {on}",
            f"SELECT a.x, b.n, c.n FROM third c LEFT JOIN ({big} a JOIN {some} ON {on}) ON {self.on('a', 'c')}",
            f"SELECT b.k, (SELECT max(a.x) FROM {big} a WHERE {on}) FROM {small} b WHERE {where}"]
        return self.rng.choice(pruned if self.rng.random() < OFTEN else others)

    def groups_query(self):
        rng = self.rng
        by = rng.sample(EQUAL, rng.choice([1, 2])) if rng.random() > OFTEN else rng.choice([["k"], ["l"], ["k", "d"], ["s", "k"]])
        columns, also = ", ".join(by), self.where("a")
        having = rng.choice(["", "", " HAVING max(x) > 0.6"])
        groups = f"SELECT {columns}, fpisa_sum(x) AS total, max(x) AS most, count(*) AS c FROM big a WHERE {also} GROUP BY {columns}{having}"
        on, where = self.on("g", "b", by), self.where("b")
        pruned = [
            f"SELECT g.*, b.n FROM ({groups}) g JOIN small b ON {on} WHERE {where}",
            f"SELECT g.*, b.n FROM small b, ({groups}) g WHERE {on} AND {where}",
            f"SELECT * FROM ({groups}) g WHERE EXISTS (SELECT FROM small b WHERE {on} AND {where})",
            f"SELECT * FROM ({groups}) g WHERE g.{by[0]} IN (SELECT {by[0]} FROM small b WHERE {where})",
            f"SELECT g.*, b.n FROM ({groups}) g JOIN small b ON {on} JOIN third c ON {self.on('b', 'c')} WHERE {where} AND {self.where('c')}",
            f"WITH g AS ({groups}) SELECT g.*, b.n FROM g JOIN small b ON {on} WHERE {where}",
            f"SELECT {columns}, fpisa_sum(x), count(*) FROM big a WHERE {by[0]} IN (SELECT {by[0]} FROM small b WHERE {where}) GROUP BY {columns}"]
        others = [
            f"SELECT * FROM ({groups}) g WHERE NOT EXISTS (SELECT FROM small b WHERE {on} AND {where})",
            f"SELECT g.*, b.n FROM ({groups}) g LEFT JOIN small b ON {on} AND {where}",
            f"SELECT g.*, b.n FROM small b LEFT JOIN ({groups}) g ON {on} WHERE {where}",
            f"SELECT g.*, b.n FROM ({groups} ORDER BY {columns} LIMIT 3) g JOIN small b ON {on} WHERE {where}",
            f"SELECT g.*, b.n FROM (SELECT *, rank() OVER (ORDER BY {columns}) FROM ({groups}) h) g JOIN small b ON {on} WHERE {where}",
            f"SELECT g.*, b.n FROM ({groups} UNION ALL SELECT {columns}, x, x, 0 FROM third) g JOIN small b ON {on} WHERE {where}",
            f"WITH g AS MATERIALIZED ({groups}) SELECT g.*, b.n FROM g JOIN small b ON {on} WHERE {where}"]
        return rng.choice(pruned if rng.random() < OFTEN else others)

    def queries(self, n):
        return [self.rng.choice([self.rows_query, self.groups_query])() for _ in range(n)]
