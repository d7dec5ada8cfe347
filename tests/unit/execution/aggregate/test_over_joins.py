"""Aggregates over joins of many relations, and by other conditions than equalities, in a whole engine (without Spark):
against plain Python over the rows that were not late."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.engine_sample import STREAMS, data_files, open_core, rows, stream
from tests.support.forced_plans import random_planner
from tests.support.harness import CoreHarness
from tests.unit.execution.aggregate.test_close_windows import (
    LATENESS,
    SECOND,
    Found,
    Kept,
    Row,
    aggregated,
    groups,
    sliding,
    total,
)
from weft.execution.aggregate import over_joins as combined
from weft.planner.joins.planners import Planner, plan_probes
from weft.storage import compaction

pytestmark = pytest.mark.thorough

K: Final = 1
X: Final = 2
J: Final = 3
S: Final = 4
"""Places in a row, after its second."""
Combination = tuple[Row, ...]
Test = Callable[..., bool]


def equal(left: object, right: object) -> bool:
    return left is not None and left == right


def three(p: Row, q: Row, r: Row) -> bool:
    return equal(p[K], q[K]) and equal(q[J], r[J])


def less(p: Row, q: Row) -> bool:
    return p[X] < q[X]


def mixed(p: Row, q: Row, r: Row) -> bool:
    return equal(p[K], q[K]) and q[X] <= r[X] and p[X] + q[X] + r[X] > 6


def own(p: Row, q: Row) -> bool:
    return equal(p[K], q[K]) and p[X] != q[X]


def by(keys: Callable[[Combination], tuple[object, ...]], size: int, slide: int, values: Callable[..., Any]) -> Any:
    """What a grouping of combinations by some keys means."""

    def meaning(combinations: Iterable[Combination]) -> Found:
        members = defaultdict(list)
        for each in combinations:
            for window in sliding([row[0] for row in each], size, slide):
                members[*keys(each), *window].append(each)
        return aggregated(members, values)

    return meaning


def count_and_sums(members: list[Combination]) -> tuple[object, ...]:
    return len(members), total(m[0][X] for m in members), total(m[0][X] * m[1][X] for m in members)


THREE = "FROM a {0} p JOIN b {0} q ON p.k = q.k JOIN c {0} r ON q.j = r.j"
THETA = "FROM a {0} p JOIN b {0} q ON p.x < q.x"
MIXED = "FROM a {0} p JOIN b {0} q ON p.k = q.k JOIN c {0} r ON q.x <= r.x AND p.x + q.x + r.x > 6"
OWN = "FROM a {0} p JOIN a {0} q ON p.k = q.k AND p.x <> q.x"
TUMBLE, SLIDE = "[TUMBLE 6 SECONDS]", "[RANGE 8 SECONDS SLIDE 3 SECONDS]"

# SQL, its streams, which combinations there are, and what comes of them.
QUERIES: dict[str, tuple[str, str, Test, Any]] = {
    "three": (
        f"SELECT r.k, COUNT(*), SUM(p.x), SUM(p.x * q.x) {THREE.format(TUMBLE)} GROUP BY r.k",
        "abc", three, by(lambda c: (c[2][K],), 6, 6, count_and_sums),
    ),
    "another order": (
        f"SELECT r.k, COUNT(*), COUNT(DISTINCT p.s) FROM c {SLIDE} r JOIN b {SLIDE} q ON q.j = r.j "
        f"JOIN a {SLIDE} p ON p.k = q.k WHERE p.x > 1 GROUP BY r.k",
        "abc", lambda p, q, r: three(p, q, r) and p[X] > 1,
        by(lambda c: (c[2][K],), 8, 3, lambda m: (len(m), len({c[0][S] for c in m} - {None}))),
    ),
    "two keys": (
        f"SELECT p.s, r.k, MAX(q.x), MIN(r.s) {THREE.format(SLIDE)} GROUP BY p.s, r.k",
        "abc", three,
        by(lambda c: (c[0][S], c[2][K]), 8, 3, lambda m: (
            max(c[1][X] for c in m), min((c[2][S] for c in m if c[2][S] is not None), default=None)
        )),
    ),
    "rows": (f"SELECT COUNT(*), COUNT(q.s) {THETA.format(TUMBLE)}", "ab", less,
             by(lambda c: (), 6, 6, lambda m: (len(m), sum(c[1][S] is not None for c in m)))),
    "theta": (
        f"SELECT q.k, COUNT(*), SUM(p.x), SUM(p.x * q.x) {THETA.format(SLIDE)} AND q.x > 1 GROUP BY q.k",
        "ab", lambda p, q: less(p, q) and q[X] > 1, by(lambda c: (c[1][K],), 8, 3, count_and_sums),
    ),
    "gaps": (
        f"SELECT p.j + 1, COUNT(*) {THETA.format('[RANGE 2 SECONDS SLIDE 5 SECONDS]')} GROUP BY p.j + 1",
        "ab", less, by(lambda c: (None if c[0][J] is None else c[0][J] + 1,), 2, 5, lambda m: (len(m),)),
    ),
    "mixed": (
        f"SELECT r.s, COUNT(*), SUM(p.x), SUM(p.x * q.x) {MIXED.format(TUMBLE)} GROUP BY r.s",
        "abc", mixed, by(lambda c: (c[2][S],), 6, 6, count_and_sums),
    ),
    "own": (
        f"SELECT q.x, COUNT(*), SUM(p.x), SUM(q.x * p.x) {OWN.format(SLIDE)} GROUP BY q.x",
        "aa", own, by(lambda c: (c[1][X],), 8, 3, count_and_sums),
    ),
}  # fmt: skip


def wanted(name: str, kept: dict[str, list[Row]]) -> Found:
    """The result of a query over these rows."""
    _, streams, test, meaning = QUERIES[name]
    found: Found = meaning(each for each in product(*(kept[name] for name in streams)) if test(*each))
    return found


KEYS = st.sampled_from([1, 2, None])
ROWS = st.lists(
    st.tuples(st.integers(-3, 7), KEYS, st.integers(0, 5), KEYS, st.sampled_from(["a", "b", None])), max_size=4
)
BATCHES = st.lists(st.tuples(ROWS, ROWS, ROWS, st.integers(1, 3)), min_size=1, max_size=5)


@given(batches=BATCHES, plan=st.integers(0, 5), fan_in=st.sampled_from([2, 8]), flush=st.sampled_from([100, 10**9]))
@settings(max_examples=20)
def test_every_window_is_reported_once_and_whole(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[tuple[list[Row], list[Row], list[Row], int]],
    plan: int,
    fan_in: int,
    flush: int,
) -> None:
    """Any plan; rows out of order, late ones, several files, other numbers of partitions, files merged on the way."""
    harness = CoreHarness(
        tmp_path_factory.mktemp("many"),
        [stream(name, lateness=LATENESS) for name in "abc"],
        partitions=2,
        planner=random_planner(plan) if plan else plan_probes,
    )
    harness.create_many([(sql, name) for name, (sql, *_) in QUERIES.items()])
    kept = {name: Kept() for name in "abc"}
    end: list[Row] = [(flush, None, 9, None, None)]
    with patch.object(compaction, "FAN_IN", fan_in):
        for at, (*inputs, partitions) in enumerate([*batches, (end, end, end, 2)]):
            harness._partitions = partitions  # as after a restart, without the time it takes
            shift = 3 * at if at < len(batches) else 0
            sent = {}
            for name, some in zip("abc", inputs, strict=True):
                moved = [(row[0] + shift, *row[1:]) for row in some]
                kept[name].add(moved)
                sent[name] = [rows(*moved[::2]), rows(*moved[1::2])]
            harness.batch(sent)
    before = {name: [row for row in each.rows if row[0] < flush] for name, each in kept.items()}
    for name in QUERIES:
        assert groups(harness, name) == wanted(name, before), name
    harness.core.directory.close()


# ---- queries that come and go


@pytest.fixture(params=[0, 1, 2], ids=["own plan", "a random plan", "another"])
def harness(tmp_path: Path, request: pytest.FixtureRequest) -> CoreHarness:
    planner: Planner = random_planner(request.param) if request.param else plan_probes
    return CoreHarness(tmp_path / "state", list(STREAMS.values()), partitions=2, planner=planner)


COUNTS = f"SELECT r.k, COUNT(*) {THREE.format('[TUMBLE 10 SECONDS]')} GROUP BY r.k"


def each(*values: tuple[Any, ...]) -> dict[str, list[pa.RecordBatch]]:
    """The same rows on all streams."""
    return {name: [rows(*values)] for name in "abc"}


def row(second: int, x: int = 1, k: int = 1) -> tuple[Any, ...]:
    return (second, k, x, 1, "s")


def test_windows_end_in_the_batch_that_moves_the_watermark_of_all_streams(harness: CoreHarness) -> None:
    harness.create(COUNTS, "q")
    harness.batch({"a": [rows(row(1), row(11))], "b": [rows(row(2), row(12))], "c": [rows(row(3), row(4))]})
    assert groups(harness, "q") == []
    harness.batch({"c": [rows(row(9), row(10))]})
    assert groups(harness, "q") == [(1, 3, 0, 10)]
    assert harness.core.inventory.closed == {("a", "b", "c"): 10 * SECOND}
    harness.batch({"a": [rows(row(30))], "b": [rows(row(30))], "c": [rows(row(30))]})
    assert groups(harness, "q") == [(1, 1, 10, 20), (1, 3, 0, 10)]


def test_queries_with_the_same_combinations_and_groups_share_their_cells(harness: CoreHarness) -> None:
    harness.create(COUNTS, "counts")
    harness.create(COUNTS.replace("COUNT(*)", "SUM(q.x)").replace("GROUP", "WHERE p.x > 1 GROUP"), "sums")
    harness.create(COUNTS.replace("TUMBLE 10", "TUMBLE 5").replace("COUNT(*)", "AVG(q.x)"), "shorter")
    harness.create(COUNTS.replace("r.k", "p.k"), "others")
    harness.create(f"SELECT p.x, q.x, r.x {THREE.format('[RANGE 4 SECONDS]')}", "rows")
    assert len(harness.core.plan.slice_stores) == len(harness.core.plan.aggregates) == 2
    harness.batch(each(row(1), row(6, 2)))
    assert {bucket.store for bucket in harness.core.inventory.buckets.values()} >= {
        store.id for store in harness.core.plan.slice_stores
    }
    harness.batch(each(row(40)))
    assert groups(harness, "counts") == [(1, 8, 0, 10)]
    assert groups(harness, "sums") == [(1, 6, 0, 10)]
    assert groups(harness, "shorter") == [(1, 1, 1, 0, 5), (1, 2, 1, 5, 10)]
    assert groups(harness, "others") == [(1, 8, 0, 10)]
    assert sorted(harness.results("rows")) == [(1, 1, 1), (1, 1, 1), (2, 2, 2)]


def test_having_and_the_select_list(harness: CoreHarness) -> None:
    sql = COUNTS.replace("r.k, COUNT(*)", "r.k + 1 AS n, AVG(p.x) AS mean") + " HAVING SUM(q.x) > 4"
    harness.create(sql, "q")
    harness.batch(each(row(1, 3), row(2, 5), row(2, 1, 2)))
    harness.batch(each(row(40)))
    # 2 x 2 tuples of k = 1 meet one c of k = 1 or k = 2 each (j is the same), and so does the one of k = 2.
    assert sorted(harness.results("q")) == [(2, (16 * 2 + 1 * 2) / 10), (3, (16 + 1) / 5)]


def test_a_query_that_comes_later_sees_no_window_that_began_before_it(harness: CoreHarness) -> None:
    harness.create(COUNTS, "first")
    harness.batch(each(row(1), row(4)))
    harness.create(COUNTS.replace("TUMBLE 10", "RANGE 10 SECONDS SLIDE 2"), "later")
    harness.create(COUNTS.replace("COUNT(*)", "MAX(p.s)"), "same windows")
    harness.batch(each(row(5), row(11)))
    harness.batch(each(row(40)))
    assert groups(harness, "first") == [(1, 1, 10, 20), (1, 27, 0, 10)]
    assert groups(harness, "later") == [(1, 1, 10, 20), (1, 1, 6, 16), (1, 1, 8, 18)]
    assert groups(harness, "same windows") == [(1, "s", 10, 20)]


def test_cells_of_a_dropped_query_do_not_leak_into_the_next_one_in_its_slot(harness: CoreHarness) -> None:
    harness.create(COUNTS, "old")
    harness.batch(each(row(1), row(2)))
    harness.drop("old")
    harness.create(COUNTS, "new")
    assert harness.core.roster.live[harness.core.roster.names["new"]].slot == 0
    harness.batch(each(row(3), row(12)))
    harness.batch(each(row(30)))
    assert groups(harness, "old") == []
    assert groups(harness, "new") == [(1, 1, 10, 20)], "its first window began before it"


def test_a_query_that_stays_keeps_its_cells_when_others_change(harness: CoreHarness) -> None:
    harness.create(COUNTS, "stays")
    harness.create(COUNTS.replace("COUNT(*)", "MAX(p.s)").replace("TUMBLE 10", "TUMBLE 4"), "goes")
    harness.batch(each(row(1), row(3)))
    harness.drop("goes")
    harness.create(COUNTS.replace("COUNT(*)", "STDDEV(q.x)").replace("TUMBLE 10", "TUMBLE 3"), "comes")
    harness.batch(each(row(6, 7), row(8, 9)))
    harness.batch(each(row(20)))
    assert groups(harness, "stays") == [(1, 64, 0, 10)]
    assert groups(harness, "goes") == []
    assert groups(harness, "comes") == [pytest.approx((1, 8, 8.0, 6, 9))]


def test_open_windows_survive_a_restart_and_ended_ones_stay_ended(harness: CoreHarness) -> None:
    harness.create(COUNTS, "q")
    harness.batch(each(row(3), row(11)))
    harness.reopen(3)
    harness.batch(each(row(12)))
    harness.reopen(1)
    harness.crash_during(each(row(50)), "before_commit")
    harness.reopen(2)
    harness.batch(each(row(50)))
    assert groups(harness, "q") == [(1, 1, 0, 10), (1, 8, 10, 20)]


def test_late_rows_count_in_no_window(tmp_path: Path) -> None:
    harness = open_core(tmp_path / "state", streams=[stream(name, lateness=5) for name in "abc"])
    harness.create(COUNTS, "q")
    harness.batch(each(row(8), row(14)))
    assert groups(harness, "q") == []
    harness.batch({"a": [rows(row(9), row(8, 2))], "b": [rows(row(15))], "c": [rows(row(7))]})
    assert groups(harness, "q") == [], "on the stream that is furthest behind, 9 may still come"
    harness.batch(each(row(40)))
    assert groups(harness, "q") == [(1, 2, 0, 10), (1, 2, 10, 20)]


def test_windows_do_not_wait_for_an_idle_stream_and_end_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("weft.engine.inputs.clocks.time.monotonic", lambda: clock[0])
    streams = [replace(stream(name), idle_timeout=timedelta(seconds=60)) for name in "abc"]
    harness = open_core(tmp_path / "state", streams=streams)
    harness.create(COUNTS, "q")
    harness.batch(each(row(1), row(2)))
    harness.batch({name: [rows(row(12))] for name in "ab"})
    assert groups(harness, "q") == [], "c is not idle yet"
    clock[0] = 61.0
    harness.batch({name: [rows(row(13))] for name in "ab"})
    assert groups(harness, "q") == [(1, 8, 0, 10)]
    harness.batch({"c": [rows(row(5), row(12))]})
    harness.batch(each(row(40)))
    assert groups(harness, "q") == [(1, 4, 10, 20), (1, 8, 0, 10)], "5 comes too late for the window that has ended"


def test_files_go_when_their_windows_have_ended_and_their_query_is_gone(harness: CoreHarness) -> None:
    harness.create(COUNTS, "q")
    for second in range(0, 60, 2):
        harness.batch(each(row(second)))
    buckets = harness.core.inventory.buckets.values()
    assert min(bucket.min_time for bucket in buckets) >= 30 * SECOND
    assert {bucket.path for bucket in buckets} <= data_files(harness)
    harness.drop("q")
    for _ in range(2):
        harness.batch(each(row(99)))
    assert not harness.core.inventory.buckets
    kept = {path for manifest in harness.core.inventory.results for path in manifest.result_files()}
    assert data_files(harness) == kept


def test_more_queries_than_a_word_has_bits(harness: CoreHarness) -> None:
    """The query-sets grow from one word to two and back while windows are open."""
    harness.create(COUNTS, "first")
    harness.batch(each(row(0)))
    harness.create_many([(COUNTS.replace("GROUP", f"WHERE p.x > {n} GROUP"), f"q{n}") for n in range(70)])
    harness.batch(each(row(2, 50), row(12, 64), row(13, 65)))
    for n in range(70):
        if n != 3:
            harness.drop(f"q{n}")
    harness.batch(each(row(14, 3), row(15, 4)))
    assert harness.core.program.words == 1
    harness.batch(each(row(40)))
    assert groups(harness, "first") == [(1, 64, 10, 20), (1, 8, 0, 10)]
    assert groups(harness, "q3") == [(1, 3 * 16, 10, 20)]


def test_more_combinations_than_are_accumulated_at_once(harness: CoreHarness) -> None:
    harness.create(COUNTS.replace("TUMBLE 10", "RANGE 10 SECONDS SLIDE 5"), "q")
    with patch.object(combined, "ROWS_AT_ONCE", 6):
        harness.batch(each(*(row(second, second, second % 2) for second in range(5, 10))))
        harness.batch(each(row(40)))
    # Of a and b, 3 have k = 1 and 2 have k = 0; all meet all of c.
    assert groups(harness, "q") == [(0, 26, 0, 10), (0, 26, 5, 15), (1, 39, 0, 10), (1, 39, 5, 15)]
