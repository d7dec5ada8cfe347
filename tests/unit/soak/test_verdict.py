"""The verdict of a soak, on series that are made up: what is flat is called flat, and what grows is found."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from tests.soak.verdict import Point, Rule, State, judge, judge_pair

HOUR = Rule(per=3600, tolerance=0.05)
MINUTES = 30
EVERY = 5


def series(value: Callable[[float], float], *, seconds: float = MINUTES * 60, segment: int = 0) -> list[Point]:
    return [Point(at, value(at), segment) for at in range(0, int(seconds), EVERY)]


def noise(size: float, seed: int = 7) -> Callable[[], float]:
    chance = Random(seed)
    return lambda: chance.gauss(0, size)


def test_flat_with_noise_is_flat() -> None:
    for seed in range(20):
        some = noise(8, seed)
        assert judge(series(lambda _, some=some: 350 + some()), HOUR).state is State.FLAT, seed


def test_noise_much_larger_than_the_tolerance_is_no_growth() -> None:
    some = noise(100)
    assert judge(series(lambda _: 100 + some(), seconds=240), HOUR).state is State.FLAT


def test_linear_growth_is_found_under_noise() -> None:
    for seed in range(20):
        some = noise(4, seed)
        verdict = judge(series(lambda at, some=some: 350 + 60 * at / 3600 + some()), HOUR)
        assert verdict.state is State.GROWS, seed
        assert verdict.slope == pytest.approx(60, rel=0.25)
        assert verdict.share == pytest.approx(60 / 370, rel=0.25)
        assert verdict.last > verdict.first


def test_a_plateau_after_warm_up_is_flat() -> None:
    some = noise(3)
    points = series(lambda at: min(350, 200 + at) + some())
    assert judge(points, HOUR).state is State.FLAT
    assert judge(points, Rule(per=3600, tolerance=0.05, warm_up=0)).first < 300, "the warm-up was there"


def test_a_saw_that_is_emptied_again_and_again_is_flat() -> None:
    assert judge(series(lambda at: 500 + at % 60), HOUR).state is State.FLAT


def test_growth_in_rare_steps_is_found() -> None:
    """One more file every fifty seconds, as a folder of packed manifests would."""
    assert judge(series(lambda at: 10 + at // 50), HOUR, floor=10).state is State.GROWS


def test_outliers_do_not_count() -> None:
    points = series(lambda at: 5000 if at % 300 == 295 else 350)
    assert judge(points, HOUR).state is State.FLAT


def test_what_falls_is_flat() -> None:
    assert judge(series(lambda at: 1000 - at / 3), HOUR).state is State.FLAT


def test_growth_within_the_floor_does_not_matter() -> None:
    points = series(lambda at: 2 + at // 600)
    assert judge(points, HOUR).state is State.GROWS
    assert judge(points, HOUR, floor=20).state is State.FLAT


def test_growth_from_nothing_is_found() -> None:
    assert judge(series(lambda at: max(0, at - 900)), HOUR, floor=20).state is State.GROWS


def test_a_restart_between_two_levels_is_no_growth() -> None:
    low = series(lambda _: 300.0)
    high = [Point(2000 + at, 400, segment=1) for at in range(0, 1800, EVERY)]
    assert judge(low + high, HOUR).state is State.FLAT


def test_growth_that_every_restart_sets_back_is_found() -> None:
    points = [Point(at, 300 + at % 900 / 10, segment=at // 900) for at in range(0, 1800, EVERY)]
    verdict = judge(points, HOUR)
    assert verdict.state is State.GROWS
    assert verdict.slope == pytest.approx(360)


def test_a_segment_that_is_too_short_is_left_out() -> None:
    assert judge([], HOUR).state is State.SHORT
    assert judge(series(lambda at: at, seconds=20), HOUR).state is State.SHORT
    steep = [Point(at, at * 100, segment=0) for at in range(4)]
    flat = [Point(100 + at, 5, segment=1) for at in range(0, 900, EVERY)]
    assert judge(steep + flat, HOUR).state is State.FLAT


def test_a_segment_much_shorter_than_the_longest_is_all_warm_up() -> None:
    early = [Point(at, 100 + at, segment=0) for at in range(180)]
    late = [Point(at, 500, segment=1) for at in range(200, 1800)]
    verdict = judge(early + late, HOUR)
    assert (verdict.state, verdict.first, verdict.noise) == (State.FLAT, 500, 0)
    assert verdict.points < len(late)


def test_the_unit_may_be_batches() -> None:
    points = [Point(at, 1000 + at / 100) for at in range(0, 100_001, 10_000)]
    verdict = judge(points, Rule(per=100_000, tolerance=0.1))
    assert verdict.state is State.GROWS
    assert verdict.slope == pytest.approx(1000)


def test_early_against_late() -> None:
    assert judge_pair([20, 31], [22, 21], tolerance=0.25, floor=3).state is State.FLAT
    assert judge_pair([20, 21], [30, 33], tolerance=0.25, floor=3).state is State.GROWS
    assert judge_pair([1.0], [2.0], tolerance=0.25, floor=3).state is State.FLAT
    assert judge_pair([20], [], tolerance=0.25, floor=3).state is State.SHORT
