"""How the engine is: failing until a batch is committed again, stuck if one takes too long."""

from __future__ import annotations

import pytest

from weft.errors import BatchFailed
from weft.service.health import LONGEST_PAUSE, HealthTracker, Observation, State

ERROR = BatchFailed("batch 3 failed")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pulse(clock: Clock) -> HealthTracker:
    made = HealthTracker(batch_limit=600, clock=clock)
    made.started(3)
    return made


def test_an_engine_that_never_failed_is_ready(pulse: HealthTracker) -> None:
    assert pulse.standing.ready
    assert pulse.seen(Observation(committed=3, batch=3)).ready


def test_pauses_grow_while_nothing_is_committed(pulse: HealthTracker, clock: Clock) -> None:
    """Looking at an engine that lives for a moment between two failures must not make it a healthy one (C3)."""
    pauses = []
    for _ in range(10):
        pauses.append(pulse.failed(ERROR))
        pulse.started(3)
        clock.now += 1
        assert pulse.seen(Observation(committed=3, batch=3)).state is State.FAILING
    assert pauses[:4] == [1, 2, 4, 8]
    assert pauses[-1] == LONGEST_PAUSE
    assert pulse.standing.failures == 10


def test_a_commit_after_the_restart_ends_it(pulse: HealthTracker) -> None:
    pulse.failed(ERROR)
    pulse.failed(ERROR)
    pulse.started(3)
    assert pulse.standing.state is State.FAILING
    standing = pulse.seen(Observation(committed=4, batch=None))
    assert (standing.state, standing.failures, standing.error) == (State.RUNNING, 0, None)
    assert pulse.failed(ERROR) == 1


def test_so_does_the_certainty_that_there_is_nothing_to_do(pulse: HealthTracker) -> None:
    pulse.failed(ERROR)
    pulse.started(3)
    assert pulse.seen(Observation(committed=3, batch=None)).state is State.FAILING
    assert pulse.seen(Observation(committed=3, batch=None, idle=True)).ready


def test_a_long_calm_is_nothing_to_do(pulse: HealthTracker, clock: Clock) -> None:
    pulse.failed(ERROR)
    pulse.started(3)
    clock.now += 20
    assert pulse.seen(Observation(committed=3, batch=3)).state is State.FAILING
    clock.now += 20
    assert pulse.seen(Observation(committed=3, batch=None)).state is State.FAILING, "a batch was seen meanwhile"
    clock.now += 20
    assert pulse.seen(Observation(committed=3, batch=None)).ready


def test_it_says_when_the_next_try_is(pulse: HealthTracker, clock: Clock) -> None:
    pulse.failed(ERROR)
    pulse.failed(ERROR)
    assert pulse.standing.next_try == clock.now + 2
    assert pulse.standing.error is ERROR


def test_a_batch_beyond_its_limit_is_stuck(pulse: HealthTracker, clock: Clock) -> None:
    pulse.seen(Observation(committed=3, batch=3))
    clock.now += 599
    assert pulse.seen(Observation(committed=3, batch=3)).ready
    clock.now += 2
    standing = pulse.seen(Observation(committed=3, batch=3))
    assert standing.state is State.STUCK
    assert "batch 3" in str(standing.error)
    assert pulse.seen(Observation(committed=4, batch=4)).ready, "it has ended after all"


def test_the_engine_knows_better_how_long_a_batch_runs(pulse: HealthTracker) -> None:
    assert pulse.seen(Observation(committed=3, batch=3, running_for=601)).state is State.STUCK
    assert pulse.seen(Observation(committed=3, batch=3, running_for=1)).ready
    assert pulse.seen(Observation(committed=3, batch=3, failures=2, error=ERROR)).state is State.FAILING
