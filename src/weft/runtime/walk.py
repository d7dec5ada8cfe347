"""New tuples on their way through the probe trees, in one task of one probe stage.

A plain function on files: it runs the same in a test process and in a Spark task. Between steps there are only matched
lists (late materialization): a step reads the rows of the store it probes, and of the members of a combination no more
than the key of the next step and the columns its conditions compare.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from weft.kernels.bitset import column_of, resized, slots_of, to_mask, to_words
from weft.kernels.combine import combine_sets
from weft.kernels.evaluate import EvaluationError, evaluate
from weft.kernels.hash_space import hash_range
from weft.kernels.join import Side, iter_pairs
from weft.kernels.keys import equal_rows
from weft.kernels.order import sort_order
from weft.kernels.theta import Bound, sortable, theta_pairs
from weft.plan.changelog import Slots
from weft.plan.expression import Expression
from weft.plan.key import Index, StoreId
from weft.plan.probes import Comparison, Equality, Input, Probe, columns_by_input
from weft.runtime.partition import meaning_of
from weft.runtime.row_parts import RowParts
from weft.runtime.task import BatchTask, Program
from weft.state.bucket import HASH, Bucket, PartView, index_hash, index_rows
from weft.state.combination import Combinations, Member, concat, open_combinations, write_combinations
from weft.state.segment import PartRef, WindowResult

Array = np.ndarray[Any, Any]
Pairs = tuple[Array, Array]

MOST_AT_ONCE = 1 << 21
"""Combinations that are held before they are taken a step further or written."""


@dataclass(frozen=True, slots=True)
class Partial:
    """A file of combinations on their way to a probe."""

    probe: str
    path: str

    def to_json(self) -> list[str]:
        """As it travels to the next stage."""
        return [self.probe, self.path]


@dataclass(slots=True)
class WalkReport:
    """What came of a task's share of a stage."""

    results: list[WindowResult] = field(default_factory=list)
    partials: list[tuple[Partial, tuple[int, ...]]] = field(default_factory=list)
    """Files for the next stage, with the partitions that need them."""
    sent: dict[str, list[int]] = field(default_factory=dict)
    """For each probe: combinations that came to it, and those it made."""
    exchanged: int = 0
    """Bytes written for other tasks."""
    failures: dict[int, str] = field(default_factory=dict)


def walk_stage(
    program: Program,
    task: BatchTask,
    partition: int,
    *,
    stage: int,
    fresh: Sequence[Bucket],
    partials: Sequence[Partial],
) -> WalkReport:
    """Take new tuples, and combinations from the stage before, as far as this stage goes."""
    walk = _Walk(program, task, partition, fresh)
    walk.run(stage, partials)
    return walk.report


