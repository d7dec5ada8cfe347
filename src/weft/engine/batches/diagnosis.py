"""Who is at fault when a batch fails: a source that cannot be read, or a query."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from weft.engine.batches.attempt import Attempts
from weft.engine.batches.crashes import Crashes
from weft.engine.batches.culprit import find_culprit
from weft.engine.core import Core
from weft.engine.inputs.inputs import Offer
from weft.errors import (
    BadFile,
    DiskFull,
    EngineStopped,
    SourceUnavailable,
    SparkLost,
    StateCorrupt,
    StateUnavailable,
    WeftError,
)
from weft.plan.changelog import LiveQuery
from weft.plan.stream import FileSource
from weft.spark.batch_job import BatchRunner
from weft.spark.errors import to_user_error
from weft.storage.ended_queries import query_number

_log = logging.getLogger("weft")
NOT_OF_A_QUERY = (DiskFull, EngineStopped, SparkLost, StateCorrupt, StateUnavailable)
"""Failures that have nothing to do with what queries ask for."""
_PEERS = 5
"""Queries that are looked at to see whether a fault is everybody's."""
MOST_DEATHS = 2
"""Processes that may die in the same batch before the query at fault is looked for: others kill processes, too."""


Check = Callable[[], None]


def failing_sources(core: Core, runner: BatchRunner, offer: Offer, error: WeftError) -> dict[str, WeftError]:
    """The streams whose rows cannot be had, with the reasons."""
    if isinstance(error, SourceUnavailable):
        named = [name for name in offer.streams if f'stream "{name}"' in error.message]
        if named:
            return dict.fromkeys(named, error)
    if isinstance(error, BadFile):
        return {name: error for name in offer.files if f'"{_path_of(core, name)}/' in error.message}
    found: dict[str, WeftError] = {}
    for name, arrival in offer.arrivals.items():
        if reason := runner.source_error(arrival.frame):
            found[name] = SourceUnavailable(f'the source of stream "{name}" has failed', detail=reason)
    return found


def _path_of(core: Core, stream: str) -> str:
    source = core.streams[stream].source
    return source.path.rstrip("/") if isinstance(source, FileSource) else ""


class Diagnosis:
    """Looks for the query at fault by running a batch for some of the queries only.

    A query that ends the process is looked for over several of them: what is found out is noted before and after each
    trial.
    """

    def __init__(self, core: Core, attempts: Attempts, crashes: Crashes, *, partitions: int) -> None:
        self._core, self._attempts, self._crashes = core, attempts, crashes
        self._partitions = partitions
        self._reason = ""

    def failing_query(self, offer: Offer, *, limit: float, check: Check, alone: bool) -> tuple[LiveQuery, str] | None:
        """The query without which the batch would not fail, and why it fails with it; None if nobody is to blame.

        A trial may take `limit` seconds. If that is less than a batch may take, the query has to fail `alone`, and
        others over the same streams must not: the batch may just be large. `check` is called before each trial, and
        ends the search by raising. So does a failure that has nothing to do with queries.
        """
        live = self._live()

        def fails(queries: Sequence[LiveQuery]) -> bool:
            check()
            return self._fails(offer, queries, limit)

        def peers(query: LiveQuery) -> list[LiveQuery]:
            streams = _streams(query)
            return [each for each in live if each is not query and streams <= _streams(each)][:_PEERS]

        found = find_culprit(live, fails, peers=peers, alone=alone)
        return None if found is None else (found, self._reason)

    def deadly_query(self, offer: Offer, *, limit: float, check: Check) -> LiveQuery | None:
        """The query with which the batch ends the process, as far as processes that have died tell.

        A trial may end this process as well: the next one goes on.
        """
        batch, live = self._core.next_batch, self._live()
        numbers = [query_number(each.record.id) for each in live]
        note = self._crashes.of(batch)
        if note.confirming is not None:
            return live[numbers.index(note.confirming)] if note.confirming in numbers else None
        passed = sum(number <= note.passed for number in numbers)
        failed = len(live) if note.failed is None else sum(number <= note.failed for number in numbers)
        while failed - passed > 1:
            check()
            middle = (passed + failed) // 2
            self._crashes.trying(batch, numbers[middle - 1])
            fails = self._fails(offer, live[:middle], limit)
            self._crashes.tried(batch, numbers[middle - 1], fails=fails)
            passed, failed = (passed, middle) if fails else (middle, failed)
        if failed <= passed:
            return None
        check()
        self._crashes.confirming(batch, numbers[failed - 1])
        return live[failed - 1] if self._fails(offer, live[:failed], limit) else None

    def _live(self) -> list[LiveQuery]:
        """The eldest first."""
        with self._core.lock:
            return sorted(self._core.roster.live.values(), key=lambda each: query_number(each.record.id))

    def _fails(self, offer: Offer, queries: Sequence[LiveQuery], limit: float) -> bool:
        """Whether the batch fails for these queries; raises if that is no query's fault."""
        task = None
        try:
            program, task = self._core.trial(
                self._core.next_batch, partitions=self._partitions, inputs=offer.to_inputs(), queries=queries
            )
            self._attempts.run(offer, program, task, limit=limit)
        except Exception as error:
            given_up = self._attempts.given_up
            told = error if isinstance(error, WeftError) else to_user_error(error, self._core.next_batch)
            if not given_up and isinstance(told, (*NOT_OF_A_QUERY, SourceUnavailable, BadFile)):
                raise told from error
            self._reason = given_up or told.detail or told.message
            _log.warning("the batch fails for %d queries: %s", len(queries), self._reason)
            return True
        finally:
            if task is not None:
                self._attempts.end(task, keep=False)
        return False


def _streams(query: LiveQuery) -> frozenset[str]:
    return frozenset(relation.stream for relation in query.query.relations)
