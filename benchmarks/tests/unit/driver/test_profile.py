from __future__ import annotations

import pytest

from weft_bench.driver.profile import Constant, Profile, Sinusoid, Steps, amount, from_json, to_json

PROFILES: tuple[Profile, ...] = (Constant(), Sinusoid(period=10, swing=0.5), Steps(seconds=2, factors=(0.5, 2.0, 0.0)))


def test_a_constant_rate_is_what_was_asked_for() -> None:
    assert amount(Constant(), 7.5) == 7.5


def test_a_sinusoid_is_above_the_rate_first_and_even_after_a_period() -> None:
    wave = Sinusoid(period=10, swing=0.5)
    assert amount(wave, 5) > 5.5
    assert amount(wave, 10) == pytest.approx(10)
    assert amount(wave, 30) == pytest.approx(30)
    # Its slope at the beginning is that of the rate, a quarter later half as much again.
    assert amount(wave, 0.001) == pytest.approx(0.001, rel=1e-3)
    assert amount(wave, 2.501) - amount(wave, 2.5) == pytest.approx(0.0015, rel=1e-3)


def test_steps_go_round() -> None:
    steps = Steps(seconds=2, factors=(0.5, 2.0, 0.0))
    assert [amount(steps, moment) for moment in (0, 1, 2, 3, 4, 5, 6, 7)] == [0, 0.5, 1, 3, 5, 5, 5, 5.5]


@pytest.mark.parametrize("profile", PROFILES)
def test_no_rows_are_taken_back(profile: Profile) -> None:
    amounts = [amount(profile, moment / 10) for moment in range(300)]
    assert amounts == sorted(amounts)
    assert amounts[0] == 0


@pytest.mark.parametrize("profile", PROFILES)
def test_profiles_survive_json(profile: Profile) -> None:
    assert from_json(to_json(profile)) == profile


def test_what_is_no_profile_is_refused() -> None:
    with pytest.raises(ValueError, match="no such profile"):
        from_json({"kind": "noise"})
    with pytest.raises(ValueError, match="swing from 0 to 1"):
        Sinusoid(period=1, swing=2)
    with pytest.raises(ValueError, match="factors not below 0"):
        Steps(seconds=1, factors=(1, -1))
