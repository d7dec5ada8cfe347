from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft_bench.measure import WARM_UP, Batch, rate_alone, rate_together, to_batch, warm


@dataclass
class Progress:
    batchId: int = 4  # noqa: N815
    timestamp: str = "2024-01-01T00:00:01.500Z"
    durationMs: dict[str, int] = field(default_factory=lambda: {"triggerExecution": 250, "addBatch": 200})  # noqa: N815
    numInputRows: int = 7  # noqa: N815


def batches(*seconds: float, rows: int = 100, begin: float = 0.0) -> list[Batch]:
    found = []
    for number, each in enumerate(seconds):
        found.append(Batch(number, begin, each, rows))
        begin += each
    return found


def test_progress_becomes_a_batch() -> None:
    batch = to_batch(Progress())
    assert batch == Batch(4, 1_704_067_201.5, 0.25, 7)
    assert batch.ended == 1_704_067_201.75


def test_warm_up_and_partial_batches_are_left_out() -> None:
    given_batches = [*batches(*[1.0] * 10), Batch(10, 10.0, 0.1, 30)]
    assert [batch.number for batch in warm(given_batches, 100)] == list(range(WARM_UP, 10))


@given(st.integers(1, 30))
def test_at_least_half_of_few_batches_is_kept(count: int) -> None:
    kept = warm(batches(*[1.0] * count), 100)
    assert len(kept) >= count / 2
    assert len(kept) >= count - WARM_UP


def test_alone_is_the_median_of_warm_batches() -> None:
    outcome = rate_alone(batches(9.0, 9.0, 9.0, 9.0, 0.5, 0.5, 0.5, 2.5), 100)
    assert (outcome.rows_per_second, outcome.batch_seconds, outcome.batches) == (200.0, 0.5, 4)
    assert outcome.wall_rows_per_second == 100.0


def test_nothing_finished_is_said() -> None:
    assert rate_alone([], 100).note == "no batch was finished in time"
    outcome = rate_together([[], []], rows=100, begin=0.0, end=10.0)
    assert (outcome.rows_per_second, outcome.note) == (0.0, "no batch was finished in time")


def test_together_is_what_all_have_read_by_the_time_of_the_last() -> None:
    outcome = rate_together([batches(1.0, 1.0), batches(2.0, 3.0)], rows=200, begin=0.0, end=9.0)
    assert (outcome.rows_per_second, outcome.slowest_rows_per_second, outcome.note) == (40.0, 40.0, "")
    assert (outcome.batch_seconds, outcome.batches) == (1.5, 4)


def test_together_cut_off_errs_in_favour_of_the_queries() -> None:
    outcome = rate_together([batches(1.0, 1.0), batches(2.0), []], rows=200, begin=0.0, end=10.0)
    assert outcome.rows_per_second == pytest.approx((200 + 200 + 100) / 3 / 10)
    assert outcome.slowest_rows_per_second == 0.0
    assert outcome.note == "cut off after 10 s, batches under way count as done"
