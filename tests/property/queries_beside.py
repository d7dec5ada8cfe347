"""A state directory with queries that have ended and with sinks, and what there is of them when it is used again."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.property.beside import BATCHES, MORE, QUERY, batch, end, open_alone
from tests.support.engine_alone import files_of
from weft.engine.queries.look import page_of
from weft.engine.sinks.sinks import parquet
from weft.plan.changelog import QueryId

_ENDED = 12


@dataclass(frozen=True)
class Queries:
    """What is known of queries after a directory has been opened and used for some more batches."""

    records: list[tuple[str, str, str, int | None]]
    """Id, name, text and end of each."""
    latest: list[str]
    """Ids of the ended ones, found by name."""
    sinks: list[str]
    """How each of them is."""
    delivered: list[dict[str, list[int]]]
    """Files of each sink."""


def sinks_of(root: Path) -> list[Path]:
    """Where the sinks of a directory write to: beside it, and under the same path whatever is done to a copy."""
    return [root.parent / "out" / name for name in ("first", "second")]


def build(path: Path) -> None:
    """A state directory in the middle of its life; its sinks have had all there is."""
    engine = open_alone(path)
    engine.create_one(QUERY, name="kept")
    for folder in sinks_of(path):
        engine.create_one(QUERY, name=folder.name, sink=parquet(folder))
    for number in range(_ENDED):
        engine.create_one(f"SELECT k, x + {number} AS y FROM b WHERE x < {number}", name=f"ended{number % 8}")
        batch(engine, number)
        engine.core.submit(drop=[engine.core.roster.names[f"ended{number % 8}"]])
    batch(engine, _ENDED)
    end(engine)


def go_on(path: Path) -> Queries:
    """Open it, run some batches, and look at every query."""
    engine = open_alone(path)
    for number in range(_ENDED + 1, _ENDED + 1 + MORE + BATCHES):
        batch(engine, number)
    roster, sinks = engine.core.roster, [folder for folder in sinks_of(path.parent / "state") if folder.exists()]
    handles = [engine.query_by_id(QueryId(roster.names[folder.name])) for folder in sinks]
    engine.deliveries.stop()
    records = page_of(engine.core, "", after=0, limit=1000)
    found = Queries(
        records=[(each.id, each.name, each.sql, each.ended) for each in records],
        latest=[str(getattr(roster.records.latest(f"ended{number}"), "id", "")) for number in range(8)],
        sinks=[f"{handle.sink_state} {handle.sink_error}" for handle in handles],
        delivered=[files_of(folder) for folder in sinks],
    )
    end(engine)
    return found


def fresh_sinks(saved: Path, root: Path) -> None:
    """The folders of the sinks as they were when the directory was made."""
    shutil.rmtree(root.parent / "out", ignore_errors=True)
    shutil.copytree(saved, root.parent / "out")
