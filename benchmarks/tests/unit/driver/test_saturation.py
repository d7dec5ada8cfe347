from __future__ import annotations

import pytest

from weft_bench.driver.saturation import SECONDS, Ahead, first_ahead, next_ahead


def simulate(capacity: float, *, overhead: float, guess: float, seconds: float) -> tuple[float, Ahead]:
    """Rows per second in the second half, with a system that takes all that waits at once, and the end of `Ahead`."""
    now, passed, waiting = 0.0, 0, 0.0
    ahead = first_ahead(guess, now, passed)
    half: tuple[float, int] | None = None
    waiting = ahead.rows
    while now < seconds:
        lump = int(waiting)
        now += overhead + lump / capacity
        # What was taken counts as waiting until it is passed: only the rest of `ahead` was made meanwhile.
        waiting = max(ahead.rows - lump, 0.0)
        passed += lump
        ahead = next_ahead(ahead, now, passed)
        # There is always a first file at once.
        waiting = max(waiting, ahead.file)
        if half is None and now > seconds / 2:
            half = (now, passed)
    assert half is not None
    return (passed - half[1]) / (now - half[0]), ahead


@pytest.mark.parametrize("guess", [100.0, 1e4, 1e5, 1e6])
def test_any_guess_comes_to_the_capacity_in_the_end(guess: float) -> None:
    speed, ahead = simulate(1e5, overhead=0.0, guess=guess, seconds=60)
    assert speed == pytest.approx(1e5, rel=0.01)
    assert ahead.rows <= 12 * 1e5


@pytest.mark.parametrize("overhead", [0.5, 2.0, 8.0])
def test_a_system_that_needs_large_lumps_gets_them(overhead: float) -> None:
    speed, _ = simulate(1e5, overhead=overhead, guess=1000.0, seconds=60 * overhead)
    assert speed >= 0.6 * 1e5


def test_too_large_a_guess_is_taken_back() -> None:
    ahead = first_ahead(1e6, 0.0, 0)
    for second in range(1, 5):
        ahead = next_ahead(ahead, float(second), second * 1000)
    assert ahead.rows == pytest.approx(SECONDS * 1000)


def test_nothing_changes_without_progress() -> None:
    ahead = first_ahead(1000.0, 0.0, 500)
    assert next_ahead(ahead, 10.0, 500) is ahead
    assert next_ahead(ahead, 0.1, 600).rows == ahead.rows
