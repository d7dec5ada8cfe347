"""A key that never pauses keeps its own session, and not the ended ones of all other keys."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.support.engine_sample import open_core, rows
from tests.support.harness import CoreHarness

GROUPS = "SELECT k, COUNT(*) AS n FROM a [SESSION 10 SECONDS] GROUP BY k"
PAIRS = "SELECT p.x AS px, q.x AS qx FROM a [SESSION 10 SECONDS] p JOIN b [SESSION 10 SECONDS] q ON p.k = q.k"
PAIR_GROUPS = PAIRS.replace("p.x AS px, q.x AS qx", "p.k, COUNT(*) AS n") + " GROUP BY p.k"
RANGES = PAIRS.replace("[SESSION 10 SECONDS]", "[RANGE 300 SECONDS]")
KEYS = 20


def batch(harness: CoreHarness, n: int) -> None:
    """Key 0 is always there, the others come once."""
    a = [rows((n, 0, n), *((n, 1 + n * KEYS + k, n) for k in range(KEYS)))]
    b = [rows(*((n, 1 + n * KEYS + k, n) for k in range(KEYS)))]
    harness.batch({"a": a, "b": b})


def stored(harness: CoreHarness) -> int:
    return sum(bucket.rows for bucket in harness.core.inventory.buckets.values())


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize(("sql", "of_key"), [(GROUPS, 1), (PAIR_GROUPS, 1), (PAIRS, 100)])
def test_what_has_ended_goes_although_a_key_goes_on(tmp_path: Path, sql: str, of_key: int, partitions: int) -> None:
    harness = open_core(tmp_path / "state", partitions=partitions)
    harness.create(sql, "q")
    sizes = []
    for n in range(100):
        if n == 50:
            harness.reopen(partitions + 1)
        batch(harness, n)
        sizes.append(stored(harness))
    # Of a join, the rows of key 0 are all needed as long as its session goes on.
    assert max(sizes) < 30 * 2 * KEYS + 2 * of_key, sizes[::10]
    assert len(harness.core.inventory.buckets) < 100
    reported = Counter(harness.results("q"))
    assert set(reported.values()) == ({1} if sql != PAIRS else {KEYS})
    batch(harness, 200)
    found = harness.results("q")
    if sql == GROUPS:
        assert sorted(found) == sorted([(0, 100), *((k, 1) for k in range(1, 1 + 100 * KEYS))])
    elif sql == PAIR_GROUPS:
        assert sorted(found) == [(k, 1) for k in range(1, 1 + 100 * KEYS)]
    else:
        assert Counter(found) == Counter({(n, n): KEYS for n in range(100)})


def test_rows_that_other_queries_want_stay(tmp_path: Path) -> None:
    """A join by range shares its rows with a session join: those of ended sessions are still to be met."""
    harness = open_core(tmp_path / "state")
    harness.create(PAIRS, "sessions")
    harness.create(RANGES, "ranges")
    for n in range(40):
        batch(harness, n)
    harness.batch({"b": [rows(*((40, 1 + k, 40) for k in range(KEYS)))]})
    assert Counter(harness.results("ranges")) == Counter({**{(n, n): KEYS for n in range(40)}, (0, 40): KEYS})


def test_a_session_that_goes_on_later_has_all_its_rows(tmp_path: Path) -> None:
    """What is written anew is merged and written anew again, and nothing of it is lost."""
    harness = open_core(tmp_path / "state", partitions=2)
    harness.create_many([(GROUPS, "ten"), (GROUPS.replace("10 SECONDS", "40 SECONDS"), "forty")])
    for n in range(120):
        batch(harness, n)
    batch(harness, 400)
    wanted = sorted([(0, 120), *((k, 1) for k in range(1, 1 + 120 * KEYS))])
    assert sorted(harness.results("ten")) == wanted
    assert sorted(harness.results("forty")) == wanted
