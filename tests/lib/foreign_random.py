# SPDX-License-Identifier: GPL-2.0-only
"""Random tables at workers and random queries of them. Each answer must equal PostgreSQL's answer over the same rows, and sums must equal
the sums in rational numbers."""
import decimal
import math

from queries import HARD, groups_of, real, same

TYPES = {"int32": "integer", "int64": "bigint", "date": "date", "timestamp": "timestamp", "text": "text", "real": "real", "double": "double precision",
         "decimal(9,2)": "numeric(9,2)", "decimal(30,3)": "numeric(30,3)"}
KEYS = {
    "int32": [0, 1, -1, 2 ** 31 - 1, -2 ** 31],
    "int64": [0, -1, 2 ** 63 - 1, -2 ** 63],
    "date": ["1970-01-01", "1969-12-31", "9999-12-31", "0001-01-01"],
    "timestamp": ["1970-01-01 00:00:00", "1969-12-31 23:59:59.999999", "9999-12-31 23:59:59", "0001-01-01 00:00:00.5"],
    "text": ["", "a", "A", "é", "a b", "it's"],
    "real": [0.0, -0.0, 1.5, math.nan, math.inf, -1e-45],
    "double": [0.0, -0.0, 1e300, math.nan, -math.inf],
    "decimal(9,2)": ["0.00", "0.01", "-1.25", "9999999.99", "-9999999.99"],
    "decimal(30,3)": ["0.000", "0.001", "-1.250", "9" * 27 + ".999", "9" * 27 + ".998", "-" + "9" * 27 + ".999"],
}
NULL = "~"
SUMMABLE = [v for v in HARD if not 1e38 < abs(v) < math.inf]  # another test covers sums beyond the range
AGGREGATES = "fpisa_sum", "fpisa_avg", "min", "max", "count"


def literal(v):
    return "NULL" if v is None else f"'{v!r}'" if isinstance(v, float) else "'" + str(v).replace("'", "''") + "'"


def plain(text):
    """Return a field that psql printed, with -0 as 0."""
    return "0" if text == "-0" else text


def number(text):
    return None if text == NULL else float(text)


