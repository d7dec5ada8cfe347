"""Joins as a graph: nodes are relations, edges are predicates, and every query is a connected subgraph.

A relation is a stream in a role under a window: two queries can share a step only if all three are equal. Selections
are not part of the graph because query-sets handle them. Sets of relations and of predicates are integer bitsets over
their numbers in a `JoinGraph`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from weft.errors import CrossProduct
from weft.plan.changelog import QueryId
from weft.plan.window import Window, window_text

EQUAL = "="
_FLIPPED = {EQUAL: EQUAL, "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class JoinInput:
    """A relation of a join: a stream in a role under a window."""

    stream: str
    role: int = 0
    window: Window | None = None

    @property
    def text(self) -> str:
        """The text that identifies and orders inputs: equal inputs have equal texts."""
        role = f"#{self.role}" if self.role else ""
        return f"{self.stream}{role}{'' if self.window is None else window_text(self.window)}"


@dataclass(frozen=True, slots=True)
class Attribute:
    """A column, or the text of an expression, of one relation."""

    input: JoinInput
    name: str

    @property
    def text(self) -> str:
        """The text that identifies and orders attributes."""
        return f"{self.input.text}.{self.name}"


@dataclass(frozen=True, slots=True)
class Predicate:
    """A comparison of two relations' attributes; `compare` normalizes it, so that equal conditions are equal values."""

    left: Attribute
    comparison: str
    right: Attribute

    def __post_init__(self) -> None:
        if self.left.input == self.right.input:
            raise ValueError(f"predicate {self.text} does not join two relations")
        if self.comparison not in _FLIPPED:
            raise ValueError(f"not a comparison: {self.comparison}")

    @property
    def text(self) -> str:
        """The text that identifies and orders predicates."""
        return f"{self.left.text} {self.comparison} {self.right.text}"

    @property
    def is_equality(self) -> bool:
        """Whether a store can be partitioned by the predicate; other comparisons probe every task of a store."""
        return self.comparison == EQUAL


def predicate_of(left: Attribute, right: Attribute, comparison: str = EQUAL) -> Predicate:
    """Return the predicate `left comparison right`, with its sides in a fixed order."""
    if left.text <= right.text:
        return Predicate(left, comparison, right)
    return Predicate(right, _FLIPPED.get(comparison, comparison), left)


@dataclass(frozen=True, slots=True)
class JoinQuery:
    """An inner join whose predicates connect all of its relations."""

    id: QueryId
    inputs: tuple[JoinInput, ...]
    predicates: tuple[Predicate, ...]

    def __post_init__(self) -> None:
        if not self.inputs or len(set(self.inputs)) != len(self.inputs):
            raise ValueError(f'query "{self.id}" names no relation, or one twice')
        known = set(self.inputs)
        if any(side.input not in known for predicate in self.predicates for side in (predicate.left, predicate.right)):
            raise ValueError(f'query "{self.id}" has a predicate on a relation it does not join')
        reached = {self.inputs[0]}
        while (
            more := {
                side.input
                for predicate in self.predicates
                if (predicate.left.input in reached) != (predicate.right.input in reached)
                for side in (predicate.left, predicate.right)
            }
            - reached
        ):
            reached |= more
        if reached != known:
            left_out = ", ".join(sorted(relation.text for relation in known - reached))
            raise CrossProduct(f'query "{self.id}" joins {left_out} by no predicate')


@dataclass(frozen=True, slots=True)
class JoinGraph:
    """Numbers for the relations and predicates of queries; extending the graph changes no existing number."""

    inputs: tuple[JoinInput, ...] = ()
    predicates: tuple[Predicate, ...] = ()
    input_numbers: dict[JoinInput, int] = field(default_factory=dict, compare=False, repr=False)
    predicate_numbers: dict[Predicate, int] = field(default_factory=dict, compare=False, repr=False)
    ends: tuple[tuple[int, int], ...] = field(default=(), compare=False, repr=False)
    """The numbers of the two relations of each predicate."""

    def extended(self, queries: Iterable[JoinQuery]) -> JoinGraph:
        """Return the graph with the relations and predicates of these queries; the same object if none is new."""
        inputs, predicates = dict(self.input_numbers), dict(self.predicate_numbers)
        for query in queries:
            for relation in query.inputs:
                inputs.setdefault(relation, len(inputs))
            for predicate in query.predicates:
                predicates.setdefault(predicate, len(predicates))
        if len(inputs) == len(self.inputs) and len(predicates) == len(self.predicates):
            return self
        ends = tuple((inputs[predicate.left.input], inputs[predicate.right.input]) for predicate in predicates)
        return JoinGraph(tuple(inputs), tuple(predicates), inputs, predicates, ends)

    def encode(self, query: JoinQuery) -> tuple[int, int]:
        """Return the query's relations and predicates as bitsets."""
        inputs = predicates = 0
        for relation in query.inputs:
            inputs |= 1 << self.input_numbers[relation]
        for predicate in query.predicates:
            predicates |= 1 << self.predicate_numbers[predicate]
        return inputs, predicates

    def within(self, inputs: int, predicates: int) -> int:
        """Return the predicates whose relations are both in the set."""
        inside, remaining = 0, predicates
        while remaining:  # `bits`, inlined: building a lattice does this most often
            lowest = remaining & -remaining
            first, second = self.ends[lowest.bit_length() - 1]
            if inputs >> first & inputs >> second & 1:
                inside |= lowest
            remaining ^= lowest
        return inside

    def neighbours(self, predicates: int) -> dict[int, int]:
        """Return, for the number of each relation, the set of relations that a predicate joins with it."""
        neighbours: dict[int, int] = {}
        for number in bits(predicates):
            left, right = self.ends[number]
            neighbours[left] = neighbours.get(left, 0) | 1 << right
            neighbours[right] = neighbours.get(right, 0) | 1 << left
        return neighbours

    def names(self, inputs: int) -> tuple[str, ...]:
        """Return the sorted texts of the relations of a set."""
        return tuple(sorted(self.inputs[number].text for number in bits(inputs)))


def bits(bitset: int) -> Iterator[int]:
    """Yield the members of a bitset in ascending order."""
    while bitset:
        lowest = bitset & -bitset
        yield lowest.bit_length() - 1
        bitset ^= lowest


def is_connected(inputs: int, neighbours: dict[int, int]) -> bool:
    """Return whether predicates connect the relations of the set without leaving the set."""
    reached = inputs & -inputs
    frontier = reached
    while frontier:
        around = 0
        for number in bits(frontier):
            around |= neighbours.get(number, 0)
        frontier = around & inputs & ~reached
        reached |= frontier
    return reached == inputs


def connected_subsets(inputs: int, neighbours: dict[int, int]) -> list[int]:
    """Return every non-empty connected subset, smaller ones first, in a fixed order."""
    subsets = {1 << number for number in bits(inputs)}
    layer = subsets
    while layer:
        larger: set[int] = set()
        for subset in layer:
            around = 0
            for number in bits(subset):
                around |= neighbours.get(number, 0)
            larger.update(subset | 1 << number for number in bits(around & inputs & ~subset))
        subsets |= larger
        layer = larger
    return sorted(subsets, key=lambda subset: (subset.bit_count(), subset))
