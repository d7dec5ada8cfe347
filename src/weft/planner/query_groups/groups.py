"""Which queries should share a join (AJoin 4, eq. 1–2, fig. 6–7a).

Sharing a join means joining the union of what the queries select. If they select different tuples, the union joins
pairs that none of them wants, and doing it separately is cheaper. Groups are grown greedily from the best pair, kept
up as queries come and go, and formed anew when more than half of the queries have changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from weft.plan.changelog import QueryId
from weft.planner.joins.statistics import LARGEST, usable

REGROUP_ABOVE = 0.5
"""Fraction of queries created and dropped beyond which groups are formed anew."""

Group = tuple[QueryId, ...]


@dataclass(frozen=True, slots=True)
class Selected:
    """Tuples per second of a stream by who wants them: query-sets with their cardinalities, and its distinct keys."""

    counts: Mapping[frozenset[QueryId], float]
    distinct_keys: float = math.inf

    def cardinality(self, queries: Iterable[QueryId]) -> float:
        """Eq. 1: tuples that at least one of the queries wants, each counted once."""
        wanted = frozenset(queries)
        return min(
            LARGEST, math.fsum(usable(count, 0.0) for by, count in self.counts.items() if not wanted.isdisjoint(by))
        )

    def keys(self, queries: Iterable[QueryId]) -> float:
        """Distinct keys among them: no more than there are tuples."""
        found = self.cardinality(queries)
        return found if math.isnan(self.distinct_keys) else min(found, max(0.0, self.distinct_keys))


@dataclass(frozen=True, slots=True)
class GroupedJoin:
    """A join of two streams that several queries contain."""

    left: Selected
    right: Selected
    selectivity: float
    index_left: bool = True
    """Whether tuples of the left stream still have to be indexed: at a source, or when they are repartitioned."""
    index_right: bool = True
    materialize: bool = True
    """Whether complete rows are made: at the sink."""

    def cost(self, queries: Iterable[QueryId]) -> float:
        """Eq. 2: of doing the join once for all of these queries."""
        group = tuple(queries)
        left, right = self.left.cardinality(group), self.right.cardinality(group)
        selectivity = min(1.0, usable(self.selectivity, 0.0))
        joined = min(LARGEST, left * right * selectivity)
        return math.fsum(
            (
                left if self.index_left else 0.0,
                right if self.index_right else 0.0,
                min(self.left.keys(group), self.right.keys(group)),
                joined if self.materialize else 0.0,
            )
        )


def is_better_shared(join: GroupedJoin, group: Sequence[QueryId], query: QueryId) -> bool:
    """Whether a query in the group costs less than beside it."""
    return join.cost((*group, query)) < join.cost(group) + join.cost((query,))


def form_groups(join: GroupedJoin, queries: Iterable[QueryId]) -> tuple[Group, ...]:
    """Fig. 7a: the cheapest pair that gains by sharing, grown by every query that still gains; then the next pair."""
    left = sorted(set(queries))
    groups: list[Group] = []
    while pair := _best_pair(join, left):
        group: Group = pair
        for query in left:
            if query not in group and is_better_shared(join, group, query):
                group = (*group, query)
        groups.append(tuple(sorted(group)))
        left = [query for query in left if query not in group]
    return (*groups, *((query,) for query in left))


def insert(join: GroupedJoin, groups: Sequence[Group], query: QueryId) -> tuple[Group, ...]:
    """The groups with a new query in the one that gains most by it, or in one of its own."""
    gains = [
        (join.cost(group) + join.cost((query,)) - join.cost((*group, query)), at) for at, group in enumerate(groups)
    ]
    gain, at = max(gains, key=lambda each: (each[0], -each[1]), default=(0.0, 0))
    if gain <= 0:
        return (*groups, (query,))
    return (*groups[:at], tuple(sorted((*groups[at], query))), *groups[at + 1 :])


def remove(groups: Sequence[Group], query: QueryId) -> tuple[Group, ...]:
    """The groups without the query; an empty one goes."""
    left = (tuple(each for each in group if each != query) for group in groups)
    return tuple(group for group in left if group)


def update_groups(
    join: GroupedJoin, groups: Sequence[Group], *, created: Sequence[QueryId] = (), dropped: Sequence[QueryId] = ()
) -> tuple[Group, ...]:
    """The groups after a changelog: incrementally, or from scratch if more than half of the queries changed."""
    before = {query for group in groups for query in group}
    after = (before - set(dropped)) | set(created)
    changed = len(set(created) - before) + len(before & set(dropped))
    if changed > REGROUP_ABOVE * max(1, len(before | after)):
        return form_groups(join, after)
    kept: tuple[Group, ...] = tuple(groups)
    for query in dropped:
        kept = remove(kept, query)
    for query in created:
        if query not in before:
            kept = insert(join, kept, query)
    return kept


def cost_of_groups(join: GroupedJoin, groups: Iterable[Group]) -> float:
    """Each group does the join once."""
    return math.fsum(join.cost(group) for group in groups)


@dataclass(frozen=True, slots=True)
class GroupDecision:
    """A group, and what its queries would cost apart."""

    queries: Group
    shared_cost: float
    separate_cost: float

    @property
    def saved(self) -> float:
        """Never negative for groups formed here; after many insertions and removals it may be."""
        return self.separate_cost - self.shared_cost

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return {
            "queries": list(self.queries),
            "shared_cost": self.shared_cost,
            "separate_cost": self.separate_cost,
            "saved": self.saved,
        }


def explain_groups(join: GroupedJoin, groups: Iterable[Group]) -> tuple[GroupDecision, ...]:
    """What each group costs, and what it saves against doing the join for each of its queries."""
    return tuple(
        GroupDecision(group, join.cost(group), math.fsum(join.cost((query,)) for query in group)) for group in groups
    )


def _best_pair(join: GroupedJoin, queries: Sequence[QueryId]) -> tuple[QueryId, QueryId] | None:
    pairs = (pair for pair in combinations(queries, 2) if is_better_shared(join, pair[:1], pair[1]))
    return min(pairs, key=lambda pair: (join.cost(pair), pair), default=None)
