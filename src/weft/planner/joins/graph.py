"""Joins as a graph: relations, predicates between them, and queries that are connected parts of it.

A relation is a stream in a role under a window: two queries can share a step only if all three are equal. Selections
are not part of the graph; query-sets take care of them. Sets of relations and of predicates are integer bitsets over
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
    """A stream as one relation of a join."""

    stream: str
    role: int = 0
    window: Window | None = None

    @property
    def text(self) -> str:
        """Identity and order: equal inputs have an equal text."""
        role = f"#{self.role}" if self.role else ""
        return f"{self.stream}{role}{'' if self.window is None else window_text(self.window)}"


@dataclass(frozen=True, slots=True)
class Attribute:
    """A column, or the text of an expression, of one relation."""

    input: JoinInput
    name: str

    @property
    def text(self) -> str:
        """Identity and order."""
        return f"{self.input.text}.{self.name}"


@dataclass(frozen=True, slots=True)
class Predicate:
    """A comparison of two relations' attributes, written so that equal conditions are equal values; see `compare`."""

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
        """Identity and order."""
        return f"{self.left.text} {self.comparison} {self.right.text}"

    @property
    def is_equality(self) -> bool:
        """Whether a store can be partitioned by it; any other comparison probes every task of a store."""
        return self.comparison == EQUAL


def compare(left: Attribute, right: Attribute, comparison: str = EQUAL) -> Predicate:
    """The predicate `left comparison right`, with its sides in a fixed order."""
    if left.text <= right.text:
        return Predicate(left, comparison, right)
    return Predicate(right, _FLIPPED.get(comparison, comparison), left)


@dataclass(frozen=True, slots=True)
class JoinQuery:
    """An inner join of relations that its predicates connect."""

    id: QueryId
    inputs: tuple[JoinInput, ...]
    predicates: tuple[Predicate, ...]

    def __post_init__(self) -> None:
        if not self.inputs or len(set(self.inputs)) != len(self.inputs):
            raise ValueError(f'query "{self.id}" names no relation, or one twice')
        known = set(self.inputs)
        if any(side.input not in known for each in self.predicates for side in (each.left, each.right)):
            raise ValueError(f'query "{self.id}" has a predicate on a relation it does not join')
        reached = {self.inputs[0]}
        while (
            more := {
                side.input
                for each in self.predicates
                if (each.left.input in reached) != (each.right.input in reached)
                for side in (each.left, each.right)
            }
            - reached
        ):
            reached |= more
        if reached != known:
            left_out = ", ".join(sorted(each.text for each in known - reached))
            raise CrossProduct(f'query "{self.id}" joins {left_out} by no predicate')


@dataclass(frozen=True, slots=True)
class JoinGraph:
    """Numbers for the relations and predicates of some queries; what was numbered once keeps its number."""

    inputs: tuple[JoinInput, ...] = ()
    predicates: tuple[Predicate, ...] = ()
    input_numbers: dict[JoinInput, int] = field(default_factory=dict, compare=False, repr=False)
    predicate_numbers: dict[Predicate, int] = field(default_factory=dict, compare=False, repr=False)
    ends: tuple[tuple[int, int], ...] = field(default=(), compare=False, repr=False)
    """Numbers of the two relations of each predicate."""

    def extended(self, queries: Iterable[JoinQuery]) -> JoinGraph:
        """This graph and whatever is new in these queries; the same object when nothing is."""
        inputs, predicates = dict(self.input_numbers), dict(self.predicate_numbers)
        for query in queries:
            for each in query.inputs:
                inputs.setdefault(each, len(inputs))
            for predicate in query.predicates:
                predicates.setdefault(predicate, len(predicates))
        if len(inputs) == len(self.inputs) and len(predicates) == len(self.predicates):
            return self
        ends = tuple((inputs[each.left.input], inputs[each.right.input]) for each in predicates)
        return JoinGraph(tuple(inputs), tuple(predicates), inputs, predicates, ends)

    def encode(self, query: JoinQuery) -> tuple[int, int]:
        """The query's relations and predicates as bitsets."""
        inputs = predicates = 0
        for each in query.inputs:
            inputs |= 1 << self.input_numbers[each]
        for predicate in query.predicates:
            predicates |= 1 << self.predicate_numbers[predicate]
        return inputs, predicates

    def within(self, inputs: int, predicates: int) -> int:
        """Those of the predicates that have both ends in the set."""
        found, left = 0, predicates
        while left:  # the loop of `bits`, written out: this is what building a lattice does most
            lowest = left & -left
            one, other = self.ends[lowest.bit_length() - 1]
            if inputs >> one & inputs >> other & 1:
                found |= lowest
            left ^= lowest
        return found

    def neighbours(self, predicates: int) -> dict[int, int]:
        """For each relation's number the set it is joined with."""
        found: dict[int, int] = {}
        for number in bits(predicates):
            left, right = self.ends[number]
            found[left] = found.get(left, 0) | 1 << right
            found[right] = found.get(right, 0) | 1 << left
        return found

    def names(self, inputs: int) -> tuple[str, ...]:
        """The relations of a set, by their texts, in order."""
        return tuple(sorted(self.inputs[number].text for number in bits(inputs)))


def bits(bitset: int) -> Iterator[int]:
    """The members of a bitset, ascending."""
    while bitset:
        lowest = bitset & -bitset
        yield lowest.bit_length() - 1
        bitset ^= lowest


def is_connected(inputs: int, neighbours: dict[int, int]) -> bool:
    """Whether the set's relations are joined with each other without leaving the set."""
    reached = inputs & -inputs
    edge = reached
    while edge:
        around = 0
        for number in bits(edge):
            around |= neighbours.get(number, 0)
        edge = around & inputs & ~reached
        reached |= edge
    return reached == inputs


def connected_subsets(inputs: int, neighbours: dict[int, int]) -> list[int]:
    """Every non-empty connected part of a set, smaller ones first, in a fixed order."""
    found = {1 << number for number in bits(inputs)}
    layer = found
    while layer:
        larger: set[int] = set()
        for each in layer:
            around = 0
            for number in bits(each):
                around |= neighbours.get(number, 0)
            larger.update(each | 1 << number for number in bits(around & inputs & ~each))
        found |= larger
        layer = larger
    return sorted(found, key=lambda each: (each.bit_count(), each))
