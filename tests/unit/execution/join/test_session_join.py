"""Session joins: when a session ends its pairs are results, each once, and open sessions keep their rows."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import cast
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.engine_sample import EPOCH, open_core, rows, stream
from tests.support.harness import CoreHarness
from weft.storage import compaction

GAP, LATENESS = 3, 2
SESSION = f"[SESSION {GAP} SECONDS]"
JOIN = f"SELECT p.x AS px, q.x AS qx, window_start, window_end FROM a {SESSION} p JOIN b {SESSION} q ON p.k = q.k"
QUERIES = {
    "k": JOIN,
    "turned": JOIN.replace(f"a {SESSION} p JOIN b {SESSION} q", f"b {SESSION} q JOIN a {SESSION} p"),
    "text": JOIN.replace("p.k = q.k", "p.s = q.s"),
    "both": JOIN + " AND p.s = q.s",
    "some": JOIN + " WHERE p.x > 40",
    "self": JOIN.replace("b [", "a ["),
}
Row = tuple[int, int | None, int, None, str | None]
KEYS = st.sampled_from([1, 2, None])
ROWS = st.lists(
    st.tuples(st.integers(0, 6), KEYS, st.integers(0, 99), st.none(), st.sampled_from(["a", "", None])), max_size=6
)
BATCHES = st.lists(st.tuples(ROWS, ROWS, st.integers(1, 3)), min_size=1, max_size=4)


def expected(name: str, left: list[Row], right: list[Row]) -> Counter[tuple[int, int, int, int]]:
    """Sessions of each key over the rows of both sides; all pairs in them."""
    left = [row for row in left if name != "some" or row[2] > 40]
    place = {"text": (4,), "both": (1, 4)}.get(name, (1,))
    tagged = [(row, 0) for row in left] + [(row, 1) for row in (left if name == "self" else right)]
    found: Counter[tuple[int, int, int, int]] = Counter()
    for key in {tuple(row[at] for at in place) for row, _ in tagged}:
        if None in key:
            continue
        mine = sorted((row for row in tagged if tuple(row[0][at] for at in place) == key), key=lambda row: row[0][0])
        session: list[tuple[Row, int]] = []
        for row in [*mine, ((10**9, *mine[0][0][1:]), 0)]:
            if session and row[0][0] - session[-1][0][0] >= GAP:
                first, last = session[0][0][0], session[-1][0][0] + GAP
                found.update((p[2], q[2], first, last) for p, a in session for q, b in session if (a, b) == (0, 1))
                session = []
            session.append(row)
    return found


def pairs(harness: CoreHarness, name: str) -> Counter[tuple[object, ...]]:
    found = cast("list[tuple[int, int, datetime, datetime]]", harness.results(name))
    return Counter((p, q, *(int((edge - EPOCH).total_seconds()) for edge in edges)) for p, q, *edges in found)


@given(batches=BATCHES, fan_in=st.sampled_from([2, 8]))
@settings(max_examples=12)
def test_every_pair_of_a_session_is_reported_once(
    tmp_path_factory: pytest.TempPathFactory, batches: list[tuple[list[Row], list[Row], int]], fan_in: int
) -> None:
    harness = open_core(tmp_path_factory.mktemp("session"), streams=[stream(name, lateness=LATENESS) for name in "ab"])
    harness.create_many([(sql, name) for name, sql in QUERIES.items()])
    kept: dict[str, list[Row]] = {"a": [], "b": []}
    newest: dict[str, int] = {}
    end: list[Row] = [(1000, None, 0, None, None)]
    with patch.object(compaction, "FAN_IN", fan_in):
        for at, (left, right, partitions) in enumerate([*batches, (end, end, 2)]):
            harness._partitions = partitions
            inputs = {}
            for name, some in (("a", left), ("b", right)):
                moved: list[Row] = [(row[0] + 3 * at, *row[1:]) for row in some]
                kept[name] += [row for row in moved if row[0] >= newest.get(name, -(10**9)) - LATENESS]
                newest[name] = max([newest.get(name, -(10**9)), *(row[0] for row in moved)])
                inputs[name] = [rows(*moved)]
            harness.batch(inputs)
    for name in QUERIES:
        assert pairs(harness, name) == expected(name, kept["a"], kept["b"]), name
    harness.core.directory.close()


@pytest.fixture
def harness(tmp_path: Path) -> CoreHarness:
    return open_core(tmp_path / "state", partitions=2)


def test_an_open_session_keeps_its_rows_and_an_ended_one_does_not(harness: CoreHarness) -> None:
    harness.create(JOIN, "q")
    for second in range(0, 20, 2):
        harness.batch({"a": [rows((second, 1, second))], "b": [rows((second, 2, 0))]})
    assert harness.results("q") == []
    harness.batch({"b": [rows((20, 1, 7))], "a": [rows((20, 3, 7))]})
    harness.batch({"a": [rows((40, 3, 0))], "b": [rows((40, 4, 0))]})
    assert pairs(harness, "q") == Counter((second, 7, 0, 23) for second in range(0, 20, 2))
    state = {bucket.path for bucket in harness.core.inventory.buckets.values()}
    assert state == set(harness.core.inventory.open)
    assert len(state) == 2, "only the rows of the last batch"


def test_the_next_query_in_a_slot_does_not_see_the_old_rows(harness: CoreHarness) -> None:
    harness.create(JOIN, "old")
    harness.batch({"a": [rows((0, 1, 1))]})
    harness.drop("old")
    harness.create(JOIN, "new")
    harness.batch({"b": [rows((1, 1, 2))]})
    harness.batch({"a": [rows((50, 1, 3))], "b": [rows((50, 1, 4))]})
    assert harness.results("old") == harness.results("new") == []
    harness.batch({"a": [rows((90, 1, 3))], "b": [rows((90, 1, 4))]})
    assert pairs(harness, "new") == {(3, 4, 50, 53): 1}


def test_open_sessions_survive_a_restart(harness: CoreHarness) -> None:
    harness.create(JOIN, "q")
    harness.batch({"a": [rows((0, 1, 1))], "b": [rows((1, 1, 2))]})
    harness.reopen(3)
    harness.batch({"a": [rows((2, 1, 3))]})
    harness.reopen(1)
    harness.batch({"a": [rows((9, 1, 4))], "b": [rows((9, 2, 5))]})
    assert pairs(harness, "q") == {(1, 2, 0, 5): 1, (3, 2, 0, 5): 1}
