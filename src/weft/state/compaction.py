"""Which small buckets to merge: size-tiered, like a log-structured merge tree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from math import log

from weft.plan.key import StoreId
from weft.state.bucket import Bucket

FAN_IN = 8
"""Buckets of one size class before they are merged."""


def choose_merges(buckets: Iterable[Bucket], reach: Mapping[StoreId, int | None]) -> tuple[tuple[str, ...], ...]:
    """Groups of bucket files to merge, at most one group per store.

    Merged rows are freed together, so a merge may span at most a quarter of the time the store reaches back
    (`reach`, in microseconds; None is unlimited): then garbage stays within a quarter of what is needed.
    """
    tiers: dict[tuple[StoreId, int], list[Bucket]] = defaultdict(list)
    for bucket in buckets:
        if bucket.store in reach:
            tiers[bucket.store, int(log(max(bucket.rows, 1), FAN_IN))].append(bucket)
    chosen: dict[StoreId, tuple[str, ...]] = {}
    for (store, _), tier in sorted(tiers.items()):
        if store not in chosen and (run := _run(tier, reach[store])):
            chosen[store] = tuple(bucket.path for bucket in run)
    return tuple(chosen.values())


def _run(tier: list[Bucket], reach: int | None) -> list[Bucket]:
    """The oldest buckets in a row that are enough and span little enough time."""
    tier = sorted(tier, key=lambda bucket: bucket.min_time)
    for start in range(len(tier) - FAN_IN + 1):
        run = tier[start : start + FAN_IN]
        span = max(bucket.max_time for bucket in run) - run[0].min_time
        if reach is None or span <= reach // 4:
            return run
    return []
