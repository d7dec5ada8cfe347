"""Search for the cause of a failed batch: a source that cannot be read, or a query."""

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
"""Errors that are not the fault of a query."""
_PEERS = 5
"""Maximum number of other queries that are tried to see whether they have the same fault."""
MOST_DEATHS = 2
"""Processes that die in a batch before the query at fault is searched for: processes die for other reasons, too."""
Check = Callable[[], None]


def failing_sources(core: Core, runner: BatchRunner, offer: Offer, error: WeftError) -> dict[str, WeftError]:
    """Return the streams whose sources cannot be read, with the errors."""
    if isinstance(error, SourceUnavailable):
        named = [name for name in offer.streams if f'stream "{name}"' in error.message]
        if named:
            return dict.fromkeys(named, error)
    if isinstance(error, BadFile):
        return {name: error for name in offer.files if f'"{_path_of(core, name)}/' in error.message}
    errors: dict[str, WeftError] = {}
    for name, arrival in offer.arrivals.items():
        if reason := runner.source_error(arrival.frame):
            errors[name] = SourceUnavailable(f'the source of stream "{name}" has failed', detail=reason)
    return errors


def _path_of(core: Core, stream: str) -> str:
    source = core.streams[stream].source
    return source.path.rstrip("/") if isinstance(source, FileSource) else ""


class Diagnosis:
    """A search for the query at fault, which runs a batch for some of the queries only.

    The search for a query that kills the process continues in later processes: `Crashes` records each trial.
    """

    def __init__(self, core: Core, attempts: Attempts, crashes: Crashes, *, partitions: int) -> None:
        self._core, self._attempts, self._crashes = core, attempts, crashes
        self._partitions = partitions
        self._reason = ""

    def failing_query(self, offer: Offer, *, limit: float, check: Check, alone: bool) -> tuple[LiveQuery, str] | None:
        """Return the query that makes the batch fail, and the reason; None if no query is to blame.

        A trial may take `limit` seconds. With `alone`, for a limit that is shorter than that of a batch, the query has
        to fail without the others, and other queries over the same streams must not fail: the batch may just be large.
        `check` is called before each trial and ends the search by raising. Errors that are not the fault of a query
        are raised.
        """
        live = self._live()

        def fails(queries: Sequence[LiveQuery]) -> bool:
            check()
            return self._fails(offer, queries, limit)

        def peers(query: LiveQuery) -> list[LiveQuery]:
            streams = _streams(query)
            return [other for other in live if other is not query and streams <= _streams(other)][:_PEERS]

        culprit = find_culprit(live, fails, peers=peers, alone=alone)
        return None if culprit is None else (culprit, self._reason)

    def deadly_query(self, offer: Offer, *, limit: float, check: Check) -> LiveQuery | None:
        """Return the query with which the batch kills the process, or None; continue the search of earlier processes.

        A trial may kill this process as well; the next process continues the search.
        """
        batch, live = self._core.next_batch, self._live()
        numbers = [query_number(query.record.id) for query in live]
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
        """Return the live queries, the oldest first."""
        with self._core.lock:
            return sorted(self._core.roster.live.values(), key=lambda query: query_number(query.record.id))

    def _fails(self, offer: Offer, queries: Sequence[LiveQuery], limit: float) -> bool:
        """Return whether the batch fails when it runs for some queries; raise errors that are not their fault."""
        task = None
        try:
            program, task = self._core.trial(
                self._core.next_batch, partitions=self._partitions, inputs=offer.to_inputs(), queries=queries
            )
            self._attempts.run(offer, program, task, limit=limit)
        except Exception as error:
            given_up = self._attempts.given_up
            user_error = error if isinstance(error, WeftError) else to_user_error(error, self._core.next_batch)
            if not given_up and isinstance(user_error, (*NOT_OF_A_QUERY, SourceUnavailable, BadFile)):
                raise user_error from error
            self._reason = given_up or user_error.detail or user_error.message
            _log.warning("the batch fails for %d queries: %s", len(queries), self._reason)
            return True
        finally:
            if task is not None:
                self._attempts.end(task, keep=False)
        return False


def _streams(query: LiveQuery) -> frozenset[str]:
    return frozenset(relation.stream for relation in query.query.relations)
