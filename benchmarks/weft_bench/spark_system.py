"""A case on plain Structured Streaming: one streaming query per user query, in one application.

Its best settings: the session weft runs on, as many shuffle partitions as cores, the in-memory state store, filters
before everything else, only the needed columns in the state, append mode, results to the sink that costs nothing.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from weft.spark.session import local_session, own_session
from weft_bench.case import Case, Digest, Outcome, Variant
from weft_bench.data import link_files, write_prelude
from weft_bench.measure import Batch, rate_alone, rate_together, to_batch
from weft_bench.spark_queries import frames

_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
_PRELUDE = 2_000
_TRIGGER = "200 milliseconds"
"""Of no consequence for batches that take longer; idle queries shall not take time from the others."""
_POLL = 0.25
_START_UP = 90.0


def run_spark(case: Case, folder: Path, limit: float) -> Outcome:
    """Measure a case over the files under `folder`, for at most `limit` seconds; leaves Spark running.

    All queries are up and have run a first small batch before the data appear and the clock starts.
    """
    before, after, live = folder / "before", folder / "after", folder / "live"
    for stage in (before, after):
        write_prelude(stage, _PRELUDE)
    link_files(folder, after, case.seconds, streams=case.kind.streams)
    live.symlink_to(before)
    queries = _start(own_session(local_session()), case, folder)
    _wait(queries, 1, time.time() + _START_UP)
    begin = time.time()
    _redirect(live, after)
    end = _wait(queries, 1 + case.seconds // case.files, begin + limit)
    batches = [_data_batches(query, case.batch_rows) for query in queries]
    if case.queries == 1:
        outcome = rate_alone(batches[0], case.batch_rows)
    else:
        outcome = rate_together(batches, rows=case.seconds // case.files * case.batch_rows, begin=begin, end=end)
    outcome = replace(outcome, note=_failure(queries) or outcome.note)
    if case.variant is not Variant.CHECKED:
        return outcome
    for query in queries:
        query.processAllAvailable()
    return replace(outcome, digests=_digests(queries))


def _redirect(link: Path, target: Path) -> None:
    """Let a link lead elsewhere in one step, so that a query sees all new files or none."""
    other = link.with_suffix(".new")
    other.symlink_to(target)
    other.replace(link)


def _start(spark: SparkSession, case: Case, folder: Path) -> list[StreamingQuery]:
    for key, value in _settings(case).items():
        spark.conf.set(key, value)
    return [
        frame.writeStream.format("noop")
        .queryName(f"bench{number}")
        .option("checkpointLocation", str(folder / "checkpoints" / str(number)))
        .trigger(processingTime=_TRIGGER)
        .start()
        for number, frame in enumerate(frames(spark, case, folder / "live"))
    ]


def _settings(case: Case) -> dict[str, str]:
    return {
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
        "spark.sql.streaming.stateStore.providerClass": _STATE_STORE,
        # Only to see the last windows; otherwise it would take time from the batches that are measured.
        "spark.sql.streaming.noDataMicroBatches.enabled": str(case.variant is Variant.CHECKED).lower(),
        # Needed by weft, which adds streams while running; here it would only ask for names.
        "spark.sql.streaming.queryEvolution.enableSourceEvolution": "false",
    }


def _digests(queries: list[StreamingQuery]) -> dict[int, Digest]:
    found = {}
    for number, query in enumerate(queries):
        total = Digest()
        for progress in query.recentProgress:
            row = progress.observedMetrics.get("digest")
            if row is not None:
                total = total.plus(Digest(*(int(figure or 0) for figure in row)))
        found[number] = total
    return found


def _wait(queries: list[StreamingQuery], batches: int, deadline: float) -> float:
    """Wait until every query has passed so many limits of files of both streams, one has failed, or time is up."""
    while time.time() < deadline and all(query.isActive for query in queries):
        latest = [query.lastProgress for query in queries]
        if all(progress is not None and passed(progress) >= batches for progress in latest):
            break
        time.sleep(_POLL)
    return time.time()


def passed(progress: StreamingQueryProgress) -> int:
    """How many of the file source's log entries, each the files of one batch, a query has passed on both sides."""
    ends = [source.endOffset for source in progress.sources]
    return min(json.loads(end)["logOffset"] + 1 if end else 0 for end in ends)


def _data_batches(query: StreamingQuery, rows: int) -> list[Batch]:
    """The batches after the prelude, with their rows by the files passed: Spark does not count pages it skips."""
    found, before = list[Batch](), 1
    for progress in query.recentProgress:
        now = passed(progress)
        if now > before:
            found.append(replace(to_batch(progress), rows=(now - before) * rows))
            before = now
    return found


def _failure(queries: list[StreamingQuery]) -> str:
    failures = [str(error) for query in queries if not query.isActive and (error := query.exception()) is not None]
    return f"a query failed: {failures[0].splitlines()[0]}" if failures else ""
