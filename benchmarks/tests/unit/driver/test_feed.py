from __future__ import annotations

import numpy as np
import pytest

from weft_bench.driver.feed import Feed, Pass
from weft_bench.driver.messages import Pulled
from weft_bench.driver.releases import Released


def released(number: int, *, due: tuple[float, float], rows: int = 100, late: float = 0.0) -> Released:
    """Files of two streams, the second with three times the rows; an event-second per file."""
    spans = {name: (number * size, (number + 1) * size) for name, size in (("A", rows), ("B", 3 * rows))}
    event = (number * 1_000_000, (number + 1) * 1_000_000)
    return Released(number, spans, event, due=due, at=due[1] + late, late=late)


def pulled(files: int, at: float, *, reader: str = "all", began: float = 0.0) -> Pulled:
    return Pulled(reader, {"A": files, "B": files}, began, at)


@pytest.fixture
def feed() -> Feed:
    """Two files a second apart, a break of ten seconds, and a third file."""
    found = Feed(["A", "B"])
    for number, due in enumerate(((100.0, 101.0), (101.0, 102.0), (112.0, 113.0))):
        found.released(released(number, due=due))
    return found


def test_rows_wait_for_the_slowest_reader(feed: Feed) -> None:
    assert (feed.generated, feed.passed, feed.waiting) == (1200, 0, 1200)
    feed.pulled(pulled(3, 113.5, reader="quick"))
    feed.pulled(pulled(1, 113.6, reader="slow"))
    assert (feed.passed, feed.waiting) == (400, 800)
    feed.forget(["slow"])
    assert feed.waiting == 0
    feed.pulled(pulled(1, 113.7, reader="slow"))
    assert feed.readers == ("quick",)


def test_streams_are_counted_apart(feed: Feed) -> None:
    feed.pulled(Pulled("all", {"A": 3, "B": 1}, 0.0, 113.0))
    assert feed.passed == 300 + 300
    feed.pulled(Pulled("some", {"A": 1}, 0.0, 113.0))
    assert feed.passed == 100 + 300


def test_a_system_may_be_quicker_to_speak_than_the_generator(feed: Feed) -> None:
    feed.pulled(pulled(4, 114.0))
    assert feed.waiting == 0
    feed.released(released(3, due=(113.0, 114.0)))
    assert (feed.generated, feed.passed) == (1600, 1600)


def test_files_come_in_order(feed: Feed) -> None:
    with pytest.raises(ValueError, match="file 7 came when 3 was expected"):
        feed.released(released(7, due=(0.0, 0.0)))


def test_the_frontier_is_that_of_the_slowest(feed: Feed) -> None:
    for files, at, reader in ((1, 101.5, "a"), (2, 102.5, "a"), (1, 103.0, "b"), (3, 113.5, "b"), (3, 114.0, "a")):
        feed.pulled(pulled(files, at, reader=reader))
    # The second reader comes later and is behind at first: nobody has come further until it has.
    assert feed.frontier() == (Pass(101.5, 400), Pass(102.5, 800), Pass(114.0, 1200))
    assert feed.passes("a") == (Pass(101.5, 400), Pass(102.5, 800), Pass(114.0, 1200))
    assert feed.frontier(102.0, 113.9) == (Pass(102.5, 800),)
    feed.forget(["a"])
    assert feed.frontier() == (Pass(103.0, 400), Pass(113.5, 1200))


def test_event_times_are_due_linearly_within_a_file(feed: Feed) -> None:
    due = feed.due(np.array([0, 250_000, 1_500_000, 2_000_000, 2_999_999, 3_000_000, -1]))
    assert due[:5] == pytest.approx([100.0, 100.25, 101.5, 112.0, 113.0], abs=1e-5)
    assert np.isnan(due[5:]).all()


def test_nothing_is_known_of_an_empty_feed() -> None:
    empty = Feed(["A"])
    assert np.isnan(empty.due(np.array([5]))).all()
    assert np.isnan(empty.begun(np.array([5]), "q")).all()
    assert (empty.generated, empty.waiting, empty.rows_due(7.0)) == (0, 0, 0)


def test_rows_due_go_with_the_clock_within_a_file(feed: Feed) -> None:
    assert [feed.rows_due(moment) for moment in (99, 100.5, 102, 108, 112.5, 120)] == [0, 200, 800, 800, 1000, 1200]


def test_a_file_is_begun_when_it_is_first_read_by_the_reader_of_the_query(feed: Feed) -> None:
    feed.pulled(pulled(2, 104.0, reader="q", began=103.0))
    feed.pulled(pulled(3, 116.0, reader="q", began=115.0))
    feed.pulled(pulled(3, 114.0, reader="other", began=113.5))
    events = np.array([0, 1_500_000, 2_500_000])
    assert feed.begun(events, "q").tolist() == [103.0, 103.0, 115.0]
    assert feed.begun(events, "other").tolist() == [113.5, 113.5, 113.5]
    assert feed.begun(events, "nobody").tolist() == [103.0, 103.0, 113.5]


def test_what_nobody_has_read_is_not_begun(feed: Feed) -> None:
    feed.pulled(pulled(1, 104.0, began=103.0))
    assert feed.begun(np.array([0, 1_500_000]), "q").tolist()[0] == 103.0
    assert np.isnan(feed.begun(np.array([1_500_000]), "q")).all()


def test_files_are_removed_once_and_only_when_all_have_passed_them(feed: Feed) -> None:
    assert feed.removable(before=1000.0) == ()
    feed.pulled(pulled(3, 114.0, reader="quick"))
    feed.pulled(pulled(2, 114.0, reader="slow"))
    assert feed.removable(before=101.5) == (0,)
    assert feed.removable(before=1000.0) == (1,)
    assert feed.removable(before=1000.0) == ()


def test_the_generators_own_lateness_is_that_of_the_time_asked_for(feed: Feed) -> None:
    feed.released(released(3, due=(113.0, 114.0), late=2.5))
    assert feed.late(100.0, 113.5) == 0.0
    assert feed.late(113.5, 115.0) == 2.5
