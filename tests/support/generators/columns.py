"""The columns inside an expression of a spec: which relations it is over, and the same over other relations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from tests.support.spec import Col, Predicate, Scalar

T = TypeVar("T", bound=Predicate | Scalar)


def relations_in(expression: Predicate | Scalar) -> frozenset[int]:
    """The relations an expression reads."""
    return frozenset(column.relation for column in columns_in(expression))


def columns_in(expression: Predicate | Scalar) -> Iterator[Col]:
    """Every column, as often as it is read."""
    found: list[Col] = []

    def remember(column: Col) -> Col:
        found.append(column)
        return column

    with_columns(expression, remember)
    yield from found


def renumbered(expression: T, numbers: Mapping[int, int]) -> T:
    """The expression over the relations that `numbers` gives for its own."""
    return with_columns(expression, lambda column: replace(column, relation=numbers[column.relation]))


def with_columns(expression: T, change: Callable[[Col], Col]) -> T:
    """The expression with every column changed."""
    changed: T = _changed(expression, change)
    return changed


# Any: one walk over nodes, tuples of nodes and plain values, so that a new node needs no line here.
def _changed(part: Any, change: Callable[[Col], Col]) -> Any:
    if isinstance(part, Col):
        return change(part)
    if isinstance(part, tuple):
        return tuple(_changed(each, change) for each in part)
    if is_dataclass(part) and not isinstance(part, type):
        return replace(part, **{field.name: _changed(getattr(part, field.name), change) for field in fields(part)})
    return part
