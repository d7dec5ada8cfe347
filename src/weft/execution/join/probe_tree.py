"""The walk of new rows through the probe trees, in one task of one probe stage.

It is a plain function on files, so it runs the same in a test process and in a Spark task. A stage ends where
combinations must be partitioned by another key. They are then written to a file, from which the tasks of the
next stage read their ranges of hashes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from weft.execution.aggregate.over_joins import CombinedCells
from weft.execution.items import NewBucket, PendingCombinations
from weft.execution.join.copy_rows import with_copies
from weft.execution.join.probe_step import ProbeStep, StepConditions, restricted
from weft.execution.join.row_references import RowParts
from weft.execution.join.store_view import HashRange, StoreView, StoreViews
from weft.execution.program import BatchTask, Program
from weft.kernels.bitset import resized, set_from_words, set_to_words
from weft.kernels.hash_space import hash_range
from weft.kernels.order import sort_order
from weft.plan.key import StoreId
from weft.plan.probe_tree import Input, Probe, StoredJoin
from weft.plan.slots import Slots
from weft.storage.bucket import LAST_HASH, Bucket, Part
from weft.storage.combinations import (
    Combinations,
    Member,
    concat_combinations,
    open_combinations,
    place_id,
    write_combinations,
)
from weft.storage.index_order import order_index
from weft.storage.result_files import PartRef, WindowResult

Array = np.ndarray[Any, Any]

MOST_AT_ONCE = 1 << 21
"""Combinations held in memory before they are taken a step further or written."""


@dataclass(slots=True)
class WalkReport:
    """The outcome of a task's share of a stage."""

    results: list[WindowResult] = field(default_factory=list)
    partials: list[tuple[PendingCombinations, tuple[int, ...]]] = field(default_factory=list)
    """Files for the next stage, with the partitions that need them."""
    stored: list[NewBucket] = field(default_factory=list)
    """New buckets of stored joins."""
    cells: list[Bucket] = field(default_factory=list)
    """Buckets of cells that were aggregated from combinations."""
    sent: dict[str, list[int]] = field(default_factory=dict)
    """By probe step: the number of combinations that it received and that it produced."""
    failures: dict[int, str] = field(default_factory=dict)


def walk_stage(
    program: Program,
    task: BatchTask,
    partition: int,
    *,
    stage: int,
    fresh: Sequence[NewBucket],
    partials: Sequence[PendingCombinations],
) -> WalkReport:
    """Take new rows, and combinations of the stage before, through the probe steps of this stage."""
    walk = _Walk(program, task, partition, fresh)
    for rebuild in (False, True) if task.rebuild else (False,):
        walk.run(stage, [partial for partial in partials if partial.rebuild == rebuild], rebuild=rebuild)
    return walk.report


