from __future__ import annotations

from itertools import islice, takewhile

import pytest

from benchmarks.tests.unit.driver.tiny import query
from weft_bench.driver.schedule import Action, Waves, all_at_once, in_waves, one_by_one


def test_queries_come_at_even_distances_until_all_are_there() -> None:
    requests = one_by_one([query("a"), query("b"), query("c")], per_second=2)
    assert [(each.due, each.action, each.query.name) for each in requests] == [
        (0.0, Action.CREATE, "a"),
        (0.5, Action.CREATE, "b"),
        (1.0, Action.CREATE, "c"),
    ]
    assert {each.due for each in all_at_once([query("a"), query("b")])} == {0.0}


def test_waves_come_and_go() -> None:
    requests = list(islice(in_waves([query("a", observed=True), query("b")], Waves(number=2, every=1, living=1.5)), 10))
    assert [(each.due, each.action.value, each.query.name) for each in requests] == [
        (0, "create", "a_0"),
        (0, "create", "b_1"),
        (1, "create", "a_2"),
        (1, "create", "b_3"),
        (1.5, "drop", "a_0"),
        (1.5, "drop", "b_1"),
        (2, "create", "a_4"),
        (2, "create", "b_5"),
        (2.5, "drop", "a_2"),
        (2.5, "drop", "b_3"),
    ]
    assert not any(each.query.observed for each in requests)


def test_as_many_live_as_the_waves_say() -> None:
    live: set[str] = set()
    most = 0
    for each in takewhile(lambda each: each.due < 50, in_waves([query("q")], Waves(number=3, every=2, living=7))):
        if each.action is Action.CREATE:
            assert each.query.name not in live
            live.add(each.query.name)
        else:
            live.remove(each.query.name)
        most = max(most, len(live))
    assert most == 3 * 4


def test_waves_without_queries_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one query"):
        Waves(number=0, every=1, living=1)
