"""New tuples on their way through the probe trees, in one task of one probe stage.

A plain function on files: it runs the same in a test process and in a Spark task. A stage ends where combinations have
to be divided by another key; what goes on is written as a matched list, from which the tasks of the next stage read
their range of hashes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from weft.execution.aggregate.over_joins import CombinedCells
from weft.execution.join.copy_rows import with_copies
from weft.execution.join.probe_step import Conditions, Hop, restricted
from weft.execution.join.row_references import RowParts
from weft.execution.join.store_view import Fresh, HashRange, Seen, StoreViews
from weft.execution.program import BatchTask, Program
from weft.kernels.bitset import resized, set_from_words, set_to_words
from weft.kernels.hash_space import hash_range
from weft.kernels.order import sort_order
from weft.plan.key import StoreId
from weft.plan.probe_tree import Input, Probe, StoredJoin
from weft.plan.slots import Slots
from weft.storage.bucket import LAST_HASH, Bucket, Part
from weft.storage.combinations import Combinations, Member, concat, open_combinations, place_id, write_combinations
from weft.storage.index_order import order_index
from weft.storage.result_files import PartRef, WindowResult

Array = np.ndarray[Any, Any]

MOST_AT_ONCE = 1 << 21
"""Combinations that are held before they are taken a step further or written."""


@dataclass(frozen=True, slots=True)
class Partial:
    """A file of combinations on their way to a probe; `rebuild` if they are all of stored rows."""

    probe: str
    path: str
    rebuild: bool


@dataclass(slots=True)
class WalkReport:
    """What came of a task's share of a stage."""

    results: list[WindowResult] = field(default_factory=list)
    partials: list[tuple[Partial, tuple[int, ...]]] = field(default_factory=list)
    """Files for the next stage, with the partitions that need them."""
    stored: list[Fresh] = field(default_factory=list)
    """Intermediate results that are kept."""
    cells: list[Bucket] = field(default_factory=list)
    """Partial aggregates of combinations."""
    sent: dict[str, list[int]] = field(default_factory=dict)
    """For each probe: combinations that came to it, and those it made."""
    failures: dict[int, str] = field(default_factory=dict)


def walk_stage(
    program: Program,
    task: BatchTask,
    partition: int,
    *,
    stage: int,
    fresh: Sequence[Fresh],
    partials: Sequence[Partial],
) -> WalkReport:
    """Take new tuples, and combinations from the stage before, as far as this stage goes."""
    walk = _Walk(program, task, partition, fresh)
    for rebuild in (False, True) if task.rebuild else (False,):
        walk.run(stage, [each for each in partials if each.rebuild == rebuild], rebuild=rebuild)
    return walk.report


