"""Watermarks that an administrator sets back: validation, and the event times that result."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from weft.errors import InvalidSetting, UnknownStream
from weft.plan.changelog import Change
from weft.plan.stream import Stream
from weft.plan.time import clamp_time, time_text
from weft.plan.window import to_micros

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_time(time: str | datetime) -> int:
    """Return an event time in microseconds since 1970, in UTC if it has no zone. Raises InvalidSetting."""
    try:
        parsed = datetime.fromisoformat(time) if isinstance(time, str) else time
    except ValueError:
        raise InvalidSetting(
            f'"{str(time)[:60]}" is not a time', hint="Write it like 2026-01-31T12:00:00Z, or 2026-01-31 12:00."
        ) from None
    aware = parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


def check_set_back(stream: str, time: int, streams: Mapping[str, Stream], watermarks: Mapping[str, int]) -> None:
    """Raise UnknownStream, or InvalidSetting if a time would not set the stream's watermark back."""
    if stream not in streams:
        raise UnknownStream(f'stream "{stream[:128]}" does not exist', hint=f"Streams are: {', '.join(streams)}.")
    before = watermarks.get(stream)
    if before is None or time >= before:
        now = "it has none" if before is None else f"it is {time_text(before)}"
        raise InvalidSetting(
            f'the watermark of stream "{stream}" cannot be set to {time_text(time)}: {now}',
            hint="A watermark can only be set back; rows move it forward.",
        )


def newest_after(change: Change, streams: Mapping[str, Stream]) -> dict[str, int]:
    """Return the newest event time that a stream counts as having seen, for the watermarks that a change sets back."""
    return {
        name: clamp_time(time + to_micros(streams[name].lateness))
        for name, time in change.watermarks
        if name in streams
    }
