"""Joins of many relations as what a batch does: new tuples visit stores in probe order, tree by tree.

A relation of a query is a stream in a role (`Input`); queries that name the same stream in the same role mean the same
rows, whatever their windows and selections: query-sets and window tables tell them apart. Columns of a combination
are named `<stream>#<role>.<column>`, so that equal conditions of different queries are equal expressions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from weft.plan.expression import Call, Column, Expression, columns_of
from weft.plan.identity import identity
from weft.plan.key import Index, Key, StoreId, content_id, key_text
from weft.plan.query import BoundQuery
from weft.plan.slots import Slots
from weft.plan.types import BIGINT
from weft.plan.window import TimeBounds


class Input(NamedTuple):
    """A stream in a role; inputs have a fixed order."""

    stream: str
    role: int

    @property
    def text(self) -> str:
        """As in names of columns."""
        return f"{self.stream}#{self.role}"

    def column(self, name: str) -> str:
        """Name of one of its columns in a combination."""
        return f"{self.text}.{name}"


def inputs_of(query: BoundQuery) -> tuple[Input, ...]:
    """Its relations, in the query's order."""
    return tuple(Input(relation.stream, relation.role) for relation in query.relations)


def columns_by_input(expression: Expression, inputs: Iterable[Input]) -> dict[Input, frozenset[str]]:
    """Which columns an expression over a combination reads, by the input they are of."""
    names = columns_of(expression)
    found = {each: frozenset(name[len(each.column("")) :] for name in names if name.startswith(each.column("")))
             for each in inputs}  # fmt: skip
    return {each: columns for each, columns in found.items() if columns}


_OPERATORS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "ne": "<>"}


@dataclass(frozen=True, slots=True)
class Equality:
    """Two inputs have equal keys; seen from a probe, `left` is known and `right` is stored."""

    left: Input
    left_index: Index
    right: Input
    right_index: Index

    def reversed(self) -> Equality:
        """The same, seen from the other side."""
        return Equality(self.right, self.right_index, self.left, self.left_index)

    @property
    def text(self) -> str:
        """Identity, whichever side is first."""
        sides = ((self.left.text, key_text(self.left_index.key)), (self.right.text, key_text(self.right_index.key)))
        return " = ".join(f"{name}.({key})" for name, key in sorted(sides))


@dataclass(frozen=True, slots=True)
class Comparison:
    """A condition over two inputs that is no equality; a combination qualifies where it is true."""

    inputs: tuple[Input, ...]
    expression: Expression

    @property
    def text(self) -> str:
        """Identity."""
        return f"{'+'.join(each.text for each in self.inputs)}: {identity(self.expression)}"

    def sides(self) -> tuple[str, Expression, Expression] | None:
        """Operator and sides if it compares a value of its first input with one of its second."""
        each = self.expression
        if not isinstance(each, Call) or each.name not in _OPERATORS:
            return None
        left, right = each.args
        owners = [set(columns_by_input(side, self.inputs)) for side in (left, right)]
        return (_OPERATORS[each.name], left, right) if owners == [{self.inputs[0]}, {self.inputs[1]}] else None


JoinCondition = Equality | Comparison


@dataclass(frozen=True, slots=True)
class Filter:
    """What one query asks of its whole combinations beyond conditions between two inputs."""

    slot: int
    expression: Expression


@dataclass(frozen=True, slots=True)
class Span:
    """Distances t_first − t_second that one query admits between two inputs."""

    slot: int
    first: Input
    second: Input
    bounds: TimeBounds


@dataclass(frozen=True, slots=True)
class Probe:
    """One step: combinations of `members` probe a store of `added` and become combinations of both.

    `route` is the equality by whose key the combinations are divided among tasks; without one, every task gets all of
    them and probes its share of the store. `stage` says when: a step that needs its combinations divided by another
    key than the step before takes place one stage later. `result` names what the combinations are then, for the
    `result_slots` that wanted just that; `keep` the store of intermediate results that they go to.
    """

    id: str
    start: Input
    members: tuple[Input, ...]
    added: tuple[Input, ...]
    store: StoreId
    route: Equality | None
    equalities: tuple[Equality, ...]
    comparisons: tuple[Comparison, ...]
    slots: Slots
    stage: int
    local: bool
    """Whether it goes on in the task of the step before."""
    then: tuple[Probe, ...]
    result: str
    result_slots: Slots
    keep: StoreId | None

    def walk(self) -> Iterator[Probe]:
        """This step and all after it."""
        yield self
        for each in self.then:
            yield from each.walk()

    @property
    def joined(self) -> tuple[Input, ...]:
        """All inputs of the combinations it makes."""
        return tuple(sorted((*self.members, *self.added)))


@dataclass(frozen=True, slots=True)
class StoredJoin:
    """A store of intermediate results: combinations of `inputs`, kept for the probes of other inputs.

    `indexes` are the keys it is probed by. `stage` is the first in which what the batch adds to it can be seen.
    """

    id: StoreId
    inputs: tuple[Input, ...]
    indexes: tuple[tuple[Input, Index], ...]
    slots: Slots
    stage: int


@dataclass(frozen=True, slots=True)
class ProbeForest:
    """All joins of many relations, for all queries that have them."""

    trees: tuple[Probe, ...] = ()
    """First steps of new tuples of each input."""
    stored: tuple[StoredJoin, ...] = ()
    filters: tuple[Filter, ...] = ()
    spans: tuple[Span, ...] = ()

    def probes(self) -> Iterator[Probe]:
        """All steps."""
        for tree in self.trees:
            yield from tree.walk()

    @property
    def stages(self) -> int:
        """How many probe stages a batch has for them."""
        return max((probe.stage for probe in self.probes()), default=0)

    @property
    def slots(self) -> Slots:
        """All queries served."""
        mask = 0
        for tree in self.trees:
            mask |= tree.slots
        return Slots(mask)


NO_PROBES = ProbeForest()


def combination_id(inputs: tuple[Input, ...], conditions: tuple[str, ...]) -> str:
    """Identity of combinations by what they are, not by how they are found: names them in the result log."""
    return content_id("combination", *(each.text for each in sorted(inputs)), *sorted(conditions))


def stored_join_id(inputs: tuple[Input, ...], conditions: tuple[str, ...]) -> StoreId:
    """Identity of a store of intermediate results."""
    return StoreId(content_id("stored", combination_id(inputs, conditions)))


TIME_ROUTE: Key = (Column("weft#t", BIGINT),)
"""Stores of probed inputs are divided by event time: evenly, whatever keys they are probed by."""
