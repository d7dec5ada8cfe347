"""Tests over drawn seeds: a schedule is its seed, so that there is nothing for hypothesis to make smaller."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

Test = Callable[[int], None]


def by_seed(count: int) -> Callable[[Test], Callable[[], None]]:
    """Run a test of `seed` for so many of them."""

    def decorate(test: Test) -> Callable[[], None]:
        drawn: Callable[[], None] = given(seed=st.integers(min_value=0, max_value=2**32 - 1))(test)
        return settings(
            max_examples=count,
            deadline=None,
            print_blob=True,
            phases=(Phase.explicit, Phase.reuse, Phase.generate),
            suppress_health_check=(HealthCheck.too_slow,),
        )(drawn)

    return decorate
