"""Shared selection: compute the query-set of every row of a batch in one pass.

Each query's predicate is split into conjuncts, and each conjunct into an attribute and the ranges of its values that
satisfy the conjunct. All ranges of one attribute share its cut points, so a row costs one rank and one AND of bitsets
per attribute, however many queries exist. Attributes that few queries use, and conjuncts that are OR or NOT of ranges
of several attributes, are computed as one bit per row (`conditions.py`). A predicate that is not a comparison with
constants is itself an attribute with two values. Expressions that may raise are first computed for the whole batch. If
one raises, it is computed again on the rows where the preceding conjuncts hold, and finally for each query separately.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.kernels.bitset import WORD_BITS, Words, set_to_words
from weft.kernels.expression.evaluate import Batch, EvaluationError, batch_columns
from weft.kernels.expression.raises import may_raise
from weft.kernels.selection.attribute import AttributeIndex, Longs, Ranks, build_attribute
from weft.kernels.selection.conditions import BitConditions, build_conditions
from weft.kernels.selection.formula import Formula, Leaf, connect, formula_of
from weft.kernels.selection.loops import fill_rows, intersect_rows, intersect_words
from weft.kernels.selection.ranges import NOTHING, Ranges, intersect, satisfying
from weft.kernels.selection.values import Values, holding
from weft.plan.expression import Call, Column, Expression, Literal, Opaque, conjuncts
from weft.plan.slots import slot_numbers, slot_set
from weft.plan.types import BOOLEAN

Rows = npt.NDArray[np.bool_]

_WIDE_AT_ONCE = 16
"""The number of attributes whose ranks (four bytes per row) are in memory together."""
_EARLIEST, _LATEST = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class Want:
    """The rows that one query's relation wants: predicate TRUE, and event time (µs) at least `start`."""

    slot: int
    predicate: Expression | None
    start: int | None


@dataclass(frozen=True, slots=True, eq=False)
class QuerySets:
    """The query-sets of a batch's rows, and the error of each slot whose predicate raised on a row (bits are clear)."""

    sets: Words
    failures: dict[int, str]


@dataclass(frozen=True, slots=True)
class Ordered:
    """Wants whose predicate may raise: the conjuncts in written order, for the rare batch in which one raises."""

    slots: int
    start: int | None
    conjuncts: tuple[Expression, ...]


