"""State by query: who needs a file pays for it, and several share it."""

from __future__ import annotations

from pathlib import Path

from tests.support.engine_sample import open_core, rows
from weft.engine.views.usage import state_bytes

SHORT = "SELECT p.x FROM a [RANGE 10 SECONDS] p JOIN b [RANGE 10 SECONDS] q ON p.k = q.k"
LONG = SHORT.replace("10 SECONDS", "10 HOURS")


def test_what_several_need_is_divided(tmp_path: Path) -> None:
    harness = open_core(tmp_path / "state")
    for name in ("one", "two"):
        harness.create(SHORT, name)
    harness.batch({"a": [rows((0, 1, 5))], "b": [rows((0, 1, 6))]})
    sizes = list(state_bytes(harness.core).values())
    assert sizes[0] == sizes[1] > 0
    assert sum(sizes) == sum(bucket.bytes for bucket in harness.core.inventory.buckets.values())


def test_a_query_with_a_long_window_pays_for_what_only_it_keeps(tmp_path: Path) -> None:
    harness = open_core(tmp_path / "state")
    harness.create(SHORT, "short")
    harness.create(LONG, "long")
    for second in range(0, 600, 60):
        harness.batch({"a": [rows((second, 1, 5))], "b": [rows((second, 1, 6))]})
    names = {query: live.record.name for query, live in harness.core.roster.live.items()}
    sizes = {names[query]: size for query, size in state_bytes(harness.core).items()}
    assert sizes["long"] > 3 * sizes["short"] > 0


def test_without_state_there_is_none(tmp_path: Path) -> None:
    harness = open_core(tmp_path / "state")
    harness.create("SELECT x FROM a", "selection")
    harness.batch({"a": [rows((0, 1, 5))]})
    assert list(state_bytes(harness.core).values()) == [0.0]