class _Walk:
    def __init__(self, program: Program, task: BatchTask, partition: int, fresh: Sequence[Bucket]) -> None:
        self.program = program
        self.task = task
        self.partition = partition
        self.low, self.high = hash_range(partition, task.partitions)
        self.parts = RowParts(task.data)
        self.report = WalkReport()
        self._fresh = fresh
        self._results: dict[str, list[Combinations]] = {}
        self._leaving: dict[str, list[Combinations]] = {}

    def run(self, stage: int, partials: Sequence[Partial]) -> None:
        """All steps of the stage, then what is left to be written."""
        for probe in self.program.probes.trees:
            if probe.stage == stage:
                self._step(probe, self._starting(probe))
        for probe in (each for tree in self.program.probes.trees for each in tree.walk() if each.stage == stage):
            files = [each for each in partials if each.probe == probe.id]
            if files:
                self._step(probe, self._arriving(probe, files))
        for source in list(self._results):
            self._write_result(source)
        for probe in self.program.probes.probes():
            if probe.id in self._leaving:
                self._send(probe)

    # ---- where combinations come from

    def _starting(self, probe: Probe) -> Combinations | None:
        """New tuples of the input a tree begins with: of this task's keys, or all if they are not divided by a key."""
        found = []
        for bucket in self._buckets(self._fresh, self.program.probed_stores[probe.start]):
            mask = self._mask(probe, bucket)
            for number, part in enumerate(bucket.parts):
                if part.rows and part.slots & mask:
                    found.append(self._rows_of(probe, bucket, number, mask))
        return self._ordered(probe, found)

    def _rows_of(self, probe: Probe, bucket: Bucket, number: int, mask: Slots) -> Combinations:
        at = self.parts.number(PartRef(bucket.path, number))
        rows = self.parts.all_rows(at)
        hashes: Array | None = None
        wanted: Array | slice = slice(None)
        if probe.route is not None:
            side = self._by_index(self.parts.view(at), probe.route.left_index)
            if side is None:
                wanted, hashes = slice(0, 0), np.empty(0, np.uint64)
            else:
                hashes = side.h
                wanted = slice(None) if side.rows is None else side.rows
        sets = resized(rows.sets[wanted], self.program.words) & to_words(mask, self.program.words)
        kept = np.flatnonzero(sets.any(axis=1))
        member = rows.members[0]
        return Combinations(
            (Member(member.part[wanted][kept], member.row[wanted][kept], member.time[wanted][kept]),),
            sets[kept],
            None if hashes is None else hashes[kept],
        )

    def _arriving(self, probe: Probe, files: Iterable[Partial]) -> Combinations | None:
        """Combinations from the stage before: those of this task's keys."""
        found = []
        for each in files:
            file = open_combinations(Path(self.task.data) / each.path)
            numbers = np.array([self.parts.number(ref) for ref in file.refs], np.int32)
            span = slice(0, file.batch.num_rows)
            if probe.route is not None:
                hashes = file.hashes
                span = slice(
                    int(np.searchsorted(hashes, np.uint64(self.low), side="left")),
                    int(np.searchsorted(hashes, np.uint64(self.high), side="right")),
                )
            found.append(file.combinations(span, numbers))
        return self._ordered(probe, found)

    def _ordered(self, probe: Probe, found: Sequence[Combinations]) -> Combinations | None:
        """Together in the order a probe by key needs: by hash, then by time of the member that has the key."""
        found = [each for each in found if len(each)]
        if not found:
            return None
        together = concat(found)
        if probe.route is None:
            return together
        assert together.hashes is not None
        times = together.members[probe.members.index(probe.route.left)].time
        return together.take(sort_order(together.hashes, times))

    # ---- one step

    def _step(self, probe: Probe, left: Combinations | None) -> None:
        if left is None or len(left) == 0:
            return
        counts = self.report.sent.setdefault(probe.id, [0, 0])
        counts[0] += len(left)
        held: list[Combinations] = []
        for found in self._probe(probe, left):
            counts[1] += len(found)
            held.append(found)
            if sum(map(len, held)) >= MOST_AT_ONCE:
                self._arrived(probe, concat(held))
                held = []
        if held:
            self._arrived(probe, concat(held))

    def _arrived(self, probe: Probe, found: Combinations) -> None:
        if probe.result:
            self._collect(self._results, probe.result, _wanted(found, probe.result_slots, self.program.words))
            if sum(map(len, self._results.get(probe.result, ()))) >= MOST_AT_ONCE:
                self._write_result(probe.result)
        for then in probe.then:
            mine = _wanted(found, then.slots, self.program.words)
            if then.local:
                self._step(then, self._ordered(then, [mine]))
            else:
                self._collect(self._leaving, then.id, mine)
                if sum(map(len, self._leaving.get(then.id, ()))) >= MOST_AT_ONCE:
                    self._send(then)

    def _collect(self, places: dict[str, list[Combinations]], at: str, found: Combinations) -> None:
        if len(found):
            places.setdefault(at, []).append(found)

    def _probe(self, probe: Probe, left: Combinations) -> Iterator[Combinations]:
        """The combinations of `left` with what the store has for them."""
        known = _Known(self, probe, left)
        for number, right, mask in self._stored(probe):
            candidates = (
                self._pairs_by_key(probe, left, number, mask)
                if probe.route is not None
                else self._pairs_by_value(probe, left, number, known)
            )
            for pairs in candidates:
                found = self._qualified(known, right, mask, pairs)
                if len(found):
                    yield found

    def _stored(self, probe: Probe) -> Iterator[tuple[int, Combinations, Slots]]:
        """The parts of the probed store that this probe may see, as combinations of one member.

        Each result is found once: by the first of its new tuples in the fixed order of inputs. So stored rows are seen
        by all, new ones only by tuples of inputs before theirs.
        """
        (added,) = probe.added
        buckets = list(self._buckets(self.task.buckets, probe.store))
        if added > probe.start:
            buckets += self._buckets(self._fresh, probe.store)
        for bucket in buckets:
            mask = self._mask(probe, bucket)
            for number, part in enumerate(bucket.parts):
                if part.rows and part.slots & mask:
                    at = self.parts.number(PartRef(bucket.path, number))
                    yield at, self.parts.all_rows(at), mask

    def _pairs_by_key(self, probe: Probe, left: Combinations, number: int, mask: Slots) -> Iterator[Pairs]:
        route = probe.route
        assert route is not None and left.hashes is not None
        view = self.parts.view(number)
        side = self._by_index(view, route.right_index)
        if side is None or len(side.h) == 0:
            return
        mine = Side(left.hashes, left.members[probe.members.index(route.left)].time, left.sets, None)
        table = self.program.windows[route.left, route.right]
        yield from iter_pairs(mine, side, table, to_words(mask, self.program.words))

    def _pairs_by_value(self, probe: Probe, left: Combinations, number: int, known: _Known) -> Iterator[Pairs]:
        """Candidates without a key: this task's share of the part, divided by event time, against all combinations."""
        view = self.parts.view(number)
        rows = np.flatnonzero(_within(view.column(HASH), self.low, self.high)).astype(np.int32)
        if len(rows) == 0:
            return
        (added,) = probe.added
        member = Member(np.broadcast_to(np.int32(number), len(rows)), rows, view.times[rows])
        bounds = [bound for each in probe.comparisons if (bound := known.bound(each, added, member)) is not None]
        first = left.members[0]
        table = self.program.windows[probe.members[0], added]
        for ia, ib in theta_pairs(
            len(left), len(rows), bounds, left_times=first.time, right_times=member.time, low=table.low, high=table.high
        ):
            yield ia, rows[ib]

    def _qualified(self, known: _Known, right: Combinations, mask: Slots, pairs: Pairs) -> Combinations:
        """The pairs that some query wants, as combinations."""
        probe, left = known.probe, known.left
        distances = [
            (left.members[at].time, right.members[to].time, self.program.windows[member, added])
            for at, member in enumerate(probe.members)
            for to, added in enumerate(probe.added)
        ]
        words = self.program.words
        sets = combine_sets(left.sets, resized(right.sets, words), to_words(mask, words), pairs=pairs, distances=distances)
        kept = np.flatnonzero(sets.any(axis=1))
        kept = kept[known.equal(right, (pairs[0][kept], pairs[1][kept]))] if len(kept) else kept
        ia, ib, sets = pairs[0][kept], pairs[1][kept], sets[kept]
        found = _joined(known, right, (ia, ib), sets)
        for each in probe.comparisons:
            if len(found):
                found = self.satisfying(found, probe.joined, each.expression)
        return found

    def satisfying(self, found: Combinations, inputs: Sequence[Input], condition: Expression) -> Combinations:
        """The combinations for which a condition is true; a query for which it fails on one of its own fails alone."""
        try:
            true = self._truth(found, inputs, condition)
        except EvaluationError:
            found = self._without_failing(found, inputs, condition)
            if len(found) == 0:
                return found
            true = self._truth(found, inputs, condition)
        return found if bool(true.all()) else found.take(np.flatnonzero(true))

    def _truth(self, found: Combinations, inputs: Sequence[Input], condition: Expression) -> Array:
        columns = {
            each.column(name): self.parts.column(found.members[inputs.index(each)], name)
            for each, names in columns_by_input(condition, inputs).items()
            for name in sorted(names)
        }
        columns["weft#"] = pa.nulls(len(found), pa.bool_())
        truth = evaluate(condition, pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)))
        values: Array = truth.fill_null(False).to_numpy(zero_copy_only=False)
        return values

    def _without_failing(self, found: Combinations, inputs: Sequence[Input], condition: Expression) -> Combinations:
        failing: dict[int, str] = {}
        mask = np.bitwise_or.reduce(found.sets, axis=0)
        for slot in slots_of(int.from_bytes(mask.tobytes(), "little")):
            try:
                self._truth(found.take(np.flatnonzero(column_of(found.sets, slot))), inputs, condition)
            except EvaluationError as error:
                failing[slot] = str(error)
        self.report.failures |= failing
        sets = found.sets & ~to_words(to_mask(failing), found.sets.shape[1])
        kept = np.flatnonzero(sets.any(axis=1))
        return Combinations(tuple(each.take(kept) for each in found.members), sets[kept],
                            None if found.hashes is None else found.hashes[kept])  # fmt: skip

    # ---- what is written

    def _send(self, probe: Probe) -> None:
        """Write what waits for a probe of the next stage, divided by the key of that probe."""
        found = concat(self._leaving.pop(probe.id))
        to: tuple[int, ...] = tuple(range(self.task.partitions))
        if probe.route is not None:
            member = found.members[probe.members.index(probe.route.left)]
            hashes, valid = self.parts.hashes(member, probe.route.left_index)
            found = Combinations(found.members, found.sets, hashes)
            if not valid.all():
                found = found.take(np.flatnonzero(valid))
            if len(found) == 0:
                return
            assert found.hashes is not None
            found = found.take(sort_order(found.hashes, found.members[probe.members.index(probe.route.left)].time))
            assert found.hashes is not None
            to = tuple(_partitions_of(found.hashes, self.task.partitions))
        else:
            found = Combinations(found.members, found.sets)
        path = self.task.new_file(f"w{self.partition}-{probe.id}")
        refs, found = self._compact(found)
        self.report.exchanged += write_combinations(Path(self.task.data) / path, found, refs, times=True)
        self.report.partials.append((Partial(probe.id, path), to))

    def _write_result(self, source: str) -> None:
        found = concat(self._results.pop(source))
        for each in self.program.probes.filters:
            if self.program.results[each.slot][0] == source:
                found = self._filtered(found, each.slot, each.expression)
        if len(found) == 0:
            return
        path = self.task.new_file(f"c{self.partition}-{source}")
        refs, found = self._compact(found)
        found = Combinations(found.members, found.sets)
        size = write_combinations(Path(self.task.data) / path, found, refs, times=False)
        self.report.results.append(WindowResult(path, source, len(found), size, tuple(refs)))

    def _filtered(self, found: Combinations, slot: int, condition: Expression) -> Combinations:
        """The query-sets without a query where its own condition is not true."""
        mine = np.flatnonzero(column_of(found.sets, slot))
        if len(mine) == 0:
            return found
        _, inputs = self.program.results[slot]
        try:
            true = self._truth(found.take(mine), inputs, condition)
        except EvaluationError as error:
            self.report.failures[slot] = str(error)
            true = np.zeros(len(mine), np.bool_)
        sets = found.sets.copy()
        sets[mine[~true]] &= ~to_words(1 << slot, sets.shape[1])
        kept = np.flatnonzero(sets.any(axis=1))
        return Combinations(tuple(each.take(kept) for each in found.members), sets[kept])

    def _compact(self, found: Combinations) -> tuple[list[PartRef], Combinations]:
        """With numbers of just the parts that are referred to."""
        used = np.unique(np.concatenate([np.unique(each.part) for each in found.members]))
        numbers = np.zeros(len(self.parts.refs), np.int32)
        numbers[used] = np.arange(len(used), dtype=np.int32)
        members = tuple(Member(numbers[each.part], each.row, each.time) for each in found.members)
        return [self.parts.refs[at] for at in used], Combinations(members, found.sets, found.hashes)

    # ---- stores

    def _buckets(self, buckets: Iterable[Bucket], store: StoreId) -> list[Bucket]:
        return [bucket for bucket in buckets if bucket.store == store]

    def _mask(self, probe: Probe, bucket: Bucket) -> Slots:
        return Slots(probe.slots & meaning_of(self.task, self.program, bucket) & bucket.slots)

    def _by_index(self, view: PartView, index: Index) -> Side | None:
        """A part in the order of an index, cut to this task's range of hashes; None if it has no such index."""
        if index_rows(index.id) not in view.rows.schema.names:
            return None
        rows = view.column(index_rows(index.id))
        known = len(rows) - int(np.count_nonzero(rows < 0))
        hashes = view.column(index_hash(index.id))[:known]
        start, end = self._span(hashes)
        return Side(hashes[start:end], view.times, view.sets, rows[start:end])

    def _span(self, hashes: Array) -> tuple[int, int]:
        start = int(np.searchsorted(hashes, np.uint64(self.low), side="left"))
        return start, int(np.searchsorted(hashes, np.uint64(self.high), side="right"))


