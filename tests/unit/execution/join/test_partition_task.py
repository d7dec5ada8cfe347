"""The probe stage: every pair once, however input is cut; matched rows are copied or referred to."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.engine_sample import JOIN, WINDOW, open_core, reports_of, rows, stream
from tests.support.harness import CoreHarness
from weft.execution.items import ProbeReport, TagReport, decode_report, encode_report
from weft.execution.join.copy_rows import SPARSE
from weft.execution.stages import probe_stage
from weft.plan.window import TimeBounds

SELF = f"SELECT p.x AS px, q.x AS qx FROM a {WINDOW} p JOIN a {WINDOW} q ON p.k = q.k"
TURNED = f"SELECT p.x AS px, q.x AS qx FROM b {WINDOW} q JOIN a {WINDOW} p ON q.k = p.k"
BOTH = JOIN + " AND p.j = q.j"
TEXT = f"SELECT p.x AS px, q.x AS qx FROM a {WINDOW} p JOIN b {WINDOW} q ON p.s = q.s"
QUERIES = {"k": JOIN, "self": SELF, "turned": TURNED, "both": BOTH, "text": TEXT}

Row = tuple[int, int | None, int, int | None, str | None]
KEYS = st.sampled_from([1, 2, 3, None])
ROWS = st.lists(
    st.tuples(st.integers(0, 14), KEYS, st.integers(0, 99), KEYS, st.sampled_from(["a", "b", "", None])), max_size=6
)
BATCHES = st.lists(st.tuples(ROWS, ROWS, st.integers(1, 4)), min_size=1, max_size=4)


def expected(name: str, left: list[Row], right: list[Row]) -> Counter[tuple[int, int]]:
    """All pairs, tried one by one."""
    if name == "self":
        right = left
    place = {"k": (1,), "turned": (1,), "self": (1,), "both": (1, 3), "text": (4,)}[name]
    return Counter(
        (p[2], q[2])
        for p in left
        for q in right
        if abs(p[0] - q[0]) < 10 and all(p[at] is not None and p[at] == q[at] for at in place)
    )


@given(batches=BATCHES)
@settings(max_examples=10)
def test_every_pair_is_found_once(
    tmp_path_factory: pytest.TempPathFactory, batches: list[tuple[list[Row], list[Row], int]]
) -> None:
    harness = open_core(tmp_path_factory.mktemp("probe"), streams=[stream(name, lateness=1000) for name in "ab"])
    harness.create_many([(sql, name) for name, sql in QUERIES.items()])
    for left, right, partitions in batches:
        harness._partitions = partitions  # as after a restart, without the time it takes
        harness.batch({"a": [rows(*left)], "b": [rows(*right)]})
    lefts = [row for left, _, _ in batches for row in left]
    rights = [row for _, right, _ in batches for row in right]
    for name in QUERIES:
        assert Counter(harness.results(name)) == expected(name, lefts, rights), name
    harness.core.directory.close()


def probed(item: bytes) -> ProbeReport:
    report = decode_report(item)
    assert isinstance(report, ProbeReport)
    return report


@pytest.fixture
def harness(tmp_path: Path) -> CoreHarness:
    return open_core(tmp_path / "state", partitions=1)


def test_a_pair_nobody_wants_is_not_listed(harness: CoreHarness) -> None:
    harness.create(JOIN + " WHERE p.x = 1", "one")
    harness.create(JOIN + " WHERE q.x = 2", "two")
    harness.batch({"a": [rows((0, 1, 1), (0, 1, 3))], "b": [rows((0, 1, 2), (0, 1, 4))]})
    assert harness.core.inventory.results[0].pairs == 3
    assert sorted(harness.results("one")) == [(1, 2), (1, 4)]
    assert sorted(harness.results("two")) == [(1, 2), (3, 2)]


def test_stored_rows_of_a_dropped_query_do_not_meet_the_next_one_in_its_slot(harness: CoreHarness) -> None:
    harness.create(JOIN, "old")
    harness.batch({"a": [rows((0, 1, 1))]})
    harness.drop("old")
    harness.create(JOIN, "new")
    assert harness.core.roster.live[harness.core.roster.names["new"]].slot == 0
    harness.batch({"b": [rows((1, 1, 2))]})
    assert harness.core.inventory.results[1].pairs == 0
    assert harness.results("new") == harness.results("old") == []


def test_a_slot_that_lives_on_still_meets_its_rows_when_others_change(harness: CoreHarness) -> None:
    harness.create(JOIN, "stays")
    harness.create(JOIN, "goes")
    harness.batch({"a": [rows((0, 1, 1))]})
    harness.drop("goes")
    harness.create(BOTH, "comes")
    harness.batch({"b": [rows((1, 1, 2, 5))]})
    harness.batch({"a": [rows((2, 1, 3, 5))]})
    assert sorted(harness.results("stays")) == [(1, 2), (3, 2)]
    assert harness.results("comes") == [(3, 2)]
    assert harness.results("goes") == []


@pytest.mark.parametrize("matched", [1, 2, 3])
def test_rows_are_copied_out_where_few_matched(harness: CoreHarness, matched: int) -> None:
    harness.create(JOIN, "q")
    left = [(0, k, k) for k in range(2 * SPARSE)]
    harness.batch({"a": [rows(*left)], "b": [rows(*((0, k, k) for k in range(matched)))]})
    manifest = harness.core.inventory.results[0]
    assert len(manifest.copied) == (1 if matched * SPARSE < len(left) else 0)
    assert sorted(harness.results("q")) == [(k, k) for k in range(matched)]


def test_a_partition_without_news_reads_nothing(harness: CoreHarness) -> None:
    harness.create(JOIN, "q")
    harness.batch({"a": [rows((0, 1, 1))], "b": [rows((0, 1, 1))]})
    begun = harness.core.begin(1, partitions=4)
    assert begun is not None
    for path in harness.core.directory.path("data").rglob("*.arrow"):
        path.unlink()
    for partition in range(4):
        ((_, report),) = probe_stage(*begun, partition, items=[])
        assert probed(report).pairs == 0


def test_reports_of_tag_tasks_pass_through(harness: CoreHarness) -> None:
    begun = harness.core.begin(0, partitions=2)
    assert begun is not None
    sent = [encode_report(TagReport(name)) for name in "ab"]
    received = [report for _, report in probe_stage(*begun, 0, items=sent)]
    assert received[:2] == sent
    assert probed(received[2]).merged_away == []


def test_the_reports_of_a_batch_name_every_file_it_wrote(harness: CoreHarness) -> None:
    harness.create(JOIN, "q")
    harness.create("SELECT x FROM a", "s")
    begun = harness.core.begin(0, partitions=3)
    assert begun is not None
    inputs = {"a": [rows(*((0, k, k) for k in range(9)))], "b": [rows((0, 1, 1), (0, 2, 2))]}
    manifest = harness.core.commit(0, reports_of(*begun, inputs))
    folder = harness.core.directory.path("data")
    written = {str(path.relative_to(folder)) for path in folder.rglob("*.arrow")}
    assert written == manifest.result_files() | {bucket.path for bucket in manifest.buckets}


@pytest.mark.parametrize(("low", "high"), [(None, None), (-3, 5), (None, 5), (-3, None)])
def test_bounds_seen_from_the_other_side(low: int | None, high: int | None) -> None:
    bounds = TimeBounds(low, high)
    turned = bounds.reversed()
    assert (turned.low, turned.high) == (None if high is None else -high, None if low is None else -low)
    assert turned.reversed() == bounds
