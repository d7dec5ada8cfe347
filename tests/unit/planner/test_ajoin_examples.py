"""The worked examples of AJoin: the query-sets of section 4, figure 6, and figure 7's groups and subplans."""

from __future__ import annotations

import math

import pytest

from tests.support.probe_cases import query, statistics
from weft.plan.changelog import QueryId
from weft.planner.joins.estimate import estimate
from weft.planner.joins.graph import JoinGraph
from weft.planner.joins.statistics import CostModel
from weft.planner.joins.subplans import share_within, subplan_trees
from weft.planner.query_groups.groups import (
    GroupedJoin,
    SelectedRates,
    cost_of_groups,
    explain_groups,
    form_groups,
    insert,
    is_better_shared,
    remove,
    update_groups,
)

Q1, Q2, Q3, Q4, Q5, Q6, Q7 = (QueryId(f"Q{at}") for at in range(1, 8))


def selected(**counts: float) -> SelectedRates:
    """`Q1_Q2=80`: 80 tuples that both queries want and no other."""
    return SelectedRates(
        {frozenset(QueryId(each) for each in key.split("_")): count for key, count in counts.items()}, 40
    )


VIDEOS_VIEWS = GroupedJoin(
    selected(Q1_Q2=80, Q1=20, Q2=20, Q4_Q6=60, Q4=20, Q6=20, Q5=100),
    selected(Q1_Q2=90, Q1=10, Q2=10, Q4_Q6=70, Q4=10, Q6=10, Q5=100),
    selectivity=0.1,
)
"""V ⋈ W of figure 7a: Q1 and Q2 select much the same, so do Q4 and Q6, and Q5 something else."""
VIEWS_COMMENTS = GroupedJoin(
    selected(Q2_Q3=80, Q2=20, Q3=20, Q6=100), selected(Q2_Q3=90, Q2=10, Q3=10, Q6=100), selectivity=0.1
)
"""W ⋈ C of figure 7a."""


def test_cardinality_counts_shared_tuples_once() -> None:
    """Eq. 1, by inclusion and exclusion and by counting."""
    some = selected(Q1=1, Q2=2, Q3=4, Q1_Q2=8, Q2_Q3=16, Q1_Q3=32, Q1_Q2_Q3=64)
    one, two, three = (some.cardinality([each]) for each in (Q1, Q2, Q3))
    pairs = (8 + 64) + (16 + 64) + (32 + 64)
    assert some.cardinality([Q1, Q2, Q3]) == one + two + three - pairs + 64 == 127


def test_query_sets_of_section_4() -> None:
    """Q1 and Q4 share three of the four tuples t1 to t4."""
    sets = selected(Q1_Q4=2, Q1_Q3_Q4=1, Q1=1)
    assert sets.cardinality([Q1]) + sets.cardinality([Q4]) - sets.cardinality([Q1, Q4]) == 3


def test_cost_is_indexing_intersection_and_materialization() -> None:
    """Eq. 2 and its switches."""
    join = GroupedJoin(selected(Q1=100), selected(Q1=50), selectivity=0.01)
    assert join.cost([Q1]) == 100 + 50 + 40 + 50
    assert GroupedJoin(join.left, join.right, 0.01, index_left=False).cost([Q1]) == 50 + 40 + 50
    assert GroupedJoin(join.left, join.right, 0.01, index_right=False, materialize=False).cost([Q1]) == 100 + 40


def test_queries_that_select_other_tuples_are_cheaper_apart() -> None:
    """Figure 6: shared, Q4 and Q5 would join pairs that neither wants."""
    assert VIDEOS_VIEWS.cost([Q4, Q5]) > VIDEOS_VIEWS.cost([Q4]) + VIDEOS_VIEWS.cost([Q5])
    assert not is_better_shared(VIDEOS_VIEWS, [Q4], Q5)
    assert is_better_shared(VIDEOS_VIEWS, [Q1], Q2)


def test_groups_of_figure_7() -> None:
    assert form_groups(VIDEOS_VIEWS, [Q1, Q2, Q4, Q5, Q6]) == ((Q4, Q6), (Q1, Q2), (Q5,))
    assert form_groups(VIEWS_COMMENTS, [Q2, Q3, Q6]) == ((Q2, Q3), (Q6,))


def test_groups_are_explained() -> None:
    pair, alone = explain_groups(VIDEOS_VIEWS, [(Q1, Q2), (Q5,)])
    assert pair.saved > 0
    assert pair.to_json()["queries"] == ["Q1", "Q2"]
    assert alone.saved == 0


def test_a_group_grows_while_it_gains() -> None:
    join = GroupedJoin(selected(Q1_Q2_Q3=90, Q4=90), selected(Q1_Q2_Q3=90, Q4=90), selectivity=0.1)
    assert form_groups(join, [Q1, Q2, Q3, Q4]) == ((Q1, Q2, Q3), (Q4,))
    assert cost_of_groups(join, [(Q1, Q2, Q3), (Q4,)]) < cost_of_groups(join, [(Q1,), (Q2,), (Q3,), (Q4,)])


