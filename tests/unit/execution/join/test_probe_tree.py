"""Joins of many relations in a whole engine (without Spark): plans that change, intermediate results, failures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.engine_sample import STREAMS, data_files, rows
from tests.support.forced_plans import random_planner
from tests.support.harness import CoreHarness
from weft.planner.joins.graph import JoinQuery
from weft.planner.joins.order_plan import ProbePlan
from weft.planner.joins.planners import Planner, choosing_planner
from weft.planner.joins.statistics import CostModel, Statistics

pytestmark = pytest.mark.thorough

W = "[RANGE 10 SECONDS]"
CHAIN = f"SELECT p.x AS px, q.x AS qx, r.x AS rx FROM a {W} p JOIN b {W} q ON p.k = q.k JOIN c {W} r ON q.j = r.j"
THETA = "SELECT p.x AS px, q.x AS qx FROM a [RANGE 3 SECONDS] p JOIN b [RANGE 2 SECONDS] q ON p.x < q.x"
WIDE = CHAIN + " AND p.x + q.x > r.x"
Row = tuple[int, int | None, int, int | None]
"""Second, k, x, j."""


def flat(queries: Sequence[JoinQuery], statistics: Statistics, before: ProbePlan | None) -> ProbePlan:
    return choosing_planner(min, CostModel(intermediates=False))(queries, statistics, before)


def with_intermediates(queries: Sequence[JoinQuery], statistics: Statistics, before: ProbePlan | None) -> ProbePlan:
    """The first of many random plans that stores a join."""
    plans = (random_planner(seed)(queries, statistics, before) for seed in range(100))
    return next(plan for plan in plans if plan.intermediates or all(len(query.inputs) < 3 for query in queries))


class Switching:
    """A planner that can be told to plan otherwise."""

    def __init__(self, planner: Planner) -> None:
        self.planner = planner

    def __call__(self, queries: Sequence[JoinQuery], statistics: Statistics, before: ProbePlan | None) -> ProbePlan:
        return self.planner(queries, statistics, before)


def make_rows(random: Random, start: int, count: int) -> list[Row]:
    made: list[Row] = [
        (start + random.randrange(4), random.choice((None, 0, 1, 2)), random.randrange(5), random.randrange(3))
        for _ in range(count)
    ]
    return sorted(made, key=lambda row: row[0])


class Scene:
    """An engine with rows that are remembered, to say what a chain of all of them has to give."""

    def __init__(self, path: Path, planner: Planner, *, partitions: int = 2) -> None:
        self.harness = CoreHarness(path / "state", list(STREAMS.values()), partitions=partitions, planner=planner)
        self.random = Random(7)
        self.seen: dict[str, list[tuple[int, Row]]] = {name: [] for name in "abc"}
        self.batches = 0

    def batch(self, count: int = 8) -> None:
        made = {name: make_rows(self.random, 4 * self.batches, count) for name in "abc"}
        for name, some in made.items():
            self.seen[name] += [(self.batches, row) for row in some]
        self.harness.batch({name: [rows(*some)] for name, some in made.items()})
        self.batches += 1

    def chain(self, condition: Callable[[Row, Row, Row], bool] = lambda *_: True, *, since: int = 0) -> list[Any]:
        found = []
        for p, q, r in product(*([row for batch, row in self.seen[name] if batch >= since] for name in "abc")):
            times = (p[0], q[0], r[0])
            if (
                p[1] is not None
                and p[1] == q[1]
                and q[3] == r[3]
                and max(times) - min(times) < 10
                and condition(p, q, r)
            ):
                found.append((p[2], q[2], r[2]))
        return sorted(found)

    def results(self, name: str) -> list[Any]:
        return sorted(self.harness.results(name))


def stored_joins(harness: CoreHarness) -> set[str]:
    return {stored.id for stored in harness.core.plan.probes.stored}


@pytest.mark.parametrize("planner", [flat, with_intermediates, random_planner(3)])
@pytest.mark.parametrize("partitions", [1, 3])
def test_a_chain_of_three(tmp_path: Path, planner: Planner, partitions: int) -> None:
    scene = Scene(tmp_path, planner, partitions=partitions)
    scene.harness.create(CHAIN, "q")
    scene.harness.create(WIDE, "wide")
    for _ in range(5):
        scene.batch()
    assert scene.results("q") == scene.chain() != []
    assert scene.results("wide") == scene.chain(lambda p, q, r: p[2] + q[2] > r[2]) != []


def test_a_plan_may_change_at_every_boundary(tmp_path: Path) -> None:
    planner = Switching(with_intermediates)
    scene = Scene(tmp_path, planner)
    scene.harness.create(CHAIN, "q")
    others: list[str] = []
    for number in range(8):
        scene.batch()
        planner.planner = random_planner(number)
        others.append(f"o{number}")
        scene.harness.create(THETA, others[-1])  # a changelog, and with it another plan
        if number % 3 == 2:
            scene.harness.drop(others.pop(0))
    assert scene.results("q") == scene.chain()


def test_an_intermediate_result_that_comes_late_is_rebuilt_from_what_is_stored(tmp_path: Path) -> None:
    planner = Switching(flat)
    scene = Scene(tmp_path, planner)
    scene.harness.create(CHAIN, "q")
    scene.batch()
    scene.batch()
    assert not stored_joins(scene.harness)
    planner.planner = with_intermediates
    scene.harness.create(THETA, "other")
    begun = scene.harness.core.begin(scene.harness.core.next_batch, partitions=2)
    assert begun is not None
    assert begun[1].rebuild == stored_joins(scene.harness) != set()
    scene.harness.core.abort()
    for _ in range(3):
        scene.batch()
    begun = scene.harness.core.begin(scene.harness.core.next_batch, partitions=2)
    assert begun is not None
    assert not begun[1].rebuild, "once is enough"
    assert scene.results("q") == scene.chain()


def test_a_new_query_on_a_store_that_is_there_causes_no_rebuilding(tmp_path: Path) -> None:
    scene = Scene(tmp_path, with_intermediates)
    scene.harness.create(CHAIN, "q")
    scene.batch()
    scene.harness.create(CHAIN + " WHERE p.x > 2", "new")
    begun = scene.harness.core.begin(scene.harness.core.next_batch, partitions=2)
    assert begun is not None
    assert not begun[1].rebuild
    scene.harness.core.abort()
    for _ in range(3):
        scene.batch()
    assert scene.results("q") == scene.chain()
    assert scene.results("new") == scene.chain(lambda p, *_: p[2] > 2, since=1) != []


def test_everything_is_freed_when_the_last_query_goes(tmp_path: Path) -> None:
    scene = Scene(tmp_path, with_intermediates)
    scene.harness.create(CHAIN, "q")
    for _ in range(3):
        scene.batch()
    assert stored_joins(scene.harness) <= {bucket.store for bucket in scene.harness.core.inventory.buckets.values()}
    scene.harness.drop("q")
    for _ in range(2):  # the second says that all is out of reach, and then it goes
        scene.batch()
    assert not scene.harness.core.inventory.buckets
    scene.harness.core.trim_results(1 << 40)
    assert data_files(scene.harness) == set()


def test_old_intermediate_results_are_freed_with_their_rows(tmp_path: Path) -> None:
    scene = Scene(tmp_path, with_intermediates)
    scene.harness.create(CHAIN, "q")
    for _ in range(12):
        scene.batch(4)
        scene.harness.core.trim_results(1 << 40)
    inventory = scene.harness.core.inventory
    oldest = 4 * (scene.batches - 1) - 10
    assert all(bucket.max_time >= oldest * 1_000_000 for bucket in inventory.buckets.values())
    needed = set(inventory.buckets) | {name for bucket in inventory.buckets.values() for name in bucket.refs}
    assert data_files(scene.harness) == needed | set(inventory.freed)


def test_a_restart_goes_on_with_another_plan_and_other_partitions(tmp_path: Path) -> None:
    planner = Switching(with_intermediates)
    scene = Scene(tmp_path, planner)
    scene.harness.create(CHAIN, "q")
    for number in range(6):
        scene.batch()
        planner.planner = random_planner(number)
        scene.harness.reopen(1 + number % 3)
    assert scene.results("q") == scene.chain()


def test_a_condition_that_fails_ends_its_own_query_alone(tmp_path: Path) -> None:
    scene = Scene(tmp_path, flat)
    scene.harness.create(CHAIN, "q")
    scene.harness.create(CHAIN + " AND p.x % r.x = 0", "fails")
    scene.harness.create(f"SELECT p.x AS px FROM a {W} p JOIN b {W} q ON p.x % q.x = 1", "fails_too")
    for _ in range(3):
        scene.batch()
    records = {record.name: record for record in scene.harness.core.roster.records.values()}
    assert "zero" in records["fails"].error.lower()
    assert "zero" in records["fails_too"].error.lower()
    assert not records["q"].error
    assert scene.results("q") == scene.chain()


@pytest.mark.parametrize(
    ("sql", "holds"),
    [
        ("p.x < q.x", lambda p, q: p < q),
        ("p.x >= q.x", lambda p, q: p >= q),
        ("p.x <> q.x", lambda p, q: p != q),
        ("q.x BETWEEN p.x - 1 AND p.x + 1", lambda p, q: p - 1 <= q <= p + 1),
        ("p.x + q.x = 4", lambda p, q: p + q == 4),
    ],
)
def test_theta_joins(tmp_path: Path, sql: str, holds: Callable[[int, int], bool]) -> None:
    scene = Scene(tmp_path, random_planner(1), partitions=3)
    scene.harness.create(f"SELECT p.x AS px, q.x AS qx FROM a [RANGE 3 SECONDS] p JOIN b {W} q ON {sql}", "q")
    for _ in range(4):
        scene.batch()
    wanted = [
        (p[2], q[2])
        for (_, p), (_, q) in product(scene.seen["a"], scene.seen["b"])
        if holds(p[2], q[2]) and p[0] > max(p[0], q[0]) - 3 and q[0] > max(p[0], q[0]) - 10
    ]
    assert scene.results("q") == sorted(wanted) != []


def test_what_was_sent_is_known_after_a_batch(tmp_path: Path) -> None:
    scene = Scene(tmp_path, flat)
    scene.harness.create(CHAIN, "q")
    scene.batch()
    core = scene.harness.core
    flows = core.planning.flows
    assert set(flows) <= {probe.id for probe in core.plan.probes.probes()}
    last = [flows[probe.id][1] for probe in core.plan.probes.probes() if probe.result and probe.id in flows]
    assert sum(last) == core.inventory.results[0].pairs == len(scene.chain())


def test_few_matched_rows_do_not_keep_all_of_a_bucket(tmp_path: Path) -> None:
    harness = CoreHarness(tmp_path / "state", list(STREAMS.values()), partitions=2, planner=flat)
    harness.create(CHAIN, "q")
    harness.batch({"a": [rows(*((0, k, k) for k in range(100)))], "b": [rows((0, 7, 1, 2))], "c": [rows((0, 5, 3, 2))]})
    (result,) = harness.core.inventory.results[0].windows
    copies = [ref for ref in result.refs if ref.path.endswith(".rows.arrow")]
    assert len(copies) == 1
    assert harness.results("q") == [(7, 1, 3)]
    harness.drop("q")
    for _ in range(2):
        harness.batch({"a": [rows((1, 0, 0))]})
    assert harness.results("q") == [(7, 1, 3)]
    assert data_files(harness) == {result.path, *(ref.path for ref in result.refs)}
