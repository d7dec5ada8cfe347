"""What is connected with what: relations by conditions, and values by equalities."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from weft.plan.expression import Call, Column, Expression, Literal, Value, conjuncts
from weft.plan.identity import identity
from weft.plan.key import Key
from weft.plan.query import Condition, KeyPair
from weft.plan.types import INTEGERS, DataType, Kind

# A value of a relation's rows: the relation's index, and the expression without casts that change no value.
Member = tuple[int, Expression]
T = TypeVar("T", bound=Hashable)

_EXACT = (*INTEGERS, Kind.DECIMAL)
# Values that are equal exactly if Python says so; floating point has its NaN.
_PLAIN = (*_EXACT, Kind.STRING, Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP)
_EXCLUDING = ("lt", "gt", "ne")


def components(count: int, links: Iterable[Sequence[int]]) -> list[list[int]]:
    """The numbers below `count` in groups that links connect, each in order, the groups by their first."""
    return [sorted(group) for group in _groups(range(count), links)]


def equality_classes(keys: Iterable[KeyPair]) -> list[set[Member]]:
    """Values that the keys make equal, directly or through others."""
    pairs = [(_member(key.left_relation, key.left), _member(key.right_relation, key.right)) for key in keys]
    return _groups((member for pair in pairs for member in pair), pairs)


@dataclass(frozen=True, slots=True)
class CommonKey:
    """A key that all relations of a join have: its parts' types, and its parts as each relation has them."""

    types: tuple[DataType, ...]
    keys: tuple[Key, ...]


def common_key(keys: Sequence[KeyPair], count: int) -> CommonKey | None:
    """The key by which all `count` relations are joined; None if some of its parts are not of all of them."""
    types: list[DataType] = []
    parts: list[tuple[Expression, ...]] = []
    for each in sorted(equality_classes(keys), key=lambda each: sorted(identity(value) for _, value in each)):
        type_ = _widest({key.type for key in keys if _member(key.left_relation, key.left) in each})
        if type_ is None or {relation for relation, _ in each} != set(range(count)):
            return None
        values = [_values(each, relation, type_) for relation in range(count)]
        firsts = tuple(mine[0] for mine in values)
        # A relation with several values of the class has each of them equal to the first of every other relation.
        others = [(at, value) for at, mine in enumerate(values) for value in mine[1:]]
        parts += [firsts, *((*firsts[:at], value, *firsts[at + 1 :]) for at, value in others)]
        types += [type_] * (1 + len(others))
    return CommonKey(tuple(types), tuple(zip(*parts, strict=True))) if parts else None


def _widest(types: set[DataType]) -> DataType | None:
    """The type that has the values of all; None if there is none among them for sure."""
    if len(types) == 1:
        return next(iter(types))
    return max(types, key=lambda type_: INTEGERS.index(type_.kind)) if {t.kind for t in types} <= {*INTEGERS} else None


def _values(members: Iterable[Member], relation: int, type_: DataType) -> list[Expression]:
    mine = sorted((value for owner, value in members if owner == relation), key=identity)
    return [value if value.type in (type_, None) else Call("cast", (value,), type_) for value in mine]


def is_impossible(
    keys: Iterable[KeyPair], conditions: Iterable[Condition], predicates: Sequence[Expression | None]
) -> bool:
    """Whether no rows can satisfy all, as equal values show: they equal two constants, or also have to differ."""
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
    """Whether a condition wants two equal columns to differ."""
    match condition:
        case Call(name=name, args=(left, right)) if name in _EXCLUDING:
            first, second = (classes.get(member) if (member := _combined(side)) else None for side in (left, right))
            return first is not None and first == second
        case _:
            return False


def _combined(side: Expression) -> Member | None:
    """The value that a column of a matched combination is."""
    plain = _uncast(side)
    if not isinstance(plain, Column):
        return None
    relation, _, name = plain.name.partition(".")
    return int(relation), Column(name, plain.type)


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
    """The members in groups that links connect, in the order of their first members."""
    group = {member: {member} for member in members}
    for first, *others in links:
        for other in others:
            if group[other] is not group[first]:
                group[first] |= group[other]
                for member in group[other]:
                    group[member] = group[first]
    return list({id(each): each for each in group.values()}.values())