def test_a_new_query_goes_where_it_gains_most_or_alone() -> None:
    join = GroupedJoin(
        selected(Q1_Q2=50, Q3_Q7=80, Q4=70, Q5=60), selected(Q1_Q2=50, Q3_Q7=80, Q4=70, Q5=60), selectivity=0.1
    )
    assert insert(join, ((Q1, Q2), (Q3,)), Q7) == ((Q1, Q2), (Q3, Q7))
    assert insert(join, ((Q1, Q2), (Q3,)), Q4) == ((Q1, Q2), (Q3,), (Q4,))
    assert insert(join, (), Q4) == ((Q4,),)
    assert remove(((Q1, Q2), (Q3,)), Q3) == ((Q1, Q2),)


def test_more_than_half_changed_means_groups_from_scratch() -> None:
    odd = ((Q1, Q5), (Q2,), (Q4,), (Q6,))
    kept = update_groups(VIDEOS_VIEWS, odd, dropped=[Q4])
    assert kept == ((Q1, Q5), (Q2,), (Q6,))
    fresh = update_groups(VIDEOS_VIEWS, ((Q1, Q5),), created=[Q2, Q4, Q6])
    assert fresh == form_groups(VIDEOS_VIEWS, [Q1, Q2, Q4, Q5, Q6])
    assert update_groups(VIDEOS_VIEWS, (), created=[Q1, Q2]) == ((Q1, Q2),)


@pytest.mark.parametrize("bad", [0.0, math.nan, math.inf, -5.0])
def test_groups_form_whatever_the_statistics(bad: float) -> None:
    join = GroupedJoin(selected(Q1_Q2=bad, Q3=bad), SelectedRates({frozenset((Q1, Q2, Q3)): bad}, bad), selectivity=bad)
    groups = form_groups(join, [Q1, Q2, Q3])
    assert sorted(each for group in groups for each in group) == [Q1, Q2, Q3]
    assert math.isfinite(cost_of_groups(join, groups))


QUERIES = [
    query("Q1", "V.vID = W.vID"),
    query("Q2", "V.vID = W.vID", "W.usrID = C.usrID"),
    query("Q3", "W.usrID = C.usrID", "C.usrID = X.usrID"),
    query("Q6", "V.vID = W.vID", "W.usrID = C.usrID"),
]
SIZES = statistics(
    dict.fromkeys("VWCX", 100.0), {"V.vID = W.vID": 0.01, "W.usrID = C.usrID": 0.012, "C.usrID = X.usrID": 0.03}
)


def test_subplans_of_figure_7() -> None:
    """V ⋈ W is shared by Q1 and Q2, not by Q6 of another group; then W ⋈ C is no longer Q2's."""
    graph = JoinGraph().extended(QUERIES)
    numbers = {each.stream: 1 << at for at, each in enumerate(graph.inputs)}
    same_group = share_within(
        {
            numbers["V"] | numbers["W"]: [(Q1, Q2), (Q6,)],
            numbers["W"] | numbers["C"]: [(Q2, Q3), (Q6,)],
        }
    )
    estimates = estimate(graph, SIZES, CostModel())
    plan = subplan_trees(QUERIES, estimates, may_share=same_group)
    told = [("".join(graph.names(each.inputs)), each.queries, each.shared_cost) for each in plan.choices]
    assert told[0] == ("VW", (Q1, Q2), 50)
    assert plan.choices[0].separate_cost == 100
    assert ("VW", (Q6,), 100) in told, "another group"
    assert ("CW", (Q3,), 120) in told, "Q2 has (V ⋈ W) ⋈ C by now"
    assert plan.trees[Q2].text(estimates) == "((V ⋈ W) ⋈ C)"


def test_without_groups_everything_equal_is_shared() -> None:
    graph = JoinGraph().extended(QUERIES)
    plan = subplan_trees(QUERIES, estimate(graph, SIZES, CostModel()))
    assert plan.choices[0].queries == (Q1, Q2, Q6)
    assert plan.trees[Q2] == plan.trees[Q6]


@pytest.mark.parametrize("block", [2, 3, 4])
def test_larger_blocks_give_trees_of_all_relations(block: int) -> None:
    graph = JoinGraph().extended(QUERIES)
    trees = subplan_trees(QUERIES, estimate(graph, SIZES, CostModel()), block=block).trees
    assert {each.id: trees[each.id].inputs for each in QUERIES} == {each.id: graph.encode(each)[0] for each in QUERIES}


def test_a_block_has_at_least_two_parts() -> None:
    with pytest.raises(ValueError, match="at least two parts"):
        subplan_trees(QUERIES, estimate(JoinGraph().extended(QUERIES), SIZES, CostModel()), block=1)
