"""A state directory with the files that are beside those of batches: what was read, how old it is, added streams."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.engine_alone import Alone
from tests.support.engine_sample import reports_of, rows
from weft.engine.results.retention import keep
from weft.execution.program import BatchInputs
from weft.service.added_streams import read_added, write_added
from weft.service.config import StreamSpec

BATCHES, MORE = 4, 2
QUERY = "SELECT x FROM a"
_ADDED = (
    StreamSpec(name="a", path="/in/a", schema="ts TIMESTAMP, k BIGINT", time="ts"),
    StreamSpec(name="b", format="rate", time="timestamp", options={"rowsPerSecond": "5"}),
)


@dataclass(frozen=True)
class Found:
    """What there is after a directory has been opened and used for some more batches."""

    read: dict[str, list[str]]
    """Files that have been read, by stream."""
    added: list[StreamSpec]
    streams: list[str]
    values: list[int]
    """Rows of the query that stays."""
    warnings: list[str] = field(default_factory=list, compare=False)


def open_alone(path: Path) -> Alone:
    """An engine without Spark on a directory."""
    return Alone(path, keep(), lambda: 0.0)


def batch(engine: Alone, number: int) -> None:
    """A batch that reads one file of each stream."""
    core = engine.core
    files = tuple((stream, ((f"{stream}-{number:04d}.parquet", 10),)) for stream in "ab")
    begun = core.begin(core.next_batch, partitions=2, inputs=BatchInputs(files=files))
    assert begun is not None
    inputs = {stream: [rows((number, number % 3, number))] for stream in "ab"}
    engine.retention.after(core.commit(core.next_batch, reports_of(*begun, inputs)))


def build(path: Path) -> None:
    """A state directory in the middle of its life."""
    engine = open_alone(path)
    engine.create_one(QUERY, name="kept")
    for number in range(BATCHES):
        batch(engine, number)
    write_added(engine.core.directory, list(_ADDED))
    end(engine)


def end(engine: Alone) -> None:
    """Stop it as a service does."""
    engine.deliveries.stop()
    engine.retention.save()
    engine.core.checkpoint()
    engine.core.directory.close()


class _Warnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def go_on(path: Path) -> Found:
    """Open it, run some batches, and look at everything."""
    warnings = _Warnings()
    logging.getLogger("weft").addHandler(warnings)
    engine = open_alone(path)
    for number in range(BATCHES, BATCHES + MORE):
        batch(engine, number)
    core = engine.core
    kept = engine.query_by_id(core.roster.names["kept"])
    found = Found(
        read={stream: sorted(names) for stream, names in core.files.names.items()},
        added=read_added(core.directory),
        streams=sorted(core.streams),
        values=[value for table in kept.tables(0, core.next_batch) for value in table["x"].to_pylist()],
        warnings=warnings.texts,
    )
    end(engine)
    return found
