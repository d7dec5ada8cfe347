"""Conjuncts of ON and WHERE: predicates of one relation, join keys, and time distances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from weft.errors import TypeMismatch, UnsupportedQuery
from weft.plan.expression import Call, Column, Expression, Literal, Opaque, to_sql
from weft.plan.query import KeyPair
from weft.plan.types import BOOLEAN, STRING, TIMESTAMP, DataType, Kind
from weft.plan.window import EVERYTHING, TimeBounds
from weft.sql.coercion import as_condition, coerce_key, common_type
from weft.sql.function import RESULT_TYPES
from weft.sql.interval import time_bounds
from weft.sql.literal import NeedsSpark
from weft.sql.parse import strip
from weft.sql.scan import MARK
from weft.sql.scope import Scope, Source
from weft.sql.text import short_text, spark_text
from weft.sql.translate import Names, data_type, translate

_BOOLEAN_NODES = (exp.Predicate, exp.Connector, exp.Not, exp.Escape)
_TEXT_NODES = (exp.Substring, exp.Trim, exp.Concat, exp.Overlay, exp.Left, exp.Right, exp.Replace)


@dataclass(slots=True)
class Conditions:
    """What ON and WHERE say, sorted by whom it concerns; filled conjunct by conjunct."""

    scope: Scope
    predicates: list[list[Expression]]
    keys: list[KeyPair] = field(default_factory=list)
    bounds: TimeBounds = EVERYTHING
    notices: list[str] = field(default_factory=list)
    # Equal event times at a distance serve as keys only if nothing better does: they cost a computed column.
    spare_keys: list[exp.Expr] = field(default_factory=list)

    def predicate(self, relation: int) -> Expression | None:
        """The conjunction of a relation's predicates, None if there is none."""
        parts = self.predicates[relation]
        if not parts:
            return None
        return parts[0] if len(parts) == 1 else Call("and", tuple(parts), BOOLEAN)

    def sorted_keys(self) -> tuple[KeyPair, ...]:
        """Distinct keys in the order of their text."""
        by_text = {(to_sql(key.left), to_sql(key.right)): key for key in self.keys}
        return tuple(by_text[text] for text in sorted(by_text))


def sort_conditions(conjuncts: Sequence[exp.Expr], using: Sequence[str], scope: Scope) -> Conditions:
    """All conditions of a query, each checked and typed."""
    found = Conditions(scope, [[] for _ in scope.sources])
    for name in using:
        left, right = (_using_column(source, name) for source in scope.sources)
        _add_key(left, right, exp.EQ(this=exp.to_identifier(name), expression=exp.to_identifier(name)), found)
        if all(name.lower() == source.stream.time.lower() for source in scope.sources):
            found.bounds = found.bounds.intersect(TimeBounds(0, 0))
    for node in conjuncts:
        _add(node, found)
    if not found.keys:
        for node in found.spare_keys:
            _add_equality(node, found)
    return found


def _using_column(source: Source, name: str) -> Column:
    hit = source.fields[name.lower()]
    return Column(hit.name, hit.type)


def relations_of(node: exp.Expr, scope: Scope) -> set[int]:
    """Indices of the relations a condition reads."""
    found = set()
    for column in node.find_all(exp.Column):
        relation = scope.resolve(column).relation
        if relation is None:
            raise UnsupportedQuery(
                f'"{column.name}" in a condition is not supported',
                hint="It can be selected; to limit time, filter on the event-time column.",
            )
        found.add(relation)
    return found


def _add(node: exp.Expr, found: Conditions) -> None:
    relations = relations_of(node, found.scope)
    if len(relations) <= 1:
        _add_predicate(node, min(relations, default=0), found)
        return
    for part in _split(node):
        if len(relations_of(part, found.scope)) <= 1:
            _add(part, found)
        else:
            _add_cross(part, found)


def _split(node: exp.Expr) -> Iterator[exp.Expr]:
    """BETWEEN and equal rows as the comparisons they stand for."""
    match node:
        case exp.Between() if not node.args.get("symmetric"):
            yield exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
            yield exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
        case exp.EQ(this=exp.Tuple() as left, expression=exp.Tuple() as right):
            if len(left.expressions) != len(right.expressions):
                raise TypeMismatch(f'"{short_text(node)}" compares rows of different lengths')
            for first, second in zip(left.expressions, right.expressions, strict=True):
                yield exp.EQ(this=first.copy(), expression=second.copy())
        case _:
            yield node


def _add_predicate(node: exp.Expr, relation: int, found: Conditions) -> None:
    bound = bind_expression(node, relation, found.scope)
    if isinstance(bound, Opaque):
        name = found.scope.sources[relation].stream.name
        found.notices.append(f'"{short_text(node)}" is evaluated by Spark: stream "{name}" takes the row path')
        if bound.type not in (None, BOOLEAN):
            raise TypeMismatch(f'a condition must be boolean: "{short_text(node)}"')
    else:
        bound = as_condition(bound, "a condition")
    if isinstance(bound, Literal):
        if bound.value is True:
            return
        bound = Literal(False, BOOLEAN)
    parts = bound.args if isinstance(bound, Call) and bound.name == "and" else (bound,)
    found.predicates[relation] += parts