@dataclass(frozen=True)
class PredicateIndex:
    """The compiled wants of one stream. Tables are built on first use, so the pickle is compact."""

    words: int
    everyone: int
    attributes: tuple[AttributeIndex, ...]
    ordered: tuple[Ordered, ...]
    bits: BitConditions

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @cached_property
    def columns(self) -> frozenset[str]:
        """The batch columns that `tag` reads; the column of an `Opaque` is named by its SQL text."""
        expressions = list(self._uses)
        parts = [conjunct for ordered in self.ordered for conjunct in ordered.conjuncts]
        return frozenset[str]().union(*(batch_columns(expression) for expression in (*expressions, *parts)))

    def tag(self, batch: Batch, times: Longs) -> QuerySets:
        """Return the set of slots that want each row; `times` are the rows' event times in microseconds."""
        sets, failed = self._tag_ranges(batch, times)
        failed |= self._intersect_bits(batch, times, sets)
        if not failed:
            return QuerySets(sets, {})
        sets &= set_to_words(self.everyone & ~failed, self.words)
        return QuerySets(sets, self._tag_alone(failed, batch, times, sets=sets))

    def _tag_ranges(self, batch: Batch, times: Longs) -> tuple[Words, int]:
        """Return the sets that the attributes allow, and the slots with an attribute that raised."""
        rows, failed = batch.num_rows, 0
        values = Values(batch, self._repeated)
        building = _Building(self, rows)
        for number, attribute in enumerate(self.attributes):
            attribute_values = times if attribute.expression is None else values.of(attribute)
            if isinstance(attribute_values, EvaluationError):
                failed |= attribute.concerned
                continue
            ranks = np.empty(rows, np.int32)
            smallest, largest = attribute.rank(attribute_values, ranks)
            if smallest < largest:
                building.intersect(number, ranks)
            elif rows:
                building.base &= self._row(number, smallest)
        return building.finish(), failed

    def _intersect_bits(self, batch: Batch, times: Longs, sets: Words) -> int:
        """Intersect the sets with the conditions computed as bits; return the slots with a literal that raised."""
        failed = 0
        step = self.bits.rows_at_once
        for start in range(0, batch.num_rows if self.bits.literals else 0, step):
            block, block_times = batch.slice(start, step), times[start : start + step]
            values = Values(block, self._repeated)
            known: list[Words | None] = []
            for literals in self.bits.literals:
                attribute = literals.attribute
                attribute_values = block_times if attribute.expression is None else values.of(attribute)
                if isinstance(attribute_values, EvaluationError):
                    failed |= literals.slots
                    known += [None] * literals.count
                else:
                    known += list(literals.bits(attribute_values, len(block_times)))
            self.bits.intersect(known, sets[start : start + step])
        return failed

    def _tag_alone(self, failed: int, batch: Batch, times: Longs, *, sets: Words) -> dict[int, str]:
        """Evaluate the failed slots separately and set their bits; return the errors of the slots that still raise."""
        failures: dict[int, str] = {}
        for ordered in self.ordered:
            slots = ordered.slots & failed
            if not slots:
                continue
            in_time = np.ones(batch.num_rows, np.bool_) if ordered.start is None else times >= ordered.start
            try:
                wanted = holding(ordered.conjuncts, batch, in_time)
            except EvaluationError as error:
                failures.update(dict.fromkeys(slot_numbers(slots), str(error)))
            else:
                sets[wanted] |= set_to_words(slots, self.words)
        return failures

    @cached_property
    def _uses(self) -> dict[Expression, int]:
        """The number of attributes that use each expression."""
        attributes = (*self.attributes, *(literals.attribute for literals in self.bits.literals))
        return Counter(attribute.expression for attribute in attributes if attribute.expression is not None)

    @cached_property
    def _repeated(self) -> frozenset[Expression]:
        return frozenset(expression for expression, uses in self._uses.items() if uses > 1)

    @cached_property
    def _everyone_words(self) -> Words:
        return set_to_words(self.everyone, self.words)

    @cached_property
    def _tables(self) -> tuple[tuple[npt.NDArray[np.int64] | None, Words], ...]:
        """Per attribute, the words it concerns and its bitsets by rank in these words; None and all words if many."""
        tables: list[tuple[npt.NDArray[np.int64] | None, Words]] = []
        for attribute in self.attributes:
            table, places = attribute.table(self.words), attribute.places()
            narrow = 2 * len(places) <= self.words
            tables.append((places, np.ascontiguousarray(table[:, places])) if narrow else (None, table))
        return tuple(tables)

    @cached_property
    def _wide_offsets(self) -> dict[int, int]:
        offsets, end = {}, 0
        for number, (places, table) in enumerate(self._tables):
            if places is None:
                offsets[number] = end
                end += len(table)
        return offsets

    @cached_property
    def _wide_table(self) -> Words:
        tables = [table for places, table in self._tables if places is None]
        return np.concatenate(tables) if tables else np.zeros((0, self.words), np.uint64)

    def _row(self, number: int, rank: int) -> Words:
        places, table = self._tables[number]
        if places is None:
            return np.asarray(table[rank])
        row = np.full(self.words, ~np.uint64(0))
        row[places] = table[rank]
        return row


class _Building:
    """The sets of a batch while attributes are intersected.

    Attributes that concern many words are collected and intersected several at a time, in one pass over the sets. The
    others, which mostly follow (attributes are sorted by number of slots), touch only their own words.
    """

    def __init__(self, index: PredicateIndex, rows: int) -> None:
        self._index = index
        self._rows = rows
        self._sets: Words | None = None
        self._ranked: list[tuple[int, Ranks]] = []
        self.base = index._everyone_words.copy()
        """A bitset that the next pass intersects with the set of every row."""

    def intersect(self, number: int, ranks: Ranks) -> None:
        """Intersect the sets with an attribute, given the ranks of its values."""
        places, table = self._index._tables[number]
        if places is None:
            self._ranked.append((number, ranks))
            if len(self._ranked) == _WIDE_AT_ONCE:
                self._pass()
            return
        sets = self._pass() if self._ranked or self._sets is None else self._sets
        intersect_words(places, table, ranks, sets)

    def finish(self) -> Words:
        """Return the sets after the last attribute."""
        return self._pass()

    def _pass(self) -> Words:
        ranked = [ranks for _, ranks in self._ranked]
        stacked = np.stack(ranked) if ranked else np.empty((0, self._rows), np.int32)
        offsets = np.array([self._index._wide_offsets[number] for number, _ in self._ranked], np.int64)
        kernel = intersect_rows
        if self._sets is None:
            kernel, self._sets = fill_rows, np.empty((self._rows, len(self.base)), np.uint64)
        kernel(self.base, self._index._wide_table, stacked, offsets, self._sets)
        self._ranked, self.base = [], np.full(len(self.base), ~np.uint64(0))
        return self._sets


