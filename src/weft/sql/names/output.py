"""The SELECT list: names, Spark SQL and types of the result's columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from weft.errors import QueryTooLarge, UnknownStream
from weft.plan.query import Output
from weft.plan.types import Field
from weft.sql.functions.growth import growth
from weft.sql.functions.harden import harden, needs_spark
from weft.sql.names.scope import Merge, Scope, Source
from weft.sql.syntax.parse import strip
from weft.sql.syntax.spark_text import combined_name, default_name, quoted_column, spark_text
from weft.sql.types.bind_expression import column_names, combined_path
from weft.sql.types.result_type import type_of

MOST_OUTPUTS = 10_000


def select_outputs(projections: Sequence[exp.Expr], scope: Scope) -> tuple[Output, ...]:
    """Return the outputs in order; `*` stands for all columns of all relations, those of USING once and first."""
    outputs: list[Output] = []
    for node in projections:
        outputs += _outputs(node, scope)
        if len(outputs) > MOST_OUTPUTS:
            raise QueryTooLarge(f"the query selects more than {MOST_OUTPUTS} columns")
    return tuple(outputs)


def columns_read(projections: Sequence[exp.Expr], scope: Scope, relation: int) -> tuple[str, ...]:
    """Return the columns that the SELECT list reads from a relation, in the order of the schema."""
    source = scope.sources[relation]
    read: set[str] = set()
    for node in projections:
        if isinstance(node, exp.Star):
            return source.stream.schema.names()
        for column in node.find_all(exp.Column):
            if isinstance(column.this, exp.Star):
                if _starred(column, scope) is source:
                    return source.stream.schema.names()
            elif (resolved := scope.resolve(column)).relation == relation:
                read.add(resolved.field.name)
    return tuple(name for name in source.stream.schema.names() if name in read)


def _outputs(node: exp.Expr, scope: Scope) -> Iterator[Output]:
    match node:
        case exp.Star():
            yield from _all_columns(scope)
        case exp.Column(this=exp.Star()):
            source = _starred(node, scope)
            yield from (_column_output(field.name, source.index, field) for field in source.stream.schema)
        case exp.Alias():
            yield _output(node.this, node.alias, scope)
        case _:
            yield _output(node, None, scope)


def _starred(node: exp.Column, scope: Scope) -> Source:
    alias = ".".join(part.name for part in node.parts[:-1])
    source = scope.source(alias)
    if source is None:
        raise UnknownStream(
            f'relation "{alias}" of "{alias}.*" does not exist',
            hint=f"Relations are: {', '.join(source.alias for source in scope.sources)}.",
        )
    return source


def _all_columns(scope: Scope) -> Iterator[Output]:
    fields: list[tuple[int, Field]] = []
    for source in scope.sources:
        fields = _merged_first(fields, [merge for merge in scope.merges if merge.right == source.index])
        fields += ((source.index, field) for field in source.stream.schema if not scope.hides(source.index, field.name))
    return (_column_output(field.name, relation, field) for relation, field in fields)


def _merged_first(columns: list[tuple[int, Field]], merges: Sequence[Merge]) -> list[tuple[int, Field]]:
    """Return the columns with those of one JOIN … USING moved to the front of its chain of JOINs."""
    if not merges:
        return columns
    names = {(merge.left, merge.name) for merge in merges}
    before = [column for column in columns if column[0] < merges[0].first]
    chain = columns[len(before) :]
    merged = [column for column in chain if (column[0], column[1].name.lower()) in names]
    return [*before, *merged, *(column for column in chain if column not in merged)]


def _column_output(name: str, relation: int | None, field: Field) -> Output:
    return Output(name, quoted_column(relation, field.name), field.type, combined_name(relation, field.name))


def _output(node: exp.Expr, alias: str | None, scope: Scope) -> Output:
    inner = strip(node)
    if isinstance(inner, exp.Column):
        resolved = scope.resolve(inner)
        if not resolved.path:
            return _column_output(alias or inner.name, resolved.relation, resolved.field)
        alias = alias or inner.name
    names = column_names(scope)
    text = spark_text(harden(inner, names), combined_path(scope))
    size = growth(inner)
    return Output(
        alias or default_name(inner),
        text,
        type_of(inner, names),
        doubtful=needs_spark(inner, names),
        copies=size.copies,
        added=size.added,
    )
