"""The choice of small buckets to merge: size-tiered compaction, as in a log-structured merge tree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from math import log

from weft.plan.key import StoreId
from weft.storage.bucket import Bucket

FAN_IN = 8
"""Number of buckets of one size class that triggers a merge."""
MOST_TOGETHER = 64
"""Maximum number of buckets in one merge. Many tasks may write many small buckets in each batch."""
GROUP_BYTES = 512 << 20
"""Maximum total size of one merge. Merging larger buckets takes long and gains little."""
BATCH_BYTES = 1 << 30
"""Bytes to merge in one batch. Large batches merge more (`_AMPLIFICATION` times their size), to keep up."""
_AMPLIFICATION = 4


def choose_merges(buckets: Iterable[Bucket], reach: Mapping[StoreId, int | None]) -> tuple[tuple[str, ...], ...]:
    """Return groups of bucket files to merge, within the byte budget of a batch.

    Merged rows are freed together, so a merge may span at most a quarter of the time that the store reaches back
    (`reach`, in microseconds; None is unlimited). Where rows are kept for longer because a joined stream has no newer
    rows, a merge may span a quarter of their age. This bounds garbage to a quarter of what is kept.
    """
    tiers: dict[tuple[StoreId, int], list[Bucket]] = defaultdict(list)
    newest: dict[StoreId, int] = {}
    epoch_bytes: dict[int, int] = defaultdict(int)
    for bucket in buckets:
        if bucket.store in reach:
            tiers[bucket.store, int(log(max(bucket.rows, 1), FAN_IN))].append(bucket)
            newest[bucket.store] = max(bucket.max_time, newest.get(bucket.store, bucket.max_time))
            epoch_bytes[bucket.epoch] += bucket.bytes
    left = max(BATCH_BYTES, _AMPLIFICATION * epoch_bytes[max(epoch_bytes)]) if epoch_bytes else 0
    chosen: list[tuple[str, ...]] = []
    # Smallest first: small buckets are the most numerous and the cheapest to merge.
    for (store, _), tier in sorted(tiers.items(), key=lambda item: (item[0][1], item[0][0])):
        for run in _runs(tier, reach[store], newest[store]):
            size = sum(bucket.bytes for bucket in run)
            if size > left and chosen:
                return tuple(chosen)
            left -= size
            chosen.append(tuple(bucket.path for bucket in run))
    return tuple(chosen)


def _runs(tier: list[Bucket], reach: int | None, newest: int) -> Iterator[list[Bucket]]:
    """Yield runs of consecutive buckets, oldest first: at least `FAN_IN` each, within the limits on time and bytes."""
    tier = sorted(tier, key=lambda bucket: bucket.min_time)
    run: list[Bucket] = []
    at = 0
    while at < len(tier):
        run = _run(tier[at : at + MOST_TOGETHER], reach, newest)
        if len(run) >= FAN_IN:
            yield run
        at += len(run) if len(run) >= FAN_IN else 1


def _run(tier: list[Bucket], reach: int | None, newest: int) -> list[Bucket]:
    """Return the longest prefix of `tier` that may be merged."""
    begin, end, size = tier[0].min_time, tier[0].max_time, 0
    for at, bucket in enumerate(tier):
        end, size = max(end, bucket.max_time), size + bucket.bytes
        too_long = reach is not None and end - begin > max(reach, newest - end) // 4
        if too_long or size > GROUP_BYTES:
            return tier[:at]
    return tier
