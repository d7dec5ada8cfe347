"""Access to the manifests of all batches whose results are kept.

The latest manifests are in memory and older ones are read on demand, so memory does not grow with the result log.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import overload

from weft.errors import ResultsGone, StateCorrupt
from weft.storage.journal import Manifest

LATEST = 64
"""Size of the cache of the latest manifests, and of the cache of manifests recently read from disk."""


class Manifests(Sequence[Manifest]):
    """The manifests of batches first … last − 1, in order. Each is read when it is accessed; any thread may read."""

    def __init__(self, log: ManifestLog, first: int, last: int) -> None:
        self._log, self.first, self.last = log, first, max(first, last)

    def __len__(self) -> int:
        return self.last - self.first

    @property
    def batches(self) -> range:
        """The numbers of the batches. Reads no manifest."""
        return range(self.first, self.last)

    @overload
    def __getitem__(self, at: int) -> Manifest: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Manifest]: ...
    def __getitem__(self, at: int | slice) -> Manifest | Sequence[Manifest]:
        if isinstance(at, slice):
            begin, end, step = at.indices(len(self))
            return Manifests(self._log, self.first + begin, self.first + end) if step == 1 else list(self)[at]
        if not -len(self) <= at < len(self):
            raise IndexError(at)
        return self._log.read(self.first + at % len(self))

    def __iter__(self) -> Iterator[Manifest]:
        return (self._log.read(batch) for batch in range(self.first, self.last))


class ManifestLog:
    """The manifests of all batches whose results are kept. `read` reads the manifest of a batch from disk."""

    def __init__(self, read: Callable[[int], Manifest]) -> None:
        self._on_disk = read
        self._lock = threading.Lock()
        self._latest: OrderedDict[int, Manifest] = OrderedDict()
        self._lately: OrderedDict[int, Manifest] = OrderedDict()
        self.first = 0
        """The first batch whose results are kept."""
        self.following = 0
        """The batch after the last committed one."""

    def begin(self, first: int, following: int) -> None:
        """Set the range of kept batches after a restart: first … following − 1."""
        self.first, self.following = first, following

    def add(self, manifest: Manifest) -> None:
        """Add the manifest of a newly committed batch."""
        with self._lock:
            if self.first == self.following:
                self.first = manifest.batch
            self.following = manifest.batch + 1
            self._latest[manifest.batch] = manifest
            if len(self._latest) > LATEST:
                self._latest.popitem(last=False)

    def forget(self, before: int) -> None:
        """Drop the manifests of batches older than `before`, whose results are no longer kept."""
        with self._lock:
            self.first = min(max(self.first, before), self.following)
            for cache in (self._latest, self._lately):
                for batch in [batch for batch in cache if batch < self.first]:
                    del cache[batch]

    def between(self, first: int, last: int | None = None) -> Manifests:
        """Return the kept manifests among batches first … last − 1 (up to the latest if `last` is None)."""
        with self._lock:
            end = self.following if last is None else min(last, self.following)
            return Manifests(self, max(first, self.first), end)

    def read(self, batch: int) -> Manifest:
        """Return the manifest of a batch. Raise ResultsGone if the results of the batch are no longer kept."""
        with self._lock:
            for cache in (self._latest, self._lately):
                if batch in cache:
                    return cache[batch]
            if batch < self.first:
                raise self._gone(batch)
        try:
            manifest = self._on_disk(batch)
        except StateCorrupt as error:
            with self._lock:
                if batch < self.first:  # it was forgotten and removed meanwhile
                    raise self._gone(batch) from error
            raise
        with self._lock:
            if batch >= self.first:
                self._lately[batch] = manifest
                if len(self._lately) > LATEST:
                    self._lately.popitem(last=False)
        return manifest

    @staticmethod
    def _gone(batch: int) -> ResultsGone:
        return ResultsGone(
            f"results of batch {batch} are not kept any more", hint="Read faster, or keep results for longer."
        )
