"""Messages and reports of tasks arrive as they were sent."""

from __future__ import annotations

import pytest

from weft.execution.items import (
    Message,
    NewBucket,
    NewestTime,
    PendingCombinations,
    ProbeReport,
    Report,
    TagReport,
    decode_message,
    decode_report,
    encode_message,
    encode_report,
    is_report,
)
from weft.plan.key import StoreId
from weft.plan.probe_tree import Input
from weft.plan.slots import Slots
from weft.storage.bucket import Bucket, Part
from weft.storage.result_files import PartRef, Segment, SegmentPiece, WindowResult

BUCKET = Bucket("3/j", StoreId("s"), "a", 3, (Part(0, 2**64 - 1, 1, -5, 5, Slots(1 << 70)),), 7)
SEGMENT = Segment("3/p.pairs.arrow", (SegmentPiece("j", PartRef("3/j", 0), PartRef("2/k", 1), 4),), 8)


@pytest.mark.parametrize(
    "message",
    [
        NewBucket(BUCKET),
        NewBucket(BUCKET, Input("ä", 1)),
        PendingCombinations("p", "3/c", rebuild=True),
        NewestTime("a", -(2**63)),
    ],
)
def test_a_message_arrives_as_it_was_sent(message: Message) -> None:
    item = encode_message(message)
    assert decode_message(item) == message
    assert not is_report(item)


@pytest.mark.parametrize(
    "report",
    [
        TagReport("a"),
        TagReport(
            "a", 1, 2, 3, 4, {70: "no"}, {"s/i": (9, 3)}, 5, [{"x": None}], 6,
            bad_files=("x: torn",), bad_rows=7, buckets=[BUCKET], span=(0.5, 1.5),
        ),
        ProbeReport(),
        ProbeReport(
            SEGMENT, [BUCKET], ["1/x"], ["3/c"], 4, [WindowResult("3/w", "agg", 2, 9, (PartRef("3/j", 0),))], {"2/o"},
            {"2/r": BUCKET}, [BUCKET], {"p": (3, 4)}, {0: "no"}, (0.5, 1.5),
        ),
    ],
)  # fmt: skip
def test_a_report_arrives_as_it_was_sent(report: Report) -> None:
    item = encode_report(report)
    assert decode_report(item) == report
    assert is_report(item)


def test_buckets_for_later_batches_are_known_to_the_task_only() -> None:
    """They say which buckets the task does not send to the probe stage."""
    decoded = decode_report(encode_report(TagReport("a", later=["3/j"])))
    assert isinstance(decoded, TagReport)
    assert decoded.later == []


@pytest.mark.parametrize("item", [b'm["unknown"]', b"m{}", b'm["newest", "a", null]'])
def test_an_unknown_message_is_an_error(item: bytes) -> None:
    with pytest.raises(ValueError, match="unknown message"):
        decode_message(item)


def test_an_unknown_report_is_an_error() -> None:
    with pytest.raises(ValueError, match="unknown report"):
        decode_report(b"r[]")