class _Walk:
    """The walk through one stage; it holds combinations for a later probe step, a result file or a stored join."""

    def __init__(self, program: Program, task: BatchTask, partition: int, fresh: Sequence[NewBucket]) -> None:
        self.program = program
        self.task = task
        self.partition = partition
        self.parts = RowParts(task.data)
        self.report = WalkReport()
        self._stores = {stored.id: stored for stored in program.probes.stored}
        self._conditions = StepConditions(self.parts)
        self._cells = CombinedCells(program, task, self.parts)
        self._views = StoreViews(program, task, HashRange(partition, task.partitions), self.parts, fresh)
        self._rebuild = False
        self._held: dict[tuple[str, str, Input | None], list[Combinations]] = {}

    def run(self, stage: int, partials: Sequence[PendingCombinations], *, rebuild: bool) -> None:
        """Run all probe steps of the stage, then write the combinations that are still held."""
        self._rebuild = rebuild
        for tree in self.program.probes.trees:
            if self._is_due(tree):
                if tree.stage == stage:
                    seen = self._views.starting(tree, rebuild=rebuild)
                    self._step(tree, self._ordered(tree, [self._rows(tree, view) for view in seen]))
                for probe in tree.walk():
                    files = [partial for partial in partials if partial.probe == probe.id]
                    if probe.stage == stage and files:
                        self._step(probe, self._arriving(probe, files))
        for kind, name, start in list(self._held):
            self._write(kind, name, start)
        self.report.cells += self._cells.write(self.partition)
        self.report.failures |= self._conditions.failures | self._cells.failures

    def _is_due(self, probe: Probe) -> bool:
        """Return whether to run a probe step; a rebuild runs only steps from a store's first input to that store."""
        return not self._rebuild or any(self._is_rebuilt(step) for step in probe.walk())

    def _is_rebuilt(self, probe: Probe) -> bool:
        return probe.keep in self.task.rebuild and probe.start == min(self._stores[probe.keep].inputs)

    # ---- sources of combinations

    def _rows(self, probe: Probe, seen: StoreView) -> Combinations:
        """Return the rows that begin a tree: those with keys of this task, or all if no key partitions them."""
        rows, hashes = np.arange(len(seen.sets), dtype=np.int32), None
        if probe.route is not None:
            side = seen.by_key(0, probe.start, probe.route.left_index)
            rows, hashes = (rows[:0], np.empty(0, np.uint64)) if side is None else (side.order(), side.h)
        words = self.program.words
        sets = resized(np.take(seen.sets, rows, axis=0), words) & set_to_words(seen.mask, words)
        return Combinations((seen.members[0].take(rows),), sets, hashes).with_sets(sets)

    def _arriving(self, probe: Probe, files: Iterable[PendingCombinations]) -> Combinations | None:
        """Return the combinations of the stage before that have keys of this task, or all if no key partitions them."""
        lists = []
        for partial in files:
            file = open_combinations(Path(self.task.data) / partial.path)
            span = slice(None) if probe.route is None else slice(*self._views.range.span(file.hashes))
            lists.append(file.combinations(span, self.parts.numbers(file.refs)))
        return self._ordered(probe, lists)

    def _ordered(self, probe: Probe, lists: Sequence[Combinations]) -> Combinations | None:
        """Concatenate lists in the order of a probe by key: by hash, then by the time of the member with the key."""
        lists = [combinations for combinations in lists if len(combinations)]
        if not lists:
            return None
        together = concat_combinations(lists)
        if probe.route is None:
            return together
        assert together.hashes is not None
        times = together.members[probe.members.index(probe.route.left)].time
        return together.take(sort_order(together.hashes, times))

    # ---- steps

    def _step(self, probe: Probe, left: Combinations | None) -> None:
        if left is None:
            return
        counts = self.report.sent.setdefault(probe.id, [0, 0])
        counts[0] += len(left)
        hop = ProbeStep(self.program, self._conditions, self.parts, probe=probe, left=left)
        held: list[Combinations] = []
        for seen in self._views.seen(probe, rebuild=self._rebuild):
            for combinations in hop.matches(seen):
                counts[1] += len(combinations)
                held.append(combinations)
                if sum(map(len, held)) >= MOST_AT_ONCE:
                    self._arrived(probe, concat_combinations(held))
                    held = []
        if held:
            self._arrived(probe, concat_combinations(held))

    def _arrived(self, probe: Probe, combinations: Combinations) -> None:
        if probe.result and not self._rebuild:
            self._hold("result", probe.result, None, restricted(combinations, probe.result_slots, self.program.words))
        if probe.keep is not None and (not self._rebuild or self._is_rebuilt(probe)):
            slots = self._stores[probe.keep].slots
            self._hold("store", probe.keep, probe.start, restricted(combinations, slots, self.program.words))
        for then in probe.then:
            if self._is_due(then):
                onward = restricted(combinations, then.slots, self.program.words)
                if then.local:
                    self._step(then, self._ordered(then, [onward]))
                else:
                    self._hold("probe", then.id, None, onward)

    def _hold(self, kind: str, name: str, start: Input | None, combinations: Combinations) -> None:
        if len(combinations):
            held = self._held.setdefault((kind, name, start), [])
            held.append(combinations)
            if sum(map(len, held)) >= MOST_AT_ONCE:
                self._write(kind, name, start)

    # ---- writing

    def _write(self, kind: str, name: str, start: Input | None) -> None:
        combinations = concat_combinations(self._held.pop((kind, name, start)))
        if kind == "result":
            self._write_result(name, combinations)
        elif kind == "store":
            self._write_stored(self._stores[StoreId(name)], None if self._rebuild else start, combinations)
        else:
            self._send(next(probe for probe in self.program.probes.probes() if probe.id == name), combinations)

    def _send(self, probe: Probe, combinations: Combinations) -> None:
        """Write the combinations that wait for a probe step of the next stage, partitioned by its key."""
        combinations = Combinations(combinations.members, combinations.sets)
        partitions: tuple[int, ...] = tuple(range(self.task.partitions))
        if probe.route is not None:
            at = probe.members.index(probe.route.left)
            hashes, valid = self.parts.hashes(combinations.members[at], probe.route.left_index)
            combinations = Combinations(combinations.members, combinations.sets, hashes).take(np.flatnonzero(valid))
            assert combinations.hashes is not None
            order = sort_order(combinations.hashes, combinations.members[at].time)
            partitions = _partitions_of(combinations.hashes[order], self.task.partitions)
            combinations = combinations.take(order)
        if len(combinations):
            path = self.task.new_file(f"w{self.partition}-{probe.id}")
            refs, combinations = self._numbered(combinations)
            file = write_combinations(self.task.data, path, combinations, refs, times=True)
            self.report.partials.append((PendingCombinations(probe.id, file.path, self._rebuild), partitions))

    def _write_result(self, source: str, combinations: Combinations) -> None:
        for condition in self.program.probes.filters:
            name, inputs = self.program.results[condition.slot]
            if name == source:
                combinations = self._conditions.true_for(combinations, inputs, condition.slot, condition.expression)
        combinations = self._cells.take(source, combinations)
        if len(combinations):
            base = self.task.new_file(f"c{self.partition}-{source}", suffix="")
            refs, combinations = self._numbered(with_copies(combinations, self.parts, self.task.data, base=base))
            file = write_combinations(self.task.data, f"{base}.arrow", combinations, refs, times=False)
            self.report.results.append(WindowResult(file.path, source, len(combinations), file.bytes, tuple(refs)))

    def _write_stored(self, store: StoredJoin, start: Input | None, combinations: Combinations) -> None:
        """Write a bucket of a stored join, with the indexes by which it is probed."""
        indexes = {}
        for owner, index in store.indexes:
            member = combinations.members[store.inputs.index(owner)]
            hashes, valid = self.parts.hashes(member, index)
            indexes[place_id(owner, index)] = order_index(hashes, member.time, None if valid.all() else valid)
        path = self.task.new_file(f"s{self.partition}-{store.id}")
        refs, numbered = self._numbered(Combinations(combinations.members, combinations.sets))
        file = write_combinations(self.task.data, path, numbered, refs, times=True, indexes=indexes)
        oldest = np.min([member.time for member in combinations.members], axis=0)
        slots = Slots(set_from_words(np.bitwise_or.reduce(combinations.sets, axis=0)))
        part = Part(0, LAST_HASH, len(combinations), int(oldest.min()), int(oldest.max()), slots)
        files = tuple(sorted({ref.path for ref in refs}))
        bucket = Bucket(file.path, store.id, store.inputs[0].stream, self.task.batch, (part,), file.bytes, files)
        self.report.stored.append(NewBucket(bucket, start))

    def _numbered(self, combinations: Combinations) -> tuple[list[PartRef], Combinations]:
        """Return references to the parts that are used, and the combinations with part numbers among these."""
        used = np.unique(np.concatenate([np.unique(member.part) for member in combinations.members]))
        numbers = np.zeros(len(self.parts.refs), np.int32)
        numbers[used] = np.arange(len(used), dtype=np.int32)
        members = tuple(Member(numbers[member.part], member.row, member.time) for member in combinations.members)
        return [self.parts.refs[at] for at in used], Combinations(members, combinations.sets, combinations.hashes)


def _partitions_of(hashes: Array, partitions: int) -> tuple[int, ...]:
    """Return the partitions whose ranges contain some of these sorted hashes."""
    lows = np.array([hash_range(partition, partitions)[0] for partition in range(partitions)], np.uint64)
    cuts = np.append(np.searchsorted(hashes, lows, side="left"), len(hashes))
    return tuple(int(partition) for partition in np.flatnonzero(cuts[1:] > cuts[:-1]))
