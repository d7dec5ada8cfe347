"""Who is at fault when a batch fails: a source that cannot be read, or a query."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.engine.attempts import Attempts
from weft.engine.core import Core
from weft.engine.culprit import find_culprit
from weft.engine.inputs import Offer
from weft.errors import BadFile, SourceUnavailable, WeftError
from weft.plan.changelog import LiveQuery
from weft.plan.stream import FileSource
from weft.runtime.job import BatchRunner


def failing_sources(core: Core, runner: BatchRunner, offer: Offer, error: WeftError) -> dict[str, WeftError]:
    """The streams whose rows cannot be had, with the reasons."""
    if isinstance(error, SourceUnavailable):
        named = [name for name in offer.streams if f'stream "{name}"' in error.message]
        if named:
            return dict.fromkeys(named, error)
    if isinstance(error, BadFile):
        return {name: error for name in offer.files if f'"{_path_of(core, name)}/' in error.message}
    found: dict[str, WeftError] = {}
    for name, arrival in offer.arrivals.items():
        if reason := runner.source_error(arrival.frame):
            found[name] = SourceUnavailable(f'the source of stream "{name}" has failed', detail=reason)
    return found


def _path_of(core: Core, stream: str) -> str:
    source = core.streams[stream].source
    return source.path.rstrip("/") if isinstance(source, FileSource) else ""


def failing_query(
    core: Core, attempts: Attempts, offer: Offer, *, partitions: int, limit: float, check: Callable[[], None]
) -> LiveQuery | None:
    """The one query without which the batch would not fail, found by running it for some of the queries only.

    A trial may take `limit` seconds; `check` is called before each, and ends the search by raising.
    """

    def fails(queries: Sequence[LiveQuery]) -> bool:
        check()
        inputs = offer.to_inputs()
        program, task = core.trial(core.next_batch, partitions=partitions, inputs=inputs, queries=queries)
        try:
            attempts.run(offer, program, task, limit=limit)
        except Exception:
            return True
        finally:
            attempts.end(task, keep=False)
        return False

    with core.lock:
        live = list(core.roster.live.values())
    return find_culprit(live, fails)
