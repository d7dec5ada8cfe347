"""The conjuncts of ON and WHERE, sorted into predicates, join keys, bounds on event times and other conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from weft.errors import TypeMismatch, UnsupportedQuery
from weft.plan.expression import TRUE, Call, Column, Expression, Literal, Opaque
from weft.plan.identity import identity
from weft.plan.query import Condition, KeyPair
from weft.plan.types import BOOLEAN, Kind
from weft.plan.window import EVERYTHING, TimeBounds
from weft.sql.names.connection import linked_groups
from weft.sql.names.scope import Merge, Scope
from weft.sql.syntax.interval import time_bounds
from weft.sql.syntax.literal import NeedsSpark
from weft.sql.syntax.parse import ConditionText, strip
from weft.sql.syntax.spark_text import short_text
from weft.sql.types.bind_expression import bind_combined, bind_expression
from weft.sql.types.coercion import as_condition, coerce_key, common_type

Pair = tuple[int, int]

_FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.EQ: exp.EQ, exp.NEQ: exp.NEQ, exp.NullSafeEQ: exp.NullSafeEQ,
    exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE,
}  # fmt: skip


@dataclass(slots=True)
class Conditions:
    """The conditions of ON and WHERE by kind; filled conjunct by conjunct."""

    scope: Scope
    predicates: list[list[Expression]]
    keys: list[KeyPair] = field(default_factory=list)
    others: list[Condition] = field(default_factory=list)
    bounds: dict[Pair, TimeBounds] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    # Equalities of event times at a distance become keys only where no other key joins: they cost a computed column.
    spare_keys: list[tuple[Pair, exp.Expr, Scope]] = field(default_factory=list)

    def predicate(self, relation: int) -> Expression | None:
        """Return the conjunction of a relation's predicates; None for a relation without predicates."""
        parts = self.predicates[relation]
        if not parts:
            return None
        return parts[0] if len(parts) == 1 else Call("and", tuple(parts), BOOLEAN)

    def sorted_keys(self) -> tuple[KeyPair, ...]:
        """Return the distinct keys, ordered by relations and identity."""
        by_identity = {
            (key.left_relation, key.right_relation, identity(key.left), identity(key.right)): key for key in self.keys
        }
        return tuple(by_identity[key_identity] for key_identity in sorted(by_identity))

    def conditions(self) -> tuple[Condition, ...]:
        """Return the distinct other conditions in the order of the query: an earlier one may guard a later one."""
        by_identity: dict[tuple[tuple[int, ...], str], Condition] = {}
        for condition in self.others:
            by_identity.setdefault((condition.relations, identity(condition.expression)), condition)
        return tuple(by_identity.values())

    def limit(self, pair: Pair, bounds: TimeBounds) -> None:
        """Add a bound on the distance of the event times of two relations."""
        self.bounds[pair] = self.bounds.get(pair, EVERYTHING).intersect(bounds)

    def unconnected(self, pairs: Iterable[Pair], links: Iterable[tuple[int, ...]]) -> list[Pair]:
        """Return the `pairs` whose relations no chain of `links` connects."""
        group = {index: i for i, members in enumerate(linked_groups(len(self.predicates), links)) for index in members}
        return [pair for pair in pairs if group[pair[0]] != group[pair[1]]]


def sort_conditions(conjuncts: Sequence[ConditionText], scope: Scope) -> Conditions:
    """Return the conditions of a query, checked and typed."""
    conditions = Conditions(scope, [[] for _ in scope.sources])
    for merge in scope.merges:
        _add_merge(merge, conditions)
    for conjunct in conjuncts:
        _add(conjunct.node, scope.within(conjunct.relations), conditions)
    _connect_by_time(conditions)
    return conditions


def _connect_by_time(conditions: Conditions) -> None:
    """Join relations that only event times connect: by a spare key, else by a condition that is always true."""
    links = [(key.left_relation, key.right_relation) for key in conditions.keys]
    spare = set(conditions.unconnected((pair for pair, _, _ in conditions.spare_keys), links))
    for pair, node, scope in conditions.spare_keys:
        if pair in spare:
            _add_equality(node, scope, conditions)
    links = [(key.left_relation, key.right_relation) for key in conditions.keys]
    connections = [*links, *(condition.relations for condition in conditions.others)]
    for pair in conditions.unconnected(sorted(conditions.bounds), connections):
        conditions.others.append(Condition(pair, TRUE))


def _add_merge(merge: Merge, conditions: Conditions) -> None:
    sides = [conditions.scope.sources[index] for index in (merge.left, merge.right)]
    fields = [source.fields[merge.name] for source in sides]
    columns = {source.index: Column(field.name, field.type) for source, field in zip(sides, fields, strict=True)}
    name = exp.to_identifier(fields[0].name)
    _add_key(columns, exp.EQ(this=name, expression=name.copy()), conditions)
    if all(merge.name == source.stream.time.lower() for source in sides):
        conditions.limit((merge.left, merge.right), TimeBounds(0, 0))


