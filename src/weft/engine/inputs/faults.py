"""Sources that cannot be read now: the reason, and when each is tried again."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Set
from dataclasses import dataclass

from weft.errors import WeftError

_log = logging.getLogger("weft")
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds before a failed source is tried again: after the first failure, and after many failures in a row."""


@dataclass(frozen=True, slots=True)
class _Fault:
    """A source that cannot be read now."""

    error: WeftError
    failures: int
    retry_at: float


class Faults:
    """The faults of streams. One thread at a time notes and forgets them; any thread may read them."""

    def __init__(self) -> None:
        self._found: dict[str, _Fault] = {}

    def __contains__(self, stream: str) -> bool:
        return stream in self._found

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._found))

    def note(self, stream: str, error: WeftError) -> None:
        """Note that a source has failed; it is tried again after a pause, which doubles with every failure in a row."""
        before = self._found.get(stream)
        failures = 1 if before is None else before.failures + 1
        pause = min(FIRST_PAUSE * 2 ** (failures - 1), LONGEST_PAUSE)
        self._found[stream] = _Fault(error, failures, time.monotonic() + pause)
        details = {"stream": stream, "failures": failures, "retry_seconds": pause, "code": error.code}
        _log.warning('stream "%s" cannot be read now: %s', stream, error.one_line(), extra=details)

    def forget(self, stream: str) -> None:
        """Forget the fault of a source that has recovered or was removed."""
        self._found.pop(stream, None)

    def keep_only(self, streams: Set[str]) -> None:
        """Forget the faults of streams that no query reads: nothing would notice that they have recovered."""
        for stream in self:
            if stream not in streams:
                self.forget(stream)

    def is_due(self, stream: str) -> bool:
        """Return whether a source may be tried: it has not failed, or the pause is over."""
        fault = self._found.get(stream)
        return fault is None or fault.retry_at <= time.monotonic()

    def clear(self) -> None:
        """Forget all faults, so that all sources are tried at once."""
        self._found.clear()

    def errors(self) -> dict[str, WeftError]:
        """Return why streams cannot be read now."""
        return {stream: fault.error for stream, fault in list(self._found.items())}
