"""What each live query makes the engine keep."""

from __future__ import annotations

from collections import Counter

from weft.engine.core import Core
from weft.plan.changelog import QueryId
from weft.storage.bucket import Bucket
from weft.storage.reachability import Horizons, horizons


def state_bytes(core: Core) -> dict[QueryId, float]:
    """Bytes of the state of joins and aggregates that each live query needs; what several need is divided among them.

    A query needs a file while it can still reach some row of it, so one with a long window pays alone for what only it
    keeps, whoever else had those rows in a shorter one.
    """
    stored = core.plan.probes.stored
    with core.lock:
        buckets, masks = list(core.inventory.buckets.values()), dict(core.inventory.masks)
        open_, closed = core.inventory.open, dict(core.inventory.closed)
        live, watermarks = dict(core.roster.live), core.watermarks()
    places = {query: each.strategy.stores for query, each in live.items()}
    limits = horizons(live.values(), places, watermarks, closed, stored=stored)
    sizes: Counter[int] = Counter()
    for bucket in buckets:
        meaning = masks.get(bucket.epoch, 0) & bucket.slots
        needed = meaning if bucket.path in open_ else meaning & _reaching(bucket, limits)
        sizes[needed] += bucket.bytes
    taken: dict[QueryId, float] = dict.fromkeys(live, 0.0)
    for needed, size in sizes.items():
        users = [query for query, each in live.items() if needed >> each.slot & 1]
        for query in users:
            taken[query] += size / len(users)
    return taken


def _reaching(bucket: Bucket, limits: Horizons) -> int:
    """Slots that can still reach a row of a bucket."""
    found = 0
    for oldest, slots in limits.get(bucket.store, ()):
        if oldest is None or bucket.max_time >= oldest:
            found |= slots
    return found
