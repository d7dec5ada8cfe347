"""Plans drawn at random from all valid ones: which is chosen may never change a result."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from weft.planner.joins.graph import JoinQuery
from weft.planner.joins.order_plan import ProbePlan
from weft.planner.joins.planners import COSTS, Planner, choosing_planner
from weft.planner.joins.statistics import CostModel, Statistics


def random_planner(seed: int, *, model: CostModel = COSTS) -> Planner:
    """Another random plan for every set of queries, the same again for the same set."""

    def planner(queries: Sequence[JoinQuery], statistics: Statistics, before: ProbePlan | None) -> ProbePlan:
        random = Random(f"{seed} {[query.id for query in queries]}")
        return choosing_planner(random.choice, model)(queries, statistics, before)

    return planner