class _Known:
    """What a step reads of the combinations it begins with, once for all parts of the store."""

    def __init__(self, walk: _Walk, probe: Probe, left: Combinations) -> None:
        self.walk = walk
        self.probe = probe
        self.left = left
        self._hashes: dict[Equality, tuple[Array, Array]] = {}
        self._keys: dict[Equality, list[pa.Array]] = {}
        self._values: dict[Comparison, tuple[Array, Array | None] | None] = {}

    def equal(self, right: Combinations, pairs: Pairs) -> Array:
        """For which pairs all equalities hold, hash collisions told apart."""
        same = np.ones(len(pairs[0]), np.bool_)
        for each in self.probe.equalities:
            hashes, valid = self._left_hashes(each)
            stored = right.members[self.probe.added.index(each.right)].take(pairs[1])
            others, others_valid = self.walk.parts.hashes(stored, each.right_index)
            same &= valid[pairs[0]] & others_valid & (hashes[pairs[0]] == others)
        route = () if self.probe.route is None else (self.probe.route,)
        for each in (*self.probe.equalities, *route):
            if not each.left_index.exact and same.any():
                rows = np.flatnonzero(same)
                stored = right.members[self.probe.added.index(each.right)].take(pairs[1][rows])
                columns = [self.walk.parts.column(stored, name) for name in each.right_index.columns()]
                counted = np.arange(len(rows), dtype=np.int32)
                same[rows] = equal_rows(self._left_keys(each), columns, pairs[0][rows], counted)
        return same

    def bound(self, comparison: Comparison, added: Input, stored: Member) -> Bound | None:
        """The comparison as a bound on sorted values, seen from the combinations; None if it is not such a one."""
        sides = comparison.sides()
        if sides is None or sides[0] == "<>":
            return None
        operator, first, second = sides
        if comparison.inputs[0] == added:
            operator, first, second = _TURNED[operator], second, first
        if comparison not in self._values:
            owner = comparison.inputs[0] if comparison.inputs[1] == added else comparison.inputs[1]
            member = self.left.members[self.probe.members.index(owner)]
            self._values[comparison] = self._sortable(first, owner, member)
        lefts, rights = self._values[comparison], self._sortable(second, added, stored)
        if lefts is None or rights is None or lefts[0].dtype != rights[0].dtype:
            return None
        return Bound(lefts[0], rights[0], operator, lefts[1], rights[1])

    def _sortable(self, value: Expression, owner: Input, member: Member) -> tuple[Array, Array | None] | None:
        columns = {
            owner.column(name): self.walk.parts.column(member, name)
            for name in sorted(columns_by_input(value, (owner,)).get(owner, ()))
        }
        try:
            return sortable(evaluate(value, pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))))
        except EvaluationError:
            return None  # whose query that is, is found out where the condition is tested

    def _left_hashes(self, each: Equality) -> tuple[Array, Array]:
        if each not in self._hashes:
            member = self.left.members[self.probe.members.index(each.left)]
            self._hashes[each] = self.walk.parts.hashes(member, each.left_index)
        return self._hashes[each]

    def _left_keys(self, each: Equality) -> list[pa.Array]:
        if each not in self._keys:
            member = self.left.members[self.probe.members.index(each.left)]
            self._keys[each] = [self.walk.parts.column(member, name) for name in each.left_index.columns()]
        return self._keys[each]


