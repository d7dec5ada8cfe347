"""Join re-ordering by iterative dynamic programming over shared subplans (AJoin 4, fig. 7b).

In each iteration every query looks at the joins of up to `block` of its current parts. What a join costs is its
cardinality divided by the number of queries that could share it. The cheapest is fixed, for all queries that share
it, and from then on is one part. After at most as many iterations as there are joins, each query is one tree.
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
"""Whether two queries are in the same query group of every join among these relations."""


@dataclass(frozen=True, slots=True)
class SubplanChoice:
    """One iteration's decision, and what it was compared with."""

    inputs: int
    queries: tuple[QueryId, ...]
    shared_cost: float
    """Cardinality divided by the number of queries (`MaxShared`)."""
    separate_cost: float
    """Cardinality for one query alone (`MinShared`)."""


@dataclass(frozen=True, slots=True)
class SubplanTrees:
    """A binary join tree for each query, and the decisions that led there."""

    trees: dict[QueryId, JoinTree]
    choices: tuple[SubplanChoice, ...]


def share_all(_one: QueryId, _other: QueryId, _inputs: int) -> bool:
    """Without query groups: whatever is equal is shared."""
    return True


def share_within(groups: Mapping[int, Sequence[Group]]) -> MayShare:
    """Sharing only inside query groups; `groups` are those of each join, by the bitset of its relations."""
    number = {
        inputs: {query: at for at, group in enumerate(each) for query in group} for inputs, each in groups.items()
    }

    def may_share(one: QueryId, other: QueryId, inputs: int) -> bool:
        return all(
            of.get(one) == of.get(other) for grouped, of in number.items() if grouped & inputs == grouped
        )  # fmt: skip

    return may_share


def subplan_trees(
    queries: Iterable[JoinQuery], estimates: Estimates, *, block: int = 2, may_share: MayShare = share_all
) -> SubplanTrees:
    """Trees of all queries; the estimates' graph must know their relations."""
    if block < 2:
        raise ValueError("a block has at least two parts")
    work = _Iterations(tuple(queries), estimates, block, may_share)
    while candidates := list(work.candidates()):
        work.fix(min(candidates, key=lambda each: (each.cost, each.inputs, each.query)))
    return SubplanTrees({query: parts[0] for query, parts in work.parts.items()}, tuple(work.choices))


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A union of parts of a query that could be joined next, and the shared cost of the joins inside it."""

    query: QueryId
    inputs: int
    cost: float


_Join = tuple[int, int]
"""Relations and predicates: equal ones are the same join."""


class _Iterations:
    """The parts of each query, fewer after each iteration."""

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
        """For each query the connected unions of up to `block` of its parts."""
        self.wanted_by: dict[_Join, dict[QueryId, None]] = {}
        for query in queries:
            inputs, predicates = estimates.graph.encode(query)
            self.predicates[query.id] = predicates
            self.neighbours[query.id] = estimates.graph.neighbours(predicates)
            self._set_parts(query.id, tuple(JoinTree(1 << number) for number in bits(inputs)))

    def candidates(self) -> Iterator[_Candidate]:
        """Of each unfinished query the unions of as many parts as a block has, or as are left."""
        for query, parts in self.parts.items():
            if len(parts) > 1:
                most = min(self.block, len(parts))
                best = self._cheapest(query)
                for inputs, (cost, tree) in best.items():
                    if sum(part.inputs & inputs == part.inputs for part in parts) == most:
                        yield _Candidate(query, tree.inputs, cost)

    def fix(self, chosen: _Candidate) -> None:
        """Join the union for all queries that share it."""
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
        """Of two to `block` parts, smaller ones first."""
        singles = [part.inputs for part in self.parts[query]]
        layer, found = singles, dict[int, None]()
        for _ in range(self.block - 1):
            larger: dict[int, None] = {}
            for inputs in layer:
                around = 0
                for number in bits(inputs):
                    around |= self.neighbours[query].get(number, 0)
                larger |= dict.fromkeys(inputs | one for one in singles if one & around and not one & inputs)
            layer = list(larger)
            found |= larger
        return list(found)

    def _cheapest(self, query: QueryId) -> dict[int, tuple[float, JoinTree]]:
        """Dynamic programming: the cheapest tree of every union of parts, by shared cost."""
        best = {part.inputs: (0.0, part) for part in self.parts[query]}
        for inputs, join in self.unions[query].items():
            own = self.estimates.stored(*join) / len(self._sharing(query, join))
            cost, one = min(
                (best[one][0] + best[inputs ^ one][0], one)
                for one in best
                if one & inputs == one and one < inputs ^ one and inputs ^ one in best
            )
            best[inputs] = (own + cost, JoinTree(inputs, (best[one][1], best[inputs ^ one][1])))
        for part in self.parts[query]:
            del best[part.inputs]
        return best

    def _sharing(self, query: QueryId, join: _Join) -> tuple[QueryId, ...]:
        """The queries that still have to do this join, with the same parts or with others."""
        others = self.wanted_by[join]
        if self.may_share is share_all:
            return tuple(others)
        return tuple(other for other in others if other == query or self.may_share(query, other, join[0]))
