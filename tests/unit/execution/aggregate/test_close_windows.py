"""Aggregating queries in a whole engine (without Spark), against plain Python over the rows that were not late."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.cell_cases import TYPES, array, canonical
from tests.support.engine_sample import data_files, open_core, rows, stream
from tests.support.harness import CoreHarness
from tests.support.read_results import read_chunk
from weft.errors import QueryFailed
from weft.execution.aggregate import close_windows as aggregate
from weft.execution.results.read import chunks_of, plan_reading
from weft.plan.types import DataType
from weft.planner.strategy import choose_strategy
from weft.storage import compaction

pytestmark = pytest.mark.thorough

SECOND = 1_000_000
LATENESS = 3
Row = tuple[int, int | None, int, int | None, str | None]
"""Second, k, x, j, s."""
# Any: columns of whatever types.
Found = list[tuple[Any, ...]]


def groups(harness: CoreHarness, name: str) -> Found:
    """The rows of an aggregation: keys, values, first and last second of the window; in order."""
    record = harness._record(name)
    query = harness.core.roster.bound_query(record.id)
    reading = plan_reading(
        record,
        query,
        choose_strategy(query, record.route),
        harness.core.streams,
        data=str(harness.core.directory.path("data")),
    )
    found: Found = []
    for chunk in chunks_of(reading, harness.core.inventory.results):
        table = read_chunk(reading, chunk)
        edges = [
            [t // SECOND for t in table[edge].cast(pa.int64()).to_pylist()] for edge in ("window_start", "window_end")
        ]
        values = [table[at].to_pylist() for at in table.column_names[:-2]]
        found += list(zip(*values, *edges, strict=True))
    return sorted(found, key=repr)


def sliding(times: Iterable[int], size: int, slide: int) -> set[tuple[int, int]]:
    """All windows that hold all the times."""
    times = list(times)
    starts = range(max(times) - size + 1, min(times) + 1)
    return {(start, start + size) for start in starts if start % slide == 0}


def sessions(times: Iterable[int], gap: int) -> dict[int, tuple[int, int]]:
    """The session of each time."""
    found: list[list[int]] = []
    for time in sorted(set(times)):
        if found and time - found[-1][-1] < gap:
            found[-1].append(time)
        else:
            found.append([time])
    return {time: (each[0], each[-1] + gap) for each in found for time in each}


def total(values: Iterable[int | None]) -> int | None:
    given = [value for value in values if value is not None]
    return sum(given) if given else None


def least(values: Iterable[str | None]) -> str | None:
    return min((value for value in values if value is not None), default=None)


def aggregated(members: dict[tuple[Any, ...], list[Any]], values: Callable[[list[Any]], tuple[Any, ...]]) -> Found:
    """Rows of a result: members by (group keys…, start, end)."""
    return sorted(((*place[:-2], *values(each), *place[-2:]) for place, each in members.items()), key=repr)


# ---- the queries, and what they mean


def grouped_windows(a: list[Row], _: list[Row]) -> Found:
    members = defaultdict(list)
    for row in a:
        for window in sliding([row[0]], 8, 3) if row[2] > 2 else ():
            members[row[1], *window].append(row)
    return aggregated(
        members, lambda m: (len(m), total(r[2] for r in m), least(r[4] for r in m), len({r[4] for r in m} - {None}))
    )


def gaps_between(a: list[Row], _: list[Row]) -> Found:
    members = defaultdict(list)
    for row in a:
        for window in sliding([row[0]], 2, 5):
            members[window].append(row)
    return aggregated(members, lambda m: (len(m), sum(r[1] is not None for r in m)))


def grouped_sessions(a: list[Row], _: list[Row]) -> Found:
    members = defaultdict(list)
    for key in {row[1] for row in a}:
        mine = [row for row in a if row[1] == key]
        spans = sessions((row[0] for row in mine), 4)
        for row in mine:
            members[key, *spans[row[0]]].append(row)
    return aggregated(members, lambda m: (len(m), total(r[2] for r in m)))


def joined_windows(a: list[Row], b: list[Row]) -> Found:
    members = defaultdict(list)
    for p, q in ((p, q) for p in a for q in b if p[1] is not None and p[1] == q[1]):
        for window in sliding([p[0], q[0]], 6, 4):
            members[p[4], *window].append((p, q))
    return aggregated(
        members,
        lambda m: (len(m), total(p[2] for p, _ in m), total(p[2] * q[2] for p, q in m), least(q[4] for _, q in m)),
    )


def joined_sessions(a: list[Row], b: list[Row]) -> Found:
    """Sessions are of the join key, groups are not."""
    members = defaultdict(list)
    for key in {row[1] for row in (*a, *b)} - {None}:
        mine = [[row for row in side if row[1] == key] for side in (a, b)]
        spans = sessions((row[0] for side in mine for row in side), 3)
        for p, q in ((p, q) for p in mine[0] for q in mine[1] if spans[p[0]] == spans[q[0]]):
            members[p[3], *spans[p[0]]].append((p, q))
    return aggregated(members, lambda m: (len(m), total(q[2] for _, q in m)))


WINDOW, SESSION = "[RANGE 6 SECONDS SLIDE 4 SECONDS]", "[SESSION 3 SECONDS]"
QUERIES: dict[str, tuple[str, Callable[[list[Row], list[Row]], Found]]] = {
    "windows": (
        "SELECT k, COUNT(*), SUM(x), MIN(s), COUNT(DISTINCT s) FROM a [RANGE 8 SECONDS SLIDE 3 SECONDS] "
        "WHERE x > 2 GROUP BY k",
        grouped_windows,
    ),
    "gaps": ("SELECT COUNT(*), COUNT(k) FROM a [RANGE 2 SECONDS SLIDE 5 SECONDS]", gaps_between),
    "sessions": ("SELECT k, COUNT(*), SUM(x) FROM a [SESSION 4 SECONDS] GROUP BY k", grouped_sessions),
    "join": (
        f"SELECT p.s, COUNT(*), SUM(p.x), SUM(p.x * q.x), MIN(q.s) FROM a {WINDOW} p JOIN b {WINDOW} q ON p.k = q.k "
        "GROUP BY p.s",
        joined_windows,
    ),
    "session join": (
        f"SELECT p.j, COUNT(*), SUM(q.x) FROM a {SESSION} p JOIN b {SESSION} q ON p.k = q.k GROUP BY p.j",
        joined_sessions,
    ),
}
KEYS = st.sampled_from([1, 2, None])
ROWS = st.lists(
    st.tuples(st.integers(-4, 8), KEYS, st.integers(0, 5), KEYS, st.sampled_from(["a", "b", None])), max_size=6
)
BATCHES = st.lists(st.tuples(ROWS, ROWS, st.integers(1, 4)), min_size=1, max_size=5)


class Kept:
    """The rows of a stream that were not late when they came."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._newest: int | None = None

    def add(self, more: Sequence[Row]) -> None:
        self.rows += [row for row in more if self._newest is None or row[0] >= self._newest - LATENESS]
        if more:
            newest = max(row[0] for row in more)
            self._newest = newest if self._newest is None else max(newest, self._newest)


