"""From live queries to probe trees: a common form, shared steps, stages."""

from __future__ import annotations

from random import Random

import pytest

from tests.support.engine_sample import STREAMS, WINDOW, live
from tests.support.forced_plans import random_planner
from weft.plan.changelog import LiveQuery
from weft.plan.probe_tree import NO_PROBES, Comparison, Equality, Input, ProbeForest
from weft.planner.joins.graph import JoinInput
from weft.planner.joins.normal_form import conditions_of, source_of, to_probed
from weft.planner.joins.planners import Measured, plan_each_alone, plan_probes, statistics_of
from weft.planner.joins.statistics import distinct_keys
from weft.planner.plan import assemble, plan_queries
from weft.planner.stores import probed_stores
from weft.sql import bind

A, B, C = Input("a", 0), Input("b", 0), Input("c", 0)
W = WINDOW
CHAIN = f"SELECT p.x FROM a {W} p JOIN b {W} q ON p.k = q.k JOIN c {W} r ON q.j = r.j"
TURNED = f"SELECT r.x FROM c {W} r JOIN b [RANGE 3 SECONDS] q ON r.j = q.j JOIN a {W} p ON q.k = p.k"
STAR = f"SELECT p.x FROM a {W} p JOIN b {W} q ON p.k = q.k JOIN c {W} r ON p.k = r.k"


def forest(*sqls: str, seed: int | None = None) -> ProbeForest:
    queries = [live(sql, at) for at, sql in enumerate(sqls)]
    planner = plan_probes if seed is None else random_planner(seed)
    return plan_queries(queries, STREAMS, Measured(), planner=planner).trees


def test_the_order_of_relations_and_windows_do_not_matter_to_what_is_shared() -> None:
    assert source_of(bind(CHAIN, STREAMS)) == source_of(bind(TURNED, STREAMS)) != source_of(bind(STAR, STREAMS))
    trees = forest(CHAIN, TURNED)
    assert {probe.slots for probe in trees.probes()} == {0b11}


def test_conditions_are_the_same_from_either_side() -> None:
    one = f"SELECT p.x FROM a {W} p JOIN b {W} q ON p.x < q.x AND p.s = q.s AND p.k = q.k"
    other = f"SELECT p.x FROM b {W} q JOIN a {W} p ON q.k = p.k AND q.s = p.s AND q.x > p.x"
    first, second = (sorted(each.text for each in conditions_of(bind(sql, STREAMS))) for sql in (one, other))
    assert first == second
    equality, comparison = sorted(conditions_of(bind(one, STREAMS)), key=lambda each: isinstance(each, Comparison))
    assert isinstance(equality, Equality)
    assert len(equality.left_index.key) == 2, "one composite key"
    assert isinstance(comparison, Comparison)
    sides = comparison.sides()
    assert sides is not None
    assert sides[0] == "<"


def test_what_only_a_wide_condition_connects_is_connected_by_true() -> None:
    query = bind(f"SELECT p.x FROM a {W} p, b {W} q, c {W} r WHERE p.x + q.x > r.x", STREAMS)
    conditions = conditions_of(query)
    assert len(conditions) == 2
    assert all(isinstance(each, Comparison) and "TRUE" in each.text for each in conditions)
    probed = to_probed(live(f"SELECT p.x FROM a {W} p, b {W} q, c {W} r WHERE p.x + q.x > r.x", 5))
    assert probed.filter is not None
    assert probed.filter.slot == 5


def test_steps_by_one_key_stay_in_one_stage() -> None:
    for seed in range(20):
        trees = forest(STAR, seed=seed)
        flat = [probe for probe in trees.probes() if len(probe.members) == len(probe.added) == 1]
        assert {probe.stage for probe in flat} == {1}
        if not trees.stored:
            assert trees.stages == 1, "all are divided by k"


def test_another_key_is_another_stage() -> None:
    for seed in range(20):
        for probe in forest(CHAIN, seed=seed).probes():
            for then in probe.then:
                assert then.stage > probe.stage
                assert not then.local


