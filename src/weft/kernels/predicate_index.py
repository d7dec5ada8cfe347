"""Shared selection: one pass over a batch gives every row the set of queries that want it.

Each query's predicate is split into conjuncts, each conjunct into an attribute and the ranges of it that satisfy the
conjunct. All ranges of one attribute share its cut points, so a row costs one rank per attribute and one AND of
bitsets, however many queries there are. Whatever is no comparison with constants is itself an attribute with two
values. Expressions that may raise are computed for the whole batch in the hope that they do not; if one does, it is
computed again only where the conjuncts before it hold, and at last for each query alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.kernels.arrow_types import arrow_type
from weft.kernels.bitset import WORD_BITS, Words, slots_of, to_mask, to_words
from weft.kernels.evaluate import Batch, EvaluationError, batch_columns, evaluate
from weft.kernels.evaluate_raises import may_raise
from weft.kernels.evaluate_values import scatter, true_rows
from weft.kernels.predicate_attribute import Attribute, Longs, Ranks, build_attribute
from weft.kernels.predicate_kernels import intersect_rows, intersect_words
from weft.kernels.predicate_ranges import NOTHING, Ranges, intersect, satisfying
from weft.plan.expression import Call, Column, Expression, Literal, Opaque, conjuncts

Rows = npt.NDArray[np.bool_]

_EARLIEST, _LATEST = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class Want:
    """What one query's relation asks of a row: the predicate is TRUE and the event time (µs) is at least `start`."""

    slot: int
    predicate: Expression | None
    start: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Tagged:
    """Query-sets of the rows of one batch, and the slots whose predicate failed on some row (their bits are clear)."""

    sets: Words
    failures: dict[int, str]


@dataclass(frozen=True, slots=True)
class Ordered:
    """Wants whose predicate may raise: conjuncts as written, for the rare batch in which one does."""

    slots: int
    start: int | None
    conjuncts: tuple[Expression, ...]


@dataclass(frozen=True)
class PredicateIndex:
    """All wants of one stream, compiled; compact to pickle, tables are made on first use."""

    words: int
    everyone: int
    attributes: tuple[Attribute, ...]
    ordered: tuple[Ordered, ...]

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @cached_property
    def columns(self) -> frozenset[str]:
        """Batch columns `tag` reads; an `Opaque` counts under its own text."""
        expressions = [attribute.expression for attribute in self.attributes if attribute.expression is not None]
        parts = [conjunct for ordered in self.ordered for conjunct in ordered.conjuncts]
        return frozenset[str]().union(*(batch_columns(expression) for expression in (*expressions, *parts)))

    def tag(self, batch: Batch, times: Longs) -> Tagged:
        """The set of slots that want each row; `times` are the rows' event times in microseconds."""
        rows = batch.num_rows
        values = _Values(batch)
        failed = 0
        ranked: list[tuple[int, Ranks]] = []
        base = self._everyone_words.copy()
        for at, attribute in enumerate(self.attributes):
            found = times if attribute.expression is None else values.of(attribute)
            if isinstance(found, EvaluationError):
                failed |= attribute.concerned
                continue
            ranks = np.empty(rows, np.int32)
            smallest, largest = attribute.rank(found, ranks)
            if smallest < largest:
                ranked.append((at, ranks))
            elif rows:
                base &= self._row(at, smallest)
        base &= to_words(self.everyone & ~failed, self.words)
        sets = self._intersect(base, ranked, rows)
        return Tagged(sets, self._tag_alone(failed, batch, times, sets=sets) if failed else {})

    def _intersect(self, base: Words, ranked: list[tuple[int, Ranks]], rows: int) -> Words:
        """AND of everything that differs between rows; attributes of few slots only touch their own words."""
        sets = np.empty((rows, self.words), np.uint64)
        wide = [(at, ranks) for at, ranks in ranked if self._tables[at][0] is None]
        stacked = np.stack([ranks for _, ranks in wide]) if wide else np.empty((0, rows), np.int32)
        offsets = np.array([self._wide_offsets[at] for at, _ in wide], np.int64)
        intersect_rows(base, self._wide_table, stacked, offsets, sets)
        for at, ranks in ranked:
            places, table = self._tables[at]
            if places is not None:
                intersect_words(places, table, ranks, sets)
        return sets

    def _tag_alone(self, failed: int, batch: Batch, times: Longs, *, sets: Words) -> dict[int, str]:
        """Set the bits of slots an expression of which raised, each want by itself; returns those that do fail."""
        failures: dict[int, str] = {}
        for ordered in self.ordered:
            slots = ordered.slots & failed
            if not slots:
                continue
            early = np.ones(batch.num_rows, np.bool_) if ordered.start is None else times >= ordered.start
            try:
                wanted = _holding(ordered.conjuncts, batch, early)
            except EvaluationError as error:
                failures.update(dict.fromkeys(slots_of(slots), str(error)))
            else:
                sets[wanted] |= to_words(slots, self.words)
        return failures

    @cached_property
    def _everyone_words(self) -> Words:
        return to_words(self.everyone, self.words)

    @cached_property
    def _tables(self) -> tuple[tuple[npt.NDArray[np.int64] | None, Words], ...]:
        """Per attribute: the words it concerns (None: so many that all are kept) and the bitsets by rank."""
        tables: list[tuple[npt.NDArray[np.int64] | None, Words]] = []
        for attribute in self.attributes:
            table, places = attribute.table(self.words), attribute.places()
            narrow = 2 * len(places) <= self.words
            tables.append((places, np.ascontiguousarray(table[:, places])) if narrow else (None, table))
        return tuple(tables)

    @cached_property
    def _wide_offsets(self) -> dict[int, int]:
        offsets, end = {}, 0
        for at, (places, table) in enumerate(self._tables):
            if places is None:
                offsets[at] = end
                end += len(table)
        return offsets

    @cached_property
    def _wide_table(self) -> Words:
        tables = [table for places, table in self._tables if places is None]
        return np.concatenate(tables) if tables else np.zeros((0, self.words), np.uint64)

    def _row(self, at: int, rank: int) -> Words:
        places, table = self._tables[at]
        if places is None:
            return np.asarray(table[rank])
        row = np.full(self.words, ~np.uint64(0))
        row[places] = table[rank]
        return row


