"""Combine the reports of a batch's tasks into the manifest of the batch."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from weft.execution.aggregate.close_windows import window_limits
from weft.execution.items import BatchReport, ExpressionFailures, ProbeReport, TagReport
from weft.execution.program import BatchTask, Program
from weft.plan.changelog import LiveQuery, QueryId
from weft.plan.expression import Opaque, conjuncts, guard_opaque
from weft.storage.bucket import Bucket
from weft.storage.journal import Manifest, StreamTotals


def gather(batch: int, reports: Sequence[BatchReport], program: Program, live: Iterable[LiveQuery]) -> Manifest:
    """Return the manifest of a batch from the reports of its tasks."""
    tags, probes = _of(TagReport, reports), _of(ProbeReport, reports)
    written = [*(report.buckets for report in tags), *(report.buckets for report in probes)]
    new = {bucket.path: bucket for buckets in written for bucket in buckets}
    merged = [bucket for report in probes for bucket in report.merged]
    still_open, replaced, replacements = _open(probes)
    routed = {store.id for store in program.stores.values() if store.route} | program.slices.keys()
    routed |= {stored.id for stored in program.probes.stored}
    return Manifest(
        batch=batch,
        at=time.time(),
        streams=_streams(tags),
        buckets=tuple(bucket for bucket in (*new.values(), *merged, *replacements) if bucket.store in routed),
        merged_away=tuple(sorted({path for report in probes for path in report.merged_away} | replaced)),
        segments=tuple(report.segment for report in probes if report.segment is not None),
        copied=tuple(path for report in probes for path in report.copied),
        selected=tuple(bucket for bucket in new.values() if bucket.store not in routed),
        failed=_failed(reports, live),
        pairs=sum(report.pairs for report in probes),
        windows=tuple(result for report in probes for result in report.windows),
        open=tuple(sorted(still_open)),
        complete=tuple((stored.id, stored.slots) for stored in program.probes.stored),
    )


_R = TypeVar("_R", TagReport, ProbeReport, ExpressionFailures)


def _of(kind: type[_R], reports: Sequence[BatchReport]) -> list[_R]:
    return [report for report in reports if isinstance(report, kind)]


def _open(reports: Sequence[ProbeReport]) -> tuple[set[str], set[str], list[Bucket]]:
    """Return the files with open sessions, the files that are replaced, and the buckets that replace them.

    A file is replaced only if every task that found open sessions in it has rewritten them. Otherwise the file stays,
    and the buckets that some tasks have written for it are removed later.
    """
    kept = {path for report in reports for path in report.open}
    written = [item for report in reports for item in report.rests.items()]
    replaced = {path for path, _ in written} - kept
    replacements = [bucket for path, bucket in written if path in replaced]
    return kept | {bucket.path for bucket in replacements}, replaced, replacements


def of_task(manifest: Manifest, program: Program, task: BatchTask) -> Manifest:
    """Return the manifest with the input of its batch and the times up to which windows are closed after the batch. The
    tasks have computed the same times."""
    newest = {name: totals.max_time for name, totals in manifest.streams if totals.max_time is not None}
    limits = window_limits(program, task, newest)
    closed = tuple((names, limit.upto) for names, limit in sorted(limits.items()) if limit.upto is not None)
    return replace(manifest, closed=closed, files=task.inputs.names(), offsets=tuple(task.inputs.offsets.items()))


def note_times(manifest: Manifest, newest: dict[str, int]) -> None:
    """Update `newest`, the largest event times by stream, with those of a batch."""
    for name, totals in manifest.streams:
        if totals.max_time is not None:
            newest[name] = max(totals.max_time, newest.get(name, totals.max_time))


def stage_seconds(reports: Sequence[BatchReport]) -> dict[str, float]:
    """Return the wall time of each kind of stage, from the start of its first task to the end of its last."""
    spans = {
        "tag": [report.span for report in _of(TagReport, reports)],
        "probe": [report.span for report in _of(ProbeReport, reports)],
    }
    return {
        stage: max(end for _, end in times) - min(begin for begin, _ in times)
        for stage, times in spans.items()
        if times
    }


def flows_of(reports: Sequence[BatchReport]) -> dict[str, tuple[int, int]]:
    """Return the number of combinations that came to each probe step and that it produced, over all tasks."""
    flows: dict[str, tuple[int, int]] = {}
    for report in _of(ProbeReport, reports):
        for probe, (came, produced) in report.flows.items():
            before = flows.get(probe, (0, 0))
            flows[probe] = (before[0] + came, before[1] + produced)
    return flows


def keys_of(reports: Sequence[BatchReport]) -> dict[str, tuple[int, int]]:
    """Return the rows and distinct keys of the batch's largest bucket, by store and index."""
    keys: dict[str, tuple[int, int]] = {}
    for report in _of(TagReport, reports):
        for place, counts in report.keys.items():
            keys[place] = max(keys.get(place, (0, 0)), counts)
    return keys