class _Walk:
    """Where combinations are: waiting for a probe of the next stage, for a result file, or for a store."""

    def __init__(self, program: Program, task: BatchTask, partition: int, fresh: Sequence[Fresh]) -> None:
        self.program = program
        self.task = task
        self.partition = partition
        self.parts = RowParts(task.data)
        self.report = WalkReport()
        self._stores = {each.id: each for each in program.probes.stored}
        self._conditions = Conditions(self.parts)
        self._cells = CombinedCells(program, task, self.parts)
        self._views = StoreViews(program, task, HashRange(partition, task.partitions), self.parts, fresh)
        self._rebuild = False
        self._held: dict[tuple[str, str, Input | None], list[Combinations]] = {}

    def run(self, stage: int, partials: Sequence[Partial], *, rebuild: bool) -> None:
        """All steps of the stage, then what is left to be written."""
        self._rebuild = rebuild
        for tree in self.program.probes.trees:
            if self._is_due(tree):
                if tree.stage == stage:
                    seen = self._views.starting(tree, rebuild=rebuild)
                    self._step(tree, self._ordered(tree, [self._rows(tree, each) for each in seen]))
                for probe in tree.walk():
                    files = [each for each in partials if each.probe == probe.id]
                    if probe.stage == stage and files:
                        self._step(probe, self._arriving(probe, files))
        for kind, name, start in list(self._held):
            self._write(kind, name, start)
        self.report.cells += self._cells.write(self.partition)
        self.report.failures |= self._conditions.failures | self._cells.failures

    def _is_due(self, probe: Probe) -> bool:
        """Whether something is to come of it: to rebuild a store, only ways to it from the first of its inputs are."""
        return not self._rebuild or any(self._is_rebuilt(each) for each in probe.walk())

    def _is_rebuilt(self, probe: Probe) -> bool:
        return probe.keep in self.task.rebuild and probe.start == min(self._stores[probe.keep].inputs)

    # ---- where combinations come from

    def _rows(self, probe: Probe, seen: Seen) -> Combinations:
        """Rows that begin a tree: of this task's keys, or all if they are not divided by a key."""
        rows, hashes = np.arange(len(seen.sets), dtype=np.int32), None
        if probe.route is not None:
            side = seen.by_key(0, probe.start, probe.route.left_index)
            rows, hashes = (rows[:0], np.empty(0, np.uint64)) if side is None else (side.order(), side.h)
        words = self.program.words
        sets = resized(np.take(seen.sets, rows, axis=0), words) & set_to_words(seen.mask, words)
        return Combinations((seen.members[0].take(rows),), sets, hashes).with_sets(sets)

    def _arriving(self, probe: Probe, files: Iterable[Partial]) -> Combinations | None:
        """Combinations from the stage before: those of this task's keys."""
        found = []
        for each in files:
            file = open_combinations(Path(self.task.data) / each.path)
            span = slice(None) if probe.route is None else slice(*self._views.range.span(file.hashes))
            found.append(file.combinations(span, self.parts.numbers(file.refs)))
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

    # ---- steps

    def _step(self, probe: Probe, left: Combinations | None) -> None:
        if left is None:
            return
        counts = self.report.sent.setdefault(probe.id, [0, 0])
        counts[0] += len(left)
        hop = Hop(self.program, self._conditions, self.parts, probe=probe, left=left)
        held: list[Combinations] = []
        for seen in self._views.seen(probe, rebuild=self._rebuild):
            for found in hop.matches(seen):
                counts[1] += len(found)
                held.append(found)
                if sum(map(len, held)) >= MOST_AT_ONCE:
                    self._arrived(probe, concat(held))
                    held = []
        if held:
            self._arrived(probe, concat(held))

    def _arrived(self, probe: Probe, found: Combinations) -> None:
        if probe.result and not self._rebuild:
            self._hold("result", probe.result, None, restricted(found, probe.result_slots, self.program.words))
        if probe.keep is not None and (not self._rebuild or self._is_rebuilt(probe)):
            slots = self._stores[probe.keep].slots
            self._hold("store", probe.keep, probe.start, restricted(found, slots, self.program.words))
        for then in probe.then:
            if self._is_due(then):
                mine = restricted(found, then.slots, self.program.words)
                if then.local:
                    self._step(then, self._ordered(then, [mine]))
                else:
                    self._hold("probe", then.id, None, mine)

    def _hold(self, kind: str, name: str, start: Input | None, found: Combinations) -> None:
        if len(found):
            held = self._held.setdefault((kind, name, start), [])
            held.append(found)
            if sum(map(len, held)) >= MOST_AT_ONCE:
                self._write(kind, name, start)

    # ---- what is written

    def _write(self, kind: str, name: str, start: Input | None) -> None:
        found = concat(self._held.pop((kind, name, start)))
        if kind == "result":
            self._write_result(name, found)
        elif kind == "store":
            self._write_stored(self._stores[StoreId(name)], None if self._rebuild else start, found)
        else:
            self._send(next(each for each in self.program.probes.probes() if each.id == name), found)

    def _send(self, probe: Probe, found: Combinations) -> None:
        """What waits for a probe of the next stage, divided by the key of that probe."""
        found = Combinations(found.members, found.sets)
        to: tuple[int, ...] = tuple(range(self.task.partitions))
        if probe.route is not None:
            at = probe.members.index(probe.route.left)
            hashes, valid = self.parts.hashes(found.members[at], probe.route.left_index)
            found = Combinations(found.members, found.sets, hashes).take(np.flatnonzero(valid))
            assert found.hashes is not None
            order = sort_order(found.hashes, found.members[at].time)
            to = _partitions_of(found.hashes[order], self.task.partitions)
            found = found.take(order)
        if len(found):
            path = self.task.new_file(f"w{self.partition}-{probe.id}")
            refs, found = self._numbered(found)
            file = write_combinations(self.task.data, path, found, refs, times=True)
            self.report.partials.append((Partial(probe.id, file.path, self._rebuild), to))

    def _write_result(self, source: str, found: Combinations) -> None:
        for each in self.program.probes.filters:
            name, inputs = self.program.results[each.slot]
            if name == source:
                found = self._conditions.true_for(found, inputs, each.slot, each.expression)
        found = self._cells.take(source, found)
        if len(found):
            base = self.task.new_file(f"c{self.partition}-{source}", suffix="")
            refs, found = self._numbered(with_copies(found, self.parts, self.task.data, base=base))
            file = write_combinations(self.task.data, f"{base}.arrow", found, refs, times=False)
            self.report.results.append(WindowResult(file.path, source, len(found), file.bytes, tuple(refs)))

    def _write_stored(self, store: StoredJoin, start: Input | None, found: Combinations) -> None:
        """A bucket of intermediate results, with the keys it is probed by."""
        indexes = {}
        for owner, index in store.indexes:
            member = found.members[store.inputs.index(owner)]
            hashes, valid = self.parts.hashes(member, index)
            indexes[place_id(owner, index)] = order_index(hashes, member.time, None if valid.all() else valid)
        path = self.task.new_file(f"s{self.partition}-{store.id}")
        refs, numbered = self._numbered(Combinations(found.members, found.sets))
        file = write_combinations(self.task.data, path, numbered, refs, times=True, indexes=indexes)
        oldest = np.min([member.time for member in found.members], axis=0)
        slots = Slots(set_from_words(np.bitwise_or.reduce(found.sets, axis=0)))
        part = Part(0, LAST_HASH, len(found), int(oldest.min()), int(oldest.max()), slots)
        files = tuple(sorted({ref.path for ref in refs}))
        bucket = Bucket(file.path, store.id, store.inputs[0].stream, self.task.batch, (part,), file.bytes, files)
        self.report.stored.append(Fresh(bucket, start))

    def _numbered(self, found: Combinations) -> tuple[list[PartRef], Combinations]:
        """With numbers of just the parts that are referred to."""
        used = np.unique(np.concatenate([np.unique(each.part) for each in found.members]))
        numbers = np.zeros(len(self.parts.refs), np.int32)
        numbers[used] = np.arange(len(used), dtype=np.int32)
        members = tuple(Member(numbers[each.part], each.row, each.time) for each in found.members)
        return [self.parts.refs[at] for at in used], Combinations(members, found.sets, found.hashes)


def _partitions_of(hashes: Array, partitions: int) -> tuple[int, ...]:
    """The partitions whose range has some of these sorted hashes."""
    lows = np.array([hash_range(each, partitions)[0] for each in range(partitions)], np.uint64)
    cuts = np.append(np.searchsorted(hashes, lows, side="left"), len(hashes))
    return tuple(int(each) for each in np.flatnonzero(cuts[1:] > cuts[:-1]))
