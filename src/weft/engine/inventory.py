"""What is on disk: buckets of the state, manifests of the result log, and who still needs which file."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from weft.optimize.weave import places_of
from weft.plan.changelog import LiveQuery, QueryId, Slots
from weft.plan.key import StoreId
from weft.plan.probes import StoredJoin
from weft.plan.stream import Stream
from weft.plan.window import to_micros
from weft.state.bucket import Bucket
from weft.state.compaction import choose_merges
from weft.state.directory import Directory
from weft.state.journal import Manifest
from weft.state.reach import Horizons, horizons, is_reachable

Live = Mapping[QueryId, LiveQuery]
_batch = attrgetter("batch")

_TRIMMED = "trimmed.json"


class Inventory:
    """Files and their meaning; a file goes when neither a live query nor a retained result can reach it."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self.buckets: dict[str, Bucket] = {}
        self.masks: dict[int, Slots] = {}
        """cl(e, now) per epoch e that still has rows: slots whose bits mean the same query today."""
        self.open: frozenset[str] = frozenset()
        """Files with rows or cells of sessions that have not ended."""
        self.closed: dict[tuple[str, ...], int] = {}
        """Up to where windows over some streams are ended."""
        self.results: list[Manifest] = []
        self.complete: dict[StoreId, Slots] = {}
        """Stores of intermediate results, and for which slots they have everything."""
        self._references: Counter[str] = Counter()
        self._let_go: tuple[str, ...] = ()
        """Files that intermediate results referred to which are there no more."""
        self._stores: dict[QueryId, tuple[StoreId, ...]] = {}

    def forget_meaning(self, changed: Slots) -> None:
        """The changelog-set of a boundary, ANDed into the changelog-set of every epoch (AStream eq. 4.2)."""
        self.masks = {epoch: Slots(mask & ~changed) for epoch, mask in self.masks.items()}
        self.complete = {store: Slots(slots & ~changed) for store, slots in self.complete.items()}

    def fold(self, manifest: Manifest, live: Slots) -> None:
        """Take in what a batch made; its rows were tagged for the slots `live`."""
        for path in manifest.merged_away:
            if path in self.buckets:
                refs = self.buckets.pop(path).refs
                self._references.subtract(refs)
                self._let_go = (*self._let_go, *refs)
        self.buckets |= {bucket.path: bucket for bucket in manifest.buckets}
        self._references.update(name for bucket in manifest.buckets for name in bucket.refs)
        self.complete = dict(manifest.complete)
        self.masks[manifest.batch] = live
        self.open = frozenset(manifest.open)
        self.closed |= dict(manifest.closed)
        self.add_result(manifest)

    def add_result(self, manifest: Manifest) -> None:
        """A batch whose results can be read."""
        self.results.append(manifest)
        self._references.update(manifest.result_files())

    def results_of(self, first: int, last: int | None = None) -> list[Manifest]:
        """Retained manifests of batches first … last − 1; the log is in order and may be long."""
        begin = bisect_left(self.results, first, key=_batch)
        return self.results[begin : None if last is None else bisect_left(self.results, last, lo=begin, key=_batch)]

    def merges(self, live: Live, streams: Mapping[str, Stream]) -> tuple[tuple[str, ...], ...]:
        """Small buckets that the next batch should merge."""
        reaches: dict[StoreId, int | None] = {}
        for store, limits in horizons(live.values(), self._places(live), dict.fromkeys(streams, 0), None).items():
            oldest = [limit for limit, _ in limits]
            reaches[store] = None if None in oldest else -min(limit for limit in oldest if limit is not None)
        return choose_merges(self.buckets.values(), reaches)

    def _places(self, live: Live) -> Mapping[QueryId, tuple[StoreId, ...]]:
        """The stores of each live query, worked out once: a query never changes its place."""
        self._stores = {query: self._stores.get(query) or places_of(each) for query, each in live.items()}
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
        gone = [b for b in self.buckets.values() if not self._is_needed(b, limits, streams[b.stream], max_times)]
        for bucket in gone:
            self._references.subtract(self.buckets.pop(bucket.path).refs)
        # What this plan does not want of a store for a query is gone, whatever the next plan wants.
        wanted = {each.id: each.slots for each in stored}
        self.complete = {at: Slots(slots & wanted[at]) for at, slots in self.complete.items() if at in wanted}
        epochs = {bucket.epoch for bucket in self.buckets.values()}
        self.masks = {epoch: mask for epoch, mask in self.masks.items() if epoch in epochs}
        merged = self.results[-1].merged_away if self.results else ()
        self._unlink([*(name for bucket in gone for name in (bucket.path, *bucket.refs)), *merged, *self._let_go])
        self._let_go = ()

    def _is_needed(self, bucket: Bucket, limits: Horizons, stream: Stream, max_times: Mapping[str, int]) -> bool:
        if bucket.path in self.open:
            return True
        newest = None if bucket.refs else max_times.get(stream.name)
        retained = None if stream.retain is None or newest is None else newest - to_micros(stream.retain)
        return is_reachable(bucket, self.masks.get(bucket.epoch, Slots(0)), limits, retained)

    def trim(self, before: int) -> None:
        """Forget the results of batches older than `before` and free what only they needed."""
        if self.results and self.results[0].batch < before:
            # Said before it is done: after a restart nobody may look for files that are gone.
            self._directory.write_json({"before": before}, _TRIMMED)
            self._forget_results(before)

    def trim_again(self) -> None:
        """After a restart: what was trimmed before."""
        if trimmed := self._directory.read_json(_TRIMMED):
            self._forget_results(trimmed["before"])

    def _forget_results(self, before: int) -> None:
        old = [manifest for manifest in self.results if manifest.batch < before]
        self.results = self.results[len(old) :]
        for manifest in old:
            files = manifest.result_files()
            self._references.subtract(files)
            self._unlink(files)
        self._references += Counter()

    def forget_incomplete(self) -> None:
        """After a restart: a plan of which nothing is left may have freed intermediate results that an older manifest
        still names. A store that lacks any is as good as none: it will be rebuilt if it is wanted."""
        made = [bucket for bucket in self.buckets.values() if bucket.refs]
        lacking = {each.store for each in made if not self._directory.path("data", *each.path.split("/")).exists()}
        for bucket in made:
            if bucket.store in lacking:
                self._references.subtract(self.buckets.pop(bucket.path).refs)
        self.complete = {store: slots for store, slots in self.complete.items() if store not in lacking}

    def remove(self, spent: Iterable[str]) -> None:
        """Remove files that were only for the stages of a batch that is committed."""
        self._unlink(spent)

    def _unlink(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.buckets and not self._references[name]:
                path = self._directory.path("data", *name.split("/"))
                path.unlink(missing_ok=True)
                try:
                    path.parent.rmdir()
                except OSError:
                    continue

    def remove_rubbish(self, next_batch: int) -> None:
        """Files that no manifest names are leftovers of batches that never were."""
        for batch, folder in self._directory.numbered("data"):
            if batch >= next_batch:
                self._directory.remove_tree("data", folder.name)
                continue
            for path in folder.iterdir():
                name = f"{folder.name}/{path.name}"
                if name not in self.buckets and not self._references[name]:
                    path.unlink(missing_ok=True)

    def to_json(self) -> dict[str, Any]:
        """As in a checkpoint; the result log has files of its own."""
        return {
            "buckets": [bucket.to_json() for bucket in self.buckets.values()],
            "masks": {str(epoch): hex(mask) for epoch, mask in self.masks.items()},
            "open": sorted(self.open),
            "closed": [[list(streams), until] for streams, until in self.closed.items()],
            "complete": {store: hex(slots) for store, slots in self.complete.items()},
        }

    def load(self, value: dict[str, Any]) -> None:
        """The inverse of `to_json`."""
        self.buckets = {bucket["path"]: Bucket.from_json(bucket) for bucket in value["buckets"]}
        self.masks = {int(epoch): Slots(int(mask, 16)) for epoch, mask in value["masks"].items()}
        self.open = frozenset(value.get("open", ()))
        self.closed = {tuple(streams): until for streams, until in value.get("closed", ())}
        self.complete = {StoreId(s): Slots(int(slots, 16)) for s, slots in value.get("complete", {}).items()}
        self._references.update(name for bucket in self.buckets.values() for name in bucket.refs)
