"""The query at fault is found by halves."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from weft.engine.culprit import find_culprit


@pytest.mark.parametrize("count", [1, 2, 3, 7, 100])
def test_the_one_at_fault_is_found_in_few_trials(count: int) -> None:
    for bad in range(count):
        trials: list[int] = []

        def fails(some: Sequence[int], bad: int = bad, trials: list[int] = trials) -> bool:
            trials.append(len(some))
            return bad in some

        assert find_culprit(range(count), fails) == bad
        assert len(trials) <= 2 * count.bit_length() + 2


def test_one_of_several_is_found() -> None:
    assert find_culprit(range(10), lambda some: bool({3, 8} & set(some))) == 3


def test_nobody_is_blamed_for_what_fails_anyway_or_has_passed_or_needs_two() -> None:
    assert find_culprit(range(10), lambda _: True) is None
    assert find_culprit(range(10), lambda _: False) is None
    assert find_culprit(range(10), lambda some: {1, 9} <= set(some)) is None
    assert find_culprit([], lambda _: True) is None
