"""Types that only Spark can tell: the parts of a query that Spark will evaluate are analysed by Spark first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.errors import TypeMismatch, UnsupportedQuery
from weft.plan.aggregate import Aggregation
from weft.plan.expression import Opaque, conjuncts, parts_of, to_sql
from weft.plan.query import BoundQuery
from weft.plan.stream import Stream
from weft.runtime.results import expression_types
from weft.runtime.task import computed_parts


def check_types(query: BoundQuery, streams: Mapping[str, Stream], spark: Any) -> BoundQuery:
    """The query if it can be run and all its parts have types; asks Spark only where the binder could not tell."""
    _check_supported(query)
    for number, relation in enumerate(query.relations):
        predicates = [part for part in conjuncts(relation.predicate) if isinstance(part, Opaque)]
        computed = [part for part in computed_parts(query, number) if isinstance(part, Opaque)]
        _check_relation(streams[relation.stream], predicates, computed, spark)
    unknown = [output.sql for output in query.outputs if output.type is None or output.doubtful]
    having = None if query.aggregation is None else query.aggregation.having
    if unknown or having is not None:
        windows = [("window_start", "timestamp"), ("window_end", "timestamp")]
        fields = _result_fields(query, streams) + (windows if query.sliding or query.session else [])
        types = expression_types(spark, fields, unknown + ([having] if having is not None else []))
        if having is not None and types[-1] != "boolean":
            raise TypeMismatch(f"HAVING condition has type {types[-1]}, not boolean", hint="Compare it with something.")
    return query


def _check_supported(query: BoundQuery) -> None:
    """The front end knows more joins than there are operators for."""
    if not query.is_wide:
        return
    what = f"joins of {len(query.relations)} relations" if query.is_multiway else "joins by other conditions than ="
    for condition in query.conditions:
        if any(isinstance(part, Opaque) for part in parts_of(condition.expression)):
            raise UnsupportedQuery(
                f"condition {to_sql(condition.expression)} uses a function that only Spark computes",
                hint="Between relations, use comparisons, arithmetic and the functions that weft computes itself.",
            )
    if query.aggregation is not None:
        _check_grouped(query, query.aggregation, what)


def _check_grouped(query: BoundQuery, aggregation: Aggregation, what: str) -> None:
    """Combinations are not rows that Spark sees, so it cannot compute anything of them."""
    for part in (part for number in range(len(query.relations)) for part in aggregation.parts(number)):
        if any(isinstance(each, Opaque) for each in parts_of(part)):
            raise UnsupportedQuery(
                f"{to_sql(part)} is computed by Spark and cannot be aggregated over {what}",
                hint="Use columns, or integers and doubles computed of them: CAST(price AS DOUBLE) * 2.",
            )


def _result_fields(query: BoundQuery, streams: Mapping[str, Stream]) -> list[tuple[str, str]]:
    """Names and types of what the SELECT list is over."""
    if query.aggregation is not None:
        keys = [(f"g{number}", key.type.ddl()) for number, key in enumerate(query.aggregation.keys)]
        return keys + [(f"a{number}", call.result.ddl()) for number, call in enumerate(query.aggregation.calls)]
    return [
        (f"{number}.{name}", field.type.ddl())
        for number, relation in enumerate(query.relations)
        for name in relation.columns
        if (field := streams[relation.stream].schema.find(name)) is not None
    ]


def _check_relation(stream: Stream, predicates: list[Opaque], keys: list[Opaque], spark: Any) -> None:
    if not predicates and not keys:
        return
    fields = [(field.name, field.type.ddl()) for field in stream.schema]
    texts = [part.sql for part in predicates] + [key.sql for key in keys]
    for part, type_ in zip(predicates, expression_types(spark, fields, texts), strict=False):
        if type_ != "boolean":
            raise TypeMismatch(
                f'predicate {part.sql} on stream "{stream.name}" has type {type_}, not boolean',
                hint="Compare it with something.",
            )