def relations_of(node: exp.Expr, scope: Scope) -> set[int]:
    """Return the indices of the relations that a condition reads."""
    relations = set()
    for column in node.find_all(exp.Column):
        relation = scope.resolve(column).relation
        if relation is None:
            raise UnsupportedQuery(
                f'"{column.name}" in a condition is not supported',
                hint="It can be selected; to limit time, filter on the event-time column.",
            )
        relations.add(relation)
    return relations


def _add(node: exp.Expr, scope: Scope, conditions: Conditions) -> None:
    relations = relations_of(node, scope)
    if len(relations) <= 1:
        _add_predicate(node, min(relations, default=0), scope, conditions)
        return
    for part in _split(node):
        if len(relations_of(part, scope)) <= 1:
            _add(part, scope, conditions)
        else:
            _add_cross(part, scope, conditions)


def _split(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the comparisons that BETWEEN or an equality of rows stands for; else the node itself."""
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


def _add_predicate(node: exp.Expr, relation: int, scope: Scope, conditions: Conditions) -> None:
    bound = bind_expression(node, relation, scope)
    if isinstance(bound, Opaque):
        name = scope.sources[relation].stream.name
        conditions.notices.append(f'"{short_text(node)}" is evaluated by Spark: stream "{name}" takes the row path')
        if bound.type not in (None, BOOLEAN):
            raise TypeMismatch(f'a condition must be boolean: "{short_text(node)}"')
    else:
        bound = as_condition(bound, "a condition")
    if isinstance(bound, Literal):
        if bound.value is True:
            return
        bound = Literal(False, BOOLEAN)
    parts = bound.args if isinstance(bound, Call) and bound.name == "and" else (bound,)
    conditions.predicates[relation] += parts


def _add_cross(node: exp.Expr, scope: Scope, conditions: Conditions) -> None:
    time_condition = time_bounds(node, _time_of(scope))
    if time_condition is not None:
        pair, bounds = time_condition
        conditions.limit(pair, bounds)
        if isinstance(node, exp.EQ):
            are_columns = isinstance(strip(node.this), exp.Column) and isinstance(strip(node.expression), exp.Column)
            if are_columns:
                _add_equality(node, scope, conditions)
            else:
                conditions.spare_keys.append((pair, node, scope))
        return
    sides = [relations_of(side, scope) for side in (node.this, node.expression)] if type(node) in _FLIPPED else []
    if isinstance(node, exp.EQ) and all(len(side) == 1 for side in sides):
        _add_equality(node, scope, conditions)
    else:
        _add_condition(node, sides, scope, conditions)


def _add_condition(node: exp.Expr, sides: Sequence[set[int]], scope: Scope, conditions: Conditions) -> None:
    relations = tuple(sorted(relations_of(node, scope)))
    flipped = [len(side) for side in sides] == [1, 1] and min(sides[0]) > min(sides[1])
    ordered = _FLIPPED[type(node)](this=node.expression.copy(), expression=node.this.copy()) if flipped else node
    bound = bind_combined(ordered, scope)
    if isinstance(bound, Opaque):
        conditions.notices.append(f'"{short_text(node)}" is evaluated by Spark on every combination of rows')
    if not isinstance(bound, Literal):
        conditions.others.append(Condition(relations, bound))
    elif bound.value is not True:
        conditions.predicates[relations[0]].append(Literal(False, BOOLEAN))


def _time_of(scope: Scope) -> Callable[[exp.Column], int | None]:
    """Return a function that gives the relation whose event time a column is; None for other columns."""

    def relation(column: exp.Column) -> int | None:
        resolved = scope.resolve(column)
        if resolved.relation is None or resolved.path:
            return None
        stream = scope.sources[resolved.relation].stream
        return resolved.relation if resolved.field.name.lower() == stream.time.lower() else None

    return relation


def _add_equality(node: exp.Expr, scope: Scope, conditions: Conditions) -> None:
    sides: dict[int, Expression] = {}
    for side in (node.this, node.expression):
        relations = relations_of(side, scope)
        if len(relations) != 1:
            return
        relation = min(relations)
        sides[relation] = bind_expression(strip(side), relation, scope)
    _add_key(sides, node, conditions)


def _add_key(sides: Mapping[int, Expression], node: exp.Expr, conditions: Conditions) -> None:
    first, second = sorted(sides)
    left, right = sides[first], sides[second]
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
    key = KeyPair(coerce_key(left, target), coerce_key(right, target), target, first, second)
    conditions.keys.append(key)
    for side, relation in ((key.left, first), (key.right, second)):
        if isinstance(side, Opaque):
            name = conditions.scope.sources[relation].stream.name
            conditions.notices.append(
                f'join key "{side.sql}" is evaluated by Spark: stream "{name}" takes the row path'
            )
