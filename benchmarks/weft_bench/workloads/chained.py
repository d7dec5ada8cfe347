"""A join of many relations as joins of two in subqueries, as systems need it that know one event time per stream.

The first relation's event time stays one; those of the others are frozen: made plain values that can still be compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from weft_bench.workloads.shapes import (
    TIME,
    NearJoin,
    Relation,
    all_of,
    columns_of,
    expressions,
    flat,
    joining,
    local,
)


class Words(Protocol):
    """How a dialect speaks of time."""

    def frozen(self, time: str) -> str:
        """An event time as a plain value."""

    def thawed(self, value: str) -> str:
        """A frozen event time as a timestamp."""

    def near(self, time: str, other: str, seconds: int) -> list[str]:
        """Conditions for two event times less than so many seconds apart, the second one given."""

    def near_frozen(self, time: str, value: str, seconds: int) -> list[str]:
        """The same for an event time and a frozen one."""


@dataclass(frozen=True, slots=True)
class _Join:
    """The relations up to one, joined: a SELECT with columns named alias_column."""

    shape: NearJoin
    at: int
    words: Words

    def select(self) -> str:
        if self.at == 1:
            return self._first()
        relations, words, seconds = self.shape.relations, self.words, self.shape.seconds
        new = relations[self.at]
        time = f"{new.alias}.{TIME}"
        near = words.near(time, f"j.{relations[0].alias}_{TIME}", seconds)
        for each in relations[1 : self.at]:
            near += words.near_frozen(time, f"j.{each.alias}_{TIME}", seconds)
        known = relations[: self.at]
        conditions = [flat(each, known, "j.") for each in joining(self.shape.conditions, relations, self.at)]
        old = [f"j.{name} AS {name}" for each in known for name in self._names(each)]
        outputs = ", ".join([*old, *self._columns(new, first=False)])
        inner = _Join(self.shape, self.at - 1, words).select()
        return (
            f"SELECT {outputs} FROM ({inner}) AS j JOIN {new.stream} AS {new.alias}"
            f"{all_of([*conditions, *near], ' ON ')}{all_of(local(self.shape.conditions, new.alias))}"
        )

    def _first(self) -> str:
        left, right = self.shape.relations[:2]
        conditions = joining(self.shape.conditions, self.shape.relations, 1)
        near = self.words.near(f"{right.alias}.{TIME}", f"{left.alias}.{TIME}", self.shape.seconds)
        alone = [*local(self.shape.conditions, left.alias), *local(self.shape.conditions, right.alias)]
        outputs = ", ".join([*self._columns(left, first=True), *self._columns(right, first=False)])
        return (
            f"SELECT {outputs} FROM {left.stream} AS {left.alias} JOIN {right.stream} AS {right.alias}"
            f"{all_of([*conditions, *near], ' ON ')}{all_of(alone)}"
        )

    def _names(self, relation: Relation) -> list[str]:
        return [f"{relation.alias}_{name}" for name in (TIME, *columns_of(relation.alias, expressions(self.shape)))]

    def _columns(self, relation: Relation, *, first: bool) -> list[str]:
        alias = relation.alias
        time = f"{alias}.{TIME}" if first else self.words.frozen(f"{alias}.{TIME}")
        columns = [f"{alias}.{name} AS {alias}_{name}" for name in columns_of(alias, expressions(self.shape))]
        return [f"{time} AS {alias}_{TIME}", *columns]


def chained(shape: NearJoin, words: Words) -> str:
    """The whole query."""
    first, *others = shape.relations
    times = [f"j.{first.alias}_{TIME} AS {first.alias}_{TIME}"]
    times += [f"{words.thawed(f'j.{each.alias}_{TIME}')} AS {each.alias}_{TIME}" for each in others]
    outputs = [f"{flat(each.expression, shape.relations)} AS {each.name}" for each in shape.outputs]
    return (
        f"SELECT {', '.join([*times, *outputs])} FROM ({_Join(shape, len(shape.relations) - 1, words).select()}) AS j"
    )
