"""The query at fault is found by halves, and nobody is blamed for what is not a query's fault."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest

from weft.engine.batches.culprit import find_culprit


def find(count: int, fails: Callable[[Sequence[int]], bool], *, alone: bool = False) -> int | None:
    return find_culprit(range(count), fails, peers=lambda one: [n for n in range(count) if n != one][:5], alone=alone)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 100])
def test_the_one_at_fault_is_found_in_few_trials(count: int) -> None:
    for bad in range(count):
        trials: list[int] = []

        def fails(some: Sequence[int], bad: int = bad, trials: list[int] = trials) -> bool:
            trials.append(len(some))
            return bad in some

        assert find(count, fails) == bad
        assert len(trials) <= count.bit_length() + 14


def test_one_of_several_is_found() -> None:
    assert find(10, lambda some: bool({3, 8} & set(some))) == 3


def test_of_those_that_fail_only_together_the_last_is_to_blame() -> None:
    assert find(10, lambda some: {1, 7} <= set(some)) == 7
    assert find(10, lambda some: len(some) > 6) == 6
    assert find(10, lambda some: len(some) > 6, alone=True) is None


def test_nobody_is_blamed_for_what_fails_anyway_or_has_passed() -> None:
    assert find(10, lambda _: True) is None
    assert find(10, lambda _: False) is None
    assert find(0, lambda _: True) is None


def test_nobody_is_blamed_for_what_everybody_has() -> None:
    """A folder that cannot be written fails for every query, and not without any: all of them were set aside."""
    assert find(10, bool) is None
    assert find(1, bool) == 0
    assert find_culprit([1, 2], lambda some: 2 in some, peers=lambda _: [], alone=True) is None


def test_faults_that_come_and_go_blame_hardly_anybody() -> None:
    random = Random(7)
    blamed = sum(find(20, lambda some: bool(some) and random.random() < 0.5) is not None for _ in range(500))
    assert blamed < 25
