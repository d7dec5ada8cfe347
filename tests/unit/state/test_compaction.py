"""Which buckets are merged: enough of a size, not spread over too much time, one group per store."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.plan.changelog import Slots
from weft.plan.key import StoreId
from weft.state.bucket import Bucket, Part
from weft.state.compaction import FAN_IN, choose_merges

A, B = StoreId("a"), StoreId("b")
EMPTY = Part(50, 99, 0, 0, 0, Slots(0))


def bucket(name: str, time: int, *, rows: int = 10, store: StoreId = A, last: int | None = None) -> Bucket:
    part = Part(0, 49, rows, time, time if last is None else last, Slots(1))
    return Bucket(name, store, "s", 0, (part, EMPTY), 1)


def row_of(count: int, *, step: int = 1, rows: int = 10, store: StoreId = A) -> list[Bucket]:
    """Buckets one after the other in time, long after 1970."""
    return [bucket(f"{store}{rows}-{n}", 10**15 + n * step, rows=rows, store=store) for n in range(count)]


def test_enough_of_a_size_are_merged_the_oldest_first() -> None:
    buckets = row_of(FAN_IN + 3)
    assert choose_merges(buckets[::-1], {A: None}) == (tuple(each.path for each in buckets[:FAN_IN]),)


def test_too_few_are_left() -> None:
    assert choose_merges(row_of(FAN_IN - 1), {A: None}) == ()
    assert choose_merges([], {A: None}) == ()


def test_a_store_that_nobody_reaches_into_is_left() -> None:
    assert choose_merges(row_of(FAN_IN), {B: None}) == ()


def test_sizes_are_not_mixed() -> None:
    assert choose_merges(row_of(FAN_IN - 1, rows=10) + row_of(FAN_IN - 1, rows=10_000), {A: None}) == ()


def test_one_group_per_store_the_smallest_first() -> None:
    small, large, other = row_of(FAN_IN, rows=2), row_of(FAN_IN, rows=5000), row_of(FAN_IN, store=B)
    groups = choose_merges([*large, *other, *small], {A: None, B: None})
    assert groups == (tuple(each.path for each in small), tuple(each.path for each in other))


@pytest.mark.parametrize(("reach", "merged"), [(4 * (FAN_IN - 1), True), (4 * (FAN_IN - 1) - 1, False)])
def test_a_merge_spans_at_most_a_quarter_of_the_reach(reach: int, merged: bool) -> None:
    assert bool(choose_merges(row_of(FAN_IN), {A: reach})) == merged


def test_a_gap_in_time_is_not_bridged() -> None:
    buckets = [bucket("old", 0), *row_of(FAN_IN)]
    assert choose_merges(buckets, {A: 1000}) == (tuple(each.path for each in buckets[1:]),)


def test_a_long_bucket_counts_with_its_end() -> None:
    buckets = [bucket("long", 10**15, last=10**15 + 10**6), *row_of(FAN_IN - 1)]
    assert choose_merges(buckets, {A: 1000}) == ()


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(1, 600), st.sampled_from([A, B])), max_size=40),
    st.dictionaries(st.sampled_from([A, B]), st.none() | st.integers(0, 2000)),
)
def test_what_is_chosen_keeps_the_rules(rows: list[tuple[int, int, StoreId]], reach: dict[StoreId, int | None]) -> None:
    buckets = {f"{n}": bucket(f"{n}", time, rows=count, store=store) for n, (time, count, store) in enumerate(rows)}
    groups = choose_merges(buckets.values(), reach)
    stores = [{buckets[path].store for path in group} for group in groups]
    assert all(len(each) == 1 for each in stores)
    assert len(groups) == len({store for each in stores for store in each})
    for group in groups:
        chosen = [buckets[path] for path in group]
        limit = reach[chosen[0].store]
        assert len(set(group)) == FAN_IN
        assert limit is None or max(b.max_time for b in chosen) - min(b.min_time for b in chosen) <= limit / 4
        assert max(b.rows for b in chosen) <= FAN_IN * min(b.rows for b in chosen)
