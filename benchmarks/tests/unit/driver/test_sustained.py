from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from weft_bench.driver.feed import Pass
from weft_bench.driver.latency import medians
from weft_bench.driver.sustained import Evidence, Outcome, Rule, Series, judge, pulled_rate

RATE = 1000.0


def batches(capacity: float, *, overhead: float, jitter: float = 0.0, seed: int = 0) -> Evidence:
    """A system that takes all that waits, works `overhead` seconds and then at its capacity, and begins again."""
    rng = np.random.default_rng(seed)
    now, done = 0.25, 0.0
    passes: list[Pass] = []
    latency: list[float] = []
    while now < 60:
        upto = np.floor(now * 4) / 4 * RATE  # files come every quarter of a second
        rows, began = upto - done, now
        now += max(0.02, (rows > 0) * (overhead * (1 + jitter * rng.uniform(-1, 1)) + rows / capacity))
        if rows:
            passes.append(Pass(now, int(upto)))
            latency.append(now - (done + upto) / 2 / RATE)
            done = upto
        assert now > began
    # As the driver does: fifteen seconds, or as many times that as there are too few passes; warm-up left out.
    for end in (15.0, 30.0, 45.0, 60.0):
        chosen = [number for number, each in enumerate(passes) if end / 4 <= each.at <= end]
        if len(chosen) >= 6:
            break
    measured = [passes[number] for number in chosen]
    at, values = np.array([each.at for each in measured]), np.array([latency[number] for number in chosen])
    return Evidence(
        rate=RATE,
        latency=Series(*medians(at, values, np.ones(len(at)))),
        passes=measured,
        left=[RATE * each.at - each.rows for each in measured],
        full=any(RATE * after.at - before.rows > 30 * RATE for before, after in pairwise(passes) if after.at <= end),
    )


# How long a batch takes differs by half: now and then that looks like a trend, and an attempt gets a second chance.
@pytest.mark.parametrize("overhead", [0.0, 0.1, 0.3, 1.0, 3.0])
def test_a_system_with_much_to_spare_sustains_the_rate_however_its_batches_fall(overhead: float) -> None:
    verdicts = [judge(batches(RATE * 3, overhead=overhead, jitter=0.5, seed=seed), Rule()) for seed in range(40)]
    assert sum(verdict.outcome is Outcome.SUSTAINED for verdict in verdicts) >= 36


@pytest.mark.parametrize("overhead", [0.0, 0.1, 0.3, 1.0])
def test_a_system_that_falls_behind_does_not(overhead: float) -> None:
    verdicts = [judge(batches(RATE / 1.15, overhead=overhead, jitter=0.5, seed=seed), Rule()) for seed in range(40)]
    assert sum(verdict.outcome is Outcome.FELL_BEHIND for verdict in verdicts) >= 38


@pytest.mark.parametrize("share", [0.9, 0.95, 1.0, 1.02])
def test_without_overhead_the_rule_is_sharp(share: float) -> None:
    assert judge(batches(RATE / share, overhead=0.0), Rule()).outcome is Outcome.SUSTAINED


@pytest.mark.parametrize("share", [1.04, 1.1, 2.0])
def test_without_overhead_a_little_too_much_is_too_much(share: float) -> None:
    assert judge(batches(RATE / share, overhead=0.0), Rule()).outcome is Outcome.FELL_BEHIND


def test_what_is_passed_is_counted_from_pass_to_pass() -> None:
    evidence = batches(RATE / 2, overhead=0.0)
    assert pulled_rate(evidence) == pytest.approx(RATE / 2, rel=0.05)
    assert pulled_rate(replace(evidence, passes=())) == 0


def steady() -> Evidence:
    return batches(RATE * 2, overhead=0.0)


def test_a_full_queue_speaks_against_the_rate() -> None:
    assert judge(replace(steady(), full=True), Rule()).why == "queue full"


def test_nothing_passed_speaks_against_the_rate() -> None:
    found = judge(replace(steady(), passes=(), left=()), Rule())
    assert (found.outcome, found.pulled) == (Outcome.FELL_BEHIND, 0.0)
    assert "passed never" in found.why


def test_of_a_single_pass_nobody_can_say_what_follows() -> None:
    """Nexmark's thousand queries took a minute for a batch, and were taken as sustained."""
    found = judge(replace(steady(), passes=steady().passes[:1], left=steady().left[:1]), Rule())
    assert (found.outcome, found.pulled) == (Outcome.FELL_BEHIND, 0.0)
    assert "passed once" in found.why


def test_a_growing_queue_alone_speaks_against_the_rate() -> None:
    calm = steady()
    left = [before + 0.05 * RATE * each.at for before, each in zip(calm.left, calm.passes, strict=True)]
    assert judge(replace(calm, left=left), Rule()).why.startswith("queue grew by 0.05")


def test_where_nothing_reaches_the_sink_the_queue_is_what_counts() -> None:
    behind = replace(batches(RATE / 1.2, overhead=0.0), latency=Series())
    verdict = judge(behind, Rule())
    assert verdict.outcome is Outcome.FELL_BEHIND
    assert verdict.growth == pytest.approx(1 - 1 / 1.2, rel=0.1)


def test_growing_latency_alone_speaks_against_the_rate() -> None:
    seconds = np.arange(15.0, 30.0)
    found = judge(replace(steady(), latency=Series(seconds, 1 + 0.05 * seconds)), Rule())
    assert (found.why, found.growth) == ("latency grew by 0.050 s per second", pytest.approx(0.05))


def test_passing_too_little_speaks_against_the_rate() -> None:
    passes = [Pass(second, int(second * 0.9 * RATE)) for second in range(15, 31)]
    left = [each.at * RATE - each.rows for each in passes]
    found = judge(replace(steady(), passes=passes, left=left), Rule())
    assert found.why.endswith("passed 90.0% of the rate")


def test_a_measured_part_may_end_anywhere_between_two_passes() -> None:
    # The last of these lumps took long; that is not less than the rate until the next one shows it.
    passes = [Pass(15.0, 13_000), Pass(20.0, 18_000), Pass(26.0, 23_000)]
    left = [each.at * RATE - each.rows for each in passes]
    assert judge(replace(steady(), passes=passes, left=left), Rule()).outcome is Outcome.SUSTAINED


def test_a_slow_generator_makes_an_attempt_say_nothing() -> None:
    found = judge(replace(steady(), late=1.5, full=True), Rule())
    assert found.outcome is Outcome.INVALID
    assert found.why == "generator could not keep up: 1.5 s behind its clock"


def test_latency_counts_only_where_a_bound_is_asked_for() -> None:
    evidence = replace(batches(RATE * 3, overhead=0.1), p99=3.0)
    assert judge(evidence, Rule()).outcome is Outcome.SUSTAINED
    assert judge(evidence, Rule(bound=3.0)).outcome is Outcome.SUSTAINED
    verdict = judge(evidence, Rule(bound=2.0))
    assert verdict.outcome is Outcome.FELL_BEHIND
    assert verdict.why == "latency of 3.0 s, above the bound of 2 s"
