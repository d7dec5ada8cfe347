"""The queries of a soak: some that live as long as it does, and guests that come and go.

A query with `alone` is compared in the end: that text is the same query for DuckDB, over tables of all rows with their
event times `t` in microseconds. `{until}` in it is the watermark in the end, up to which windows have been reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from random import Random


@dataclass(frozen=True, slots=True)
class Resident:
    """A query that lives as long as the soak."""

    name: str
    tenant: str
    sql: str
    alone: str = ""
    """What it is compared with; such a query has a sink."""
    followed: bool = False
    polled: bool = False


@dataclass(frozen=True, slots=True)
class Guest:
    """A query that comes and goes."""

    name: str
    tenant: str
    sql: str
    deliver: bool


RESIDENTS = (
    Resident(
        "selection",
        "shop",
        "SELECT ts, user_id, item, price FROM orders WHERE price > 50 AND user_id < 120",
        "SELECT ts, user_id, item, price FROM orders WHERE price > 50 AND user_id < 120",
        followed=True,
    ),
    Resident(
        "computed",
        "shop",
        "SELECT user_id, upper(page) AS page, ms + 1 AS more FROM clicks WHERE reverse(page) LIKE '1%' AND ms > 100",
        "SELECT user_id, upper(page) AS page, ms + 1 AS more FROM clicks WHERE page LIKE '%1' AND ms > 100",
        followed=True,
    ),
    Resident(
        "pairs",
        "shop",
        "SELECT o.ts AS at, o.user_id AS who, o.price AS price, c.page AS page FROM orders [RANGE 4 SECONDS] o "
        "JOIN clicks [RANGE 4 SECONDS] c ON o.user_id = c.user_id",
        "SELECT o.ts AS at, o.user_id AS who, o.price AS price, c.page AS page FROM orders o JOIN clicks c "
        "ON o.user_id = c.user_id AND abs(o.t - c.t) < 4000000",
        followed=True,
    ),
    Resident(
        "triples",
        "ads",
        "SELECT o.user_id AS who, o.n AS n, c.ms AS ms, p.amount AS amount FROM orders [RANGE 3 SECONDS] o "
        "JOIN clicks [RANGE 3 SECONDS] c ON o.user_id = c.user_id "
        "JOIN payments [RANGE 3 SECONDS] p ON c.user_id = p.user_id",
        "SELECT o.user_id AS who, o.n AS n, c.ms AS ms, p.amount AS amount FROM orders o JOIN clicks c "
        "ON o.user_id = c.user_id JOIN payments p ON c.user_id = p.user_id "
        "WHERE greatest(o.t, c.t, p.t) - least(o.t, c.t, p.t) < 3000000",
        polled=True,
    ),
    Resident(
        "tumbling",
        "ads",
        "SELECT country, window_start, COUNT(*) AS n, SUM(score) AS total, MAX(user_id) AS newest FROM visits "
        "[TUMBLE 5 SECONDS] GROUP BY country",
        "SELECT country, make_timestamptz(t // 5000000 * 5000000) AS window_start, count(*) AS n, "
        "sum(score)::BIGINT AS total, max(user_id) AS newest FROM visits "
        "WHERE t // 5000000 * 5000000 + 5000000 <= {until} GROUP BY country, t // 5000000",
        followed=True,
    ),
    Resident(
        "sliding",
        "ads",
        "SELECT method, window_end, COUNT(*) AS n, SUM(amount) AS total FROM payments "
        "[RANGE 10 SECONDS SLIDE 5 SECONDS] WHERE amount > 10 GROUP BY method",
        "SELECT method, make_timestamptz(k * 5000000 + 10000000) AS window_end, count(*) AS n, "
        "sum(amount)::BIGINT AS total FROM (SELECT *, unnest([t // 5000000 - 1, t // 5000000]) AS k FROM payments) "
        "WHERE amount > 10 AND k * 5000000 + 10000000 <= {until} GROUP BY method, k",
    ),
    Resident(
        "sessions",
        "shop",
        "SELECT user_id, window_start, COUNT(*) AS n, SUM(ms) AS total FROM clicks [SESSION 2 SECONDS] "
        "GROUP BY user_id",
        "SELECT user_id, make_timestamptz(min(t)) AS window_start, count(*) AS n, sum(ms)::BIGINT AS total FROM ("
        "SELECT *, sum(new) OVER (PARTITION BY user_id ORDER BY t ROWS UNBOUNDED PRECEDING) AS session FROM ("
        "SELECT *, (t - coalesce(lag(t) OVER (PARTITION BY user_id ORDER BY t), -2000000) >= 2000000)::INT AS new "
        "FROM clicks)) GROUP BY user_id, session HAVING max(t) + 2000000 <= {until}",
    ),
    Resident("cheap", "shop", "SELECT user_id, item FROM orders WHERE price < 20 OR item LIKE '%e%'", polled=True),
    Resident("fast", "ads", "SELECT user_id, score FROM visits WHERE score BETWEEN 10 AND 30 AND country <> 'de'"),
    Resident(
        "words", "ads", "SELECT concat(method, '-', amount) AS text FROM payments WHERE substring(method, 2, 1) = 'a'"
    ),
    Resident(
        "windows",
        "ads",
        "SELECT o.user_id AS who, p.amount AS amount, window_start FROM orders [TUMBLE 4 SECONDS] o "
        "JOIN payments [TUMBLE 4 SECONDS] p ON o.user_id = p.user_id WHERE p.amount > 100",
    ),
    Resident(
        "interval",
        "shop",
        "SELECT c.user_id AS who, v.country AS country FROM clicks c JOIN visits v ON c.user_id = v.user_id "
        "WHERE v.ts BETWEEN c.ts AND c.ts + INTERVAL 3 SECONDS",
        polled=True,
    ),
    Resident(
        "richer",
        "ads",
        "SELECT o.user_id AS who, o.price AS price, p.amount AS amount FROM orders [RANGE 3 SECONDS] o "
        "JOIN payments [RANGE 3 SECONDS] p ON o.user_id = p.user_id AND o.price < p.amount",
    ),
    Resident(
        "met",
        "shop",
        "SELECT o.user_id AS who, p.method AS method, window_end FROM orders [SESSION 1 SECOND] o "
        "JOIN payments [SESSION 1 SECOND] p ON o.user_id = p.user_id",
    ),
    Resident(
        "joined",
        "shop",
        "SELECT o.item AS item, COUNT(*) AS n, SUM(c.ms) AS ms FROM orders [TUMBLE 5 SECONDS] o "
        "JOIN clicks [TUMBLE 5 SECONDS] c ON o.user_id = c.user_id GROUP BY o.item",
    ),
    Resident(
        "many",
        "ads",
        "SELECT item, COUNT(DISTINCT user_id) AS users, approx_count_distinct(user_id) AS about, "
        "percentile_approx(price, 0.5) AS middle, AVG(price) AS mean FROM orders [TUMBLE 10 SECONDS] GROUP BY item "
        "HAVING COUNT(*) > 2",
        followed=True,
    ),
    Resident(
        "visitors",
        "shop",
        "SELECT user_id, window_start, COUNT(*) AS n, STDDEV(score) AS spread FROM visits [SESSION 1 SECOND] "
        "GROUP BY user_id",
    ),
    Resident(
        "endless",
        "ads",
        "SELECT country, COUNT(*) AS n, SUM(score) AS total FROM visits [SESSION 1 HOUR] WHERE country = 'de' "
        "GROUP BY country",
        polled=True,
    ),
)
"""The last one has a session that never ends."""

_JOIN_KEYS = (
    ("o.user_id = c.user_id", "o.user_id = v.user_id"),
    ("o.n = c.ms", "o.n = v.score"),
    ("o.price = c.ms", "o.price = v.score"),
    ("o.user_id = c.user_id AND o.n = c.ms", "o.user_id = v.user_id AND o.n = v.score"),
    ("o.price = c.user_id", "o.price = v.user_id"),
    ("o.price + o.n = c.ms", "o.price + o.n = v.score"),
)
"""Of orders with clicks, and of orders with visits."""
_GROUP_KEYS = {
    "visits": ("country", "user_id", "score", "country, score", "user_id, country"),
    "payments": ("method", "user_id", "amount", "method, amount", "user_id, method"),
    "orders": ("o.item", "o.n", "o.user_id", "o.item, o.n", "o.price"),
}


def guests(chance: Random) -> Iterator[Guest]:
    """Queries without end: every shape, with constants and keys of their own, a quarter of them with a sink."""
    for number in count():
        limit, seconds, item = chance.randrange(100), chance.randrange(2, 6), chance.choice("abcdelmst")
        window = f"[RANGE {seconds} SECONDS]"
        clicked, visited = chance.choice(_JOIN_KEYS)
        visitors, payers, buyers = (chance.choice(_GROUP_KEYS[name]) for name in ("visits", "payments", "orders"))
        both = f"orders {window} o JOIN clicks {window} c ON {clicked}"
        texts = (
            f"SELECT user_id, price FROM orders WHERE price > {limit} AND n < {number % 9}",
            f"SELECT o.user_id AS who, c.ms AS ms FROM {both} WHERE o.price > {limit} AND c.ms > {limit}",
            f"SELECT {visitors}, COUNT(*) AS n FROM visits [TUMBLE {seconds} SECONDS] WHERE score > {limit} "
            f"GROUP BY {visitors}",
            f"SELECT lower(item) AS item, price * {limit + 1} AS p FROM orders WHERE reverse(item) LIKE '{item}%'",
            f"SELECT {payers}, MAX(amount) AS m FROM payments [RANGE {2 * seconds} SECONDS SLIDE {seconds} SECONDS] "
            f"WHERE amount > {limit} GROUP BY {payers}",
            f"SELECT {payers}, COUNT(*) AS n FROM payments [SESSION {seconds} SECONDS] WHERE amount > {limit} "
            f"GROUP BY {payers}",
            f"SELECT o.user_id AS who, v.score AS score FROM {both} JOIN visits {window} v ON c.user_id = v.user_id "
            f"WHERE v.score > {limit} AND o.n > 3",
            f"SELECT o.user_id AS who, v.score AS score FROM orders [SESSION 1 SECOND] o "
            f"JOIN visits [SESSION 1 SECOND] v ON {visited} WHERE v.score > {limit}",
            f"SELECT {buyers}, COUNT(*) AS n FROM orders [TUMBLE {seconds} SECONDS] o "
            f"JOIN visits [TUMBLE {seconds} SECONDS] v ON {visited} WHERE v.score > {limit} GROUP BY {buyers}",
        )
        yield Guest(
            name=f"guest{number}",
            tenant=("shop", "ads")[number % 2],
            sql=texts[number % len(texts)],
            deliver=chance.random() < 0.25,
        )