def _add_cross(node: exp.Expr, found: Conditions) -> None:
    bounds = time_bounds(node, lambda column: _time_relation(column, found.scope))
    if bounds is not None:
        found.bounds = found.bounds.intersect(bounds)
        if isinstance(node, exp.EQ):
            plain = isinstance(strip(node.this), exp.Column) and isinstance(strip(node.expression), exp.Column)
            if plain:
                _add_equality(node, found)
            else:
                found.spare_keys.append(node)
        return
    if not isinstance(node, exp.EQ) or any(
        len(relations_of(side, found.scope)) != 1 for side in (node.this, node.expression)
    ):
        raise UnsupportedQuery(
            f'the join condition "{short_text(node)}" is not supported',
            hint="Relations are joined by equalities (a.x = b.y) and by the distance of their event-time columns "
            "(a.ts <= b.ts + INTERVAL 10 SECONDS).",
        )
    _add_equality(node, found)


def _time_relation(column: exp.Column, scope: Scope) -> int | None:
    resolved = scope.resolve(column)
    if resolved.relation is None or resolved.path:
        return None
    stream = scope.sources[resolved.relation].stream
    return resolved.relation if resolved.field.name.lower() == stream.time.lower() else None


def _add_equality(node: exp.Expr, found: Conditions) -> None:
    sides: dict[int, Expression] = {}
    for side in (node.this, node.expression):
        relations = relations_of(side, found.scope)
        if len(relations) != 1:
            return
        relation = min(relations)
        sides[relation] = bind_expression(strip(side), relation, found.scope)
    _add_key(sides[0], sides[1], node, found)


def _add_key(left: Expression, right: Expression, node: exp.Expr, found: Conditions) -> None:
    if left.type is None or right.type is None:
        raise UnsupportedQuery(
            f'the type of a side of the join condition "{short_text(node)}" is not known',
            hint="Say what it is: CAST(… AS type).",
        )
    try:
        target = common_type(left.type, right.type)
    except NeedsSpark:
        target = None
    if target is None:
        raise TypeMismatch(
            f'the join condition "{short_text(node)}" compares types {left.type.ddl()} and {right.type.ddl()}',
            hint="Cast one side: CAST(… AS type).",
        )
    if target.kind in (Kind.OTHER, Kind.NULL):
        raise UnsupportedQuery(f'the join condition "{short_text(node)}" compares values of type {target.ddl()}')
    key = KeyPair(coerce_key(left, target), coerce_key(right, target), target)
    found.keys.append(key)
    for side, source in zip((key.left, key.right), found.scope.sources, strict=True):
        if isinstance(side, Opaque):
            name = source.stream.name
            found.notices.append(f'join key "{side.sql}" is evaluated by Spark: stream "{name}" takes the row path')


def bind_expression(node: exp.Expr, relation: int, scope: Scope) -> Expression:
    """A node over one relation as an expression of the algebra, or as a whole left to Spark."""
    try:
        return translate(node, column_names(scope))
    except NeedsSpark:
        return _opaque(node, relation, scope)


def column_names(scope: Scope) -> Names:
    """What a column reference means in an expression; fields of structs are left to Spark."""

    def name(column: exp.Column) -> Column:
        resolved = scope.resolve(column)
        if resolved.path:
            raise NeedsSpark
        return Column(resolved.field.name, resolved.field.type)

    return name


def type_of(node: exp.Expr, names: Names) -> DataType | None:
    """The type of a node's value, None where only Spark can tell."""
    try:
        return translate(node, names).type
    except NeedsSpark:
        return opaque_type(node, names)


def _opaque(node: exp.Expr, relation: int, scope: Scope) -> Opaque | Column:
    plain = strip(node)
    if isinstance(plain, exp.Column) and not (resolved := scope.resolve(plain)).path:
        return Column(resolved.field.name, resolved.field.type)

    def names(column: exp.Column) -> tuple[str, ...]:
        resolved = scope.resolve(column)
        return resolved.field.name, *resolved.path

    read = {scope.resolve(column).field.name for column in node.find_all(exp.Column)}
    order = scope.sources[relation].stream.schema.names()
    columns = tuple(column for column in order if column in read)
    return Opaque(spark_text(node, names), columns, opaque_type(node, column_names(scope)))


def opaque_type(node: exp.Expr, names: Names) -> DataType | None:
    """The type Spark will give a node we do not evaluate, where that can be told from its outside."""
    node = strip(node)
    match node:
        case exp.Cast() | exp.TryCast():
            found = data_type(node.args["to"])
            return None if found.kind is Kind.OTHER else found
        case exp.Anonymous():
            return RESULT_TYPES.get(node.name.removeprefix(MARK).lower())
        case exp.Add() | exp.Sub() if isinstance(strip(node.expression), exp.Interval):
            return TIMESTAMP if opaque_type(node.this, names) == TIMESTAMP else None
        case exp.Column():
            try:
                return names(node).type
            except NeedsSpark:
                return None
        case _:
            pass
    if isinstance(node, _BOOLEAN_NODES):
        return BOOLEAN
    return STRING if isinstance(node, _TEXT_NODES) else None
