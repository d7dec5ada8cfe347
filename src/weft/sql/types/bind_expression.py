"""Bind syntax nodes to expressions over one relation or over combinations; Spark evaluates what weft cannot."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from weft.errors import TypeMismatch
from weft.plan.expression import Column, Expression, Opaque
from weft.plan.types import BOOLEAN
from weft.sql.functions.harden import harden
from weft.sql.names.scope import Scope
from weft.sql.syntax.literal import NeedsSpark
from weft.sql.syntax.parse import strip
from weft.sql.syntax.spark_text import combined_name, short_text, spark_text
from weft.sql.types.coercion import as_condition
from weft.sql.types.result_type import opaque_type
from weft.sql.types.translate import Names, translate


def bind_expression(node: exp.Expr, relation: int, scope: Scope) -> Expression:
    """Return the expression of a node over one relation; an `Opaque` for the whole node if weft cannot evaluate it."""
    try:
        return translate(node, column_names(scope))
    except NeedsSpark:
        return _opaque(node, relation, scope)


def column_names(scope: Scope) -> Names:
    """Return a function that resolves a column reference to a `Column`; it leaves fields of structs to Spark."""

    def name(column: exp.Column) -> Column:
        resolved = scope.resolve(column)
        if resolved.path:
            raise NeedsSpark
        return Column(resolved.field.name, resolved.field.type)

    return name


def combined_path(scope: Scope) -> Callable[[exp.Column], tuple[str, ...]]:
    """Return a function that gives a column's name in a combination, and the struct fields taken from the column."""

    def path(column: exp.Column) -> tuple[str, ...]:
        resolved = scope.resolve(column)
        return combined_name(resolved.relation, resolved.field.name), *resolved.path

    return path


def bind_combined(node: exp.Expr, scope: Scope) -> Expression:
    """Return a condition over several relations, with columns named as in a combination."""
    try:
        return as_condition(translate(node, _combined_names(scope)), "a condition")
    except NeedsSpark:
        return _opaque_combined(node, scope)
    except TypeMismatch:
        # Raise the same error with the column names that the user wrote instead of numbered relations.
        as_condition(translate(node, _written_names(scope)), "a condition")
        raise


def _combined_names(scope: Scope) -> Names:
    resolve = column_names(scope)

    def name(column: exp.Column) -> Column:
        return Column(combined_name(scope.resolve(column).relation, resolve(column).name), resolve(column).type)

    return name


def _written_names(scope: Scope) -> Names:
    resolve = column_names(scope)
    return lambda column: Column(short_text(column), resolve(column).type)


def _opaque_combined(node: exp.Expr, scope: Scope) -> Opaque:
    type_ = opaque_type(node, column_names(scope))
    if type_ not in (None, BOOLEAN):
        raise TypeMismatch(f'a condition must be boolean: "{short_text(node)}"')
    read = {(resolved.relation, resolved.field.name) for resolved in map(scope.resolve, node.find_all(exp.Column))}
    columns = tuple(
        combined_name(source.index, name)
        for source in scope.sources
        for name in source.stream.schema.names()
        if (source.index, name) in read
    )
    return Opaque(spark_text(harden(node, column_names(scope)), combined_path(scope)), columns, type_)


def _opaque(node: exp.Expr, relation: int, scope: Scope) -> Opaque | Column:
    inner = strip(node)
    if isinstance(inner, exp.Column) and not (resolved := scope.resolve(inner)).path:
        return Column(resolved.field.name, resolved.field.type)

    def names(column: exp.Column) -> tuple[str, ...]:
        resolved = scope.resolve(column)
        return resolved.field.name, *resolved.path

    read = {scope.resolve(column).field.name for column in node.find_all(exp.Column)}
    order = scope.sources[relation].stream.schema.names()
    columns = tuple(column for column in order if column in read)
    text = spark_text(harden(node, column_names(scope)), names)
    return Opaque(text, columns, opaque_type(node, column_names(scope)))