def build_index(wants: Sequence[Want], words: int) -> PredicateIndex:
    """Compile the wants of one stream, one per slot, for query-sets of `words` words."""
    everyone = slot_set(want.slot for want in wants)
    if everyone.bit_count() != len(wants):
        raise ValueError("two wants have the same slot")
    if everyone.bit_length() > words * WORD_BITS:
        raise ValueError(f"slot {everyone.bit_length() - 1} does not fit into {words} words")
    members: dict[tuple[Expression | None, tuple[Expression, ...]], dict[int, Ranges]] = {}
    formulas: dict[int, list[Formula]] = {}
    ordered: dict[tuple[int | None, tuple[Expression, ...]], int] = {}
    for want in wants:
        for formula in _conjuncts(want):
            if isinstance(formula, Leaf):
                slots = members.setdefault((formula.attribute, formula.guards), {})
                known = slots.get(want.slot)
                slots[want.slot] = formula.ranges if known is None else intersect(known, formula.ranges)
            else:
                formulas.setdefault(want.slot, []).append(formula)
        parts = tuple(conjuncts(want.predicate))
        if any(may_raise(part) for part in parts):
            key = (want.start, parts)
            ordered[key] = ordered.get(key, 0) | 1 << want.slot
    for (expression, guards), slots in list(members.items()):
        if _is_rare(expression, len(slots), words):
            del members[expression, guards]
            for slot, ranges in slots.items():
                formulas.setdefault(slot, []).append(Leaf(expression, guards, ranges))
    return PredicateIndex(
        words,
        everyone,
        tuple(
            build_attribute(expression, guards, members=slots, everyone=everyone)
            for (expression, guards), slots in sorted(members.items(), key=lambda item: -len(item[1]))
        ),
        tuple(Ordered(slots, start, parts) for (start, parts), slots in ordered.items()),
        build_conditions({slot: connect(parts, both=True) for slot, parts in formulas.items()}),
    )


def _conjuncts(want: Want) -> Iterator[Formula]:
    """Yield the condition of a want on the event time, and a formula for each conjunct of its predicate.

    A conjunct that may raise is split only into an attribute and ranges, so that `evaluate` keeps its order.
    """
    if want.start is not None and want.start > _EARLIEST:
        yield Leaf(None, (), Ranges(False, (want.start,), False) if want.start <= _LATEST else NOTHING)
    parts = tuple(conjuncts(want.predicate))
    for position, part in enumerate(parts):
        if may_raise(part):
            attribute, ranges = satisfying(part)
            yield Leaf(attribute, parts[:position], ranges)
        else:
            yield formula_of(part)


def _is_rare(expression: Expression | None, slots: int, words: int) -> bool:
    """Return whether an attribute concerns so few slots that one bit per slot is cheaper than bitsets by rank."""
    boolean = expression is not None and expression.type == BOOLEAN
    return slots <= (WORD_BITS if boolean and not isinstance(expression, Column) else words)


def opaque_predicates(wants: Iterable[Want]) -> tuple[Opaque, ...]:
    """Return the distinct `Opaque` expressions that Spark computes upstream, in order of first use."""
    opaques: dict[str, Opaque] = {}
    for want in wants:
        for part in _opaque_parts(want.predicate):
            opaques.setdefault(part.sql, part)
    return tuple(opaques.values())


def _opaque_parts(expression: Expression | None) -> Iterator[Opaque]:
    match expression:
        case Opaque():
            yield expression
        case Call(args=args):
            for arg in args:
                yield from _opaque_parts(arg)
        case Column() | Literal() | None:
            return
