"""What hostile queries get without Spark: a code, or a text for Spark in which nothing is left to interpret."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.hostile.corpus import CANARY, CORPUS, DDL, PORT, Hostile
from weft.errors import QueryError
from weft.plan.expression import Opaque, columns_of, parts_of, to_sql
from weft.plan.query import BoundQuery
from weft.plan.stream import FrameSource, Stream
from weft.sql import bind
from weft.sql.syntax.schema import parse_schema

STREAMS = {"s": Stream("s", parse_schema(DDL), "ts", timedelta(0), None, FrameSource())}
REFUSED = [each for each in CORPUS if each.code is not None and not each.by_spark]
ACCEPTED = [each for each in CORPUS if each.code is None or each.by_spark]


def test_there_are_many_and_all_differ() -> None:
    assert len(CORPUS) >= 80
    assert len({each.name for each in CORPUS}) == len({each.sql for each in CORPUS}) == len(CORPUS)
    assert {each.tries for each in CORPUS} == {
        "environment", "files", "network", "other tenants", "clock", "the machine",
    }  # fmt: skip


@pytest.mark.parametrize("hostile", REFUSED, ids=lambda each: each.name)
def test_is_refused(hostile: Hostile) -> None:
    with pytest.raises(QueryError) as caught:
        bind(hostile.sql.replace(PORT, "9"), STREAMS)
    assert caught.value.code == hostile.code, caught.value
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize("hostile", ACCEPTED, ids=lambda each: each.name)
def test_text_for_spark_has_no_variables(hostile: Hostile) -> None:
    query = bind(hostile.sql.replace(PORT, "9"), STREAMS)
    for text in _texts(query):
        assert "${" not in text
        assert f"env:{CANARY}" not in text or "\\u0024{env" in text or "'$', '{env" in text


def _texts(query: BoundQuery) -> list[str]:
    """Everything of a query that Spark may come to read."""
    expressions = [relation.predicate for relation in query.relations if relation.predicate is not None]
    expressions += [condition.expression for condition in query.conditions]
    found = [output.sql for output in query.outputs]
    for expression in expressions:
        found.append(to_sql(expression))
        found += (part.sql for part in parts_of(expression) if isinstance(part, Opaque))
        found += columns_of(expression)
    return found
