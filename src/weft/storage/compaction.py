"""Which small buckets to merge: size-tiered, like a log-structured merge tree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from math import log

from weft.plan.key import StoreId
from weft.storage.bucket import Bucket

FAN_IN = 8
"""Buckets of one size class before they are merged."""
MOST_TOGETHER = 64
"""Buckets that are merged into one at a time: many tasks may make many small ones in each batch."""
GROUP_BYTES = 512 << 20
"""Buckets that are larger together are not merged: merging them would take long and bring little."""
BATCH_BYTES = 1 << 30
"""What is merged in one batch; more where batches themselves are large, so that merging keeps up with them."""
_AMPLIFICATION = 4


def choose_merges(buckets: Iterable[Bucket], reach: Mapping[StoreId, int | None]) -> tuple[tuple[str, ...], ...]:
    """Groups of bucket files to merge: as many as there are, as long as a batch has the time for them.

    Merged rows are freed together. So a merge may span at most a quarter of the time that the store reaches back
    (`reach`, in microseconds; None is unlimited), or, of rows that are kept for longer since a partner has no newer
    ones, a quarter of their age: then garbage stays within a quarter of what is kept.
    """
    tiers: dict[tuple[StoreId, int], list[Bucket]] = defaultdict(list)
    newest: dict[StoreId, int] = {}
    epochs: dict[int, int] = defaultdict(int)
    for bucket in buckets:
        if bucket.store in reach:
            tiers[bucket.store, int(log(max(bucket.rows, 1), FAN_IN))].append(bucket)
            newest[bucket.store] = max(bucket.max_time, newest.get(bucket.store, bucket.max_time))
            epochs[bucket.epoch] += bucket.bytes
    left = max(BATCH_BYTES, _AMPLIFICATION * epochs[max(epochs)]) if epochs else 0
    chosen: list[tuple[str, ...]] = []
    # The smallest first: they are the most, and cost the least.
    for (store, _), tier in sorted(tiers.items(), key=lambda item: (item[0][1], item[0][0])):
        for run in _runs(tier, reach[store], newest[store]):
            size = sum(bucket.bytes for bucket in run)
            if size > left and chosen:
                return tuple(chosen)
            left -= size
            chosen.append(tuple(bucket.path for bucket in run))
    return tuple(chosen)


def _runs(tier: list[Bucket], reach: int | None, newest: int) -> Iterator[list[Bucket]]:
    """Buckets in a row, the oldest first, that are enough, and span little enough time and bytes together."""
    tier = sorted(tier, key=lambda bucket: bucket.min_time)
    run: list[Bucket] = []
    at = 0
    while at < len(tier):
        run = _run(tier[at : at + MOST_TOGETHER], reach, newest)
        if len(run) >= FAN_IN:
            yield run
        at += len(run) if len(run) >= FAN_IN else 1


def _run(tier: list[Bucket], reach: int | None, newest: int) -> list[Bucket]:
    """As many from the first on as may be merged."""
    begin, end, size = tier[0].min_time, tier[0].max_time, 0
    for at, bucket in enumerate(tier):
        end, size = max(end, bucket.max_time), size + bucket.bytes
        too_long = reach is not None and end - begin > max(reach, newest - end) // 4
        if too_long or size > GROUP_BYTES:
            return tier[:at]
    return tier
