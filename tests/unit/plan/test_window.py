"""Windows: what they admit, how they meet, how they are written."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.plan.window import (
    EVERYTHING,
    Range,
    Sliding,
    TimeBounds,
    Unbounded,
    Window,
    duration_text,
    pair_bounds,
    to_micros,
    window_text,
)

MICRO = timedelta(microseconds=1)
SIZES = st.integers(1, 12)
TIMES = st.integers(-30, 30)
BOUNDS = st.builds(TimeBounds, st.none() | st.integers(-20, 20), st.none() | st.integers(-20, 20))


def admits(bounds: TimeBounds, distance: int) -> bool:
    return (bounds.low is None or distance >= bounds.low) and (bounds.high is None or distance <= bounds.high)


@given(BOUNDS, BOUNDS, TIMES)
def test_an_intersection_admits_what_both_admit(first: TimeBounds, second: TimeBounds, distance: int) -> None:
    both = first.intersect(second)
    assert admits(both, distance) == (admits(first, distance) and admits(second, distance))
    assert both == second.intersect(first)
    assert first.intersect(EVERYTHING) == first


@given(SIZES, SIZES, TIMES, TIMES)
def test_ranges_admit_exactly_what_the_semantics_say(first: int, second: int, t0: int, t1: int) -> None:
    latest = max(t0, t1)
    bounds = pair_bounds(Range(first * MICRO), Range(second * MICRO))
    assert admits(bounds, t0 - t1) == (t0 > latest - first and t1 > latest - second)


@given(SIZES, st.booleans(), TIMES, TIMES)
def test_an_unbounded_side_reaches_back_for_ever(size: int, first: bool, t0: int, t1: int) -> None:
    windows: tuple[Window, Window] = (Unbounded(), Range(size * MICRO))
    bounds = pair_bounds(*(windows if first else windows[::-1]))
    old, new = (t0, t1) if first else (t1, t0)
    assert admits(bounds, t0 - t1) == (old <= new or new > old - size)


@given(SIZES, SIZES, TIMES, TIMES)
def test_sliding_bounds_hold_for_every_pair_in_one_window(size: int, slide: int, t0: int, t1: int) -> None:
    window = Sliding(size * MICRO, slide * MICRO)
    begins = range(min(t0, t1) - size, min(t0, t1) + 1)
    together = any(begin % slide == 0 and max(t0, t1) < begin + size for begin in begins if begin + size > min(t0, t1))
    assert admits(pair_bounds(window, window), t0 - t1) or not together


@pytest.mark.parametrize("size", [timedelta(0), -MICRO])
def test_a_window_has_a_size(size: timedelta) -> None:
    for make in (lambda: Range(size), lambda: Sliding(size, MICRO), lambda: Sliding(MICRO, size)):
        with pytest.raises(ValueError, match="must be positive"):
            make()


@pytest.mark.parametrize(
    ("window", "text"),
    [
        (Sliding(timedelta(seconds=8), timedelta(seconds=4)), "[RANGE 8 SECONDS SLIDE 4 SECONDS]"),
        (Sliding(timedelta(minutes=1), timedelta(seconds=60)), "[TUMBLE 1 MINUTES]"),
        (Range(timedelta(hours=36)), "[RANGE 36 HOURS]"),
        (Range(timedelta(milliseconds=1500)), "[RANGE 1500 MILLISECONDS]"),
        (Range(MICRO), "[RANGE 1 MICROSECONDS]"),
        (Unbounded(), "[UNBOUNDED]"),
    ],
)
def test_windows_are_written_as_users_write_them(window: Window, text: str) -> None:
    assert window_text(window) == text


@given(st.timedeltas(min_value=MICRO, max_value=timedelta(days=100_000)))
def test_a_duration_is_written_without_loss(duration: timedelta) -> None:
    number, unit = duration_text(duration).split()
    assert timedelta(**{unit.lower(): int(number)}) == duration
    assert to_micros(duration) == duration / MICRO or duration > timedelta(days=10_000)
