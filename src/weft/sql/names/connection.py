"""Which relations conditions connect, and which values equalities make equal."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from weft.plan.expression import Call, Column, Expression, Literal, Value, conjuncts
from weft.plan.identity import identity
from weft.plan.key import Key
from weft.plan.query import Condition, KeyPair
from weft.plan.types import INTEGERS, DataType, Kind

# A relation's index, and an expression over its rows without exact casts.
Member = tuple[int, Expression]
T = TypeVar("T", bound=Hashable)

_EXACT = (*INTEGERS, Kind.DECIMAL)
# Types whose values are equal exactly if Python's values are. Floating point is not among them, because of NaN.
_PLAIN = (*_EXACT, Kind.STRING, Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP)
_EXCLUDING = ("lt", "gt", "ne")


def linked_groups(count: int, links: Iterable[Sequence[int]]) -> list[list[int]]:
    """Return the numbers below `count`, grouped by the links that connect them; groups are sorted."""
    return [sorted(group) for group in _groups(range(count), links)]


def equality_classes(keys: Iterable[KeyPair]) -> list[set[Member]]:
    """Return the classes of values that the keys make equal, directly or transitively."""
    pairs = [(_member(key.left_relation, key.left), _member(key.right_relation, key.right)) for key in keys]
    return _groups((member for pair in pairs for member in pair), pairs)


@dataclass(frozen=True, slots=True)
class CommonKey:
    """A key that all relations of a join have: the types of its parts, and the key's expressions for each relation."""

    types: tuple[DataType, ...]
    keys: tuple[Key, ...]


def common_key(keys: Sequence[KeyPair], count: int) -> CommonKey | None:
    """Return the key that joins all `count` relations; None if an equality class lacks a relation or a common type."""
    types: list[DataType] = []
    parts: list[tuple[Expression, ...]] = []
    for members in sorted(equality_classes(keys), key=lambda members: sorted(identity(value) for _, value in members)):
        type_ = _widest({key.type for key in keys if _member(key.left_relation, key.left) in members})
        if type_ is None or {relation for relation, _ in members} != set(range(count)):
            return None
        values = [_values(members, relation, type_) for relation in range(count)]
        firsts = tuple(own[0] for own in values)
        # If a relation has several values in the class, each of them equals the first value of every other relation.
        others = [(relation, value) for relation, own in enumerate(values) for value in own[1:]]
        parts += [firsts, *((*firsts[:relation], value, *firsts[relation + 1 :]) for relation, value in others)]
        types += [type_] * (1 + len(others))
    return CommonKey(tuple(types), tuple(zip(*parts, strict=True))) if parts else None


def _widest(types: set[DataType]) -> DataType | None:
    """Return the type that holds the values of all types; None unless there is one type or all are integers."""
    if len(types) == 1:
        return next(iter(types))
    return max(types, key=lambda type_: INTEGERS.index(type_.kind)) if {t.kind for t in types} <= {*INTEGERS} else None


def _values(members: Iterable[Member], relation: int, type_: DataType) -> list[Expression]:
    own = sorted((value for owner, value in members if owner == relation), key=identity)
    return [value if value.type in (type_, None) else Call("cast", (value,), type_) for value in own]


def is_impossible(
    keys: Iterable[KeyPair], conditions: Iterable[Condition], predicates: Sequence[Expression | None]
) -> bool:
    """Return whether equal values contradict the conditions: they equal two constants, or are required to differ."""
    classes = {member: number for number, group in enumerate(equality_classes(keys)) for member in group}
    constants: dict[int, Value] = {}
    for relation, predicate in enumerate(predicates):
        for value, constant in _constants(predicate):
            number = classes.get(_member(relation, value))
            if number is not None and constants.setdefault(number, constant) != constant:
                return True
    return any(_differ(condition.expression, classes) for condition in conditions)


def _constants(predicate: Expression | None) -> Iterable[tuple[Expression, Value]]:
    for part in conjuncts(predicate):
        match part:
            case Call(name="eq", args=(value, Literal(value=constant, type=type_))) if type_.kind in _PLAIN:
                yield value, constant
            case _:
                pass


def _differ(condition: Expression, classes: dict[Member, int]) -> bool:
    """Return whether a condition requires two equal values to differ."""
    match condition:
        case Call(name=name, args=(left, right)) if name in _EXCLUDING:
            first, second = (classes.get(member) if (member := _combined(side)) else None for side in (left, right))
            return first is not None and first == second
        case _:
            return False


def _combined(side: Expression) -> Member | None:
    """Return the member that a column of a combination stands for; None for other expressions."""
    column = _uncast(side)
    if not isinstance(column, Column):
        return None
    relation, _, name = column.name.partition(".")
    return int(relation), Column(name, column.type)


def _member(relation: int, expression: Expression) -> Member:
    return relation, _uncast(expression)


def _uncast(expression: Expression) -> Expression:
    match expression:
        case Call(name="cast", args=(inner,), type=type_) if (
            type_.kind in _EXACT and inner.type is not None and inner.type.kind in _EXACT
        ):
            return inner
        case _:
            return expression


def _groups(members: Iterable[T], links: Iterable[Sequence[T]]) -> list[set[T]]:
    """Return the members, grouped by the links that connect them, in the order of the groups' first members."""
    group_of = {member: {member} for member in members}
    for first, *others in links:
        for other in others:
            if group_of[other] is not group_of[first]:
                group_of[first] |= group_of[other]
                for member in group_of[other]:
                    group_of[member] = group_of[first]
    return list({id(linked): linked for linked in group_of.values()}.values())
