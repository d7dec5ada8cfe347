"""The state that each live query makes the engine keep, in bytes."""

from __future__ import annotations

from collections import Counter

from weft.engine.core import Core
from weft.plan.changelog import QueryId
from weft.storage.bucket import Bucket
from weft.storage.reachability import Horizons, horizons


def state_bytes(core: Core) -> dict[QueryId, float]:
    """Return the bytes of join and aggregate state that each live query needs; shared bytes are divided equally.

    A query needs a file while it can still reach a row in it. So only queries with long windows are
    charged for files that queries with shorter windows no longer reach.
    """
    stored = core.plan.probes.stored
    with core.lock:
        buckets, masks = list(core.inventory.buckets.values()), dict(core.inventory.masks)
        open_, closed = core.inventory.open, dict(core.inventory.closed)
        live, watermarks = dict(core.roster.live), core.watermarks()
    places = {query: entry.stores for query, entry in live.items()}
    limits = horizons(live.values(), places, watermarks, closed, stored=stored)
    sizes: Counter[int] = Counter()
    for bucket in buckets:
        meaning = masks.get(bucket.epoch, 0) & bucket.slots
        needed = meaning if bucket.path in open_ else meaning & _reaching(bucket, limits)
        sizes[needed] += bucket.bytes
    shares: dict[QueryId, float] = dict.fromkeys(live, 0.0)
    for needed, size in sizes.items():
        users = [query for query, entry in live.items() if needed >> entry.slot & 1]
        for query in users:
            shares[query] += size / len(users)
    return shares


def _reaching(bucket: Bucket, limits: Horizons) -> int:
    """Return the slots that can still reach a row of a bucket."""
    reaching = 0
    for oldest, slots in limits.get(bucket.store, ()):
        if oldest is None or bucket.max_time >= oldest:
            reaching |= slots
    return reaching
