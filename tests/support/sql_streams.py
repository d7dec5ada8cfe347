"""The streams the SQL tests bind against."""

from __future__ import annotations

from datetime import timedelta

from weft.plan.aggregation import Aggregation
from weft.plan.expression import to_sql
from weft.plan.query import BoundQuery
from weft.plan.stream import FrameSource, Stream
from weft.sql import bind, parse_schema


def stream(name: str, ddl: str, time: str = "ts") -> Stream:
    return Stream(name, parse_schema(ddl), time, timedelta(seconds=5), None, FrameSource())


STREAMS = {
    "purchases": stream(
        "purchases",
        "ts timestamp, userID bigint, gemPack int, price int, cost decimal(10,2), ratio double, score float, "
        "name string, day date, ok boolean, tiny tinyint, tags array<string>, addr struct<city:string,zip:int>, "
        "local timestamp_ntz, raw binary",
    ),
    "ads": stream("ads", "ts timestamp, userID bigint, gemPack int, fee decimal(12,3), label string, shown timestamp"),
    "odd": stream("odd", "`event time` timestamp, `a.b` int, `we``ird` string, `select` int", "event time"),
}


def bound(text: str) -> BoundQuery:
    return bind(text, STREAMS)


def predicate(condition: str) -> str:
    """The predicate that one condition on purchases becomes, as text."""
    found = bound(f"SELECT ts FROM purchases WHERE {condition}").relations[0].predicate
    return "" if found is None else to_sql(found)


def join(on: str, first: str = "[RANGE 5 SECONDS]", second: str = "[RANGE 5 SECONDS]") -> BoundQuery:
    return bound(f"SELECT 1 AS one FROM purchases {first} p JOIN ads {second} a ON {on}")


def keys(query: BoundQuery) -> list[tuple[str, str, str]]:
    return [(to_sql(key.left), to_sql(key.right), key.type.ddl()) for key in query.keys]


def aggregation(query: BoundQuery) -> Aggregation:
    """The aggregation of a query that has one."""
    assert query.aggregation is not None
    return query.aggregation


def one(text: str) -> BoundQuery:
    """An aggregation of all purchases."""
    return bound(f"SELECT {text} FROM purchases [TUMBLE 5 SECONDS]")


def joined(text: str, rest: str = "") -> BoundQuery:
    """An aggregation over a join."""
    return bound(
        f"SELECT {text} FROM purchases [TUMBLE 5 SECONDS] p JOIN ads [TUMBLE 5 SECONDS] a ON p.userID = a.userID {rest}"
    )


def calls(query: BoundQuery) -> list[tuple[str, ...]]:
    """Function and arguments of each call, as text."""
    return [
        (call.function, *("" if each is None else to_sql(each) for each in call.arguments))
        for call in aggregation(query).calls
    ]


def ads(names: str, where: str, window: str = "[RANGE 5 s]", select: str = "1 AS one") -> BoundQuery:
    """A join of ads with itself under these one-letter names."""
    relations = ", ".join(f"ads {window} {name}" for name in names)
    return bound(f"SELECT {select} FROM {relations} WHERE {where}")


def joined_by(query: BoundQuery) -> list[str]:
    """The keys as text, with the numbers of their relations."""
    return [
        f"{key.left_relation}.{to_sql(key.left)} = {key.right_relation}.{to_sql(key.right)}".replace("`", "")
        for key in query.keys
    ]


def distances(query: BoundQuery) -> dict[tuple[int, int], tuple[int | None, int | None]]:
    """The bounds of each pair."""
    return {(first, second): (bounds.low, bounds.high) for first, second, bounds in query.pair_bounds}
