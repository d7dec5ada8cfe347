"""Sharing statistics: counted exactly, counted for pairs, and learned from some of them."""

from __future__ import annotations

from random import Random

import pytest

from tests.support.partition_cases import Rows, random_rows, reads, workload_of
from weft.planner.partitioning.choose import choose_partitioning, price_assignment
from weft.planner.partitioning.sharing_counts import PairShare, count_loads, count_pairs, count_shared_rows
from weft.planner.partitioning.sharing_forest import mean_error, predict_shared_rows, train_forest
from weft.planner.partitioning.workload import (
    PartitionedInput,
    PartitioningLimits,
    PartitioningWorkload,
    Place,
    SharedRows,
)

pytestmark = pytest.mark.thorough

GROUPS = 12


def _rows(seed: int, *, attributes: int = 2, alike: float = 0.95) -> list[dict[str, int]]:
    return random_rows(Random(seed), streams=1, attributes=attributes, groups=GROUPS, rows=800, alike=alike)["s0"]


def _pairs(groups: range, attributes: int = 2) -> list[tuple[str, int, str]]:
    return [("a0", group, f"a{at}") for group in groups for at in range(1, attributes)]


def test_equal_rows_are_one_count() -> None:
    rows = [{"a": 0, "b": 1}, {"b": 1, "a": 0}, {"a": 2, "b": 1}]
    assert count_shared_rows("s", rows, scale=10.0) == (
        SharedRows("s", (Place("a", 0, 20.0), Place("b", 1, 20.0))),
        SharedRows("s", (Place("a", 2, 10.0), Place("b", 1, 10.0))),
    )
    assert count_loads("s", rows, 3) == {PartitionedInput("s", "a"): (2, 0, 1), PartitionedInput("s", "b"): (0, 3, 0)}


def test_pairs_are_counted_only_where_asked() -> None:
    rows = [{"a": 0, "b": 1}] * 3 + [{"a": 0, "b": 0}] + [{"a": 1, "b": 0}] * 5 + [{"a": 0}]
    found = count_pairs("s", rows, key_groups=2, pairs=[("a", 0, "b")], at=7.0)
    source, target = PartitionedInput("s", "a"), PartitionedInput("s", "b")
    assert found == [PairShare(source, 0, target, 0, 0.25, 7.0), PairShare(source, 0, target, 1, 0.75, 7.0)]


def test_a_key_group_without_rows_shares_nothing() -> None:
    assert [each.share for each in count_pairs("s", [], key_groups=2, pairs=[("a", 0, "b")])] == [0.0, 0.0]


def test_forest_knows_what_it_has_seen() -> None:
    samples = count_pairs("s0", _rows(1), key_groups=GROUPS, pairs=_pairs(range(GROUPS)))
    forest = train_forest(samples, seed=4)
    assert mean_error(forest, samples) < 0.05
    again = train_forest(samples, seed=4)
    source, target = PartitionedInput("s0", "a0"), PartitionedInput("s0", "a1")
    assert forest.shares(source, target, key_groups=GROUPS) == again.shares(source, target, key_groups=GROUPS)


def test_shares_of_a_key_group_are_at_most_all_of_it() -> None:
    samples = count_pairs("s0", _rows(2), key_groups=GROUPS, pairs=_pairs(range(0, GROUPS, 2)))
    forest = train_forest(samples)
    shares = forest.shares(PartitionedInput("s0", "a0"), PartitionedInput("s0", "a1"), key_groups=GROUPS)
    assert set(shares) == set(range(GROUPS))
    assert all(sum(share for _, share in each) <= 1 + 1e-9 for each in shares.values())


def test_unknown_inputs_and_no_samples_share_nothing() -> None:
    forest = train_forest([])
    assert forest.shares(PartitionedInput("s", "a"), PartitionedInput("s", "b"), key_groups=2) == {}
    assert mean_error(forest, [PairShare(PartitionedInput("s", "a"), 0, PartitionedInput("s", "b"), 0, 0.5)]) == 0.0
    loads = {PartitionedInput("s", "a"): (1.0, 2.0), PartitionedInput("s", "b"): (2.0, 1.0)}
    assert predict_shared_rows(forest, loads) == ()


def _learned(rows: list[dict[str, int]], exact: PartitioningWorkload, attributes: int) -> PartitioningWorkload:
    samples = count_pairs("s0", rows, key_groups=GROUPS, pairs=_pairs(range(GROUPS), attributes))
    shared = predict_shared_rows(train_forest(samples), exact.loads)
    return PartitioningWorkload(exact.queries, exact.partitions, exact.key_groups, loads=exact.loads, shared=shared)


@pytest.mark.parametrize("attributes", [2, 3])
def test_a_choice_by_learned_shares_is_nearly_as_good(attributes: int) -> None:
    rows = _rows(3, attributes=attributes)
    named: Rows = {"s0": rows}
    queries = [reads(f"q{at}", f"s0.a{at}") for at in range(attributes)]
    exact = workload_of(named, queries, partitions=4, groups=GROUPS)
    limits = PartitioningLimits(seconds=0.5)
    best = choose_partitioning(exact, limits)
    learned = choose_partitioning(_learned(rows, exact, attributes), limits)
    real = price_assignment(
        PartitioningWorkload(
            exact.queries, 4, GROUPS, loads=exact.loads, shared=exact.shared, current=learned.assignment()
        )
    )
    assert real.total <= 1.15 * best.cost.total
    assert real.total < best.unshared.total