RATE_BATCHES = 20
"""Number of batches from which the rate of a stream is computed."""


def rates_of(manifests: Sequence[Manifest]) -> dict[str, float]:
    """Return each stream's rows per second of event time in the last batches; streams with too few are omitted."""
    points_by_stream: dict[str, list[tuple[int, int]]] = {}
    for manifest in manifests[-RATE_BATCHES:]:
        for name, totals in manifest.streams:
            if totals.max_time is not None:
                points_by_stream.setdefault(name, []).append((totals.max_time, totals.rows))
    rates = {}
    for name, points in points_by_stream.items():
        seconds = (max(newest for newest, _ in points) - points[0][0]) / 1_000_000
        if seconds > 0:
            rates[name] = sum(rows for _, rows in points[1:]) / seconds
    return rates


def _streams(reports: Sequence[TagReport]) -> tuple[tuple[str, StreamTotals], ...]:
    by_stream: dict[str, list[TagReport]] = {}
    for report in reports:
        by_stream.setdefault(report.stream, []).append(report)
    return tuple((name, _totals(of_stream)) for name, of_stream in sorted(by_stream.items()))


def _totals(reports: Sequence[TagReport]) -> StreamTotals:
    times = [report.max_time for report in reports if report.max_time is not None]
    return StreamTotals(
        rows=sum(report.rows for report in reports),
        late=sum(report.late for report in reports),
        timeless=sum(report.timeless for report in reports),
        max_time=max(times, default=None),
        bad_files=tuple(path for report in reports for path in report.bad_files),
        ahead=sum(report.ahead for report in reports),
        missed=sum(report.missed for report in reports),
        bad_rows=sum(report.bad_rows for report in reports),
    )


def _failed(reports: Sequence[BatchReport], live: Iterable[LiveQuery]) -> tuple[tuple[QueryId, str], ...]:
    """Return the queries whose own expression failed on a row, with the message."""
    by_slot: dict[int, str] = {}
    by_text: dict[tuple[str, str], str] = {}
    for report in reports:
        if isinstance(report, ExpressionFailures):
            by_text |= report.texts
            by_slot |= report.slots
        else:
            by_slot |= report.failures
    failed: dict[QueryId, str] = {}
    for query in live:
        failing = [predicate for predicate in _opaque_parts(query) if predicate in by_text]
        if query.slot in by_slot:
            failed[query.record.id] = by_slot[query.slot]
        elif failing:
            failed[query.record.id] = by_text[failing[0]]
    return tuple(failed.items())


def _opaque_parts(query: LiveQuery) -> Iterable[tuple[str, str]]:
    """Return the stream and the text of each predicate of a query that Spark evaluates."""
    return [
        (relation.stream, predicate.sql)
        for relation in query.query.relations
        for predicate in conjuncts(guard_opaque(relation.predicate))
        if isinstance(predicate, Opaque)
    ]
