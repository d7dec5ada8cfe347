"""The choice of queries that share a join (AJoin 4, eq. 1–2, fig. 6–7a).

A shared join joins the union of the rows that its queries select. If the queries select different rows, the union has
pairs that no query wants, and separate joins are cheaper. Groups grow greedily from the best pair, are updated as
queries begin and end, and are formed anew when more than half of the queries have changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from weft.plan.changelog import QueryId
from weft.planner.joins.statistics import LARGEST, usable

REGROUP_ABOVE = 0.5
"""The fraction of queries created or dropped above which groups are formed anew."""

Group = tuple[QueryId, ...]


@dataclass(frozen=True, slots=True)
class SelectedRates:
    """Rows per second of a stream by the set of queries that select them, and the stream's number of distinct keys."""

    counts: Mapping[frozenset[QueryId], float]
    distinct_keys: float = math.inf

    def cardinality(self, queries: Iterable[QueryId]) -> float:
        """Return the rows per second that at least one of the queries selects, each counted once (eq. 1)."""
        wanted = frozenset(queries)
        return min(
            LARGEST, math.fsum(usable(count, 0.0) for by, count in self.counts.items() if not wanted.isdisjoint(by))
        )

    def keys(self, queries: Iterable[QueryId]) -> float:
        """Return the number of distinct keys among the rows that the queries select: at most the number of rows."""
        rows = self.cardinality(queries)
        return rows if math.isnan(self.distinct_keys) else min(rows, max(0.0, self.distinct_keys))


@dataclass(frozen=True, slots=True)
class GroupedJoin:
    """A join of two streams that is part of several queries."""

    left: SelectedRates
    right: SelectedRates
    selectivity: float
    index_left: bool = True
    """Whether rows of the left stream have to be indexed, as at a source or after repartitioning."""
    index_right: bool = True
    materialize: bool = True
    """Whether complete result rows are built, as at a sink."""

    def cost(self, queries: Iterable[QueryId]) -> float:
        """Return the cost of one join for all of these queries (eq. 2)."""
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
    """Return whether adding the query to the group costs less than a separate join for it."""
    return join.cost((*group, query)) < join.cost(group) + join.cost((query,))


def form_groups(join: GroupedJoin, queries: Iterable[QueryId]) -> tuple[Group, ...]:
    """Form groups as in fig. 7a: extend the cheapest pair that gains by sharing with every query that gains; repeat."""
    ungrouped = sorted(set(queries))
    groups: list[Group] = []
    while pair := _best_pair(join, ungrouped):
        group: Group = pair
        for query in ungrouped:
            if query not in group and is_better_shared(join, group, query):
                group = (*group, query)
        groups.append(tuple(sorted(group)))
        ungrouped = [query for query in ungrouped if query not in group]
    return (*groups, *((query,) for query in ungrouped))


def insert(join: GroupedJoin, groups: Sequence[Group], query: QueryId) -> tuple[Group, ...]:
    """Return the groups with a new query added to the group that gains most, or as a group of its own."""
    gains = [
        (join.cost(group) + join.cost((query,)) - join.cost((*group, query)), at) for at, group in enumerate(groups)
    ]
    gain, at = max(gains, key=lambda pair: (pair[0], -pair[1]), default=(0.0, 0))
    if gain <= 0:
        return (*groups, (query,))
    return (*groups[:at], tuple(sorted((*groups[at], query))), *groups[at + 1 :])


def remove(groups: Sequence[Group], query: QueryId) -> tuple[Group, ...]:
    """Return the groups without the query and without groups that become empty."""
    remaining = (tuple(member for member in group if member != query) for group in groups)
    return tuple(group for group in remaining if group)


def update_groups(
    join: GroupedJoin, groups: Sequence[Group], *, created: Sequence[QueryId] = (), dropped: Sequence[QueryId] = ()
) -> tuple[Group, ...]:
    """Return the groups after a change: updated, or formed anew if more than half of the queries changed."""
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
    """Return the total cost if each group performs the join once."""
    return math.fsum(join.cost(group) for group in groups)


@dataclass(frozen=True, slots=True)
class GroupDecision:
    """A group with its cost, and the cost of separate joins for its queries."""

    queries: Group
    shared_cost: float
    separate_cost: float

    @property
    def saved(self) -> float:
        """The saved cost. It can be negative only after insertions and removals, not for newly formed groups."""
        return self.separate_cost - self.shared_cost

    def to_json(self) -> dict[str, object]:
        """Return the JSON form."""
        return {
            "queries": list(self.queries),
            "shared_cost": self.shared_cost,
            "separate_cost": self.separate_cost,
            "saved": self.saved,
        }


def explain_groups(join: GroupedJoin, groups: Iterable[Group]) -> tuple[GroupDecision, ...]:
    """Return the cost of each group, and the cost of separate joins for its queries."""
    return tuple(
        GroupDecision(group, join.cost(group), math.fsum(join.cost((query,)) for query in group)) for group in groups
    )


def _best_pair(join: GroupedJoin, queries: Sequence[QueryId]) -> tuple[QueryId, QueryId] | None:
    pairs = (pair for pair in combinations(queries, 2) if is_better_shared(join, pair[:1], pair[1]))
    return min(pairs, key=lambda pair: (join.cost(pair), pair), default=None)
