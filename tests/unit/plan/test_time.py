"""Times as text and as Python's own, at both ends and beyond."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from weft.plan.time import TIME_MAX, TIME_MIN, clamp_time, date_text, time_text, to_datetime

YEAR_10000 = 253_402_300_800_000_000


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1, "1970-01-01T00:00:00.000001Z"),
        (-62_135_596_800_000_000, "0001-01-01T00:00:00Z"),
        (-62_135_596_800_000_001, "+000000-12-31T23:59:59.999999Z"),
        (YEAR_10000 - 1, "9999-12-31T23:59:59.999999Z"),
        (YEAR_10000, "+010000-01-01T00:00:00Z"),
        (TIME_MAX, "+294247-01-10T04:00:54.775807Z"),
        (TIME_MIN, "-290308-12-21T19:59:05.224192Z"),
    ],
)
def test_every_time_has_a_text(micros: int, text: str) -> None:
    assert time_text(micros) == text
    assert time_text(micros, zone="") == text.removesuffix("Z")


def test_within_pythons_years_the_text_is_pythons() -> None:
    for micros in (0, 1_234_567_890_123_456, -1, 951_782_400_000_000, YEAR_10000 - 1):
        assert time_text(micros) == to_datetime(micros).isoformat().replace("+00:00", "Z")
    assert date_text(11_016) == "2000-02-29"


def test_a_time_that_python_cannot_hold_is_held_at_the_end() -> None:
    assert to_datetime(TIME_MAX + 1) == datetime.max.replace(tzinfo=UTC)
    assert to_datetime(TIME_MIN) == datetime.min.replace(tzinfo=UTC)
    assert (clamp_time(2**70), clamp_time(-(2**70)), clamp_time(5)) == (TIME_MAX, TIME_MIN, 5)
