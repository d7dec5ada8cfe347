"""Paths through the lattice to all demanded nodes, chosen one after the other and improved by choosing again.

An edge that another query uses and a store that is open cost a further user nothing, so each path has the least
marginal cost. The greedy method, the solver's first solution, the addition of queries to a plan and the decoding of
the solver's values all use this search, because its result is always a complete plan.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from weft.planner.joins.lattice import Lattice

_CLOSE = 1e-9
"""Costs that differ by less than this fraction count as equal."""


@dataclass(frozen=True, slots=True)
class Guide:
    """The costs of edges and copies that guide the search for paths; the total is always computed from true costs."""

    edges: Sequence[float]
    copies: Sequence[float]


@dataclass(frozen=True, slots=True)
class _Saved:
    """A saved state of a routing."""

    paths: dict[int, tuple[int, ...]]
    edge_copy: dict[int, int]
    edge_users: dict[int, int]
    copy_users: dict[int, int]
    open: dict[int, int]
    demands: dict[int, int]
    bill: float


class _Usage:
    """Reference counts of edges, copies, stores and demanded nodes, and the total cost of what is in use."""

    def __init__(self, lattice: Lattice) -> None:
        self.lattice = lattice
        self.paths: dict[int, tuple[int, ...]] = {}
        """For each demanded node, the edges of its path."""
        self.edge_copy: dict[int, int] = {}
        """For each edge in use, the copy that it probes."""
        self._edge_users: dict[int, int] = {}
        self._copy_users: dict[int, int] = {}
        self._open: dict[int, int] = {}
        self._demands: dict[int, int] = {}
        self._bill = 0.0

    def cost(self) -> float:
        """Return the cost of all edges in use and of all copies that they probe."""
        edges, copies = self.lattice.edges, self.lattice.copies
        return math.fsum([edges[i].cost for i in self._edge_users] + [copies[i].cost for i in self._copy_users])

    def edges(self) -> frozenset[int]:
        """Return all edges in use."""
        return frozenset(self._edge_users)

    def copies(self) -> frozenset[int]:
        """Return all copies that are probed."""
        return frozenset(self._copy_users)

    def resume(
        self, paths: Mapping[int, tuple[int, ...]], edge_copy: Mapping[int, int], targets: Iterable[int]
    ) -> None:
        """Replace the state by a complete set of paths to these targets, and the copies that its edges probe."""
        self.paths, self.edge_copy = dict(paths), dict(edge_copy)
        self._edge_users = dict(Counter(edge for path in paths.values() for edge in path))
        self._copy_users = dict(Counter(edge_copy.values()))
        self._open = dict(Counter(self.lattice.edges[edge].store for edge in edge_copy))
        upkeep = (node for store in self._open for node in self.lattice.upkeep[store])
        self._demands = dict(Counter((*targets, *upkeep)))
        self._bill = self.cost()

    def _use(self, edge: int, copy: int) -> tuple[int, ...]:
        """Add a user of the edge; the first user decides which copy the edge probes.

        Return the nodes that now need a path because the copy's store is newly open.
        """
        users = self._edge_users.get(edge, 0)
        self._edge_users[edge] = users + 1
        if users:
            return ()
        self._bill += self.lattice.edges[edge].cost
        self.edge_copy[edge] = copy
        return self._take(copy, self.lattice.edges[edge].store)

    def _unuse(self, edge: int) -> tuple[int, ...]:
        """Remove a user of the edge; return the nodes that no longer need a path because a store is closed."""
        self._edge_users[edge] -= 1
        if self._edge_users[edge]:
            return ()
        del self._edge_users[edge]
        self._bill -= self.lattice.edges[edge].cost
        return self._free(self.edge_copy.pop(edge), self.lattice.edges[edge].store)

    def _take(self, copy: int, store: int) -> tuple[int, ...]:
        """Add a user of the copy; return the upkeep nodes of its store if the store is newly open."""
        users = self._copy_users.get(copy, 0)
        self._copy_users[copy] = users + 1
        if not users:
            self._bill += self.lattice.copies[copy].cost
        self._open[store] = self._open.get(store, 0) + 1
        return self.lattice.upkeep[store] if self._open[store] == 1 else ()

    def _free(self, copy: int, store: int) -> tuple[int, ...]:
        self._copy_users[copy] -= 1
        if not self._copy_users[copy]:
            del self._copy_users[copy]
            self._bill -= self.lattice.copies[copy].cost
        self._open[store] -= 1
        if self._open[store]:
            return ()
        del self._open[store]
        return self.lattice.upkeep[store]

    def _save(self) -> _Saved:
        return _Saved(
            self.paths.copy(),
            self.edge_copy.copy(),
            self._edge_users.copy(),
            self._copy_users.copy(),
            self._open.copy(),
            self._demands.copy(),
            self._bill,
        )

    def _restore(self, saved: _Saved) -> None:
        self.paths, self.edge_copy = saved.paths, saved.edge_copy
        self._edge_users, self._copy_users = saved.edge_users, saved.copy_users
        self._open, self._demands, self._bill = saved.open, saved.demands, saved.bill


class Routing(_Usage):
    """A set of paths to demanded nodes; each new path has the least marginal cost."""

    def __init__(self, lattice: Lattice, guide: Guide | None = None) -> None:
        super().__init__(lattice)
        self.guide = guide or true_costs(lattice)
        self._reach: dict[int, tuple[float, int]] = {}
        self._closed: frozenset[int] = frozenset()

    def follow(self, guide: Guide) -> None:
        """Use other costs for all further searches."""
        self.guide = guide
        self._reach.clear()

    def demand(self, node: int) -> None:
        """Add a demand for the node, and a path for its first demand."""
        self._demands[node] = self._demands.get(node, 0) + 1
        if self._demands[node] == 1:
            self._connect(node, self._cheapest(node))

    def release(self, node: int) -> None:
        """Remove a demand for the node; without demands, drop its path and the edges and stores only the path used."""
        self._demands[node] -= 1
        if self._demands[node] == 0:
            del self._demands[node]
            self._disconnect(node)

    def reroute(self, nodes: Iterable[int]) -> bool:
        """Choose the paths to these nodes again, all at once; return whether that reduces the total, else undo it."""
        return self._attempt(lambda: self._again([node for node in nodes if node in self.paths]))

    def without(self, store: int) -> bool:
        """Close a stored join and reroute its users; return whether that reduces the total, else undo it."""

        def close() -> None:
            edges = {edge for edge in self._edge_users if self.lattice.edges[edge].store == store}
            closed, self._closed = self._closed, self._closed | {store}
            self._again([node for node, path in self.paths.items() if not edges.isdisjoint(path)])
            self._closed = closed
            self._reach.clear()

        return self._attempt(close)

    def _attempt(self, change: Callable[[], None]) -> bool:
        before, saved = self._bill, self._save()
        change()
        if self._bill < before * (1 - _CLOSE):
            return True
        self._restore(saved)
        self._reach.clear()
        return False

    def _again(self, nodes: Sequence[int]) -> None:
        for node in nodes:
            self._disconnect(node)
        for node in nodes:
            if node not in self.paths and node in self._demands:
                self._connect(node, self._cheapest(node))

    def _connect(self, node: int, path: tuple[int, ...]) -> None:
        self.paths[node] = path
        for edge in path:
            self._reach.clear()
            for upkeep_node in self._use(edge, self._copy_for(edge)):
                self.demand(upkeep_node)

    def _disconnect(self, node: int) -> None:
        path = self.paths.pop(node, None)
        for edge in path or ():
            self._reach.clear()
            for upkeep_node in self._unuse(edge):
                self.release(upkeep_node)

    def _copy_for(self, edge: int) -> int:
        serving = self.lattice.serving(edge)
        return min(serving, key=lambda copy: (copy not in self._copy_users, self.guide.copies[copy], copy))

    def _cheapest(self, node: int) -> tuple[int, ...]:
        path: list[int] = []
        while True:
            _, edge = self._reached(node)
            if edge < 0:
                return tuple(reversed(path))
            path.append(edge)
            node = self.lattice.edges[edge].source

    def _reached(self, node: int) -> tuple[float, int]:
        """Return the marginal cost of the cheapest path to the node and the path's last edge, -1 at a start node."""
        reached = self._reach.get(node)
        if reached is None:
            best, last = (math.inf, -1) if self.lattice.incoming[node] else (0.0, -1)
            for edge in self.lattice.incoming[node]:
                cost = self._reached(self.lattice.edges[edge].source)[0]
                if cost < best:
                    cost += self._marginal(edge)
                    if cost < best:
                        best, last = cost, edge
            reached = self._reach[node] = (best, last)
        return reached

    def _marginal(self, edge: int) -> float:
        if edge in self._edge_users:
            return 0.0
        cost = self.guide.edges[edge]
        store = self.lattice.edges[edge].store
        serving = self.lattice.serving(edge)
        if store in self._open:
            if any(copy in self._copy_users for copy in serving):
                return cost
            return cost + min(self.guide.copies[copy] for copy in serving)
        if store in self._closed:
            return math.inf
        upkeep = sum(self._reached(node)[0] for node in self.lattice.upkeep[store] if node not in self.paths)
        return cost + upkeep + min(self.guide.copies[copy] for copy in serving)