class _Values:
    """Attribute values of one batch, each distinct expression computed once."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._known: dict[Expression, pa.Array | EvaluationError] = {}

    def of(self, attribute: Attribute) -> pa.Array | EvaluationError:
        """Values of the whole batch; where they raise, only of the rows on which the attribute's guards hold."""
        expression = attribute.expression
        assert expression is not None
        if expression not in self._known:
            self._known[expression] = self._everywhere(expression)
        value = self._known[expression]
        if isinstance(value, EvaluationError) and attribute.guards:
            return self._guarded(expression, attribute.guards)
        return value

    def _everywhere(self, expression: Expression) -> pa.Array | EvaluationError:
        if isinstance(expression, Column):
            column = self._batch.column(expression.name)
            if isinstance(column, pa.DictionaryArray) and column.type.value_type == arrow_type(expression.type):
                return column  # ranks are looked up per distinct value
        try:
            return evaluate(expression, self._batch)
        except EvaluationError as error:
            return error

    def _guarded(self, expression: Expression, guards: tuple[Expression, ...]) -> pa.Array | EvaluationError:
        try:
            rows = _holding(guards, self._batch, np.ones(self._batch.num_rows, np.bool_))
            value = evaluate(expression, _rows_of(self._batch, [expression], rows))
        except EvaluationError as error:
            return error
        return scatter(value, rows, pa.nulls(self._batch.num_rows, value.type))


def build_index(wants: Sequence[Want], words: int) -> PredicateIndex:
    """Compile the wants of one stream for query-sets of that many words; every slot occurs once."""
    everyone = to_mask(want.slot for want in wants)
    if everyone.bit_count() != len(wants):
        raise ValueError("two wants have the same slot")
    if everyone.bit_length() > words * WORD_BITS:
        raise ValueError(f"slot {everyone.bit_length() - 1} does not fit into {words} words")
    members: dict[tuple[Expression | None, tuple[Expression, ...]], dict[int, Ranges]] = {}
    ordered: dict[tuple[int | None, tuple[Expression, ...]], int] = {}
    for want in wants:
        if want.start is not None and want.start > _EARLIEST:
            reach = Ranges(False, (want.start,), False) if want.start <= _LATEST else NOTHING
            members.setdefault((None, ()), {})[want.slot] = reach
        parts = tuple(conjuncts(want.predicate))
        raising = False
        for at, part in enumerate(parts):
            attribute, ranges = satisfying(part)
            risky = not isinstance(attribute, Column) and may_raise(attribute)
            raising |= risky
            slots = members.setdefault((attribute, parts[:at] if risky else ()), {})
            known = slots.get(want.slot)
            slots[want.slot] = ranges if known is None else intersect(known, ranges)
        if raising:
            key = (want.start, parts)
            ordered[key] = ordered.get(key, 0) | 1 << want.slot
    return PredicateIndex(
        words,
        everyone,
        tuple(
            build_attribute(expression, guards, members=slots, everyone=everyone)
            for (expression, guards), slots in members.items()
        ),
        tuple(Ordered(slots, start, parts) for (start, parts), slots in ordered.items()),
    )


def opaque_predicates(wants: Iterable[Want]) -> tuple[Opaque, ...]:
    """The distinct `Opaque` expressions that Spark has to compute upstream, in order of first use."""
    found: dict[str, Opaque] = {}
    for want in wants:
        for part in _opaque_parts(want.predicate):
            found.setdefault(part.sql, part)
    return tuple(found.values())


def _opaque_parts(expression: Expression | None) -> Iterator[Opaque]:
    match expression:
        case Opaque():
            yield expression
        case Call(args=args):
            for arg in args:
                yield from _opaque_parts(arg)
        case Column() | Literal() | None:
            return


def _holding(parts: Sequence[Expression], batch: Batch, rows: Rows) -> Rows:
    """Which of the rows satisfy all parts; a part is computed only where those before it are TRUE."""
    held = rows.copy()
    for part in parts:
        if not held.any():
            break
        some = _rows_of(batch, [part], held)
        held[held] = true_rows(evaluate(part, some), some.num_rows)
    return held


def _rows_of(batch: Batch, expressions: Sequence[Expression], rows: Rows) -> Batch:
    names = frozenset[str]().union(*(batch_columns(expression) for expression in expressions))
    if not names:  # a constant; keep the number of rows by any column
        return pa.RecordBatch.from_arrays([pa.nulls(int(rows.sum()))], names=[""])
    return batch.select(sorted(names)).filter(pa.array(rows))
