"""What is on disk: buckets of the state, manifests of the result log, and who still needs which file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from weft.plan.changelog import LiveQuery, QueryId
from weft.plan.key import StoreId
from weft.plan.probe_tree import StoredJoin
from weft.plan.slots import Slots
from weft.plan.stream import Stream
from weft.plan.window import to_micros
from weft.storage.bucket import Bucket
from weft.storage.compaction import choose_merges
from weft.storage.data_folder import DataFolder
from weft.storage.directory import Directory
from weft.storage.journal import Journal, Manifest
from weft.storage.manifests import ManifestLog, Manifests
from weft.storage.reachability import Horizons, horizons, is_reachable

Live = Mapping[QueryId, LiveQuery]
_TRIMMED_AT_ONCE = 1000
"""Batches."""


class Inventory:
    """Files and their meaning; a file goes when neither a live query nor a retained result can reach it."""

    def __init__(self, directory: Directory, journal: Journal) -> None:
        self.folder = DataFolder(directory)
        self._journal = journal
        self.buckets: dict[str, Bucket] = {}
        self.masks: dict[int, Slots] = {}
        """cl(e, now) per epoch e that still has rows: slots whose bits mean the same query today."""
        self.open: frozenset[str] = frozenset()
        """Files with rows or cells of sessions that have not ended."""
        self.closed: dict[tuple[str, ...], int] = {}
        """Up to where windows over some streams are ended."""
        self._log = ManifestLog(journal.read_manifest)
        self.complete: dict[StoreId, Slots] = {}
        """Stores of intermediate results, and for which slots they have everything."""
        self._references: Counter[str] = Counter()
        """Files that intermediate results of the state refer to."""
        self._needed: dict[str, int] = {}
        """Of files that the state needs: the last batch whose results need them, too."""
        self._freed: dict[str, None] = {}
        """Files of buckets that nobody can reach any more: they go when the next manifest has said so."""
        self._stores: dict[QueryId, tuple[StoreId, ...]] = {}

    def forget_meaning(self, changed: Slots) -> None:
        """The changelog-set of a boundary, ANDed into the changelog-set of every epoch (AStream eq. 4.2)."""
        self.masks = {epoch: Slots(mask & ~changed) for epoch, mask in self.masks.items()}
        self.complete = {store: Slots(slots & ~changed) for store, slots in self.complete.items()}

    def reopen(self, streams: Iterable[str]) -> None:
        """Windows over these streams may end at earlier times again: their watermarks were set back."""
        for stream in streams:
            self.closed = {names: until for names, until in self.closed.items() if stream not in names}

    def fold(self, manifest: Manifest, live: Slots) -> list[str]:
        """Take in what a batch made; its rows were tagged for the slots `live`. Returns the files that nobody needs any
        more, which are to be removed when the core's lock is not held."""
        self._needed |= dict.fromkeys(filter(self._is_alive, manifest.result_files()), manifest.batch)
        left = [*self._remove_buckets((*manifest.merged_away, *manifest.freed)), *manifest.freed]
        self._freed = {path: None for path in self._freed if path not in set(manifest.freed)}
        self.buckets |= {bucket.path: bucket for bucket in manifest.buckets}
        self._references.update(name for bucket in manifest.buckets for name in bucket.refs)
        self._needed |= dict.fromkeys(filter(self._is_alive, manifest.result_files()), manifest.batch)
        self.complete = dict(manifest.complete)
        self.masks[manifest.batch] = live
        self.open = frozenset(manifest.open)
        self.closed = dict(manifest.closed)  # of the live queries' streams: others' rows are older than any new query
        self._log.add(manifest)
        return self._leave(left)

    def _is_alive(self, path: str) -> bool:
        """Whether the state needs a file."""
        return path in self.buckets or self._references[path] > 0

    def _remove_buckets(self, paths: Iterable[str]) -> list[str]:
        """Take buckets out of the state; returns their files and those they refer to."""
        left = []
        for path in paths:
            if path in self.buckets:
                refs = self.buckets.pop(path).refs
                self._references.subtract(refs)
                left += [path, *refs]
        return left

    def _leave(self, paths: Iterable[str]) -> list[str]:
        """Files have left the state, durably: returns what no results need; the rest goes with those results."""
        dead = (path for path in dict.fromkeys(paths) if not self._is_alive(path))
        gone = [path for path in dead if self._needed.pop(path, -1) < self._log.first]
        self._references += Counter()
        return gone

    # ---- results

    @property
    def results(self) -> Manifests:
        """The manifests of all batches whose results are kept."""
        return self._log.between(0)

    @property
    def first_result(self) -> int | None:
        """The first batch whose results are kept; None if there is none."""
        return self._log.first if self._log.first < self._log.following else None

    def results_of(self, first: int, last: int | None = None) -> Manifests:
        """Retained manifests of batches first … last − 1; those of long ago are read from the disk, one by one."""
        return self._log.between(first, last)

    def merges(self, live: Live, streams: Mapping[str, Stream]) -> tuple[tuple[str, ...], ...]:
        """Small buckets that the next batch should merge."""
        reaches: dict[StoreId, int | None] = {}
        for store, limits in horizons(live.values(), self._places(live), dict.fromkeys(streams, 0), None).items():
            oldest = [limit for limit, _ in limits]
            reaches[store] = None if None in oldest else -min(limit for limit in oldest if limit is not None)
        return choose_merges(self.buckets.values(), reaches)

    def _places(self, live: Live) -> Mapping[QueryId, tuple[StoreId, ...]]:
        """The stores of each live query, worked out once: a query never changes its place."""
        self._stores = {query: self._stores.get(query) or _places(each) for query, each in live.items()}
        return self._stores

    # ---- garbage

    def collect(
        self,
        live: Live,
        streams: Mapping[str, Stream],
        max_times: Mapping[str, int],
        *,
        stored: Sequence[StoredJoin] = (),
    ) -> None:
        """Free the buckets that no live query, no plan (`stored`) and no retain period can reach any more."""
        watermarks = {name: newest - to_micros(streams[name].lateness) for name, newest in max_times.items()}
        limits = horizons(live.values(), self._places(live), watermarks, self.closed, stored=stored)
        gone = [b for b in self.buckets.values() if not self._is_needed(b, limits, streams.get(b.stream), max_times)]
        left = self._remove_buckets([bucket.path for bucket in gone])
        self._freed |= dict.fromkeys(path for path in left if not self._is_alive(path))
        # What this plan does not want of a store for a query is gone, whatever the next plan wants.
        wanted = {each.id: each.slots for each in stored}
        self.complete = {at: Slots(slots & wanted[at]) for at, slots in self.complete.items() if at in wanted}
        epochs = {bucket.epoch for bucket in self.buckets.values()}
        self.masks = {epoch: mask for epoch, mask in self.masks.items() if epoch in epochs}

    @property
    def freed(self) -> tuple[str, ...]:
        """What the next manifest has to say: which buckets are not in the state any more. Their files are there until
        then, since a restart before it may find them in reach again."""
        return tuple(self._freed)

    def _is_needed(self, bucket: Bucket, limits: Horizons, stream: Stream | None, max_times: Mapping[str, int]) -> bool:
        if stream is None:  # it was dropped
            return False
        if bucket.path in self.open:
            return True
        newest = None if bucket.refs else max_times.get(stream.name)
        retained = None if stream.retain is None or newest is None else newest - to_micros(stream.retain)
        return is_reachable(bucket, self.masks.get(bucket.epoch, Slots(0)), limits, retained)

    def trim(self, before: int) -> None:
        """Forget the results of batches older than `before` and free what only they needed."""
        before = min(before, self._log.following)
        while self._log.first < before:
            some = min(before, self._log.first + _TRIMMED_AT_ONCE)
            files = [path for manifest in self._log.between(0, some) for path in self._files_until(manifest)]
            # Said before it is done: after a restart nobody may look for files that are gone.
            self._journal.trim(max(some, self._journal.trimmed))
            self._log.forget(some)
            self.folder.remove(files)

    def _files_until(self, manifest: Manifest) -> list[str]:
        """Files that are there until the results of a batch go: its own, and what has left the state with it."""
        files = dict.fromkeys((*manifest.own_files(), *manifest.merged_away, *manifest.freed))
        lasting = set(manifest.lasting)
        return [path for path in files if path not in lasting and not self._is_alive(path)]

    def lasting(self, manifest: Manifest) -> tuple[str, ...]:
        """Files that a batch merges away, and that intermediate results refer to after it: results of later batches
        may need them, until what refers to them is freed."""
        after = self._references.copy()
        for path in (*manifest.merged_away, *manifest.freed):
            if path in self.buckets:
                after.subtract(self.buckets[path].refs)
        after.update(name for bucket in manifest.buckets for name in bucket.refs)
        return tuple(path for path in manifest.merged_away if after[path] > 0)

    def begin(self, first: int, next_batch: int) -> None:
        """After a restart: batches first … next_batch − 1 are those whose results are kept."""
        self._log.begin(first, next_batch)

    def small_files(self, manifest: Manifest) -> list[str]:
        """Files that go when the results of a batch do, and need no place of their own until then."""
        return [path for path in self._files_until(manifest) if path not in self._freed]

    def remove_attempt(self, batch: int, attempt: str) -> None:
        """Remove the files of an attempt at a batch that failed."""
        self.folder.remove_attempt(batch, attempt)

    def to_json(self) -> dict[str, Any]:
        """As in a checkpoint; the result log has files of its own."""
        return {
            "buckets": [bucket.to_json() for bucket in self.buckets.values()],
            "masks": {str(epoch): hex(mask) for epoch, mask in self.masks.items()},
            "open": sorted(self.open),
            "closed": [[list(streams), until] for streams, until in self.closed.items()],
            "complete": {store: hex(slots) for store, slots in self.complete.items()},
            "needed": {path: batch for path, batch in self._needed.items() if batch >= self._log.first},
            "freed": self.freed,
        }

    def load(self, value: dict[str, Any]) -> None:
        """The inverse of `to_json`."""
        self.buckets = {bucket["path"]: Bucket.from_json(bucket) for bucket in value["buckets"]}
        self.masks = {int(epoch): Slots(int(mask, 16)) for epoch, mask in value["masks"].items()}
        self.open = frozenset(value.get("open", ()))
        self.closed = {tuple(streams): until for streams, until in value.get("closed", ())}
        self.complete = {StoreId(s): Slots(int(slots, 16)) for s, slots in value.get("complete", {}).items()}
        self._references.update(name for bucket in self.buckets.values() for name in bucket.refs)
        self._needed = dict(value["needed"])
        self._freed = dict.fromkeys(value["freed"])


def _places(live: LiveQuery) -> tuple[StoreId, ...]:
    """As its record has them: what is on disk must not be out of reach because this release would call it otherwise."""
    return tuple(map(StoreId, live.record.stores)) or live.strategy.stores
