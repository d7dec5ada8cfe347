"""The operations of an engine on streams: declare, drop, set a watermark back."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from datetime import datetime, timedelta
from typing import Any

from weft.engine.batches.batches import Batches
from weft.engine.catalog import Catalog
from weft.engine.core import Core
from weft.engine.inputs.declare import declare_stream
from weft.engine.inputs.inputs import Inputs
from weft.engine.inputs.stream_store import check_name
from weft.errors import WeftError
from weft.plan.stream import IDLE_TIMEOUT, MAX_AHEAD, FrameSource, Stream
from weft.spark.stream_frames import try_frame
from weft.sql import parse_duration

_log = logging.getLogger("weft")


class Declaring(ABC):
    """The part of an engine that deals with streams."""

    core: Core
    catalog: Catalog
    _inputs: Inputs
    _batches: Batches

    @abstractmethod
    def _check_open(self) -> None:
        """Raise EngineStopped if the engine was stopped."""

    def stream(
        self,
        name: str,
        source: Any,
        *,
        time: str,
        lateness: str | timedelta = "0 seconds",
        retain: str | timedelta | None = None,
        idle_timeout: str | timedelta = IDLE_TIMEOUT,
        max_ahead: str | timedelta | None = MAX_AHEAD,
    ) -> Stream:
        """Declare a stream from `weft.files(...)` or any streaming DataFrame, also while the engine runs.

        Declaring it again is harmless, and needed after a restart for DataFrames. After `idle_timeout` without rows,
        windows and joins do not wait for the stream. Rows farther ahead of this machine's clock than `max_ahead` are
        set aside and counted; None means no limit.
        """
        self._check_open()
        stream = declare_stream(
            check_name("stream", name),
            source,
            time=time,
            lateness=parse_duration(lateness),
            retain=None if retain is None else parse_duration(retain),
            idle_timeout=parse_duration(idle_timeout),
            max_ahead=None if max_ahead is None else parse_duration(max_ahead),
            existing=self.core.streams.get(name),
        )
        is_new = self.core.streams.get(name) != stream
        if isinstance(stream.source, FrameSource):
            if is_new:
                try_frame(name, source)
            self._inputs.frames.attached[name] = source
            self._inputs.lost.pop(name, None)
        if is_new:
            self.core.add_stream(stream)
            _log.info("stream declared", extra={"stream": name})
            for notice in stream.notices:
                _log.warning(notice, extra={"stream": name})
        return stream

    def drop_stream(self, name: str, *, cascade: bool = False) -> None:
        """Remove a stream, the rows read from it, and the results of ended queries over it.

        The call is refused while queries read the stream, unless `cascade` says to drop them, too.
        """
        self._check_open()
        if cascade:
            self.core.submit(drop=list(self.core.readers_of(name)))
        self._batches.between(lambda: self.core.drop_stream(name))
        self._inputs.forget(name)
        _log.info("stream dropped", extra={"stream": name})

    def set_watermark(self, stream: str, time: str | datetime) -> None:
        """Set back a stream's watermark that a row with a wrong time has moved too far; for administrators.

        From the next boundary on, rows from `time` on are not late. Queries that read the stream start over there, as
        if they were created now: rows from before the boundary meet none from after it. Windows that begin at `time` or
        later are reported when they close; windows that begin earlier are not. Reported results stay.
        """
        self._check_open()
        self.catalog.set_watermark(stream, time)

    def streams(self) -> tuple[Stream, ...]:
        """Return all declared streams."""
        return tuple(self.catalog.declared_streams().values())

    def lose_stream(self, name: str, error: WeftError) -> None:
        """Go on without a stream whose source cannot be opened; its queries wait until it is declared again."""
        self._inputs.lost[name] = error
        _log.error('stream "%s" is not read: %s', name, error.one_line(), extra={"stream": name})

    def stream_errors(self) -> dict[str, WeftError]:
        """Return why streams cannot be read now; they are tried again, and only the queries over them wait."""
        return self._inputs.faults()