class Table:
    """A table with two to four keys and the values x and y. Half of the columns may be NULL."""

    def __init__(self, rng, most=200):
        self.rng = rng
        kinds = [rng.choice(sorted(KEYS)) for _ in range(rng.randint(1, 3))]
        self.columns = [(f"k{i}", kind, rng.random() < 0.5) for i, kind in enumerate(kinds)]
        self.columns += [("x", "real", rng.random() < 0.5), ("y", "real", rng.random() < 0.5)]
        few = rng.random() < 0.5
        values = {"x": rng.choice([SUMMABLE, [1e30, 1.0, -1e30], None]), "y": None}

        def value(name, kind, not_null):
            if not not_null and rng.random() < 0.2:
                return None
            if name in values:
                v = rng.choice(values[name]) if values[name] else rng.uniform(-1e3, 1e3)
                return real(v) if math.isfinite(v) else v
            return rng.choice(KEYS[kind][:2] if few else KEYS[kind])

        self.rows = [tuple(value(*c) for c in self.columns) for _ in range(rng.choice([0, 1, 10, most]))]

    @property
    def schema(self):
        return [f"{name} {kind}{' not null' if not_null else ''}" for name, kind, not_null in self.columns]

    def sql(self, near, far, server, name):
        """Return the statements that create the table and the foreign table."""
        columns = ", ".join(f"{n} {TYPES[k]}{' NOT NULL' if nn else ''}" for n, k, nn in self.columns)
        foreign = ", ".join(f"{n} {TYPES[k]}{' OPTIONS (bytes $$4$$)' if k == 'text' else ''}{' NOT NULL' if nn else ''}"
                            for n, k, nn in self.columns).replace("$$", "'")
        insert = f"INSERT INTO {near} VALUES {', '.join('(' + ', '.join(map(literal, r)) + ')' for r in self.rows)};"
        return f"CREATE TEMP TABLE {near} ({columns}); {insert if self.rows else ''}" \
               f"CREATE FOREIGN TABLE {far} ({foreign}) SERVER {server} OPTIONS (table_name '{name}');"

    def value_of(self, row, name):
        return row[[c[0] for c in self.columns].index(name)]

    def queries(self, n):
        return [self.rng.choice([self.rows_query, self.first_query, self.groups_query, self.groups_query, self.distinct_query])() for _ in range(n)]

    # Each query is (statement with a placeholder for the table, check of the answer, check of the answer of the near table, check of all
    # rows).

    def where(self):
        """Return conditions, most of which workers can evaluate."""
        rng, terms = self.rng, []
        for name, kind, _ in rng.sample(self.columns, rng.choice([0, 0, 1, 1, 2])):
            values = KEYS[kind] + ([0.5, -1e30, 1.0] if kind in ("real", "double") else [])
            (value, other), is_a = (literal(rng.choice(values)) for _ in range(2)), TYPES[kind]
            is_a = {"real": rng.choice(["real", "double precision"]), "date": rng.choice(["date", "date", "timestamp"]),
                    "int32": rng.choice(["integer", "bigint"])}.get(kind, is_a)
            operator = rng.choice(["<", "<=", "=", "<>", ">=", ">"])
            terms.append(rng.choice([f"{name} {operator} {value}::{is_a}", f"{name} {operator} {value}::{is_a}",
                                     f"{value}::{is_a} {operator} {name}", f"{name} IS NULL", f"{name} IS NOT NULL",
                                     f"({name} > {value}::{is_a} OR {name} IS NULL)", f"{name} IN ({value}::{is_a}, {other}::{is_a})",
                                     f"{name} BETWEEN {value}::{is_a} AND {other}::{is_a}"] +
                                    [f"{name} LIKE '{begin}%'" for begin in ("a", "é", "it''s", "") if kind == "text"]))
        return " WHERE " + " AND ".join(terms) if terms else ""

    def rows_query(self):
        names = self.rng.sample([c[0] for c in self.columns], self.rng.randint(1, len(self.columns)))
        return f"SELECT {', '.join(names)} FROM {{}}{self.where()}", lambda far, near, _: sorted(far) == sorted(near)

    def first_query(self):
        name = self.rng.choice([n for n, kind, _ in self.columns if kind != "text"])
        limit, offset = self.rng.choice([1, 3, 20, 1000]), self.rng.choice([0, 0, 1, 5])
        text = f"SELECT {name}, * FROM {{}}{self.where()} ORDER BY {name}{self.rng.choice(['', ' DESC'])}" \
               f"{self.rng.choice(['', ' NULLS FIRST', ' NULLS LAST'])}"
        further = [f"{n}{self.rng.choice(['', ' DESC'])}" for n, _, _ in self.rng.sample(self.columns, len(self.columns))]
        how = self.rng.choice(("any", "all", "ties"))
        if how == "all":
            # All columns decide, so there is one answer.
            return f"{text}, {', '.join(further)} LIMIT {limit} OFFSET {offset}", lambda far, near, _: far == near
        if how == "ties":
            return f"{text} FETCH FIRST {limit} ROWS WITH TIES", lambda far, near, _: sorted(far) == sorted(near)
        text += f" LIMIT {limit} OFFSET {offset}"

        def check(far, near, rows):
            # If several rows are equal, any of them may come last.
            left = list(rows)
            for row in far:
                if row[1:] not in left:
                    return False
                left.remove(row[1:])
            return [r[0] for r in far] == [r[0] for r in near]

        return text, check

    def groups_query(self):
        rng = self.rng
        keys = rng.sample([c[0] for c in self.columns if c[0] not in "xy"], rng.randint(0, len(self.columns) - 2))
        value = rng.choice("xy")
        among = [f"{a}({value})" for a in AGGREGATES] + ["count(*)", f"fpisa_sum8({value})"]
        if rng.random() < 0.5:
            among += [f"{a}({v})" for a in AGGREGATES for v, kind, _ in self.columns if kind in ("real", "double") and v != value]
            among += [f"{a}({v})" for a in ("min", "max", "count") for v, kind, _ in self.columns if kind in ("date", "timestamp", "int32", "int64")]
            among += [f"{a}({v})" for a in ("sum", "avg", "max") for v, kind, _ in self.columns if kind.startswith(("int", "decimal"))]
        filters = [self.where() for _ in range(2)] if rng.random() < 0.5 else []
        among += [f"{a} FILTER ({f.strip()})" for f in filters if f for a in rng.sample(among, 3)]
        aggregates = rng.sample(among, rng.randint(1, 4))
        having = rng.choice(["", "", f" HAVING max({value}) > 0.5", f" HAVING count({value}) >= 2", f" HAVING fpisa_sum({value}) <= 1",
                             " HAVING count(*) > 1"])
        where = self.where()
        text = f"SELECT {', '.join(keys + aggregates)} FROM {{}}{where}{' GROUP BY ' if keys else ''}{', '.join(keys)}{having}"

        def check(far, near, _):
            if sorted(far) != sorted(near):
                return False
            if having or where or f"fpisa_sum({value})" not in aggregates:
                return True
            at = len(keys) + aggregates.index(f"fpisa_sum({value})")
            found = groups_of([(tuple(self.normal(self.text_of(self.value_of(r, k))) for k in keys), self.value_of(r, value))
                               for r in self.rows])
            if not keys:
                found.setdefault((), (0, None, None, None, None))
            got = {tuple(map(self.normal, r[:len(keys)])): number(r[at]) for r in far}
            return got.keys() == found.keys() and all(
                same(got[k], found[k][1]) or (got[k] is not None and real(got[k]) == found[k][1]) for k in found)

        return text, check

    def distinct_query(self):
        rng = self.rng
        keys, values = (rng.sample([c[0] for c in self.columns], n) for n in (rng.randint(0, 1), rng.randint(1, 2)))
        aggregates = [f"{rng.choice(('count', 'min', 'max'))}(DISTINCT {v}){rng.choice(('', '', f' FILTER ({self.where().strip()})')).replace(' FILTER ()', '')}"
                      for v in values]
        aggregates += rng.choice(([], ["count(*)"], ["fpisa_sum(x)", "max(y)"], ["fpisa_avg(y) FILTER (WHERE x > 1)", f"count({values[0]})"],
                                  [f"count(DISTINCT ({', '.join(values)}))"]))
        having = rng.choice(("", "", f" HAVING count(DISTINCT {values[0]}) > 1"))
        text = f"SELECT {', '.join(keys + aggregates)} FROM {{}}{self.where()}{' GROUP BY ' if keys else ''}{', '.join(keys)}{having}"
        return text, lambda far, near, _: sorted(far) == sorted(near)

    @staticmethod
    def text_of(v):
        return NULL if v is None else repr(v) if isinstance(v, float) else str(v)

    @staticmethod
    def normal(text):
        """Return a text in which equal numbers have equal spellings."""
        digits = decimal.Context(prec=400)
        try:
            x = digits.create_decimal(text)
        except decimal.InvalidOperation:
            return text
        return str(x.normalize(digits)) if x else "0"


def ask(server, table, near, far, foreign_server, name, settings, n):
    """Run n random queries of one table. Return the statements whose two answers differ, with both answers."""
    asked = table.queries(n)
    text = f"\\pset null {NULL}\n" + table.sql(near, far, foreign_server, name)
    for i, (query, _) in enumerate(asked):
        text += f"SELECT 'question {i}';\n{query.format(near)};\nSELECT 'answer {i}';\n" \
                f"{settings} {query.format(far)}; RESET ALL;\n"
    text += f"SELECT 'all rows';\nSELECT * FROM {near}; DROP FOREIGN TABLE {far};"
    answers, at = {}, None
    for row in server.sql(text):
        if len(row) == 1 and row[0].split(" ")[0] in ("question", "answer", "all"):
            at = row[0]
            answers[at] = []
        else:
            answers[at].append(tuple(map(plain, row)))
    return [(query, table.schema, answers[f"question {i}"], answers[f"answer {i}"]) for i, (query, check) in enumerate(asked)
            if not check(answers[f"answer {i}"], answers[f"question {i}"], answers["all rows"])]
