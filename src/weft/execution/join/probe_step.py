"""A probe step: combinations meet the rows of a store, and the results that some query wants go on.

Steps pass on row numbers only (late materialization): a step reads the rows of the store it probes and, of the
members of a combination, only keys and the columns that conditions compare.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from weft.execution.join.row_references import RowParts
from weft.execution.join.store_view import StoreView
from weft.execution.program import Program
from weft.kernels.bitset import resized, rows_with_slot, set_from_words, set_to_words
from weft.kernels.expression.evaluate import EvaluationError, evaluate
from weft.kernels.join.and_sets import combine_sets
from weft.kernels.join.band_join import Bound, bounds_on_times, sortable, theta_pairs
from weft.kernels.join.merge_join import JoinSide, iter_pairs
from weft.kernels.join.window_table import WindowTable
from weft.kernels.key_hash import equal_rows
from weft.plan.expression import Expression
from weft.plan.identity import identity
from weft.plan.probe_tree import Comparison, Equality, Input, Probe, columns_by_input
from weft.plan.slots import Slots, slot_numbers, slot_set
from weft.storage.combinations import Combinations, Member

Array = np.ndarray[Any, Any]
Pairs = tuple[Array, Array]
_Sortable = tuple[Array, Array | None] | None


class Timed(Protocol):
    """Rows with event times."""

    @property
    def time(self) -> Array:
        """The event time of each row."""


class StepConditions:
    """Conditions on combinations. A query whose condition raises is noted in `failures`; others are not affected."""

    def __init__(self, parts: RowParts) -> None:
        self._parts = parts
        self.failures: dict[int, str] = {}

    def true(self, found: Combinations, inputs: Sequence[Input], condition: Expression) -> Combinations:
        """Return the combinations for which a condition is true."""
        try:
            is_true = self._truth(found, inputs, condition)
        except EvaluationError:
            found = self._without_failing(found, inputs, condition)
            if len(found) == 0:
                return found
            is_true = self._truth(found, inputs, condition)
        return found if bool(is_true.all()) else found.take(np.flatnonzero(is_true))

    def true_for(self, found: Combinations, inputs: Sequence[Input], slot: int, condition: Expression) -> Combinations:
        """Return the combinations without the query in `slot` where its own condition is not true."""
        rows = np.flatnonzero(rows_with_slot(found.sets, slot))
        if len(rows) == 0:
            return found
        try:
            is_true = self._truth(found.take(rows), inputs, condition)
        except EvaluationError as error:
            self.failures[slot] = str(error)
            is_true = np.zeros(len(rows), np.bool_)
        sets = found.sets.copy()
        sets[rows[~is_true]] &= ~set_to_words(1 << slot, sets.shape[1])
        return found.with_sets(sets)

    def _truth(self, combinations: Combinations, inputs: Sequence[Input], condition: Expression) -> Array:
        names_by_input = columns_by_input(condition, inputs)
        pieces = self._parts.cut(
            [(combinations.members[inputs.index(owner)], sorted(names)) for owner, names in names_by_input.items()]
        )
        if len(pieces) > 1:
            chunks = (combinations.take(np.arange(piece.start, piece.stop)) for piece in pieces)
            return np.concatenate([self._truth(chunk, inputs, condition) for chunk in chunks])
        columns = {
            owner.column(name): self._parts.column(combinations.members[inputs.index(owner)], name)
            for owner, names in names_by_input.items()
            for name in sorted(names)
        }
        columns["weft#"] = pa.nulls(len(combinations), pa.bool_())  # the number of rows, for a constant condition
        truth = evaluate(condition, pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)))
        values: Array = truth.fill_null(False).to_numpy(zero_copy_only=False)
        return values

    def _without_failing(
        self, combinations: Combinations, inputs: Sequence[Input], condition: Expression
    ) -> Combinations:
        failures: dict[int, str] = {}
        for slot in slot_numbers(set_from_words(np.bitwise_or.reduce(combinations.sets, axis=0))):
            try:
                self._truth(
                    combinations.take(np.flatnonzero(rows_with_slot(combinations.sets, slot))), inputs, condition
                )
            except EvaluationError as error:
                failures[slot] = str(error)
        self.failures |= failures
        return combinations.with_sets(combinations.sets & ~set_to_words(slot_set(failures), combinations.sets.shape[1]))


class ProbeStep:
    """A probe step on its way through the parts of a store; values of its combinations are computed once."""

    def __init__(
        self, program: Program, conditions: StepConditions, parts: RowParts, *, probe: Probe, left: Combinations
    ):
        self.program = program
        self.probe = probe
        self.left = left
        self._conditions = conditions
        self._parts = parts
        self._spans = [(int(member.time.min()), int(member.time.max())) for member in left.members]
        self._hashes: dict[Equality, tuple[Array, Array]] = {}
        self._keys: dict[Equality, list[pa.Array]] = {}
        self._values: dict[Comparison, _Sortable] = {}

    def matches(self, seen: StoreView) -> Iterator[Combinations]:
        """Yield the combinations of `left` with the rows of `seen` that some query wants."""
        if not self._may_match(seen):
            return
        candidates = self._by_key(seen) if self.probe.route is not None else self._by_value(seen)
        for pairs in candidates:
            combinations = self._qualified(seen, pairs)
            if len(combinations):
                yield combinations

    # ---- candidates

    def _may_match(self, seen: StoreView) -> bool:
        """Return whether the ranges of event times allow any combination."""
        return all(
            self.program.windows[member, added].reachable(min_l=first, max_l=last, min_r=oldest, max_r=newest)
            for member, (first, last) in zip(self.probe.members, self._spans, strict=True)
            for added, (oldest, newest) in zip(self.probe.added, seen.spans, strict=True)
        )

    def _by_key(self, seen: StoreView) -> Iterator[Pairs]:
        route = self.probe.route
        assert route is not None and self.left.hashes is not None
        right = seen.by_key(self.probe.added.index(route.right), route.right, route.right_index)
        if right is not None:
            times = self.left.members[self.probe.members.index(route.left)].time
            left = JoinSide(self.left.hashes, times, self.left.sets, None)
            mask = set_to_words(seen.mask, self.program.words)
            yield from iter_pairs(left, right, self.program.windows[route.left, route.right], mask)

    def _by_value(self, seen: StoreView) -> Iterator[Pairs]:
        """Yield candidates without a key: all combinations against this task's share of the rows of `seen`."""
        rows = seen.share()
        if len(rows) == 0:
            return
        stored = [member.take(rows) for member in seen.members]
        values: dict[str, _Sortable] = {}
        bounds = [
            bound
            for comparison in self.probe.comparisons
            if (bound := self._bound(comparison, stored, values)) is not None
        ]
        for left_times, right_times, table in self._distances(self.left.members, stored):
            bounds += bounds_on_times(left_times, right_times, table.low, table.high)
        no_times = np.empty(0, np.int64)  # the bounds already cover the times
        for ia, ib in theta_pairs(
            len(self.left), len(rows), bounds, left_times=no_times, right_times=no_times, low=None, high=None
        ):
            yield ia, rows[ib]

    def _distances(self, left: Sequence[Member], right: Sequence[Timed]) -> list[tuple[Array, Array, WindowTable]]:
        return [
            (left[at].time, right[to].time, self.program.windows[member, added])
            for to, added in enumerate(self.probe.added)
            for at, member in enumerate(self.probe.members)
        ]

    def _bound(self, comparison: Comparison, stored: Sequence[Member], values: dict[str, _Sortable]) -> Bound | None:
        """Return a comparison as a bound on sortable values, seen from the combinations; None if it is not a bound.

        `values` caches the store's values by expression: bounds on the same values form a band.
        """
        sides = comparison.sides()
        if sides is None or sides[0] == "<>":
            return None
        operator, first, second = sides
        left_input, right_input = comparison.inputs
        if left_input in self.probe.added:
            operator, first, second, left_input, right_input = _TURNED[operator], second, first, right_input, left_input
        if comparison not in self._values:
            member = self.left.members[self.probe.members.index(left_input)]
            self._values[comparison] = self._sortable(first, left_input, member)
        if identity(second) not in values:
            values[identity(second)] = self._sortable(second, right_input, stored[self.probe.added.index(right_input)])
        lefts, rights = self._values[comparison], values[identity(second)]
        if lefts is None or rights is None or lefts[0].dtype != rights[0].dtype:
            return None
        return Bound(lefts[0], rights[0], operator, lefts[1], rights[1])

    def _sortable(self, value: Expression, owner: Input, member: Member) -> _Sortable:
        columns = {
            owner.column(name): self._parts.column(member, name)
            for name in sorted(columns_by_input(value, (owner,)).get(owner, ()))
        }
        try:
            return sortable(evaluate(value, pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))))
        except EvaluationError:
            return None  # testing the condition finds the failing queries

    # ---- qualification

    def _qualified(self, seen: StoreView, pairs: Pairs) -> Combinations:
        """Return the pairs that some query wants, as combinations."""
        left, words = self.left, self.program.words
        distances = self._distances(left.members, seen.members)
        mask = set_to_words(seen.mask, words)
        sets = combine_sets(left.sets, resized(seen.sets, words), mask, pairs=pairs, distances=distances)
        kept = np.flatnonzero(sets.any(axis=1))
        if len(kept):
            kept = kept[self._equal(seen, (pairs[0][kept], pairs[1][kept]))]
        combinations = self._joined(seen, (pairs[0][kept], pairs[1][kept]), sets[kept])
        for comparison in self.probe.comparisons:
            if len(combinations):
                combinations = self._conditions.true(combinations, self.probe.joined, comparison.expression)
        return combinations

    def _joined(self, seen: StoreView, pairs: Pairs, sets: Array) -> Combinations:
        ia, ib = pairs
        members = {owner: self.left.members[at].take(ia) for at, owner in enumerate(self.probe.members)}
        members |= {owner: seen.members[at].take(ib) for at, owner in enumerate(self.probe.added)}
        hashes = None if self.left.hashes is None else self.left.hashes[ia]
        return Combinations(tuple(members[owner] for owner in self.probe.joined), sets, hashes)

    def _equal(self, seen: StoreView, pairs: Pairs) -> Array:
        """Return for which pairs all equalities hold; keys with equal hashes are compared unless the hash is exact."""
        same = np.ones(len(pairs[0]), np.bool_)
        for equality in self.probe.equalities:
            hashes, valid = self._left_hashes(equality)
            stored = seen.members[self.probe.added.index(equality.right)].take(pairs[1])
            stored_hashes, stored_valid = self._parts.hashes(stored, equality.right_index)
            same &= valid[pairs[0]] & stored_valid & (hashes[pairs[0]] == stored_hashes)
        route = () if self.probe.route is None else (self.probe.route,)
        for equality in (*self.probe.equalities, *route):
            if not equality.left_index.exact and same.any():
                rows = np.flatnonzero(same)
                stored = seen.members[self.probe.added.index(equality.right)].take(pairs[1][rows])
                columns = [self._parts.column(stored, name) for name in equality.right_index.columns()]
                positions = np.arange(len(rows), dtype=np.int32)
                same[rows] = equal_rows(self._left_keys(equality), columns, pairs[0][rows], positions)
        return same

    def _left_hashes(self, equality: Equality) -> tuple[Array, Array]:
        if equality not in self._hashes:
            member = self.left.members[self.probe.members.index(equality.left)]
            self._hashes[equality] = self._parts.hashes(member, equality.left_index)
        return self._hashes[equality]

    def _left_keys(self, equality: Equality) -> list[pa.Array]:
        if equality not in self._keys:
            member = self.left.members[self.probe.members.index(equality.left)]
            self._keys[equality] = [self._parts.column(member, name) for name in equality.left_index.columns()]
        return self._keys[equality]


_TURNED: Mapping[str, str] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def restricted(found: Combinations, slots: Slots, words: int) -> Combinations:
    """Return the combinations for some slots only; combinations that none of these slots wants are left out."""
    return found.with_sets(found.sets & set_to_words(slots, words))
