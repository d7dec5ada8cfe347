"""Probe trees: the order in which new rows of each input visit the stores of the other inputs.

A relation of a query is a stream in a role (`Input`). Queries that read the same stream in the same role share its
rows, whatever their windows and predicates; query-sets and window tables tell the queries apart. Columns of a
combination are named `<stream>#<role>.<column>`, so that equal conditions of different queries are equal expressions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from weft.plan.expression import Call, Column, Expression, columns_of
from weft.plan.identity import identity
from weft.plan.key import Index, Key, StoreId, content_id, key_text
from weft.plan.query import BoundQuery
from weft.plan.slots import Slots
from weft.plan.types import BIGINT
from weft.plan.window import TimeBounds


class Input(NamedTuple):
    """A stream in a role. Inputs are ordered by stream and role."""

    stream: str
    role: int

    @property
    def text(self) -> str:
        """The input's name, as in names of columns."""
        return f"{self.stream}#{self.role}"

    def column(self, name: str) -> str:
        """Return the name of one of the input's columns in a combination."""
        return f"{self.text}.{name}"


def inputs_of(query: BoundQuery) -> tuple[Input, ...]:
    """Return the inputs of a query, in the order of its relations."""
    return tuple(Input(relation.stream, relation.role) for relation in query.relations)


def columns_by_input(expression: Expression, inputs: Iterable[Input]) -> dict[Input, frozenset[str]]:
    """Return the columns that an expression over a combination reads, by input; inputs without any are left out."""
    names = columns_of(expression)
    by_input = {
        input_: frozenset(name[len(input_.column("")) :] for name in names if name.startswith(input_.column("")))
        for input_ in inputs
    }
    return {input_: columns for input_, columns in by_input.items() if columns}


_OPERATORS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "ne": "<>"}


@dataclass(frozen=True, slots=True)
class Equality:
    """The condition that two inputs have equal keys. In a probe step, `left` probes and `right` is stored."""

    left: Input
    left_index: Index
    right: Input
    right_index: Index

    def reversed(self) -> Equality:
        """Return the same condition with the sides exchanged."""
        return Equality(self.right, self.right_index, self.left, self.left_index)

    @property
    def text(self) -> str:
        """The identity of the condition; exchanging the sides does not change it."""
        sides = ((self.left.text, key_text(self.left_index.key)), (self.right.text, key_text(self.right_index.key)))
        return " = ".join(f"{name}.({key})" for name, key in sorted(sides))


@dataclass(frozen=True, slots=True)
class Comparison:
    """A condition over two inputs that is no equality; combinations qualify where it is true."""

    inputs: tuple[Input, ...]
    expression: Expression

    @property
    def text(self) -> str:
        """The identity of the condition."""
        return f"{'+'.join(input_.text for input_ in self.inputs)}: {identity(self.expression)}"

    def sides(self) -> tuple[str, Expression, Expression] | None:
        """Return operator, left and right if the first input's value is compared with the second's, else None."""
        comparison = self.expression
        if not isinstance(comparison, Call) or comparison.name not in _OPERATORS:
            return None
        left, right = comparison.args
        owners = [set(columns_by_input(side, self.inputs)) for side in (left, right)]
        return (_OPERATORS[comparison.name], left, right) if owners == [{self.inputs[0]}, {self.inputs[1]}] else None


JoinCondition = Equality | Comparison


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition of one query over complete combinations, beyond the conditions between two inputs."""

    slot: int
    expression: Expression


@dataclass(frozen=True, slots=True)
class Span:
    """The distances t_first − t_second that one query admits between rows of two inputs."""

    slot: int
    first: Input
    second: Input
    bounds: TimeBounds


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe step: combinations of `members` probe a store of `added` and become combinations of both.

    `route` is the equality whose key divides the combinations among tasks; without it, every task gets all
    combinations and probes its share of the store. `stage` is the stage of the batch in which the step runs: a step
    whose combinations must be divided by another key runs at least one stage after the step before. `result` is the id
    of the resulting combinations if they are results of the queries in `result_slots`, else empty. `keep` is the stored
    join to which the combinations are added.
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
    """Whether the step runs in the same task as the step before."""
    then: tuple[Probe, ...]
    result: str
    result_slots: Slots
    keep: StoreId | None
    cost: float = field(default=0.0, compare=False)
    """The planner's estimate of the combinations per second that are sent to the store."""

    def walk(self) -> Iterator[Probe]:
        """Yield this step and all steps after it."""
        yield self
        for step in self.then:
            yield from step.walk()

    @property
    def joined(self) -> tuple[Input, ...]:
        """All inputs of the combinations that the step produces."""
        return tuple(sorted((*self.members, *self.added)))


@dataclass(frozen=True, slots=True)
class StoredJoin:
    """Kept combinations of `inputs` that probe steps of other inputs visit.

    `indexes` are the keys by which it is probed. `stage` is the first stage that sees the combinations that the same
    batch adds.
    """

    id: StoreId
    inputs: tuple[Input, ...]
    indexes: tuple[tuple[Input, Index], ...]
    slots: Slots
    stage: int


@dataclass(frozen=True, slots=True)
class ProbeForest:
    """All probe trees and stored joins of a shared plan."""

    trees: tuple[Probe, ...] = ()
    """The first probe steps of new rows of each input."""
    stored: tuple[StoredJoin, ...] = ()
    filters: tuple[Filter, ...] = ()
    spans: tuple[Span, ...] = ()

    def probes(self) -> Iterator[Probe]:
        """Yield all probe steps."""
        for tree in self.trees:
            yield from tree.walk()

    @property
    def stages(self) -> int:
        """The number of probe stages of a batch."""
        return max((probe.stage for probe in self.probes()), default=0)

    @property
    def slots(self) -> Slots:
        """The slots of all queries that probe trees serve."""
        mask = 0
        for tree in self.trees:
            mask |= tree.slots
        return Slots(mask)


NO_PROBES = ProbeForest()


def combination_id(inputs: tuple[Input, ...], conditions: tuple[str, ...]) -> str:
    """Return the id of combinations in the result log. It depends on inputs and conditions, not on the probe order."""
    return content_id("combination", *(input_.text for input_ in sorted(inputs)), *sorted(conditions))


def stored_join_id(inputs: tuple[Input, ...], conditions: tuple[str, ...]) -> StoreId:
    """Return the id of a stored join."""
    return StoreId(content_id("stored", combination_id(inputs, conditions)))


TIME_ROUTE: Key = (Column("weft#t", BIGINT),)
"""The route of stores that probe trees visit: event time divides rows evenly, whichever keys the store is probed by."""
