"""Which buckets are merged: enough of a size, not spread over too much time, as many as a batch has time for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.plan.key import StoreId
from weft.plan.slots import Slots
from weft.storage import compaction
from weft.storage.bucket import Bucket, Part
from weft.storage.compaction import FAN_IN, MOST_TOGETHER, choose_merges

A, B = StoreId("a"), StoreId("b")
EMPTY = Part(50, 99, 0, 0, 0, Slots(0))


def bucket(name: str, time: int, *, rows: int = 10, store: StoreId = A, last: int | None = None) -> Bucket:
    part = Part(0, 49, rows, time, time if last is None else last, Slots(1))
    return Bucket(name, store, "s", 0, (part, EMPTY), 1)


def row_of(count: int, *, step: int = 1, rows: int = 10, store: StoreId = A) -> list[Bucket]:
    """Buckets one after the other in time, long after 1970."""
    return [bucket(f"{store}{rows}-{n}", 10**15 + n * step, rows=rows, store=store) for n in range(count)]


def test_enough_of_a_size_are_merged_the_oldest_first() -> None:
    buckets = row_of(MOST_TOGETHER + 3)
    assert choose_merges(buckets[::-1], {A: None}) == (tuple(each.path for each in buckets[:MOST_TOGETHER]),)


def test_too_few_are_left() -> None:
    assert choose_merges(row_of(FAN_IN - 1), {A: None}) == ()
    assert choose_merges([], {A: None}) == ()


def test_a_store_that_nobody_reaches_into_is_left() -> None:
    assert choose_merges(row_of(FAN_IN), {B: None}) == ()


def test_sizes_are_not_mixed() -> None:
    assert choose_merges(row_of(FAN_IN - 1, rows=10) + row_of(FAN_IN - 1, rows=10_000), {A: None}) == ()


def test_the_smallest_are_first_and_a_batch_merges_no_more_than_it_has_time_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small, large, other = row_of(FAN_IN, rows=2), row_of(FAN_IN, rows=5000), row_of(FAN_IN, store=B)
    everything = [*large, *other, *small]
    groups = [tuple(each.path for each in some) for some in (small, other, large)]
    assert choose_merges(everything, {A: None, B: None}) == tuple(groups)
    monkeypatch.setattr(compaction, "_AMPLIFICATION", 0)
    for budget, expected in ((3 * FAN_IN, 3), (3 * FAN_IN - 1, 2), (FAN_IN, 1), (0, 1)):
        monkeypatch.setattr(compaction, "BATCH_BYTES", budget)
        assert choose_merges(everything, {A: None, B: None}) == tuple(groups[:expected])


def test_large_buckets_are_left() -> None:
    buckets = [replace(each, bytes=compaction.GROUP_BYTES // FAN_IN) for each in row_of(FAN_IN)]
    assert choose_merges(buckets, {A: None})
    assert choose_merges([replace(each, bytes=each.bytes + 1) for each in buckets], {A: None}) == ()


def merged(buckets: list[Bucket], name: str, epoch: int) -> Bucket:
    first, last = min(each.min_time for each in buckets), max(each.max_time for each in buckets)
    rows = sum(each.rows for each in buckets)
    return replace(bucket(name, first, rows=rows, last=last), epoch=epoch, bytes=rows)


def left_after(batches: int, *, tasks: int, reach: int, freed: bool) -> list[int]:
    """Buckets after each batch of a second; `freed` if what is older than the reach goes, else a partner is idle."""
    kept: dict[str, Bucket] = {}
    counts = []
    for batch in range(batches):
        now = 10**15 + batch * 1_000_000
        for group in choose_merges(kept.values(), {A: reach}):
            some = [kept.pop(path) for path in group]
            kept[group[0]] = merged(some, group[0], batch)
        new = [replace(bucket(f"{batch}-{n}", now), epoch=batch, bytes=10) for n in range(tasks)]
        kept |= {each.path: each for each in new}
        if freed:
            kept = {path: each for path, each in kept.items() if each.max_time >= now - reach}
        counts.append(len(kept))
    return counts


def test_merging_keeps_up_with_many_tasks() -> None:
    counts = left_after(1500, tasks=16, reach=3_600_000_000, freed=True)
    assert max(counts) < 16 + 8 * FAN_IN, "it was one group of eight for each batch of sixteen"


def test_a_short_window_with_an_idle_partner_does_not_leave_a_bucket_for_each_batch() -> None:
    counts = left_after(1500, tasks=1, reach=10_000_000, freed=False)
    assert max(counts) < 150
    assert counts[-1] < counts[len(counts) // 2] + 50, "it grows with the logarithm of the time"


@pytest.mark.parametrize(("reach", "merged"), [(4 * (FAN_IN - 1), True), (4 * (FAN_IN - 1) - 1, False)])
def test_a_merge_spans_at_most_a_quarter_of_the_reach(reach: int, merged: bool) -> None:
    assert bool(choose_merges(row_of(FAN_IN), {A: reach})) == merged


def test_a_gap_in_time_is_not_bridged() -> None:
    buckets = [bucket("old", 10**15 - 10**6), *row_of(FAN_IN)]
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
    paths = [path for group in groups for path in group]
    assert len(paths) == len(set(paths))
    for group in groups:
        chosen = [buckets[path] for path in group]
        limit = reach[chosen[0].store]
        assert FAN_IN <= len(group) <= MOST_TOGETHER
        last = max(b.max_time for b in chosen)
        age = max(b.max_time for b in buckets.values() if b.store == chosen[0].store) - last
        assert limit is None or last - min(b.min_time for b in chosen) <= max(limit, age) / 4
        assert max(b.rows for b in chosen) <= FAN_IN * min(b.rows for b in chosen)
