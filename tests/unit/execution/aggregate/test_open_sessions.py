"""A batch looks at sessions that may end and at files that may be done, not at all that are open."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.support.engine_sample import EPOCH, open_core, rows
from tests.support.harness import CoreHarness
from weft.execution.aggregate import open_sessions as session_cells
from weft.execution.join import session_join
from weft.kernels.aggregate import session_index
from weft.storage import compaction

GROUPS = "SELECT k, SUM(x) AS s FROM a [SESSION 100 SECONDS] GROUP BY k"
PAIRS = "SELECT p.x AS px, q.x AS qx FROM a [SESSION 100 SECONDS] p JOIN b [SESSION 100 SECONDS] q ON p.k = q.k"
PAIR_GROUPS = PAIRS.replace("p.x AS px, q.x AS qx", "p.k, COUNT(*) AS n") + " GROUP BY p.k"
MANY = 2000


def batch(harness: CoreHarness, *values: tuple[int, int, int]) -> None:
    given = [rows(*values)]
    harness.batch({"a": given, "b": given})


def opened(path: Path, sql: str) -> CoreHarness:
    """Many sessions that began within a hundred seconds."""
    harness = open_core(path)
    harness.create(sql, "q")
    batch(harness, *((n * 100 // MANY, n, n % 50) for n in range(MANY)))
    return harness


def looked_at() -> tuple[list[int], list[object]]:
    """How many cells or rows were taken, from here on."""
    counts: list[int] = []
    chosen, spelled = session_index.chosen_cells, session_index.concat_ranges

    def counted_cells(cells, taken):  # type: ignore[no-untyped-def]
        counts.append(len(taken))
        return chosen(cells, taken)

    def counted_rows(begins, ends):  # type: ignore[no-untyped-def]
        found = spelled(begins, ends)
        counts.append(len(found))
        return found

    patches = [
        patch.object(session_cells, "chosen_cells", counted_cells),
        patch.object(session_join, "concat_ranges", counted_rows),
    ]
    return counts, patches


@pytest.mark.parametrize("sql", [GROUPS, PAIRS, PAIR_GROUPS])
def test_a_batch_costs_what_it_changes(tmp_path: Path, sql: str) -> None:
    harness = opened(tmp_path, sql)
    counts, patches = looked_at()
    with patches[0], patches[1]:  # type: ignore[attr-defined]
        batch(harness, (99, 5000, 1))
        assert sum(counts) <= 2, "nothing is due"
        batch(harness, (101, 5001, 1), (100, 30, 1))
    # Second 0 is over with second 100, and so is second 1 with 101: forty sessions of two thousand, on two sides.
    assert 0 < sum(counts) < 200
    assert len(harness.results("q")) == 39, "that of key 30 goes on"
    batch(harness, (400, 5002, 1))
    # Of the pairs, key 30 has four.
    assert len(harness.results("q")) == MANY + 2 + (3 if sql == PAIRS else 0)


@pytest.mark.parametrize("sql", [GROUPS, PAIRS, PAIR_GROUPS])
def test_files_go_when_all_their_sessions_have_ended(tmp_path: Path, sql: str) -> None:
    """Also where one of them was carried on for long by rows in later files."""
    with patch.object(compaction, "FAN_IN", 1000):
        harness = opened(tmp_path, sql)
        first = set(harness.core.inventory.buckets)
        for second in (99, 190, 280):
            batch(harness, (second, 1, 1))
        assert not first & set(harness.core.inventory.buckets), "what is open of them has files of its own"
        sides = 1 if sql == GROUPS else 2
        assert sum(bucket.rows for bucket in harness.core.inventory.buckets.values()) == 4 * sides, "rows of key 1"
        batch(harness, (381, 9, 1))
        assert len(harness.core.inventory.buckets) == sides
        assert len(harness.results("q")) == MANY + (15 if sql == PAIRS else 0), "key 1 has four rows, or sixteen pairs"


def test_a_large_file_that_is_not_done_is_asked_ever_less_often(tmp_path: Path) -> None:
    with patch.object(compaction, "FAN_IN", 1000), patch.object(session_cells, "_ALWAYS", 10):
        harness = opened(tmp_path, GROUPS)
        counts, patches = looked_at()
        asked = []
        with patches[0]:  # type: ignore[attr-defined]
            for second in range(99, 99 + 40 * 50, 50):
                batch(harness, (second, 1, 1))
                asked.append(max(counts, default=0) >= MANY // 4)
                counts.clear()
    assert 1 <= sum(asked) <= 6, "in some partition, at ages that are powers of two"


def test_a_longest_length_frees_what_never_pauses(tmp_path: Path) -> None:
    harness = open_core(tmp_path)
    harness.create(GROUPS.replace("100 SECONDS", "100 SECONDS MAX 5 MINUTES"), "q")
    for second in range(0, 3000, 50):
        harness.batch({"a": [rows((second, 1, 1))]})
    assert sorted(harness.results("q")) == [(1, 6)] * 9, "each of six rows in five minutes"
    assert len(harness.core.inventory.buckets) < 12


def test_sessions_that_are_cut_together_are_one_window(tmp_path: Path) -> None:
    """Groups that are no join keys gather sessions of several of them, if those begin and end together."""
    harness = open_core(tmp_path)
    window = "[SESSION 10 SECONDS MAX 10 SECONDS]"
    harness.create(
        f"SELECT p.j, COUNT(*) AS n, window_end FROM a {window} p JOIN a {window} q ON p.k = q.k GROUP BY p.j", "q"
    )
    harness.batch({"a": [rows((1, 1, 1, 7), (1, 2, 1, 7), (5, 2, 1, 7), (40, 3, 1, 7))]})
    assert harness.results("q") == [(7, 5, EPOCH + timedelta(seconds=10))]