@given(
    batches=BATCHES,
    fan_in=st.sampled_from([2, 8]),
    flush=st.sampled_from([100, 10**9]),
    written=st.sampled_from([0, 20, 1 << 24]),
)
@settings(max_examples=10)
def test_every_window_is_reported_once_and_whole(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[tuple[list[Row], list[Row], int]],
    fan_in: int,
    flush: int,
    written: int,
) -> None:
    """Rows out of order, late ones, several files, other numbers of partitions, files merged on the way, and results
    in pieces."""
    harness = open_core(
        tmp_path_factory.mktemp("aggregate"), streams=[stream(name, lateness=LATENESS) for name in "ab"]
    )
    harness.create_many([(sql, name) for name, (sql, _) in QUERIES.items()])
    kept = {"a": Kept(), "b": Kept()}
    end: list[Row] = [(flush, None, 0, None, None)]
    with patch.object(compaction, "FAN_IN", fan_in), patch.object(aggregate, "_WRITTEN_AT_ONCE", written):
        for at, (left, right, partitions) in enumerate([*batches, (end, end, 2)]):
            harness._partitions = partitions  # as after a restart, without the time it takes
            shift = 3 * at if at < len(batches) else 0
            inputs = {}
            for name, some in (("a", left), ("b", right)):
                moved = [(row[0] + shift, *row[1:]) for row in some]
                kept[name].add(moved)
                inputs[name] = [rows(*moved[::2]), rows(*moved[1::2])]
            harness.batch(inputs)
    for each in kept.values():
        each.rows = [row for row in each.rows if row[0] < flush]
    for name, (_, meaning) in QUERIES.items():
        assert groups(harness, name) == meaning(kept["a"].rows, kept["b"].rows), name
    harness.core.directory.close()


# ---- queries that come and go


@pytest.fixture
def harness(tmp_path: Path) -> CoreHarness:
    return open_core(tmp_path / "state", partitions=2)


TUMBLE = "SELECT k, COUNT(*) FROM a [TUMBLE 10 SECONDS] GROUP BY k"