def true_costs(lattice: Lattice) -> Guide:
    """Return the guide with the true costs."""
    return Guide([edge.cost for edge in lattice.edges], [copy.cost for copy in lattice.copies])


def route(lattice: Lattice, targets: Iterable[int], guide: Guide | None = None) -> Routing:
    """Return paths to all targets, chosen in order by the guide's costs; later changes use true costs."""
    routing = Routing(lattice, guide)
    for node in targets:
        routing.demand(node)
    routing.follow(true_costs(lattice))
    return routing


def improve_paths(routing: Routing, targets: Iterable[Sequence[int]], *, rounds: int) -> None:
    """Reroute by query and by node and close stored joins, until nothing gets cheaper or `rounds` rounds are done."""
    targets = tuple(targets)
    for _ in range(rounds):
        better = False
        for nodes in targets:
            better |= routing.reroute(nodes)
        for node in sorted(routing.paths):
            better |= routing.reroute((node,))
        for store in sorted({routing.lattice.edges[edge].store for edge in routing.edges()}):
            if routing.lattice.stores[store].is_intermediate:
                better |= routing.without(store)
        if not better:
            return


def least_cost(lattice: Lattice, targets: Iterable[int]) -> float:
    """Return a lower bound of any plan's cost without a solver: all targets that could use an edge share its cost."""
    targets = sorted(set(targets))
    users: Counter[int] = Counter()
    for node in targets:
        users.update(edges_to(lattice, node))
    least: dict[int, float] = {}

    def reach(node: int) -> float:
        if node not in least:
            least[node] = min(
                (
                    reach(lattice.edges[edge].source) + lattice.edges[edge].cost / users[edge]
                    for edge in lattice.incoming[node]
                ),
                default=0.0,
            )
        return least[node]

    return math.fsum(reach(node) for node in targets)


def edges_to(lattice: Lattice, target: int) -> tuple[int, ...]:
    """Return all edges that can be on a path to the node."""
    seen, waiting, edges = {target}, [target], list[int]()
    while waiting:
        for edge in lattice.incoming[waiting.pop()]:
            edges.append(edge)
            source = lattice.edges[edge].source
            if source not in seen:
                seen.add(source)
                waiting.append(source)
    return tuple(sorted(edges))
