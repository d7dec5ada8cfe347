"""The owner of all mutable state: live queries, files on disk, and the work of each batch.

`Core` does not depend on Spark. It turns requests into changelogs, says what a batch has to do (`begin`), and records
what the batch's tasks report (`commit`). All of its state can be rebuilt from the state directory.
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
    """The state of an engine and the operations on it between batches; all methods are thread-safe."""

    def tidy(self) -> None:
        """Free what only dropped queries needed; without new input, no commit does so."""
        if self._has_garbage and self.running is None:
            with self._changing:
                if self.running is None:
                    self._collect()

    # ---- batches

    def begin(
        self, batch: int, *, partitions: int, inputs: BatchInputs = NO_INPUTS
    ) -> tuple[Program, BatchTask] | None:
        """Apply pending requests and return the program and task of a batch; None if it is already committed."""
        with self._changing:
            if batch == self.next_batch - 1:
                return None
            if batch != self.next_batch:
                raise StateCorrupt(
                    f"batch {batch} was to be run but the state directory is at batch {self.next_batch}",
                    hint="This is a bug in weft, or another process has changed the state directory.",
                )
            self._apply_pending()
            self.running = batch  # before planning, which is slow: from here on requests queue and do not wait
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
        """Return the program and task of a batch for some of the live queries; its reports must not be committed."""
        with self.lock:
            streams, results = dict(self.streams), self.inventory.results
        plan = self.planning.trace_of(queries, streams, results).plan
        with self.lock:
            task = self._make_task(batch, partitions, plan, inputs)
        return compile_program(plan, streams), replace(task, merges=())

    def abort(self, attempt: str | None = None) -> None:
        """Give up the running batch, or only this `attempt` at it: remove its files and apply waiting requests."""
        with self._changing:
            with self.lock:
                if self._task is None or (attempt is not None and self._task.attempt != attempt):
                    return
                self.running, task, self._task, self._program = None, self._task, None, None
                self.committed.notify_all()
            self.inventory.remove_attempt(task.batch, task.attempt)
            self._apply_pending()

    def commit(self, batch: int, reports: Sequence[BatchReport], *, attempt: str | None = None) -> Manifest:
        """Write the manifest of a batch, which makes its reported files visible to readers, and free unreachable files.

        Raises BatchInterrupted if the batch, or this `attempt` at it, was given up meanwhile.
        """
        with self._changing:
            task = self._task
            if task is None or (attempt is not None and task.attempt != attempt):
                raise BatchInterrupted(f"batch {batch} was given up before it could be committed")
            # The program that ran. The current plan may differ, because a stream was declared during the batch.
            program = self._program
            assert program is not None, "a task has a program"
            manifest = gather(batch, reports, program, self.roster.live.values())
            manifest = replace(of_task(manifest, program, task), freed=self.inventory.freed)
            manifest = replace(manifest, lasting=self.inventory.lasting(manifest))
            with defer_signals():
                self._journal.write_manifest(manifest)
                with self.lock:
                    obsolete = self._fold_manifest(manifest)
                    self.running = self._task = self._program = None
            with self.lock:
                self.planning.learn(batch, reports)
                self.clocks.note(name for name, totals in manifest.streams if totals.counted)
            self._after_commit(manifest, obsolete)
            return manifest

    def _after_commit(self, manifest: Manifest, obsolete: Sequence[str]) -> None:
        """Free files, checkpoint if due, apply requests. A failure does not undo the commit; the next batch retries."""
        steps = (
            partial(self.inventory.folder.remove, obsolete),
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
        """Discard the results of batches before `before`, except those that readers hold by a lease."""
        with self._changing:
            with self.lock:
                limit = self.leases.limit(min(before, self.next_batch))
            self.inventory.trim(limit)
