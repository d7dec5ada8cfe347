"""Types that only Spark can tell: the parts of a query that Spark will evaluate are analysed by Spark first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.errors import TypeMismatch
from weft.plan.expression import Expression, Opaque, conjuncts
from weft.plan.query import BoundQuery
from weft.plan.stream import Stream
from weft.runtime.results import expression_types


def check_types(query: BoundQuery, streams: Mapping[str, Stream], spark: Any) -> BoundQuery:
    """The query if all its parts have types; asks Spark only where the binder could not tell."""
    for number, relation in enumerate(query.relations):
        predicates = [part for part in conjuncts(relation.predicate) if isinstance(part, Opaque)]
        keys = [pair.left if number == 0 else pair.right for pair in query.keys]
        _check_relation(streams[relation.stream], predicates, [key for key in keys if isinstance(key, Opaque)], spark)
    unknown = [output.sql for output in query.outputs if output.type is None]
    if unknown:
        fields = [
            (f"{number}.{name}", field.type.ddl())
            for number, relation in enumerate(query.relations)
            for name in relation.columns
            if (field := streams[relation.stream].schema.find(name)) is not None
        ]
        windows = [("window_start", "timestamp"), ("window_end", "timestamp")] if query.sliding else []
        expression_types(spark, fields + windows, unknown)
    return query


def _check_relation(stream: Stream, predicates: list[Opaque], keys: list[Expression], spark: Any) -> None:
    if not predicates and not keys:
        return
    fields = [(field.name, field.type.ddl()) for field in stream.schema]
    texts = [part.sql for part in predicates] + [key.sql for key in keys if isinstance(key, Opaque)]
    for part, type_ in zip(predicates, expression_types(spark, fields, texts), strict=False):
        if type_ != "boolean":
            raise TypeMismatch(
                f'predicate {part.sql} on stream "{stream.name}" has type {type_}, not boolean',
                hint="Compare it with something.",
            )
