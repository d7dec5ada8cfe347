"""From what the tasks of a batch report to its manifest."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from weft.execution.aggregate.close_windows import window_limits
from weft.execution.program import BatchTask, Program
from weft.plan.changelog import LiveQuery, QueryId
from weft.plan.expression import Opaque, conjuncts, guard_opaque
from weft.storage.bucket import Bucket
from weft.storage.journal import Manifest, StreamTotals
from weft.storage.result_files import Segment, WindowResult


def gather(batch: int, reports: Sequence[Mapping[str, Any]], program: Program, live: Iterable[LiveQuery]) -> Manifest:
    """The manifest of a batch from its tasks' reports."""
    new = {value["path"]: Bucket.from_json(value) for report in reports for value in report.get("buckets", ())}
    merged = [Bucket.from_json(value) for report in reports for value in report.get("merged", ())]
    still_open, replaced, rests = _open(reports)
    routed = {store.id for store in program.stores.values() if store.route} | program.slices.keys()
    routed |= {stored.id for stored in program.probes.stored}
    return Manifest(
        batch=batch,
        at=time.time(),
        streams=_streams(reports),
        buckets=tuple(bucket for bucket in (*new.values(), *merged, *rests) if bucket.store in routed),
        merged_away=tuple(sorted({path for report in reports for path in report.get("merged_away", ())} | replaced)),
        segments=tuple(Segment.from_json(r["segment"]) for r in reports if r.get("segment")),
        copied=tuple(path for report in reports for path in report.get("copied", ())),
        selected=tuple(bucket for bucket in new.values() if bucket.store not in routed),
        failed=_failed(reports, live),
        pairs=sum(report.get("pairs", 0) for report in reports),
        windows=tuple(WindowResult.from_json(value) for report in reports for value in report.get("windows", ())),
        open=tuple(sorted(still_open)),
        complete=tuple((stored.id, stored.slots) for stored in program.probes.stored),
    )


def _open(reports: Sequence[Mapping[str, Any]]) -> tuple[set[str], set[str], list[Bucket]]:
    """Files with sessions that have not ended, files in whose place others come, and those.

    A file goes only if every task that found something open in it has written that anew: else it stays as it is, and
    what some have written is left to be removed.
    """
    kept = {path for report in reports for path in report.get("open", ())}
    written = [each for report in reports for each in report.get("rests", {}).items()]
    replaced = {path for path, _ in written} - kept
    rests = [Bucket.from_json(value) for path, value in written if path in replaced]
    return kept | {bucket.path for bucket in rests}, replaced, rests


def of_task(manifest: Manifest, program: Program, task: BatchTask) -> Manifest:
    """The manifest with what its batch has read, and how far windows are ended after it: as its tasks worked it out for
    themselves."""
    newest = {name: totals.max_time for name, totals in manifest.streams if totals.max_time is not None}
    limits = window_limits(program, task, newest)
    closed = tuple((names, limit.upto) for names, limit in sorted(limits.items()) if limit.upto is not None)
    return replace(manifest, closed=closed, files=task.inputs.names(), offsets=tuple(task.inputs.offsets.items()))


def note_times(manifest: Manifest, newest: dict[str, int]) -> None:
    """The largest event times, by stream, with those of a batch."""
    for name, totals in manifest.streams:
        if totals.max_time is not None:
            newest[name] = max(totals.max_time, newest.get(name, totals.max_time))


def stage_seconds(reports: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Wall time of each stage, from the start of its first task to the end of its last."""
    spans = [report["span"] for report in reports if "span" in report]
    return {
        stage: max(end for name, _, end in spans if name == stage)
        - min(start for name, start, _ in spans if name == stage)
        for stage in sorted({name for name, _, _ in spans})
    }


def flows_of(reports: Sequence[Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """For each probe, over all tasks: combinations that came to it, and those it made."""
    found: dict[str, tuple[int, int]] = {}
    for report in reports:
        for probe, (came, made) in report.get("sent", {}).items():
            before = found.get(probe, (0, 0))
            found[probe] = (before[0] + came, before[1] + made)
    return found


def keys_of(reports: Sequence[Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """Rows and distinct keys by store and index, of the largest bucket that the batch has made."""
    found: dict[str, tuple[int, int]] = {}
    for report in reports:
        for place, (rows, distinct) in report.get("tag", {}).get("keys", {}).items():
            found[place] = max(found.get(place, (0, 0)), (rows, distinct))
    return found


RATE_BATCHES = 20
"""Batches that a stream's rate is taken from."""


def rates_of(manifests: Sequence[Manifest]) -> dict[str, float]:
    """Rows per second of event time, by stream, in the last batches; nothing of a stream with too few of them."""
    rows: dict[str, list[tuple[int, int]]] = {}
    for manifest in manifests[-RATE_BATCHES:]:
        for name, totals in manifest.streams:
            if totals.max_time is not None:
                rows.setdefault(name, []).append((totals.max_time, totals.rows))
    found = {}
    for name, points in rows.items():
        seconds = (max(time for time, _ in points) - points[0][0]) / 1_000_000
        if seconds > 0:
            found[name] = sum(count for _, count in points[1:]) / seconds
    return found


def _streams(reports: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, StreamTotals], ...]:
    totals: dict[str, list[Mapping[str, Any]]] = {}
    for report in reports:
        if "tag" in report:
            totals.setdefault(report["tag"]["stream"], []).append(report["tag"])
    return tuple((name, _sum(parts)) for name, parts in sorted(totals.items()))


def _sum(parts: Sequence[Mapping[str, Any]]) -> StreamTotals:
    times = [part["max_time"] for part in parts if part["max_time"] is not None]
    return StreamTotals(
        rows=sum(part["rows"] for part in parts),
        late=sum(part["late"] for part in parts),
        timeless=sum(part["timeless"] for part in parts),
        max_time=max(times, default=None),
        bad_files=tuple(path for part in parts for path in part.get("bad_files", ())),
        ahead=sum(part.get("ahead", 0) for part in parts),
        missed=sum(part.get("missed", 0) for part in parts),
        bad_rows=sum(part.get("bad_rows", 0) for part in parts),
    )


def _failed(reports: Sequence[Mapping[str, Any]], live: Iterable[LiveQuery]) -> tuple[tuple[QueryId, str], ...]:
    """Queries whose own expression failed on a row, with the message."""
    by_slot: dict[int, str] = {}
    by_text: dict[tuple[str, str], str] = {}
    for report in reports:
        by_slot |= {int(slot): text for slot, text in report.get("tag", {}).get("failures", {}).items()}
        for stream, texts in report.get("opaque_failures", {}).items():
            by_text |= {(stream, text): error for text, error in texts.items()}
        by_slot |= {int(slot): text for slot, text in report.get("slot_failures", {}).items()}
    found = {}
    for query in live:
        failing = [part for part in _opaque_parts(query) if part in by_text]
        if query.slot in by_slot:
            found[query.record.id] = by_slot[query.slot]
        elif failing:
            found[query.record.id] = by_text[failing[0]]
    return tuple(found.items())


def _opaque_parts(query: LiveQuery) -> Iterable[tuple[str, str]]:
    """The predicates of a query that Spark evaluates: the stream and the text of each."""
    return [
        (relation.stream, part.sql)
        for relation in query.query.relations
        for part in conjuncts(guard_opaque(relation.predicate))
        if isinstance(part, Opaque)
    ]
