from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft_bench.driver.feed import Feed
from weft_bench.driver.latency import RESOLUTION, arrivals, median_latency, medians, spread, trend
from weft_bench.driver.messages import Delivered, Pulled
from weft_bench.driver.releases import Released


@pytest.fixture
def feed() -> Feed:
    """Ten files, each a second of event time that was due in half a second; read a quarter later, all by one reader."""
    found = Feed(["A"])
    for number in range(10):
        due = (100 + number / 2, 100 + (number + 1) / 2)
        event = (number * 1_000_000, (number + 1) * 1_000_000)
        found.released(Released(number, {"A": (number, number + 1)}, event, due=due, at=due[1], late=0.0))
        found.pulled(Pulled("all", {"A": number + 1}, began=due[1] + 0.25, at=due[1] + 0.3))
    return found


def test_latency_is_counted_from_when_rows_were_due(feed: Feed) -> None:
    half = RESOLUTION / 2 / 1e6 / 2  # event times are rounded down, and go by twice as fast as the clock
    found = arrivals([Delivered("q", 103.0, ((1_000_000, 3.0), (3_000_000, 1.0)))], feed)
    event, processing = found.event_latency(), found.processing_latency()
    assert event is not None
    assert processing is not None
    assert (event.count, event.most, event.p50, event.least) == pytest.approx((4, 2.5 - half, 2.5 - half, 1.5 - half))
    assert event.average == pytest.approx((3 * 2.5 + 1.5) / 4 - half)
    assert (processing.most, processing.least) == pytest.approx((103 - 101.25, 103 - 102.25))


def test_only_rows_that_were_due_in_the_measured_part_count(feed: Feed) -> None:
    found = arrivals([Delivered("q", 106.0, tuple((second * 1_000_000, 1.0) for second in range(10)))], feed)
    assert len(found.due) == 10
    assert len(found.due_between(101.0, 102.6).due) == 4


def test_rows_with_event_times_nobody_made_are_left_out(feed: Feed) -> None:
    assert arrivals([Delivered("q", 103.0, ((99_000_000, 3.0),))], feed).event_latency() is None
    assert arrivals([], feed).event_latency() is None
    assert median_latency([], feed) is None


def test_the_middle_of_a_step_does_not_reach_over_a_break() -> None:
    feed = Feed(["A"])
    for number, due in enumerate(((100.0, 100.5), (200.0, 200.5))):
        event = (number * 1_004_000, (number + 1) * 1_004_000)
        feed.released(Released(number, {"A": (number, number + 1)}, event, due=due, at=due[1], late=0.0))
    found = median_latency([Delivered("q", 101.0, ((1_000_000, 1.0),))], feed)
    assert found == pytest.approx(0.5, abs=0.01)


def test_processing_is_unknown_where_nobody_said_to_have_read(feed: Feed) -> None:
    feed.forget(["all"])
    found = arrivals([Delivered("q", 103.0, ((1_000_000, 3.0),))], feed)
    assert found.event_latency() is not None
    assert found.processing_latency() is None


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(1, 5)), min_size=1, max_size=30))
def test_a_spread_is_that_of_the_durations_repeated(pairs: list[tuple[float, int]]) -> None:
    found = spread(np.array([each for each, _ in pairs]), np.array([float(count) for _, count in pairs]))
    repeated = np.sort([each for each, count in pairs for _ in range(count)])
    assert found is not None
    assert found.count == len(repeated)
    assert (found.least, found.most) == (repeated[0], repeated[-1])
    assert found.average == pytest.approx(repeated.mean())
    for share, figure in ((0.5, found.p50), (0.9, found.p90), (0.95, found.p95), (0.99, found.p99)):
        assert figure == np.quantile(repeated, share, method="inverted_cdf")


def test_nothing_has_no_spread() -> None:
    assert spread(np.empty(0)) is None


def test_a_trend_is_found_under_outliers() -> None:
    moments = np.arange(20.0)
    values = 3 + 0.1 * moments
    values[[3, 11]] = 50
    found = trend(moments, values)
    assert found.slope == pytest.approx(0.1)
    assert found.score > 3
    falling = trend(moments, -values)
    assert falling.slope == pytest.approx(-0.1)
    assert falling.score < -3


def test_no_trend_in_what_stays_the_same_or_is_too_short() -> None:
    assert trend(np.arange(10.0), np.ones(10)).slope == 0
    assert trend(np.arange(10.0), np.ones(10)).score == 0
    assert trend(np.arange(2.0), np.arange(2.0)).slope == 0
    assert trend(np.zeros(5), np.arange(5.0)).slope == 0


def test_medians_by_the_second() -> None:
    moments, found = medians(
        np.array([10.0, 10.5, 10.9, 12.1, 30.0]),
        np.array([1.0, 2.0, 9.0, 5.0, 7.0]),
        np.array([1.0, 1.0, 1.0, 4.0, 1.0]),
    )
    assert found.tolist() == [2.0, 5.0, 7.0]
    assert moments == pytest.approx([10.4667, 12.1, 30.0], abs=1e-3)
    assert [len(each) for each in medians(np.empty(0), np.empty(0), np.empty(0))] == [0, 0]


def test_a_few_seconds_are_cut_into_shorter_pieces() -> None:
    moments = np.linspace(10.0, 13.0, 300)
    assert len(medians(moments, moments, np.ones(300))[0]) in (12, 13)
    assert len(medians(np.array([5.0]), np.array([1.0]), np.ones(1))[0]) == 1