def test_cells_of_a_dropped_query_do_not_leak_into_the_next_one_in_its_slot(harness: CoreHarness) -> None:
    harness.create(TUMBLE, "old")
    harness.batch({"a": [rows((1, 1, 1), (2, 1, 1))]})
    harness.drop("old")
    harness.create(TUMBLE, "new")
    assert harness.core.roster.live[harness.core.roster.names["new"]].slot == 0
    harness.batch({"a": [rows((3, 1, 1), (12, 1, 1))]})
    harness.batch({"a": [rows((30, 1, 1))]})
    assert groups(harness, "old") == []
    assert groups(harness, "new") == [(1, 1, 10, 20)], "its first window began before it"


def test_a_query_that_stays_keeps_its_cells_when_others_change(harness: CoreHarness) -> None:
    harness.create(TUMBLE, "stays")
    harness.create(TUMBLE.replace("COUNT(*)", "MAX(s)").replace("TUMBLE 10", "TUMBLE 4"), "goes")
    harness.batch({"a": [rows((1, 1, 1, None, "x"), (3, 1, 1, None, "y"))]})
    harness.drop("goes")
    harness.create(TUMBLE.replace("COUNT(*)", "STDDEV(x)").replace("TUMBLE 10", "TUMBLE 3"), "comes")
    harness.batch({"a": [rows((4, 1, 7), (5, 1, 9), (6, 1, 1), (8, 1, 2))]})
    harness.batch({"a": [rows((20, 1, 1))]})
    assert groups(harness, "stays") == [(1, 6, 0, 10)]
    assert groups(harness, "goes") == []
    assert groups(harness, "comes") == [(1, 2, 0.5, 6, 9)]


def test_more_queries_than_a_word_has_bits(harness: CoreHarness) -> None:
    """The query-sets grow from one word to two and back while windows are open."""
    harness.create(TUMBLE, "first")
    harness.batch({"a": [rows((0, 1, 1), (1, 2, 50))]})
    harness.create_many([(TUMBLE.replace(" GROUP", f" WHERE x > {n} GROUP"), f"q{n}") for n in range(80)])
    harness.batch({"a": [rows(*((2, 1, x) for x in range(0, 90, 10)), (12, 1, 64), (13, 1, 65))]})
    for n in range(80):
        if n != 3:
            harness.drop(f"q{n}")
    harness.batch({"a": [rows((14, 1, 3), (15, 1, 4))]})
    assert harness.core.program.words == 1
    harness.batch({"a": [rows((40, 1, 1))]})
    assert groups(harness, "first") == [(1, 10, 0, 10), (1, 4, 10, 20), (2, 1, 0, 10)]
    assert groups(harness, "q3") == [(1, 3, 10, 20)]


