"""When a soak has passed."""

from __future__ import annotations

import pytest

from tests.soak.report import Judged, Report
from tests.soak.series import Series, Unit
from tests.soak.verdict import Rule, State, Verdict


@pytest.mark.parametrize(
    ("state", "is_long", "passed"),
    [
        (State.FLAT, True, True),
        (State.GROWS, False, False),
        (State.EXEMPT, True, True),
        (State.SHORT, False, True),
        (State.SHORT, True, False),
    ],
)
def test_what_was_too_short_has_not_passed_in_a_long_run(state: State, is_long: bool, passed: bool) -> None:
    report = Report("service", "A service", "make soak", Rule(per=3600, tolerance=0.05), unit="hour", is_long=is_long)
    report.judged.append(Judged(Series("x.rss", "x: memory", Unit.MEMORY), Verdict(state)))
    assert report.passed is passed
    assert ("Too short to be judged: x: memory" in report.to_markdown("x.png")) is (state is State.SHORT)