_TURNED: Mapping[str, str] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _joined(known: _Known, right: Combinations, pairs: Pairs, sets: Array) -> Combinations:
    probe, left = known.probe, known.left
    ia, ib = pairs
    members = {each: left.members[at].take(ia) for at, each in enumerate(probe.members)}
    members |= {each: right.members[at].take(ib) for at, each in enumerate(probe.added)}
    hashes = None if left.hashes is None else left.hashes[ia]
    return Combinations(tuple(members[each] for each in probe.joined), sets, hashes)


def _wanted(found: Combinations, slots: Slots, words: int) -> Combinations:
    """The combinations that some of the slots qualify for, for these slots only."""
    sets = found.sets & to_words(slots, words)
    kept = sets.any(axis=1)
    if bool(kept.all()):
        return Combinations(found.members, sets, found.hashes)
    return Combinations(found.members, sets, found.hashes).take(np.flatnonzero(kept))


def _within(hashes: Array, low: int, high: int) -> Array:
    inside: Array = (hashes >= np.uint64(low)) & (hashes <= np.uint64(high))
    return inside


def _partitions_of(hashes: Array, partitions: int) -> Iterator[int]:
    """The partitions whose range has some of these sorted hashes."""
    for partition in range(partitions):
        low, high = hash_range(partition, partitions)
        at = int(np.searchsorted(hashes, np.uint64(low), side="left"))
        if at < len(hashes) and int(hashes[at]) <= high:
            yield partition
