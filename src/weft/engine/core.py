"""The one owner of mutable state: what is live, what is on disk, what each batch has to do.

`Core` knows nothing of Spark: it turns requests into changelogs, says what a batch has to do (`begin`), and takes
what its tasks report (`commit`). Everything it knows it can read back from the state directory.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from weft.engine.asked import Asked
from weft.engine.batches.reports import gather, of_task
from weft.errors import BatchInterrupted, StateCorrupt
from weft.execution.compile import compile_program
from weft.execution.items import BatchReport
from weft.execution.program import NO_INPUTS, BatchInputs, BatchTask, Program
from weft.plan.changelog import LiveQuery
from weft.storage.journal import Manifest
from weft.storage.uninterrupted import defer_signals

_log = logging.getLogger("weft")
CHECKPOINT_EVERY = 50


class Core(Asked):
    """What an engine knows and does between batches; its methods are safe to call from any thread."""

    def tidy(self) -> None:
        """Free what only dropped queries needed, when there is no batch whose commit would do it."""
        if self._has_garbage and self.running is None:
            with self._changing:
                if self.running is None:
                    self._collect()

    # ---- the life of a batch

    def begin(
        self, batch: int, *, partitions: int, inputs: BatchInputs = NO_INPUTS
    ) -> tuple[Program, BatchTask] | None:
        """What batch `batch` has to do with these inputs; None if it is committed already."""
        with self._changing:
            if batch == self.next_batch - 1:
                return None
            if batch != self.next_batch:
                raise StateCorrupt(
                    f"batch {batch} was to be run but the state directory is at batch {self.next_batch}",
                    hint="This is a bug in weft, or another process has changed the state directory.",
                )
            self._apply_pending()
            self.running = batch  # requests wait from here on, so a slow plan holds up nobody
            try:
                planned = self.planned()
                with self.lock:
                    self._task = self._make_task(batch, partitions, planned.plan, inputs)
                    self._program = planned.program
            except BaseException:
                self.running = None
                raise
            return planned.program, self._task

    def trial(self, batch: int, *, partitions: int, inputs: BatchInputs, queries: Sequence[LiveQuery]) -> (
        tuple[Program, BatchTask]
    ):  # fmt: skip
        """The same batch for some of the live queries only: what its tasks report is not to be committed."""
        with self.lock:
            streams, results = dict(self.streams), self.inventory.results
        plan = self.planning.trace_of(queries, streams, results).plan
        with self.lock:
            task = self._make_task(batch, partitions, plan, inputs)
        return compile_program(plan, streams), replace(task, merges=())

    def abort(self, attempt: str | None = None) -> None:
        """The running batch failed, or is given up: nothing of it counts; waiting requests take effect now. With
        `attempt`, only if that attempt is the one that runs."""
        with self._changing:
            with self.lock:
                if self._task is None or (attempt is not None and self._task.attempt != attempt):
                    return
                self.running, task, self._task, self._program = None, self._task, None, None
                self.committed.notify_all()
            self.inventory.remove_attempt(task.batch, task.attempt)
            self._apply_pending()

    def commit(self, batch: int, reports: Sequence[BatchReport], *, attempt: str | None = None) -> Manifest:
        """Make the reported files of a batch exist, then free what nobody can reach any more. Raises BatchInterrupted
        if the batch was given up meanwhile."""
        with self._changing:
            task = self._task
            if task is None or (attempt is not None and task.attempt != attempt):
                raise BatchInterrupted(f"batch {batch} was given up before it could be committed")
            # The program that has run, whatever the plan is by now: a stream may have been declared meanwhile.
            program = self._program
            assert program is not None, "a task has a program"
            manifest = gather(batch, reports, program, self.roster.live.values())
            manifest = replace(of_task(manifest, program, task), freed=self.inventory.freed)
            manifest = replace(manifest, lasting=self.inventory.lasting(manifest))
            with defer_signals():
                self._journal.write_manifest(manifest)
                with self.lock:
                    gone = self._fold_manifest(manifest)
                    self.running = self._task = self._program = None
            with self.lock:
                self.planning.learn(batch, reports)
                self.clocks.note(name for name, totals in manifest.streams if totals.counted)
            self._after_commit(manifest, gone)
            return manifest

    def _after_commit(self, manifest: Manifest, gone: Sequence[str]) -> None:
        """Free, sum up, apply requests. The batch counts, whatever fails of this: the next one does it again."""
        steps = (
            partial(self.inventory.folder.remove, gone),
            self._collect,
            partial(self.inventory.folder.remove_unnamed, manifest),
            self._sum_up,
            self._apply_pending,
        )
        for step in steps:
            try:
                step()
            except Exception as error:
                _log.error(
                    "tidying up after batch %d failed: %s", manifest.batch, error, extra={"batch": manifest.batch}
                )
        with self.lock:
            self.committed.notify_all()

    def _sum_up(self) -> None:
        if self.next_batch - self._summed_up >= CHECKPOINT_EVERY:
            self.checkpoint()

    def trim_results(self, before: int) -> None:
        """Forget the results of batches older than `before`; who reads them already may do so to the end."""
        with self._changing:
            with self.lock:
                limit = self.leases.limit(min(before, self.next_batch))
            self.inventory.trim(limit)