@pytest.mark.parametrize("seed", range(30))
def test_every_query_gets_its_results_once_from_each_relation(seed: int) -> None:
    sqls = (CHAIN, TURNED, STAR, CHAIN + " AND p.x < r.x")
    trees = forest(*sqls, seed=seed)
    for slot in range(len(sqls)):
        starts = [probe.start for probe in trees.probes() if probe.result_slots >> slot & 1]
        assert sorted(starts) == [A, B, C]
    ids = [probe.id for probe in trees.probes()]
    assert len(ids) == len(set(ids))
    for stored in trees.stored:
        kept = [probe for probe in trees.probes() if probe.keep == stored.id]
        assert sorted(probe.start for probe in kept) == sorted(stored.inputs)
        assert all(probe.stage < stored.stage for probe in kept)
        assert all(probe.stage >= stored.stage for probe in trees.probes() if probe.store == stored.id)


D = "[RANGE 10 SECONDS] s ON r.k = s.k"
LONGER = (CHAIN + f" JOIN a {D}", CHAIN + f" JOIN a {D} AND p.x < s.x", CHAIN + f" JOIN b {D}", CHAIN)


def test_every_step_has_a_name_of_its_own_whatever_the_ways_to_it() -> None:
    for seed in range(60):
        probes = list(forest(*LONGER, seed=seed).probes())
        assert len({probe.id for probe in probes}) == len(probes)
        steps = [(probe.start, probe.members, probe.store, probe.result, probe.slots) for probe in probes]
        assert len(set(steps)) == len(steps), "no step twice for the same queries"


def test_steps_have_the_same_names_whatever_else_is_planned() -> None:
    alone = {probe.id for probe in forest(CHAIN, seed=None).probes()}
    beside = {probe.id for probe in forest(CHAIN, CHAIN + " WHERE p.x > 1", seed=None).probes()}
    assert alone == beside


def test_stores_have_an_index_for_every_key_and_the_columns_of_conditions() -> None:
    queries = [live(CHAIN + " AND p.x < r.x", 0)]
    plan = assemble(queries, STREAMS, NO_PROBES)
    stores = {store.stream: store for store in plan.stores}
    assert [len(stores[name].indexes) for name in "abc"] == [1, 2, 1]
    assert stores["a"].columns == ("x",)
    assert stores["c"].columns == ("x",)


def test_statistics_come_from_what_was_measured() -> None:
    queries: list[LiveQuery] = [live(CHAIN, 0), live(CHAIN.replace("10 SECONDS", "1 MINUTE"), 1)]
    probed = [to_probed(each) for each in queries]
    stores = probed_stores(queries)
    (index,) = {e.left_index.id for e in probed[0].conditions.values() if isinstance(e, Equality) and e.left == A}
    measured = Measured({"a": 1000.0}, {f"{stores[A]}/{index}": (1000, 900)})
    statistics = statistics_of(probed, stores, measured)
    assert statistics.rate(JoinInput("a")) == 1024
    assert 59 < statistics.window_seconds(JoinInput("b")) <= 60
    (keys,) = statistics.distinct_keys.values()
    assert keys == 4096


@pytest.mark.parametrize("keys", [10, 1000, 50_000])
def test_how_many_keys_there_are_is_seen_from_a_sample(keys: int) -> None:
    random = Random(1)
    sample = [random.randrange(keys) for _ in range(5000)]
    assert distinct_keys(5000, len(set(sample))) == pytest.approx(keys, rel=0.2)


def test_degenerate_samples() -> None:
    assert distinct_keys(0, 0) == 0
    assert distinct_keys(1, 1) >= 1
    assert distinct_keys(1000, 1000) >= 1000


def test_each_alone_shares_only_what_is_equal() -> None:
    queries = [to_probed(live(sql, at)).join for at, sql in enumerate((CHAIN, STAR))]
    statistics = statistics_of([to_probed(live(CHAIN, 0)), to_probed(live(STAR, 1))],
                               probed_stores([live(CHAIN, 0), live(STAR, 1)]), Measured())  # fmt: skip
    assert plan_each_alone(queries, statistics, None).cost >= plan_probes(queries, statistics, None).cost - 1e-6
