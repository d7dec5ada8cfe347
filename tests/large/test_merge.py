"""Buckets whose text is more than 2 GiB together are merged without losing a row."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.engine_sample import open_core, rows
from tests.support.harness import CoreHarness
from tests.support.read_results import read_chunk
from weft.execution.input import pieces
from weft.execution.results.read import Chunk, Reading, chunks_of, plan_reading
from weft.planner.strategy import choose_strategy
from weft.storage import compaction


def test_merging_keeps_every_row_when_text_exceeds_2_gib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight buckets of 288 MiB of text; Arrow would give one array of 2 GiB and another one of the rest."""
    monkeypatch.setattr(pieces, "BYTES_AT_ONCE", 1 << 30)  # one bucket for each batch
    monkeypatch.setattr(compaction, "GROUP_BYTES", 4 << 30)
    monkeypatch.setattr(compaction, "BATCH_BYTES", 4 << 30)
    harness = open_core(tmp_path / "state", partitions=1)
    harness.create("SELECT p.x AS px, p.s AS s, q.x AS qx FROM a [UNBOUNDED] p JOIN b [UNBOUNDED] q ON p.k = q.k", "q")
    for n in range(8):
        some = rows(*((n, 36 * n + k, k, None, None) for k in range(36)))
        text = pa.array([f"{n}.{k}" + "x" * (8 << 20) for k in range(36)])
        harness.batch({"a": [some.set_column(4, "s", text)]})
        del some, text
    harness.batch({"b": [rows((9, 999, 0))]})
    (bucket,) = [each for each in harness.core.inventory.buckets.values() if each.stream == "a"]
    assert len(harness.core.inventory.results[-1].merged_away) == 8
    assert bucket.rows == 288
    harness.batch({"b": [rows(*((10, k, k) for k in range(288)))]})
    found = []
    for chunk in _chunks(harness, "q"):
        table = read_chunk(*chunk).select(["0.x", "1.x"])
        found += zip(*(column.to_pylist() for column in table.columns), strict=True)
    assert sorted(found) == sorted((k % 36, k) for k in range(288))


def _chunks(harness: CoreHarness, name: str) -> list[tuple[Reading, Chunk]]:
    core, record = harness.core, harness._record(name)
    data = str(core.directory.path("data"))
    reading = plan_reading(
        record,
        core.roster.bound_query(record.id),
        choose_strategy(core.roster.bound_query(record.id), record.route),
        core.streams,
        data=data,
    )
    return [(reading, chunk) for chunk in chunks_of(reading, core.inventory.results[-1:])]
