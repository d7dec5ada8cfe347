"""What the tasks of a batch send to each other and to the driver, and how it travels through the shuffle.

Messages go to the tasks of the next stage, reports go to the driver. Both are closed unions with one codec. Rows are
not sent: they are in files, and items name the files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, assert_never

from weft.plan.probe_tree import Input
from weft.storage.bucket import Bucket
from weft.storage.result_files import Segment, WindowResult

Span = tuple[float, float]
"""When a task began and ended, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class NewBucket:
    """A bucket that this batch has written.

    For a stored join, `start` is the input whose new row led to the combinations; None means that the bucket was
    rebuilt from stored rows.
    """

    bucket: Bucket
    start: Input | None = None


@dataclass(frozen=True, slots=True)
class PendingCombinations:
    """A file of combinations on their way to a probe step; `rebuild` says that all of them come from stored rows."""

    probe: str
    path: str
    rebuild: bool


@dataclass(frozen=True, slots=True)
class NewestTime:
    """The largest event time of a stream that a tag task has seen."""

    stream: str
    time: int


@dataclass(slots=True)
class TagReport:
    """The report of a tag task about one piece of a stream."""

    stream: str
    rows: int = 0
    late: int = 0
    timeless: int = 0
    max_time: int | None = None
    failures: dict[int, str] = field(default_factory=dict)
    """Errors of the queries, by slot, whose own expressions failed on a row."""
    keys: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Rows and distinct keys of the largest bucket, by store and index; selectivities are estimated from them."""
    ahead: int = 0
    """Rows set aside because their event time is too far ahead."""
    samples: list[dict[str, str | None]] = field(default_factory=list)
    """A few rows that are too far ahead."""
    missed: int = 0
    """Rows too late for some query over several streams that did not wait for this one."""
    later: list[str] = field(default_factory=list)
    """Paths of buckets that only later batches join."""
    bad_files: tuple[str, ...] = ()
    """Files that were set aside, each with the reason."""
    bad_rows: int = 0
    """Rows that were set aside in files that were read."""
    buckets: list[Bucket] = field(default_factory=list)
    span: Span = (0.0, 0.0)


@dataclass(slots=True)
class ProbeReport:
    """The report of one partition in one probe stage."""

    segment: Segment | None = None
    merged: list[Bucket] = field(default_factory=list)
    merged_away: list[str] = field(default_factory=list)
    copied: list[str] = field(default_factory=list)
    pairs: int = 0
    windows: list[WindowResult] = field(default_factory=list)
    open: set[str] = field(default_factory=set)
    """Files with sessions that have not closed."""
    rests: dict[str, Bucket] = field(default_factory=dict)
    """Buckets with the open sessions of files that contain few of them, by the file."""
    buckets: list[Bucket] = field(default_factory=list)
    """Stored joins and cells of combinations that the stage has written."""
    flows: dict[str, tuple[int, int]] = field(default_factory=dict)
    """For each probe step: combinations that came to it, and combinations that it produced."""
    failures: dict[int, str] = field(default_factory=dict)
    """Errors of the queries, by slot, whose own expressions failed on a row."""
    span: Span = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class ExpressionFailures:
    """Errors of expressions that Spark evaluates: of predicates by stream and text, of keys by the query's slot."""

    texts: dict[tuple[str, str], str] = field(default_factory=dict)
    slots: dict[int, str] = field(default_factory=dict)

    def plus(self, other: ExpressionFailures) -> ExpressionFailures:
        """Return these failures together with others."""
        return ExpressionFailures(self.texts | other.texts, self.slots | other.slots)


Message = NewBucket | PendingCombinations | NewestTime
Report = TagReport | ProbeReport
BatchReport = TagReport | ProbeReport | ExpressionFailures
"""A report of a task, or the `ExpressionFailures` that the driver adds."""

_REPORT = b"r"
_MESSAGE = b"m"


def is_report(item: bytes) -> bool:
    """Return whether an encoded item is a report, which tasks pass on without reading it."""
    return item[:1] == _REPORT


