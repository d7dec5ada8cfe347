"""Merged buckets give the results that unmerged ones give, in any number of partitions, as queries come and go."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.engine_sample import JOIN, WINDOW, data_files, open_core, rows, stream
from tests.support.harness import CoreHarness
from weft.errors import InternalError
from weft.execution import merge_buckets as merge
from weft.storage import compaction

pytestmark = pytest.mark.thorough

BOTH = JOIN + " AND p.j = q.j"
TEXTS = (
    JOIN,
    BOTH,
    JOIN + " WHERE p.x > 50",
    JOIN + " AND p.x % 7 = q.x % 7",
    f"SELECT p.s AS px, q.x AS qx FROM a {WINDOW} p JOIN b {WINDOW} q ON p.s = q.s",
    f"SELECT p.x AS px, q.j AS qx FROM a {WINDOW} p JOIN a {WINDOW} q ON p.k = q.k AND p.j + 1 = q.j",
    JOIN.replace(WINDOW, "[UNBOUNDED]"),
    JOIN.replace(WINDOW, "[RANGE 8 SECONDS SLIDE 4 SECONDS]"),
)
KEYS = st.sampled_from([1, 2, None])
ROWS = st.lists(
    st.tuples(st.integers(0, 6), KEYS, st.integers(0, 99), KEYS, st.sampled_from(["a", "", None])), max_size=4
)


@dataclass(frozen=True)
class Step:
    """One batch, and what is asked for before it."""

    left: list[tuple[int, ...]]
    right: list[tuple[int, ...]]
    partitions: int
    create: int | None
    drop: int | None


STEPS = st.builds(
    Step, ROWS, ROWS, st.integers(1, 4), st.none() | st.integers(0, len(TEXTS) - 1), st.none() | st.integers(0, 3)
)


def play(path: Path, steps: list[Step]) -> tuple[dict[str, Counter[tuple[object, ...]]], int]:
    """Results per query, and how many buckets were merged away."""
    harness = open_core(path, streams=[stream("a", lateness=1000), stream("b", lateness=1000)])
    harness.create_many([(text, f"first{number}") for number, text in enumerate(TEXTS)])
    merged = 0
    for number, step in enumerate(steps):
        harness._partitions = step.partitions  # as after a restart, without the time it takes
        if step.drop is not None and f"first{step.drop}" in harness.core.roster.names:
            harness.drop(f"first{step.drop}")
        if step.create is not None:
            harness.create(TEXTS[step.create], f"q{100 + number}")
        harness.batch({"a": [rows(*((t + number, *rest) for t, *rest in step.left))],
                       "b": [rows(*((t + number, *rest) for t, *rest in step.right))]})  # fmt: skip
        merged += len(harness.core.inventory.results[-1].merged_away)
    found = {r.name: Counter(harness.results(r.name)) for r in harness.core.roster.records.values()}
    harness.core.directory.close()
    return found, merged


@given(steps=st.lists(STEPS, min_size=3, max_size=7))
@settings(max_examples=5)
def test_merging_changes_no_result(tmp_path_factory: pytest.TempPathFactory, steps: list[Step]) -> None:
    base = tmp_path_factory.mktemp("merge")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "FAN_IN", 1000)
        apart, none = play(base / "apart", steps)
        patch.setattr(compaction, "FAN_IN", 2)
        together, _ = play(base / "together", steps)
        patch.setattr(merge, "PART_BYTES", 100)
        in_parts, _ = play(base / "in_parts", steps)
    assert none == 0
    assert together == apart
    assert in_parts == apart


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CoreHarness:
    monkeypatch.setattr(compaction, "FAN_IN", 3)
    return open_core(tmp_path / "state", partitions=2)


def test_merged_files_go_and_their_rows_stay(harness: CoreHarness) -> None:
    harness.create(JOIN.replace(WINDOW, "[UNBOUNDED]"), "q")
    for n in range(3):
        harness.batch({"a": [rows(*((n, k, 10 * n + k) for k in range(4)))]})
    before = set(harness.core.inventory.buckets)
    harness.batch({"b": [rows((3, 1, 99))]})
    manifest = harness.core.inventory.results[-1]
    assert set(manifest.merged_away) == before
    assert not before & data_files(harness)
    merged = [bucket for bucket in manifest.buckets if bucket.stream == "a"]
    assert sum(bucket.rows for bucket in merged) == 12
    assert {bucket.epoch for bucket in merged} == {3}
    assert sorted(harness.results("q")) == [(1, 99), (11, 99), (21, 99)]


def test_rows_that_nobody_wants_any_more_are_left_out(harness: CoreHarness) -> None:
    unbounded = JOIN.replace(WINDOW, "[UNBOUNDED]")
    harness.create(unbounded, "all")
    harness.create(unbounded + " WHERE p.x = 1", "one")
    for n in range(3):
        harness.batch({"a": [rows((n, 1, n))]})
    harness.drop("all")
    harness.batch({"b": [rows((3, 1, 9))]})
    assert sum(bucket.rows for bucket in harness.core.inventory.buckets.values() if bucket.stream == "a") == 1
    assert harness.results("one") == [(1, 9)]


def test_an_index_younger_than_the_rows_is_filled_as_far_as_it_matters(harness: CoreHarness) -> None:
    unbounded = JOIN.replace(WINDOW, "[UNBOUNDED]")
    harness.create(unbounded, "single")
    harness.batch({"a": [rows((0, 1, 0, 5))]})
    harness.create(unbounded + " AND p.j = q.j", "both")
    for n in (1, 2):
        harness.batch({"a": [rows((n, 1, n, 5))]})
    harness.batch({"b": [rows((3, 1, 9, 5))]})
    assert harness.core.inventory.results[-1].merged_away
    assert sorted(harness.results("single")) == [(0, 9), (1, 9), (2, 9)]
    assert sorted(harness.results("both")) == [(1, 9), (2, 9)]


def test_results_of_before_a_merge_stay_readable(harness: CoreHarness) -> None:
    harness.create(JOIN.replace(WINDOW, "[UNBOUNDED]"), "q")
    for n in range(7):
        harness.batch({"a": [rows((n, 1, n))], "b": [rows((n, 1, n))]})
    harness.reopen(5)
    assert sorted(harness.results("q")) == sorted((left, right) for left in range(7) for right in range(7))


def test_buckets_of_wider_query_sets_are_merged_into_narrow_ones(harness: CoreHarness) -> None:
    unbounded = JOIN.replace(WINDOW, "[UNBOUNDED]")
    harness.create(unbounded, "stays")
    harness.create_many([("SELECT x FROM a WHERE x = 5", f"n{n}") for n in range(70)])
    for n in range(3):
        harness.batch({"a": [rows((n, 1, n))]})
    assert harness.core.plan.words == 2
    harness.core.submit(drop=[query for name, query in harness.core.roster.names.items() if name != "stays"])
    harness.batch({"b": [rows((4, 1, 9))]})
    assert harness.core.plan.words == 1
    assert harness.core.inventory.results[-1].merged_away
    assert sorted(harness.results("stays")) == [(0, 9), (1, 9), (2, 9)]


def test_a_merge_writes_as_many_parts_as_its_bytes_ask_for(
    harness: CoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge, "PART_BYTES", 1000)
    text = "SELECT p.s AS ps, q.x AS qx FROM a [UNBOUNDED] p JOIN b [UNBOUNDED] q ON p.k = q.k AND p.j = q.j"
    harness.create(text, "q")
    for n in range(3):
        harness.batch({"a": [rows(*((n, k % 3, k, 1, f"{n}.{k}" + "x" * 90) for k in range(40)))]})
    harness.batch({"b": [rows(*((3, k, 9, 1) for k in range(3)))]})
    bucket, other = (each for each in harness.core.inventory.buckets.values() if each.stream == "a")
    assert bucket.rows + other.rows == 120
    assert len(bucket.parts) + len(other.parts) > 10, "a hot key is cut, too"
    assert len(harness.results("q")) == len(set(harness.results("q"))) == 120
    monkeypatch.setattr(merge, "PART_BYTES", 1 << 20)
    for n in range(3):
        harness.batch({"a": [rows((5 + n, 1, 7, 1, "y"))]})
    harness.batch({"b": [rows((9, 1, 7, 1))]})
    assert len(harness.results("q")) == 120 + 3 + 42


def test_a_merge_that_loses_rows_is_no_merge(harness: CoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.create(JOIN.replace(WINDOW, "[UNBOUNDED]"), "q")
    for n in range(3):
        harness.batch({"a": [rows((n, 1, n))]})
    with monkeypatch.context() as patch:
        patch.setattr(merge, "cut", lambda sizes, most: [slice(0, len(sizes) - 1)])
        with pytest.raises(InternalError, match=r"made \d rows of \d"):
            harness.batch({"b": [rows((3, 1, 9))]})
    harness.core.abort()
    harness.batch({"b": [rows((3, 1, 9))]})
    assert len(harness.results("q")) == 3
