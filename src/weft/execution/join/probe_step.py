"""One step of a probe tree: combinations meet the rows of a store, and what qualifies for some query goes on.

Between steps there are only matched lists (late materialization): a step reads the rows of the store it probes, and of
the members of a combination no more than keys and the columns its conditions compare.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from weft.execution.join.row_references import RowParts
from weft.execution.join.store_view import Seen
from weft.execution.program import Program
from weft.kernels.bitset import column_of, resized, set_from_words, set_to_words
from weft.kernels.expression.evaluate import EvaluationError, evaluate
from weft.kernels.join.and_sets import combine_sets
from weft.kernels.join.band_join import Bound, sortable, theta_pairs, time_bounds
from weft.kernels.join.merge_join import Side, iter_pairs
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
    """Something with event times."""

    @property
    def time(self) -> Array:
        """By row."""


class Conditions:
    """Conditions on combinations, and the queries that fail on them: alone, with a message each."""

    def __init__(self, parts: RowParts) -> None:
        self._parts = parts
        self.failures: dict[int, str] = {}

    def true(self, found: Combinations, inputs: Sequence[Input], condition: Expression) -> Combinations:
        """The combinations for which a condition is true."""
        try:
            true = self._truth(found, inputs, condition)
        except EvaluationError:
            found = self._without_failing(found, inputs, condition)
            if len(found) == 0:
                return found
            true = self._truth(found, inputs, condition)
        return found if bool(true.all()) else found.take(np.flatnonzero(true))

    def true_for(self, found: Combinations, inputs: Sequence[Input], slot: int, condition: Expression) -> Combinations:
        """The combinations without one query where its own condition is not true."""
        mine = np.flatnonzero(column_of(found.sets, slot))
        if len(mine) == 0:
            return found
        try:
            true = self._truth(found.take(mine), inputs, condition)
        except EvaluationError as error:
            self.failures[slot] = str(error)
            true = np.zeros(len(mine), np.bool_)
        sets = found.sets.copy()
        sets[mine[~true]] &= ~set_to_words(1 << slot, sets.shape[1])
        return found.with_sets(sets)

    def _truth(self, found: Combinations, inputs: Sequence[Input], condition: Expression) -> Array:
        read = columns_by_input(condition, inputs)
        pieces = self._parts.cut([(found.members[inputs.index(each)], sorted(names)) for each, names in read.items()])
        if len(pieces) > 1:
            some = (found.take(np.arange(piece.start, piece.stop)) for piece in pieces)
            return np.concatenate([self._truth(each, inputs, condition) for each in some])
        columns = {
            each.column(name): self._parts.column(found.members[inputs.index(each)], name)
            for each, names in read.items()
            for name in sorted(names)
        }
        columns["weft#"] = pa.nulls(len(found), pa.bool_())  # a constant condition, too, has so many rows
        truth = evaluate(condition, pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)))
        values: Array = truth.fill_null(False).to_numpy(zero_copy_only=False)
        return values

    def _without_failing(self, found: Combinations, inputs: Sequence[Input], condition: Expression) -> Combinations:
        failing: dict[int, str] = {}
        for slot in slot_numbers(set_from_words(np.bitwise_or.reduce(found.sets, axis=0))):
            try:
                self._truth(found.take(np.flatnonzero(column_of(found.sets, slot))), inputs, condition)
            except EvaluationError as error:
                failing[slot] = str(error)
        self.failures |= failing
        return found.with_sets(found.sets & ~set_to_words(slot_set(failing), found.sets.shape[1]))


class Hop:
    """A probe on its way through the parts of a store; what it reads of its combinations it reads once."""

    def __init__(self, program: Program, conditions: Conditions, parts: RowParts, *, probe: Probe, left: Combinations):
        self.program = program
        self.probe = probe
        self.left = left
        self._conditions = conditions
        self._parts = parts
        self._spans = [(int(each.time.min()), int(each.time.max())) for each in left.members]
        self._hashes: dict[Equality, tuple[Array, Array]] = {}
        self._keys: dict[Equality, list[pa.Array]] = {}
        self._values: dict[Comparison, _Sortable] = {}

    def matches(self, seen: Seen) -> Iterator[Combinations]:
        """The combinations of what it brings with what is seen, as far as some query wants them."""
        if not self._may_match(seen):
            return
        candidates = self._by_key(seen) if self.probe.route is not None else self._by_value(seen)
        for pairs in candidates:
            found = self._qualified(seen, pairs)
            if len(found):
                yield found

    # ---- candidates

    def _may_match(self, seen: Seen) -> bool:
        """Whether by their times some of them can be together."""
        return all(
            self.program.windows[member, added].reachable(min_l=first, max_l=last, min_r=oldest, max_r=newest)
            for member, (first, last) in zip(self.probe.members, self._spans, strict=True)
            for added, (oldest, newest) in zip(self.probe.added, seen.spans, strict=True)
        )

    def _by_key(self, seen: Seen) -> Iterator[Pairs]:
        route = self.probe.route
        assert route is not None and self.left.hashes is not None
        side = seen.by_key(self.probe.added.index(route.right), route.right, route.right_index)
        if side is not None:
            times = self.left.members[self.probe.members.index(route.left)].time
            mine = Side(self.left.hashes, times, self.left.sets, None)
            mask = set_to_words(seen.mask, self.program.words)
            yield from iter_pairs(mine, side, self.program.windows[route.left, route.right], mask)

    def _by_value(self, seen: Seen) -> Iterator[Pairs]:
        """Without a key: this task's share of what is seen, against all combinations."""
        rows = seen.share()
        if len(rows) == 0:
            return
        stored = [member.take(rows) for member in seen.members]
        values: dict[str, _Sortable] = {}
        bounds = [bound for each in self.probe.comparisons if (bound := self._bound(each, stored, values)) is not None]
        for each, other, table in self._distances(self.left.members, stored):
            bounds += time_bounds(each, other, table.low, table.high)
        nothing = np.empty(0, np.int64)  # all that is asked of times is among the bounds
        for ia, ib in theta_pairs(
            len(self.left), len(rows), bounds, left_times=nothing, right_times=nothing, low=None, high=None
        ):
            yield ia, rows[ib]

    def _distances(self, left: Sequence[Member], right: Sequence[Timed]) -> list[tuple[Array, Array, WindowTable]]:
        return [
            (left[at].time, right[to].time, self.program.windows[member, added])
            for to, added in enumerate(self.probe.added)
            for at, member in enumerate(self.probe.members)
        ]

    def _bound(self, comparison: Comparison, stored: Sequence[Member], values: dict[str, _Sortable]) -> Bound | None:
        """The comparison as a bound on sorted values, seen from the combinations; None if it is not such a one.

        `values` has those of the store by their expression: bounds on the same values make a band.
        """
        sides = comparison.sides()
        if sides is None or sides[0] == "<>":
            return None
        operator, first, second = sides
        mine, other = comparison.inputs
        if mine in self.probe.added:
            operator, first, second, mine, other = _TURNED[operator], second, first, other, mine
        if comparison not in self._values:
            member = self.left.members[self.probe.members.index(mine)]
            self._values[comparison] = self._sortable(first, mine, member)
        if identity(second) not in values:
            values[identity(second)] = self._sortable(second, other, stored[self.probe.added.index(other)])
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
            return None  # whose query that is, is found out where the condition is tested

    # ---- what qualifies

    def _qualified(self, seen: Seen, pairs: Pairs) -> Combinations:
        """The pairs that some query wants, as combinations."""
        left, words = self.left, self.program.words
        distances = self._distances(left.members, seen.members)
        mask = set_to_words(seen.mask, words)
        sets = combine_sets(left.sets, resized(seen.sets, words), mask, pairs=pairs, distances=distances)
        kept = np.flatnonzero(sets.any(axis=1))
        if len(kept):
            kept = kept[self._equal(seen, (pairs[0][kept], pairs[1][kept]))]
        found = self._joined(seen, (pairs[0][kept], pairs[1][kept]), sets[kept])
        for each in self.probe.comparisons:
            if len(found):
                found = self._conditions.true(found, self.probe.joined, each.expression)
        return found

    def _joined(self, seen: Seen, pairs: Pairs, sets: Array) -> Combinations:
        ia, ib = pairs
        members = {each: self.left.members[at].take(ia) for at, each in enumerate(self.probe.members)}
        members |= {each: seen.members[at].take(ib) for at, each in enumerate(self.probe.added)}
        hashes = None if self.left.hashes is None else self.left.hashes[ia]
        return Combinations(tuple(members[each] for each in self.probe.joined), sets, hashes)

    def _equal(self, seen: Seen, pairs: Pairs) -> Array:
        """For which pairs all equalities hold, hash collisions told apart."""
        same = np.ones(len(pairs[0]), np.bool_)
        for each in self.probe.equalities:
            hashes, valid = self._left_hashes(each)
            stored = seen.members[self.probe.added.index(each.right)].take(pairs[1])
            others, others_valid = self._parts.hashes(stored, each.right_index)
            same &= valid[pairs[0]] & others_valid & (hashes[pairs[0]] == others)
        route = () if self.probe.route is None else (self.probe.route,)
        for each in (*self.probe.equalities, *route):
            if not each.left_index.exact and same.any():
                rows = np.flatnonzero(same)
                stored = seen.members[self.probe.added.index(each.right)].take(pairs[1][rows])
                columns = [self._parts.column(stored, name) for name in each.right_index.columns()]
                counted = np.arange(len(rows), dtype=np.int32)
                same[rows] = equal_rows(self._left_keys(each), columns, pairs[0][rows], counted)
        return same

    def _left_hashes(self, each: Equality) -> tuple[Array, Array]:
        if each not in self._hashes:
            member = self.left.members[self.probe.members.index(each.left)]
            self._hashes[each] = self._parts.hashes(member, each.left_index)
        return self._hashes[each]

    def _left_keys(self, each: Equality) -> list[pa.Array]:
        if each not in self._keys:
            member = self.left.members[self.probe.members.index(each.left)]
            self._keys[each] = [self._parts.column(member, name) for name in each.left_index.columns()]
        return self._keys[each]


_TURNED: Mapping[str, str] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def restricted(found: Combinations, slots: Slots, words: int) -> Combinations:
    """The combinations that some of the slots qualify for, for these slots only."""
    return found.with_sets(found.sets & set_to_words(slots, words))