def encode_message(message: Message) -> bytes:
    """Return a message as bytes."""
    match message:
        case NewBucket(bucket=bucket, start=start):
            value: list[Any] = ["bucket", bucket.to_json(), start]
        case PendingCombinations(probe=probe, path=path, rebuild=rebuild):
            value = ["combinations", probe, path, rebuild]
        case NewestTime(stream=stream, time=time):
            value = ["newest", stream, time]
        case _:
            assert_never(message)
    return _MESSAGE + _dump(value)


def decode_message(item: bytes) -> Message:
    """Return the message of `encode_message`."""
    match json.loads(item[1:]):
        case ["bucket", bucket, start]:
            return NewBucket(Bucket.from_json(bucket), None if start is None else Input(*start))
        case ["combinations", str() as probe, str() as path, bool() as rebuild]:
            return PendingCombinations(probe, path, rebuild)
        case ["newest", str() as stream, int() as time]:
            return NewestTime(stream, time)
        case other:
            raise ValueError(f"unknown message between tasks: {other!r:.100}")


def encode_report(report: Report) -> bytes:
    """Return a report as bytes."""
    return _REPORT + _dump(_tag_to_json(report) if isinstance(report, TagReport) else _probe_to_json(report))


def decode_report(item: bytes) -> Report:
    """Return the report of `encode_report`."""
    value = json.loads(item[1:])
    if isinstance(value, dict) and "tag" in value:
        return _tag_from_json(value["tag"], value)
    if isinstance(value, dict) and "probe" in value:
        return _probe_from_json(value["probe"], value)
    raise ValueError(f"unknown report of a task: {value!r:.100}")


def _tag_to_json(report: TagReport) -> Mapping[str, Any]:
    plain = {name: getattr(report, name) for name in TagReport.__slots__ if name not in ("buckets", "later")}
    return {"tag": plain, "buckets": [bucket.to_json() for bucket in report.buckets]}


def _tag_from_json(value: dict[str, Any], buckets: Mapping[str, Any]) -> TagReport:
    return TagReport(
        **value
        | {
            "failures": _by_slot(value["failures"]),
            "keys": {place: tuple(counts) for place, counts in value["keys"].items()},
            "bad_files": tuple(value["bad_files"]),
            "span": tuple(value["span"]),
            "buckets": [Bucket.from_json(bucket) for bucket in buckets["buckets"]],
        }
    )


_PLAIN = ("merged_away", "copied", "pairs", "flows", "failures", "span")
"""Fields of a probe report that are JSON values already."""


def _probe_to_json(report: ProbeReport) -> Mapping[str, Any]:
    return {
        "probe": {name: getattr(report, name) for name in _PLAIN},
        "segment": None if report.segment is None else report.segment.to_json(),
        "merged": [bucket.to_json() for bucket in report.merged],
        "windows": [result.to_json() for result in report.windows],
        "open": sorted(report.open),
        "rests": {path: bucket.to_json() for path, bucket in report.rests.items()},
        "buckets": [bucket.to_json() for bucket in report.buckets],
    }


def _probe_from_json(value: dict[str, Any], files: Mapping[str, Any]) -> ProbeReport:
    return ProbeReport(
        segment=None if files["segment"] is None else Segment.from_json(files["segment"]),
        merged=[Bucket.from_json(bucket) for bucket in files["merged"]],
        merged_away=value["merged_away"],
        copied=value["copied"],
        pairs=value["pairs"],
        windows=[WindowResult.from_json(result) for result in files["windows"]],
        open=set(files["open"]),
        rests={path: Bucket.from_json(bucket) for path, bucket in files["rests"].items()},
        buckets=[Bucket.from_json(bucket) for bucket in files["buckets"]],
        flows={probe: (came, produced) for probe, (came, produced) in value["flows"].items()},
        failures=_by_slot(value["failures"]),
        span=(value["span"][0], value["span"][1]),
    )


def _by_slot(value: Mapping[str, str]) -> dict[int, str]:
    return {int(slot): text for slot, text in value.items()}


def _dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
