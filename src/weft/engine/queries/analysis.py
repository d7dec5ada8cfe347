"""Types that only Spark knows: Spark analyses the parts of a query that it will evaluate."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from weft.errors import TypeMismatch, UnsupportedQuery
from weft.execution.compile import computed_parts
from weft.kernels.payload_types import payload_type
from weft.plan.aggregation import Aggregation
from weft.plan.expression import Opaque, columns_of, conjuncts, parts_of, to_sql
from weft.plan.query import BoundQuery
from weft.plan.stream import Stream
from weft.plan.types import DataType, Field, Kind
from weft.spark.select_list import expression_types

_DAY_TIME = re.compile(r"\binterval (?:day|hour|minute|second)(?: to (?:hour|minute|second))?")


def check_types(query: BoundQuery, streams: Mapping[str, Stream], spark: Callable[[], Any]) -> BoundQuery:
    """Return the query if it can run and all its parts have types; ask Spark only about what Spark will evaluate."""
    _check_supported(query)
    _check_carried(query, streams)
    questions = [_about_relation(query, number, streams) for number in range(len(query.relations))]
    questions.append(_about_results(query, streams))
    for question in _merged(question for question in questions if question.texts):
        types = expression_types(spark(), list(question.fields.items()), question.texts)
        for (_, what), type_ in zip(question.conditions, types, strict=False):
            if type_ != "boolean":
                raise TypeMismatch(f"{what} has type {type_}, not boolean", hint="Compare it with something.")
    return query


@dataclass(slots=True)
class _Question:
    """Expressions over some columns for Spark to analyse; the conditions must be boolean."""

    fields: dict[str, str] = field(default_factory=dict)
    conditions: list[tuple[str, str]] = field(default_factory=list)
    """Texts, and their descriptions for errors."""
    others: list[str] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        return [text for text, _ in self.conditions] + self.others


def _merged(questions: Iterable[_Question]) -> list[_Question]:
    """Merge questions as far as possible: each takes Spark milliseconds, and the user waits for the query."""
    merged: list[_Question] = []
    for question in questions:
        last = merged[-1] if merged else None
        names = {name.lower() for name in question.fields}
        if last is None or any(name.lower() in names for name in last.fields):
            merged.append(question)
        else:
            last.fields |= question.fields
            last.conditions += question.conditions
            last.others += question.others
    return merged


def _about_relation(query: BoundQuery, number: int, streams: Mapping[str, Stream]) -> _Question:
    """Return the question about predicates, keys and aggregate arguments that Spark computes from a relation's rows."""
    relation = query.relations[number]
    stream = streams[relation.stream]
    predicates = [part for part in conjuncts(relation.predicate) if isinstance(part, Opaque)]
    computed = [part for part in computed_parts(query, number) if isinstance(part, Opaque)]
    read = {name for part in (*predicates, *computed) for name in part.columns}
    fields = {column.name: column.type.ddl() for column in stream.schema if column.name in read}
    conditions = [(part.sql, f'predicate {part.sql} on stream "{stream.name}"') for part in predicates]
    return _Question(fields, conditions, [part.sql for part in computed])


def _about_results(query: BoundQuery, streams: Mapping[str, Stream]) -> _Question:
    """Return the question about the SELECT list and HAVING."""
    having = None if query.aggregation is None else query.aggregation.having
    fields = dict(_result_fields(query, streams))
    if query.sliding or query.session:
        fields |= {"window_start": "timestamp", "window_end": "timestamp"}
    unknown = [output.sql for output in query.outputs if output.type is None or output.doubtful]
    return _Question(fields, [] if having is None else [(having, "HAVING condition")], unknown)


def _check_carried(query: BoundQuery, streams: Mapping[str, Stream]) -> None:
    """Raise UnsupportedQuery if a column that is read has a type that Arrow lacks: rows travel in Arrow's form."""
    for number, relation in enumerate(query.relations):
        stream = streams[relation.stream]
        parts = [*conjuncts(relation.predicate), *computed_parts(query, number)]
        shown = {name for part in parts if isinstance(part, Opaque) for name in part.columns}
        kept = {
            *relation.columns,
            *(name for part in parts if not isinstance(part, Opaque) for name in columns_of(part)),
        }
        kept |= {
            name.partition(".")[2]
            for condition in query.conditions
            for name in columns_of(condition.expression)
            if name.startswith(f"{number}.")
        }
        for column in stream.schema:
            if column.name in kept or column.name in shown:
                _check_column(column, stream, kept=column.name in kept)


def _check_column(column: Field, stream: Stream, *, kept: bool) -> None:
    type_ = column.type
    if not kept and type_.kind is Kind.OTHER:
        # Only Spark reads the column; it passes intervals on as numbers that are never read.
        type_ = DataType(Kind.OTHER, text=_DAY_TIME.sub("bigint", type_.text))
    try:
        payload_type(type_)
    except ValueError as error:
        raise UnsupportedQuery(
            f'column "{column.name}" of stream "{stream.name}" has type {column.type.ddl()[:200]}, which is not '
            "supported",
            hint="Leave it out of the query, or convert it in the DataFrame: CAST(… AS STRING).",
        ) from error


def _check_supported(query: BoundQuery) -> None:
    """Raise UnsupportedQuery for joins that the front end accepts but no operator can run."""
    if len(query.relations) <= 2 and not query.conditions:
        return
    many = len(query.relations) > 2
    what = f"joins of {len(query.relations)} relations" if many else "joins by other conditions than ="
    for condition in query.conditions:
        if any(isinstance(part, Opaque) for part in parts_of(condition.expression)):
            raise UnsupportedQuery(
                f"condition {to_sql(condition.expression)} uses a function that only Spark computes",
                hint="Between relations, use comparisons, arithmetic and the functions that weft computes itself.",
            )
    if query.aggregation is not None:
        _check_grouped(query, query.aggregation, what)


def _check_grouped(query: BoundQuery, aggregation: Aggregation, what: str) -> None:
    """Raise UnsupportedQuery if Spark would have to compute values of combinations, which it never sees."""
    for part in (part for number in range(len(query.relations)) for part in aggregation.parts(number)):
        if any(isinstance(node, Opaque) for node in parts_of(part)):
            raise UnsupportedQuery(
                f"{to_sql(part)} is computed by Spark and cannot be aggregated over {what}",
                hint="Use columns, or integers and doubles computed of them: CAST(price AS DOUBLE) * 2.",
            )


def _result_fields(query: BoundQuery, streams: Mapping[str, Stream]) -> list[tuple[str, str]]:
    """Return the names and types of the columns that the SELECT list is over."""
    if query.aggregation is not None:
        keys = [(f"g{number}", key.type.ddl()) for number, key in enumerate(query.aggregation.keys)]
        return keys + [(f"a{number}", call.result.ddl()) for number, call in enumerate(query.aggregation.calls)]
    return [
        (f"{number}.{name}", column.type.ddl())
        for number, relation in enumerate(query.relations)
        for name in relation.columns
        if (column := streams[relation.stream].schema.find(name)) is not None
    ]
