"""The worked examples of CLASH: figure 3, section V-A2 and figure 4."""

from __future__ import annotations

import pytest

from tests.support.probe_cases import query, relation, statistics
from weft.plan.changelog import QueryId
from weft.planner.joins.graph import JoinQuery
from weft.planner.joins.lattice import Lattice, LatticeNode, build_lattice
from weft.planner.joins.order_plan import Method, ProbePlan
from weft.planner.joins.orders import plan_alone, plan_probe_orders
from weft.planner.joins.statistics import CostModel, Statistics
from weft.planner.rule_sets.candidates import (
    CandidateOrder,
    candidate_orders,
    count_orders,
    materializable,
    partitioned_orders,
)
from weft.planner.rule_sets.rule_sets import ProbeRule, StoreRule, probe_trees, rule_sets

FIGURE_3 = (query("q1", "R.b = S.b", "S.c = T.c"), query("q2", "S.c = T.c", "T.d = U.d"))
ORDERS_ONLY = CostModel(tasks=1, storage_price=0.0, intermediates=False)
"""Section V-A2 ignores materialization and partitioning."""
SECTION_V = (query("q1", "R.a = S.a", "S.b = T.b"), query("q2", "S.b = T.b", "T.c = U.c"))
SIZES = statistics(dict.fromkeys("RSTU", 100.0), {"R.a = S.a": 0.01, "S.b = T.b": 0.015, "T.c = U.c": 0.01})


def orders(lattice: Lattice, query_id: str, start: str) -> set[str]:
    return {written(each) for node in lattice.targets[QueryId(query_id)] for each in candidate_orders(lattice, node)
            if each.start == relation(start)}  # fmt: skip


def written(candidate: CandidateOrder) -> str:
    return " ".join([candidate.start.stream, *("".join(names) for names in candidate.stores)])


@pytest.fixture
def figure_3() -> Lattice:
    return build_lattice(FIGURE_3, Statistics(), CostModel())


def test_intermediate_results_of_figure_3(figure_3: Lattice) -> None:
    assert ["".join(names) for names in materializable(figure_3)] == ["R", "S", "T", "U", "RS", "ST", "TU"]


@pytest.mark.parametrize(
    ("query_id", "start", "expected"),
    [
        ("q1", "R", {"R S T", "R ST"}),
        ("q1", "S", {"S T R", "S R T"}),
        ("q1", "T", {"T S R", "T RS"}),
        ("q2", "S", {"S T U", "S TU"}),
        ("q2", "T", {"T U S", "T S U"}),
        ("q2", "U", {"U T S", "U ST"}),
    ],
)
def test_candidates_of_figure_3(figure_3: Lattice, query_id: str, start: str, expected: set[str]) -> None:
    assert orders(figure_3, query_id, start) == expected
    node = next(at for at in figure_3.targets[QueryId(query_id)] if figure_3.nodes[at].start ==
                figure_3.graph.input_numbers[relation(start)])  # fmt: skip
    assert count_orders(figure_3, node) == len(expected)


@pytest.mark.parametrize("pair", ["RS", "ST", "TU"])
def test_upkeep_of_figure_3(figure_3: Lattice, pair: str) -> None:
    store = next(at for at, held in enumerate(figure_3.stores) if figure_3.graph.names(held.inputs) == tuple(pair))
    found = {written(each) for node in figure_3.upkeep[store] for each in candidate_orders(figure_3, node)}
    assert found == {f"{pair[0]} {pair[1]}", f"{pair[1]} {pair[0]}"}


def test_partitioned_candidates_of_figure_3(figure_3: Lattice) -> None:
    node = figure_3.targets[QueryId("q1")][0]
    assert figure_3.graph.inputs[figure_3.nodes[node].start] == relation("R")
    found = {
        " ".join(f"{''.join(names)}[{by.name if by else ''}]" for names, by in each.stores)
        for each in partitioned_orders(figure_3, node)
    }
    assert found == {"S[b] T[c]", "S[c] T[c]", "S[b] T[d]", "S[c] T[d]", "ST[b]", "ST[d]"}