def test_many_queries_of_one_family_and_each_alone(harness: CoreHarness) -> None:
    queries = [(TUMBLE.replace(" GROUP", f" WHERE x % {n} = 0 GROUP"), f"q{n}") for n in range(2, 12)]
    harness.create_many(queries)
    table = rows(*((x % 25, x % 3, x) for x in range(300)))
    harness.batch({"a": [table]})
    harness.batch({"a": [rows((40, 1, 1))]})
    for sql, name in queries:
        n = int(name[1:])
        wanted: dict[tuple[int, int], int] = defaultdict(int)
        for x in range(0, 300, n):
            wanted[x % 3, x % 25 // 10 * 10] += 1
        assert groups(harness, name) == sorted(((k, c, s, s + 10) for (k, s), c in wanted.items()), key=repr), sql


def test_windows_end_in_the_batch_that_moves_the_watermark(harness: CoreHarness) -> None:
    harness.create(TUMBLE, "q")
    harness.batch({"a": [rows((3, 1, 1), (10, 1, 1))]})
    assert groups(harness, "q") == [(1, 1, 0, 10)]
    assert harness.core.inventory.closed == {("a",): 10 * SECOND}
    harness.batch({"b": [rows((99, 1, 1))]})
    assert groups(harness, "q") == [(1, 1, 0, 10)]
    assert harness.core.inventory.closed == {("a",): 10 * SECOND}


def test_many_windows_that_end_together_are_written_in_pieces(
    harness: CoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aggregate, "_WRITTEN_AT_ONCE", 0)
    harness.create(TUMBLE, "q")
    harness.batch({"a": [rows((3, 1, 1), (13, 1, 1), (14, 2, 1), (99, 1, 1))]})
    windows = harness.core.inventory.results[-1].windows
    assert len({result.path for result in windows}) == len(windows) > 1
    assert groups(harness, "q") == [(1, 1, 0, 10), (1, 1, 10, 20), (2, 1, 10, 20)]


def test_open_windows_survive_a_restart_and_ended_ones_stay_ended(harness: CoreHarness) -> None:
    harness.create(TUMBLE, "q")
    harness.create(TUMBLE.replace("[TUMBLE 10", "[SESSION 10"), "s")
    harness.batch({"a": [rows((3, 1, 1), (11, 1, 1), (12, 2, 1))]})
    harness.reopen(3)
    harness.batch({"a": [rows((15, 1, 1))]})
    harness.reopen(1)
    harness.batch({"a": [rows((50, 1, 1))]})
    assert groups(harness, "q") == [(1, 1, 0, 10), (1, 2, 10, 20), (2, 1, 10, 20)]
    assert groups(harness, "s") == [(1, 3, 3, 25), (2, 1, 12, 22)]


def test_a_sum_that_does_not_fit_is_the_fault_of_its_query_alone(tmp_path: Path) -> None:
    ddl = "ts timestamp, k bigint, j bigint, x int, s string"
    harness = open_core(tmp_path / "state", streams=[stream("a", ddl=ddl)])
    harness.create("SELECT SUM(k) FROM a [TUMBLE 10 SECONDS]", "narrow")
    harness.create("SELECT COUNT(*), SUM(CAST(k AS DECIMAL(20, 0))) FROM a [TUMBLE 10 SECONDS]", "wide")
    harness.batch({"a": [rows((1, 2**63 - 1, 1), (2, 1, 1), (20, 1, 1))]})
    with pytest.raises(QueryFailed, match=r"a sum does not fit its type") as failed:
        groups(harness, "narrow")
    assert "DECIMAL" in failed.value.hint
    assert groups(harness, "wide") == [(2, 2**63, 0, 10)]


def test_files_go_when_their_windows_have_ended(harness: CoreHarness) -> None:
    harness.create(TUMBLE, "q")
    harness.create(TUMBLE.replace("[TUMBLE 10", "[SESSION 2"), "s")
    for second in range(0, 60, 2):
        harness.batch({"a": [rows((second, second % 4, 1))]})
    buckets = harness.core.inventory.buckets.values()
    assert min(bucket.min_time for bucket in buckets) >= 40 * SECOND
    assert {bucket.path for bucket in buckets} <= data_files(harness)
    harness.drop("q")
    harness.drop("s")
    harness.batch({"a": [rows((99, 1, 1))]})
    assert not harness.core.inventory.buckets


def test_a_long_session_keeps_its_cells_however_old(harness: CoreHarness) -> None:
    harness.create(TUMBLE.replace("[TUMBLE 10", "[SESSION 5"), "s")
    for second in range(0, 80, 4):
        harness.batch({"a": [rows((second, 1, 1))]})
    assert groups(harness, "s") == []
    harness.batch({"a": [rows((100, 2, 1))]})
    assert groups(harness, "s") == [(1, 20, 0, 81)]
    harness.batch({"a": [rows((200, 2, 1))]})
    assert len(harness.core.inventory.buckets) == 1


def test_a_query_whose_argument_fails_fails_alone(harness: CoreHarness) -> None:
    harness.create(TUMBLE, "well")
    harness.create(TUMBLE.replace("COUNT(*)", "SUM(100 div x)"), "ill")
    harness.batch({"a": [rows((1, 1, 0), (2, 1, 5))]})
    harness.batch({"a": [rows((30, 1, 1))]})
    assert groups(harness, "well") == [(1, 2, 0, 10)]
    assert harness._record("ill").error
    assert not harness._record("well").error


@pytest.mark.parametrize("type_", TYPES, ids=DataType.ddl)
def test_group_keys_of_every_type(tmp_path: Path, type_: DataType) -> None:
    harness = open_core(tmp_path / "state", partitions=3, streams=[stream("a", ddl=f"ts timestamp, v {type_.ddl()}")])
    harness.create("SELECT v, COUNT(*), MAX(v) FROM a [TUMBLE 10 SECONDS] GROUP BY v", "q")
    values = [*TYPES[type_], TYPES[type_][0], None, None]
    for some in (values, values[::-1]):
        harness.batch({"a": [typed(type_, 1, some)]})
    harness.batch({"a": [typed(type_, 99, [None])]})
    wanted = Counter(canonical(value) for value in values)
    found = groups(harness, "q")
    assert len(found) == len(wanted)
    for value, count, most, *window in found:
        assert (count, window) == (2 * wanted[canonical(value)], [0, 10])
        assert canonical(most) == canonical(value)


def typed(type_: DataType, second: int, values: list[Any]) -> pa.RecordBatch:
    times = pa.array([second * SECOND] * len(values)).cast(pa.timestamp("us", "UTC"))
    return pa.RecordBatch.from_pydict({"ts": times, "v": array(type_, values)})
