"""Join re-ordering by iterative dynamic programming over shared subplans (AJoin 4, fig. 7b).

Each iteration considers the joins of up to `block` current parts of every query. The cost of a join is its cardinality
divided by the number of queries that could share it. The cheapest join is fixed for all queries that share it and is
one part from then on. After at most as many iterations as there are joins, each query is one tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from weft.plan.changelog import QueryId
from weft.planner.joins.estimate import Estimates
from weft.planner.joins.graph import JoinQuery, bits
from weft.planner.joins.join_tree import JoinTree
from weft.planner.query_groups.groups import Group

MayShare = Callable[[QueryId, QueryId, int], bool]
"""A function (query, other query, relations) that says whether two queries may share joins of the relations."""


@dataclass(frozen=True, slots=True)
class SubplanChoice:
    """The join that one iteration fixed, with its cost for all sharing queries and for one query."""

    inputs: int
    queries: tuple[QueryId, ...]
    shared_cost: float
    """The cardinality divided by the number of queries (`MaxShared`)."""
    separate_cost: float
    """The cardinality for a single query (`MinShared`)."""


@dataclass(frozen=True, slots=True)
class SubplanTrees:
    """A binary join tree for each query, and the choices that led to the trees."""

    trees: dict[QueryId, JoinTree]
    choices: tuple[SubplanChoice, ...]


def share_all(_one: QueryId, _other: QueryId, _inputs: int) -> bool:
    """Let all queries share equal joins: the default without query groups."""
    return True


def share_within(groups: Mapping[int, Sequence[Group]]) -> MayShare:
    """Let queries share only inside query groups; `groups` has the groups of each join, by its relations."""
    group_of = {
        join: {query: i for i, group in enumerate(queries) for query in group} for join, queries in groups.items()
    }

    def may_share(one: QueryId, other: QueryId, inputs: int) -> bool:
        return all(
            numbers.get(one) == numbers.get(other) for join, numbers in group_of.items() if join & inputs == join
        )  # fmt: skip

    return may_share


def subplan_trees(
    queries: Iterable[JoinQuery], estimates: Estimates, *, block: int = 2, may_share: MayShare = share_all
) -> SubplanTrees:
    """Return a tree for each query; the graph of the estimates must contain the relations of all queries."""
    if block < 2:
        raise ValueError("a block has at least two parts")
    work = _Iterations(tuple(queries), estimates, block, may_share)
    while candidates := list(work.candidates()):
        work.fix(min(candidates, key=lambda candidate: (candidate.cost, candidate.inputs, candidate.query)))
    return SubplanTrees({query: parts[0] for query, parts in work.parts.items()}, tuple(work.choices))


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A union of a query's parts that could be joined next, and the shared cost of the joins inside it."""

    query: QueryId
    inputs: int
    cost: float


_Join = tuple[int, int]
"""The relations and predicates that identify a join."""


class _Iterations:
    """The current parts of each query, which every iteration reduces."""

    def __init__(
        self, queries: tuple[JoinQuery, ...], estimates: Estimates, block: int, may_share: MayShare
    ) -> None:  # fmt: skip
        self.estimates = estimates
        self.block = block
        self.may_share = may_share
        self.choices: list[SubplanChoice] = []
        self.parts: dict[QueryId, tuple[JoinTree, ...]] = {}
        self.neighbours: dict[QueryId, dict[int, int]] = {}
        self.predicates: dict[QueryId, int] = {}
        self.unions: dict[QueryId, dict[int, _Join]] = {}
        """For each query, the connected unions of up to `block` of its parts."""
        self.wanted_by: dict[_Join, dict[QueryId, None]] = {}
        for query in queries:
            inputs, predicates = estimates.graph.encode(query)
            self.predicates[query.id] = predicates
            self.neighbours[query.id] = estimates.graph.neighbours(predicates)
            self._set_parts(query.id, tuple(JoinTree(1 << number) for number in bits(inputs)))

    def candidates(self) -> Iterator[_Candidate]:
        """Yield the unions of `block` parts of each unfinished query, or of all parts if fewer are left."""
        for query, parts in self.parts.items():
            if len(parts) > 1:
                size = min(self.block, len(parts))
                cheapest = self._cheapest(query)
                for inputs, (cost, tree) in cheapest.items():
                    if sum(part.inputs & inputs == part.inputs for part in parts) == size:
                        yield _Candidate(query, tree.inputs, cost)

    def fix(self, chosen: _Candidate) -> None:
        """Join the parts of the chosen union, for all queries that share it."""
        join = self.unions[chosen.query][chosen.inputs]
        _, tree = self._cheapest(chosen.query)[chosen.inputs]
        sharing = self._sharing(chosen.query, join)
        size = self.estimates.stored(*join)
        self.choices.append(SubplanChoice(chosen.inputs, sharing, size / len(sharing), size))
        for query in sharing:
            kept = tuple(part for part in self.parts[query] if not part.inputs & chosen.inputs)
            self._set_parts(query, (*kept, tree))

    def _set_parts(self, query: QueryId, parts: tuple[JoinTree, ...]) -> None:
        for join in self.unions.get(query, {}).values():
            self.wanted_by[join].pop(query)
        self.parts[query] = parts
        self.unions[query] = {
            inputs: (inputs, self.estimates.graph.within(inputs, self.predicates[query]))
            for inputs in self._connected_unions(query)
        }
        for join in self.unions[query].values():
            self.wanted_by.setdefault(join, {})[query] = None

    def _connected_unions(self, query: QueryId) -> list[int]:
        """Return the connected unions of two to `block` parts, smaller ones first."""
        singles = [part.inputs for part in self.parts[query]]
        layer, unions = singles, dict[int, None]()
        for _ in range(self.block - 1):
            larger: dict[int, None] = {}
            for inputs in layer:
                around = 0
                for number in bits(inputs):
                    around |= self.neighbours[query].get(number, 0)
                larger |= dict.fromkeys(inputs | part for part in singles if part & around and not part & inputs)
            layer = list(larger)
            unions |= larger
        return list(unions)

    def _cheapest(self, query: QueryId) -> dict[int, tuple[float, JoinTree]]:
        """Return the cheapest tree of every union of parts by shared cost, found by dynamic programming."""
        best = {part.inputs: (0.0, part) for part in self.parts[query]}
        for inputs, join in self.unions[query].items():
            own_cost = self.estimates.stored(*join) / len(self._sharing(query, join))
            cost, half = min(
                (best[half][0] + best[inputs ^ half][0], half)
                for half in best
                if half & inputs == half and half < inputs ^ half and inputs ^ half in best
            )
            best[inputs] = (own_cost + cost, JoinTree(inputs, (best[half][1], best[inputs ^ half][1])))
        for part in self.parts[query]:
            del best[part.inputs]
        return best

    def _sharing(self, query: QueryId, join: _Join) -> tuple[QueryId, ...]:
        """Return the queries that still need this join, whatever their parts of it, and may share it with `query`."""
        others = self.wanted_by[join]
        if self.may_share is share_all:
            return tuple(others)
        return tuple(other for other in others if other == query or self.may_share(query, other, join[0]))