def order_of(plan: ProbePlan, query_id: str, start: str) -> str:
    chosen = next(each for each in plan.orders(QueryId(query_id)) if each.start == relation(start))
    return " ".join([start, *("".join(step.store) for step in chosen.steps)])


@pytest.mark.parametrize(("one", "start", "order"), [(SECTION_V[0], "S", "S R T"), (SECTION_V[1], "T", "T U S")])
def test_alone_each_query_sends_475_tuples(one: JoinQuery, start: str, order: str) -> None:
    plan = plan_alone(one, SIZES, ORDERS_ONLY)
    assert plan.probe_cost == 475
    assert order_of(plan, one.id, start) == order


def test_together_they_take_the_order_that_is_worse_alone() -> None:
    plan = plan_probe_orders(SECTION_V, SIZES, ORDERS_ONLY, method=Method.ILP)
    assert order_of(plan, "q1", "S") == "S T R"
    assert order_of(plan, "q2", "T") == "T S U"
    assert plan.probe_cost == 800, "not 2 × 475 = 950"
    assert plan.gap <= 1e-9


def test_step_costs_of_section_v() -> None:
    lattice = build_lattice(SECTION_V, SIZES, ORDERS_ONLY)
    start = lattice.graph.input_numbers[relation("S")]
    both = lattice.node_numbers[LatticeNode(start, *lattice.graph.encode(SECTION_V[0]))]
    assert {written(each): each.cost for each in candidate_orders(lattice, both)} == {"S R T": 150, "S T R": 175}


def figure_4() -> ProbePlan:
    """⟨R, S[d], T[b]⟩, ⟨R, S[d], W[e]⟩ and ⟨R, U[a]⟩: S comes first because it leaves almost nothing."""
    queries = [
        query("q1", "R.d = S.d", "R.b = T.b"),
        query("q2", "R.d = S.d", "R.e = W.e"),
        query("q3", "R.a = U.a"),
    ]
    known = statistics(dict.fromkeys("RSTUW", 100.0), {"R.d = S.d": 0.0001, "R.b = T.b": 0.05, "R.e = W.e": 0.05})
    return plan_probe_orders(queries, known, CostModel(intermediates=False))


def test_the_probe_tree_of_figure_4() -> None:
    tree = next(each for each in probe_trees(figure_4()) if each.label == "R")
    assert [branch.store for branch in tree.branches] == ["S[d]", "U[a]"]
    shared = tree.branches[0]
    assert [branch.store for branch in shared.branches] == ["T[b]", "W[e]"]
    assert [branch.results for branch in shared.branches] == [("q1",), ("q2",)]
    assert tree.branches[1].results == ("q3",)


def test_rules_are_found_by_the_label_of_the_edge() -> None:
    plan = figure_4()
    rules = rule_sets(plan)
    [probe] = rules["S[d]"]["R → S[d]"]  # type: ignore[index]
    assert probe == ProbeRule(("R.d = S.d",), ("R → S[d] → T[b]", "R → S[d] → W[e]"), (), ())  # type: ignore[arg-type]
    [last] = rules["T[b]"]["R → S[d] → T[b]"]  # type: ignore[index]
    assert isinstance(last, ProbeRule)
    assert last.results == ("q1",)
    assert rules["S[d]"]["keep in S[d]"] == (StoreRule(),)  # type: ignore[index]


def test_partial_results_are_sent_to_the_stores_that_keep_them() -> None:
    queries = [query("q1", "R.b = S.b", "S.c = T.c")]
    plan = plan_probe_orders(queries, SIZES, CostModel(storage_price=0.0))
    assert plan.intermediates
    kept = [
        label
        for rules in rule_sets(plan).values()
        for each in rules.values()
        for rule in each
        if isinstance(rule, ProbeRule)
        for label in rule.keep
    ]
    names = [" ⋈ ".join(each) for each in plan.intermediates]
    assert all(any(name in label for label in kept) for name in names)
