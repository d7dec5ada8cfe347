"""The files on disk: buckets of the state, manifests of the result log, and what still needs each file."""

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
"""Maximum number of batches that are trimmed in one step."""


class Inventory:
    """All files and their meaning. A file is removed when neither a live query nor a kept result can reach it."""

    def __init__(self, directory: Directory, journal: Journal) -> None:
        self.folder = DataFolder(directory)
        self._journal = journal
        self.buckets: dict[str, Bucket] = {}
        self.masks: dict[int, Slots] = {}
        """cl(e, now) for each epoch e that still has rows: the slots whose bits still mean the same query."""
        self.open: frozenset[str] = frozenset()
        """Files with rows or cells of sessions that are still open."""
        self.closed: dict[tuple[str, ...], int] = {}
        """By set of streams, the event time up to which windows are closed."""
        self._log = ManifestLog(journal.read_manifest)
        self.complete: dict[StoreId, Slots] = {}
        """Stored joins, and the slots for which each contains all combinations."""
        self._references: Counter[str] = Counter()
        """Files to which stored joins of the state refer, with the number of buckets that do."""
        self._needed: dict[str, int] = {}
        """For each file that both the state and results need: the last batch whose results need it."""
        self._freed: dict[str, None] = {}
        """Files of unreachable buckets. They are removed after the next manifest has named them."""
        self._stores: dict[QueryId, tuple[StoreId, ...]] = {}

    def forget_meaning(self, changed: Slots) -> None:
        """Remove the slots that changed at a boundary from the changelog-set of every epoch (AStream eq. 4.2)."""
        self.masks = {epoch: Slots(mask & ~changed) for epoch, mask in self.masks.items()}
        self.complete = {store: Slots(slots & ~changed) for store, slots in self.complete.items()}

    def reopen(self, streams: Iterable[str]) -> None:
        """Forget up to where windows over these streams are closed, because their watermarks were set back."""
        for stream in streams:
            self.closed = {names: until for names, until in self.closed.items() if stream not in names}

    def fold(self, manifest: Manifest, live: Slots) -> list[str]:
        """Apply the manifest of a batch whose rows were tagged for the slots `live`. Return the files that are unneeded
        now; the caller removes them when the core's lock is not held."""
        self._needed |= dict.fromkeys(filter(self._is_alive, manifest.result_files()), manifest.batch)
        removed = [*self._remove_buckets((*manifest.merged_away, *manifest.freed)), *manifest.freed]
        self._freed = {path: None for path in self._freed if path not in set(manifest.freed)}
        self.buckets |= {bucket.path: bucket for bucket in manifest.buckets}
        self._references.update(name for bucket in manifest.buckets for name in bucket.refs)
        self._needed |= dict.fromkeys(filter(self._is_alive, manifest.result_files()), manifest.batch)
        self.complete = dict(manifest.complete)
        self.masks[manifest.batch] = live
        self.open = frozenset(manifest.open)
        # Only the live queries' sets of streams: rows of others are older than any query that may begin later.
        self.closed = dict(manifest.closed)
        self._log.add(manifest)
        return self._leave(removed)

    def _is_alive(self, path: str) -> bool:
        """Return whether the state needs a file."""
        return path in self.buckets or self._references[path] > 0

    def _remove_buckets(self, paths: Iterable[str]) -> list[str]:
        """Remove buckets from the state. Return their files and the files to which they refer."""
        files = []
        for path in paths:
            if path in self.buckets:
                refs = self.buckets.pop(path).refs
                self._references.subtract(refs)
                files += [path, *refs]
        return files

    def _leave(self, paths: Iterable[str]) -> list[str]:
        """Of files that left the state durably, return those that no results need. `trim` removes the others."""
        dead = (path for path in dict.fromkeys(paths) if not self._is_alive(path))
        unneeded = [path for path in dead if self._needed.pop(path, -1) < self._log.first]
        self._references += Counter()  # drops counts of zero
        return unneeded

    # ---- results

    @property
    def results(self) -> Manifests:
        """The manifests of all batches whose results are kept."""
        return self._log.between(0)

    @property
    def first_result(self) -> int | None:
        """The first batch whose results are kept; None if no results are kept."""
        return self._log.first if self._log.first < self._log.following else None

    def results_of(self, first: int, last: int | None = None) -> Manifests:
        """Return the kept manifests of batches first … last − 1. Older ones are read from disk one by one."""
        return self._log.between(first, last)

    def merges(self, live: Live, streams: Mapping[str, Stream]) -> tuple[tuple[str, ...], ...]:
        """Return groups of small buckets that the next batch should merge."""
        reaches: dict[StoreId, int | None] = {}
        for store, limits in horizons(live.values(), self._places(live), dict.fromkeys(streams, 0), None).items():
            oldest = [limit for limit, _ in limits]
            reaches[store] = None if None in oldest else -min(limit for limit in oldest if limit is not None)
        return choose_merges(self.buckets.values(), reaches)

    def _places(self, live: Live) -> Mapping[QueryId, tuple[StoreId, ...]]:
        """Return the stores of each live query, computed once per query, since they never change."""
        self._stores = {query: self._stores.get(query) or live_query.stores for query, live_query in live.items()}
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
        """Free the buckets that no live query, stored join of the plan (`stored`) or retain period can reach."""
        watermarks = {name: newest - to_micros(streams[name].lateness) for name, newest in max_times.items()}
        limits = horizons(live.values(), self._places(live), watermarks, self.closed, stored=stored)
        garbage = [b for b in self.buckets.values() if not self._is_needed(b, limits, streams.get(b.stream), max_times)]
        files = self._remove_buckets([bucket.path for bucket in garbage])
        self._freed |= dict.fromkeys(path for path in files if not self._is_alive(path))
        # Combinations that this plan does not store for a query are missing in later plans that store them again.
        kept = {join.id: join.slots for join in stored}
        self.complete = {store: Slots(slots & kept[store]) for store, slots in self.complete.items() if store in kept}
        epochs = {bucket.epoch for bucket in self.buckets.values()}
        self.masks = {epoch: mask for epoch, mask in self.masks.items() if epoch in epochs}

    @property
    def freed(self) -> tuple[str, ...]:
        """The files of unreachable buckets, which the next manifest names. They stay until then, since a restart before
        that manifest may find them reachable again."""
        return tuple(self._freed)

    def _is_needed(self, bucket: Bucket, limits: Horizons, stream: Stream | None, max_times: Mapping[str, int]) -> bool:
        if stream is None:  # the stream was dropped
            return False
        if bucket.path in self.open:
            return True
        newest = None if bucket.refs else max_times.get(stream.name)
        retained = None if stream.retain is None or newest is None else newest - to_micros(stream.retain)
        return is_reachable(bucket, self.masks.get(bucket.epoch, Slots(0)), limits, retained)

    def trim(self, before: int) -> None:
        """Forget the results of batches older than `before`, and remove the files that only they needed."""
        before = min(before, self._log.following)
        while self._log.first < before:
            end = min(before, self._log.first + _TRIMMED_AT_ONCE)
            files = [path for manifest in self._log.between(0, end) for path in self._files_until(manifest)]
            # Recorded before the files are removed: after a restart, nothing may look for missing files.
            self._journal.trim(max(end, self._journal.trimmed))
            self._log.forget(end)
            self.folder.remove(files)

    def _files_until(self, manifest: Manifest) -> list[str]:
        """Return the files to remove with the results of a batch: its own, and those that left the state with it."""
        files = dict.fromkeys((*manifest.own_files(), *manifest.merged_away, *manifest.freed))
        lasting = set(manifest.lasting)
        return [path for path in files if path not in lasting and not self._is_alive(path)]

    def lasting(self, manifest: Manifest) -> tuple[str, ...]:
        """Return the files that a batch merges away and to which stored joins still refer. Results of later batches may
        need them until the buckets of the stored joins are freed."""
        after = self._references.copy()
        for path in (*manifest.merged_away, *manifest.freed):
            if path in self.buckets:
                after.subtract(self.buckets[path].refs)
        after.update(name for bucket in manifest.buckets for name in bucket.refs)
        return tuple(path for path in manifest.merged_away if after[path] > 0)

    def begin(self, first: int, next_batch: int) -> None:
        """Set the range of batches whose results are kept, after a restart: first … next_batch − 1."""
        self._log.begin(first, next_batch)

    def small_files(self, manifest: Manifest) -> list[str]:
        """Return the files to remove with the results of a batch, which may be packed with its manifest until then."""
        return [path for path in self._files_until(manifest) if path not in self._freed]

    def remove_attempt(self, batch: int, attempt: str) -> None:
        """Remove the files of a failed attempt at a batch."""
        self.folder.remove_attempt(batch, attempt)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON value for a checkpoint. The result log is not part of it: it has files of its own."""
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
        """Restore the state from the output of `to_json`."""
        self.buckets = {bucket["path"]: Bucket.from_json(bucket) for bucket in value["buckets"]}
        self.masks = {int(epoch): Slots(int(mask, 16)) for epoch, mask in value["masks"].items()}
        self.open = frozenset(value.get("open", ()))
        self.closed = {tuple(streams): until for streams, until in value.get("closed", ())}
        self.complete = {StoreId(s): Slots(int(slots, 16)) for s, slots in value.get("complete", {}).items()}
        self._references.update(name for bucket in self.buckets.values() for name in bucket.refs)
        self._needed = dict(value["needed"])
        self._freed = dict.fromkeys(value["freed"])
