from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from weft_bench.driver.search import Found, NotFound, Range, Step, Trial, Try, next_step
from weft_bench.driver.sustained import Outcome


def search(where: Range, outcome: Callable[[float], Outcome]) -> tuple[Step, list[Trial]]:
    trials: list[Trial] = []
    while isinstance(step := next_step(where, trials), Try):
        trials.append(Trial(step.rate, outcome(step.rate)))
    return step, trials


def up_to(capacity: float) -> Callable[[float], Outcome]:
    return lambda rate: Outcome.SUSTAINED if rate <= capacity else Outcome.FELL_BEHIND


@pytest.mark.parametrize("seed", range(200))
def test_it_converges_to_within_the_width_wherever_it_begins(seed: int) -> None:
    random_ = random.Random(seed)
    capacity = math.exp(random_.uniform(math.log(500), math.log(5e6)))
    guess = capacity * math.exp(random_.uniform(-3, 3))
    found, trials = search(Range(guess, least=100, attempts=40), up_to(capacity))
    assert isinstance(found, Found)
    assert found.why == ""
    assert capacity / 1.05 <= found.rate <= capacity
    assert len(trials) <= 16


def test_a_good_guess_is_soon_confirmed() -> None:
    for share in (0.97, 1.0, 1.03):
        _, trials = search(Range(1000 * share), up_to(1000))
        assert len(trials) <= 5


@pytest.mark.parametrize("seed", range(200))
def test_noise_moves_the_answer_no_further_than_its_own_width(seed: int) -> None:
    random_ = random.Random(seed)
    capacity = 1e6

    def noisy(rate: float) -> Outcome:
        return up_to(capacity * random_.gauss(1, 0.02))(rate)

    found, _ = search(Range(capacity * random_.uniform(0.3, 3), attempts=40), noisy)
    assert isinstance(found, Found)
    assert 0.85 * capacity <= found.rate <= 1.08 * capacity


def test_a_higher_success_outweighs_an_earlier_failure() -> None:
    trials = [Trial(800, Outcome.FELL_BEHIND), Trial(1000, Outcome.SUSTAINED), Trial(1040, Outcome.FELL_BEHIND)]
    assert next_step(Range(900), trials) == Found(1000)


def test_a_system_below_the_least_rate_has_none() -> None:
    found, trials = search(Range(1000, least=100), up_to(50))
    assert isinstance(found, NotFound)
    assert "could not keep up with the least rate of 100 rows per second" in found.why
    assert trials[-1].rate == 100


def test_the_search_does_not_go_beyond_the_most() -> None:
    found, _ = search(Range(1000, most=1500), up_to(1e9))
    assert found == Found(1500, "not tried beyond")


def test_attempts_are_limited() -> None:
    found, trials = search(Range(1000, attempts=4), up_to(1e9))
    assert len(trials) == 4
    assert isinstance(found, Found)
    assert "4 attempts" in found.why
    nothing, _ = search(Range(1e9, attempts=2), up_to(1))
    assert isinstance(nothing, NotFound)


def test_an_attempt_that_says_nothing_is_made_again() -> None:
    trials = [Trial(950, Outcome.SUSTAINED), Trial(1026, Outcome.INVALID)]
    assert next_step(Range(1000), trials) == Try(1026)
    trials.append(Trial(1026, Outcome.SUSTAINED))
    assert next_step(Range(1000), trials) == Try(pytest.approx(1026 * 1.15))


def test_a_generator_that_cannot_make_more_bounds_the_answer() -> None:
    found, _ = search(Range(1000, attempts=40), lambda rate: Outcome.SUSTAINED if rate < 1200 else Outcome.INVALID)
    assert isinstance(found, Found)
    assert found.rate == pytest.approx(1200, rel=0.06)
    assert found.why == "the generator could not make more"
