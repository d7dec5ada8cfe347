"""The available input: new files, waiting micro-batches of DataFrames, and sources that cannot be read now."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace

from weft.engine.core import Core
from weft.engine.inputs.faults import Faults
from weft.errors import DetachedStream, SourceUnavailable, StateCorrupt, WeftError
from weft.execution.input.listing import FileRef, Listing
from weft.execution.program import BatchInputs
from weft.plan.stream import FileSource, Stream
from weft.spark.errors import is_stopped_error
from weft.spark.stream_frames import AVAILABLE_NOW, ONE_BATCH, Arrival, Frames

_COMPARE_EVERY = 600.0
"""Seconds between two searches for removed files."""
_POLL = 0.02
_TOGETHER = "Restore the whole state directory from one copy, or drop the stream and declare it again."


@dataclass(frozen=True, slots=True)
class Offer:
    """The input that a batch can read, by stream."""

    files: Mapping[str, tuple[FileRef, ...]]
    arrivals: Mapping[str, Arrival]
    failing: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.files or self.arrivals)

    @property
    def streams(self) -> frozenset[str]:
        """The streams that have input."""
        return frozenset((*self.files, *self.arrivals))

    def without(self, streams: Set[str]) -> Offer:
        """Return the offer without some streams, which count as failing."""
        return replace(
            self,
            files={name: files for name, files in self.files.items() if name not in streams},
            arrivals={name: arrival for name, arrival in self.arrivals.items() if name not in streams},
            failing=self.failing | streams,
        )

    def to_inputs(self) -> BatchInputs:
        """Return the offer in the form that the tasks of a batch need."""
        return BatchInputs(
            files=tuple((name, tuple((f.name, f.bytes) for f in files)) for name, files in self.files.items()),
            offsets={name: arrival.number for name, arrival in self.arrivals.items()},
            failing=self.failing,
        )


@dataclass(slots=True)
class Inputs:
    """The inputs of an engine. One thread at a time looks for input; any thread may ask what has failed."""

    core: Core
    frames: Frames
    arrived: threading.Event
    """Set when a micro-batch of a DataFrame arrives."""
    _listings: dict[str, Listing] = field(default_factory=dict)
    _faults: Faults = field(default_factory=Faults)
    _compared: dict[str, float] = field(default_factory=dict)
    _trigger: str = ""
    _finished: set[str] = field(default_factory=set)
    """DataFrame streams that the trigger starts only once, and that have been started."""
    _frozen: bool = False
    lost: dict[str, WeftError] = field(default_factory=dict)
    """Streams that are not read because this process cannot open their source, and why."""
    _needed: frozenset[str] = frozenset()
    """The streams that queries read, as of the last look."""

    # ---- start and stop

    def start(self, trigger: str) -> None:
        """Start reading the streams that live queries need. Raises DetachedStream if a DataFrame is not attached."""
        self._trigger, self._finished, self._frozen = trigger, set(), False
        self._faults.clear()
        for listing in self._listings.values():
            listing.look_again()
        for stream in self.core.needed_streams().values():
            if not isinstance(stream.source, FileSource) and stream.name not in self.lost:
                self._attached(stream)
        self.look()
        self._frozen = trigger == AVAILABLE_NOW

    def stop(self) -> None:
        """Stop reading."""
        self.frames.stop_all()

    @property
    def is_exhausted(self) -> bool:
        """Whether all input that was there at the start ("available-now") has been offered."""
        return self._frozen and not self.frames.reading and not self.frames.arrivals()

    def forget(self, stream: str) -> None:
        """Forget a stream that was dropped."""
        self.frames.forget(stream)
        self._listings.pop(stream, None)
        self._faults.forget(stream)
        self._compared.pop(stream, None)
        self.lost.pop(stream, None)

    # ---- offers

    def look(self) -> Offer:
        """Return the input that a batch could read now."""
        needed = self.core.needed_streams()
        self._needed = frozenset(needed)
        self._take_failures()
        self._faults.keep_only(self._needed)
        files: dict[str, tuple[FileRef, ...]] = {}
        for name, stream in needed.items():
            if self._is_held_off(name):
                continue
            if isinstance(stream.source, FileSource):
                if new_files := self._new_files(stream, stream.source):
                    files[name] = new_files
            else:
                self._read_frame(stream)
                self._forgive_frame(name)
        for name in self.frames.reading.keys() - needed.keys():
            self.frames.stop(name)
        return Offer(files, self._new_arrivals(), frozenset((*self._faults, *self.lost)))

    def gather(self, seconds: float) -> None:
        """If a micro-batch has arrived, wait for DataFrames that still read, so that one batch has all rows."""
        deadline = time.monotonic() + seconds
        while self.frames.arrivals() and self._is_unsettled() and time.monotonic() < deadline:
            time.sleep(_POLL)

    def settle(self) -> None:
        """Wait until every DataFrame has delivered a micro-batch or has none, for a batch of all that is there."""
        while self._is_unsettled():
            time.sleep(_POLL)
        self._take_failures()

    def _is_unsettled(self) -> bool:
        arrived = self.frames.arrivals()
        return any(not reader.is_quiet for name, reader in list(self.frames.reading.items()) if name not in arrived)

    def still_there(self, offer: Offer) -> Offer:
        """Return an offer without the streams that were dropped meanwhile."""
        dropped = offer.streams - self.core.streams.keys()
        return offer.without(dropped) if dropped else offer

    def done(self, offer: Offer) -> None:
        """Mark the input of an offer as committed."""
        for name, files in offer.files.items():
            if name in self._listings:
                self._listings[name].forget(file.name for file in files)
        for arrival in offer.arrivals.values():
            self.frames.release(arrival)
        for name in offer.streams:
            self._faults.forget(name)

    def refuse(self, stream: str, error: WeftError) -> None:
        """Note that a source cannot be read now; it is tried again after a pause, and only its own queries wait."""
        self._faults.note(stream, error)
        if (arrival := self.frames.arrivals().get(stream)) is not None:
            self.frames.release(arrival, error)
        self.frames.stop(stream)
        if stream in self._listings:
            self._listings[stream].look_again()

    def faults(self) -> dict[str, WeftError]:
        """Return why streams cannot be read now."""
        return self._faults.errors() | dict(self.lost)

    @property
    def is_cut_off(self) -> bool:
        """Whether none of the streams that queries read can be read now; takes no lock."""
        return bool(self._needed) and all(name in self._faults or name in self.lost for name in self._needed)

    # ---- files

    def _new_files(self, stream: Stream, source: FileSource) -> tuple[FileRef, ...]:
        listing = self._listings.get(stream.name)
        if listing is None:
            listing = self._listings[stream.name] = Listing(source.path)
        try:
            if not self._frozen and listing.look(lambda name: self.core.files.is_read(stream.name, name)):
                self._compare(stream.name, listing)
        except OSError as error:
            self.refuse(stream.name, _unreadable(stream, error))
            return ()
        files = listing.next_files(most_files=source.max_files_per_batch)
        if not files and not self._frozen:
            self._faults.forget(stream.name)  # it can be listed, and no unreadable file is left
        return files

    def _compare(self, stream: str, listing: Listing) -> None:
        """Forget files that were removed, at most every `_COMPARE_EVERY` seconds."""
        now = time.time()
        if now - self._compared.get(stream, 0.0) > _COMPARE_EVERY:
            self._compared[stream] = now
            with self.core.lock:
                self.core.files.compare(stream, listing.present, now)

    # ---- DataFrames

    def _attached(self, stream: Stream) -> None:
        if stream.name not in self.frames.attached:
            raise DetachedStream(
                f'stream "{stream.name}" reads a DataFrame that is not attached',
                hint=f'Call engine.stream("{stream.name}", <the DataFrame>, time="{stream.time}") before start.',
            )

    def _read_frame(self, stream: Stream) -> None:
        if not self._trigger or stream.name in self._finished or stream.name in self.frames.reading:
            return
        try:
            self._attached(stream)
            _check_checkpoint(self.core, stream.name)
            self.frames.start(stream.name, self._trigger)
        except WeftError as error:
            self.refuse(stream.name, error)
        except Exception as error:
            if is_stopped_error(error):
                raise  # Spark was stopped; the source has not failed
            self.refuse(stream.name, _unreadable(stream, error))
        if self._trigger in (AVAILABLE_NOW, ONE_BATCH):
            self._finished.add(stream.name)

    def _forgive_frame(self, stream: str) -> None:
        """Forget the fault of a source that is read again and has nothing new, not even rows to commit."""
        reader = self.frames.reading.get(stream)
        if stream in self._faults and reader is not None and reader.found_nothing:
            self._faults.forget(stream)

    def _new_arrivals(self) -> dict[str, Arrival]:
        """Return the micro-batches whose rows are not committed."""
        # The last committed one may come again after a crash and is released. Only one is in flight at a time, so with
        # any other number Spark's checkpoint does not belong to the state directory.
        arrivals = {}
        for name, arrival in self.frames.arrivals().items():
            last = self.core.offsets.get(name)
            following = 0 if last is None else last + 1
            if arrival.number == last:
                self.frames.release(arrival)
            elif arrival.number != following:
                self.refuse(name, _apart(name, arrival.number, last))
            elif not self._is_held_off(name):
                arrivals[name] = arrival
        return arrivals

    def _take_failures(self) -> None:
        for name, reason in self.frames.failures().items():
            if self._faults.is_due(name):
                self.refuse(name, _failed(name, reason))

    def _is_held_off(self, name: str) -> bool:
        return name in self.lost or not self._faults.is_due(name)


def _check_checkpoint(core: Core, stream: str) -> None:
    """Raise StateCorrupt if Spark's checkpoint does not know the micro-batch that was committed last.

    With another checkpoint Spark would start over, and a committed number would stand for other rows.
    """
    last = core.offsets.get(stream)
    if last is not None and not core.directory.path("spark", stream, "offsets", str(last)).exists():
        raise StateCorrupt(
            f'Spark\'s checkpoint "spark/{stream}" in the state directory is missing, or is another one',
            detail=f"Micro-batch {last} of the stream is committed, and nothing in that folder says what it was.",
            hint=_TOGETHER,
        )


def _unreadable(stream: Stream, error: Exception) -> SourceUnavailable:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error).splitlines()[0][:500]
    where = f'directory "{stream.source.path}"' if isinstance(stream.source, FileSource) else "DataFrame"
    return SourceUnavailable(
        f'the {where} of stream "{stream.name}" cannot be read',
        detail=reason,
        hint="It is tried again; repair it, or drop the stream.",
    )


def _failed(stream: str, reason: str) -> SourceUnavailable:
    return SourceUnavailable(
        f'the source of stream "{stream}" has failed', detail=reason, hint="It is tried again; repair it meanwhile."
    )


def _apart(stream: str, number: int, last: int | None) -> StateCorrupt:
    return StateCorrupt(
        f'Spark is at micro-batch {number} of stream "{stream}" but the state directory has it up to {last}',
        detail=f"Spark's checkpoint \"spark/{stream}\" and weft's own files do not belong together.",
        hint=_TOGETHER,
    )
