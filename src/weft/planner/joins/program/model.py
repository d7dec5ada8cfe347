"""The choice of probe orders for all queries as an integer program over the lattice.

Each edge and each copy of a store has a binary variable, whose cost counts once however many queries use it. Each
demanded node has its own flow from its start, bounded by the binaries. Two things keep the linear relaxation close to
the integer optimum: each flow is bounded separately (not the sum of flows), and, because a path probes a store at most
once, the *sum* of a flow over the edges into a store is bounded by the store's copies. The second brought the
relaxation of ten 5-way queries from 3 % below the optimum to under 1 %.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from weft.planner.highs import INFINITY, Model
from weft.planner.joins.lattice import Lattice
from weft.planner.joins.paths import Guide, Routing, edges_to

_SCALE = 1e4
"""The cost of the incumbent in the model. Costs are scaled because the solver's tolerances are absolute."""


@dataclass(frozen=True, slots=True)
class ProbeModel:
    """The program, and the columns of the edges, copies, stores and flows."""

    lattice: Lattice
    targets: tuple[int, ...]
    model: Model
    scale: float
    """The factor from true costs to costs in the model."""
    edges: dict[int, int]
    copies: dict[int, int]
    stores: dict[int, int]
    flows: dict[tuple[int, int], int]
    """The column of a flow by demanded node and edge; absent if the edge's own column is the flow."""

    def stores_first(self) -> Model:
        """Return the program with only stores and copies as integers, which gives a lower bound quickly.

        With fixed stores, the paths of a start are a Steiner arborescence, whose relaxation is nearly always integral.
        """
        integers = [0] * len(self.model.costs)
        for column in (*self.copies.values(), *self.stores.values()):
            integers[column] = 1
        return replace(self.model, integers=integers)

    def encode(self, routing: Routing) -> list[float]:
        """Return the column values that represent a routing."""
        values = [0.0] * len(self.model.costs)
        for edge in routing.edges():
            values[self.edges[edge]] = 1.0
        for copy in routing.copies():
            values[self.copies[copy]] = 1.0
            store = self.lattice.copies[copy].store
            if store in self.stores:
                values[self.stores[store]] = 1.0
        for node, path in routing.paths.items():
            for edge in path:
                column = self.flows.get((node, edge))
                if column is not None:
                    values[column] = 1.0
        return values

    def guide(self, values: Sequence[float], *, least: float = 0.0) -> Guide:
        """Return a guide in which chosen edges and copies are cheaper, down to the fraction `least` of the true cost.

        With integer values and `least` 0, paths use only what the values chose.
        """
        edges = [edge.cost for edge in self.lattice.edges]
        copies = [copy.cost for copy in self.lattice.copies]
        for edge, column in self.edges.items():
            edges[edge] *= max(least, 1 - values[column])
        for copy, column in self.copies.items():
            copies[copy] *= max(least, 1 - values[column])
        return Guide(edges, copies)


Floors = Iterable[tuple[tuple[int, ...], float]]
"""Pairs of a query's target nodes and a lower bound of the total cost of the edges and copies it could use."""


def build_model(lattice: Lattice, targets: Iterable[int], *, most: float, floors: Floors = ()) -> ProbeModel:
    """Return the program for the targets, without edges and copies that alone cost more than `most`, a known cost."""
    targets = tuple(dict.fromkeys(targets))
    build = _Build(lattice, scale=_SCALE / most if most > 0 else 1.0, most=most)
    wanted = reachable(lattice, targets)
    build.binaries(wanted)
    build.flows_to(targets, wanted)
    for nodes, floor in floors:
        build.floor(nodes, floor)
    return ProbeModel(
        lattice, targets, build.model, build.scale, build.edges, build.copies, build.stores, build.flows
    )  # fmt: skip


def reachable(lattice: Lattice, targets: Iterable[int]) -> dict[int, tuple[int, ...]]:
    """Return the edges that can be on a path to each target, and to each upkeep node of a store on such a path."""
    edges_of: dict[int, tuple[int, ...]] = {}
    waiting = list(targets)
    while waiting:
        target = waiting.pop()
        if target in edges_of:
            continue
        edges_of[target] = edges = edges_to(lattice, target)
        for store in {lattice.edges[edge].store for edge in edges}:
            waiting.extend(lattice.upkeep[store])
    return edges_of


class _Build:
    """A program under construction."""

    def __init__(self, lattice: Lattice, *, scale: float, most: float) -> None:
        self.lattice = lattice
        self.scale = scale
        self.most = most
        self.model = Model()
        self.edges: dict[int, int] = {}
        self.copies: dict[int, int] = {}
        self.stores: dict[int, int] = {}
        self.flows: dict[tuple[int, int], int] = {}
        self.upkeep_of: dict[int, list[int]] = {}
        """For each upkeep node, the columns that say whether its stores are open."""

    def binaries(self, wanted: dict[int, tuple[int, ...]]) -> None:
        """Add a column for each edge, copy and stored join, and the rows that connect them."""
        lattice, model = self.lattice, self.model
        edges = sorted({edge for options in wanted.values() for edge in options})
        for edge in edges:
            self.edges[edge] = self._binary(lattice.edges[edge].cost)
        for copy in sorted({copy for edge in edges for copy in lattice.serving(edge)}):
            self.copies[copy] = self._binary(lattice.copies[copy].cost)
        for edge in edges:
            serving = [self.copies[copy] for copy in lattice.serving(edge)]
            self._at_most([self.edges[edge]], serving)
        for store in sorted({lattice.edges[edge].store for edge in edges}):
            if not lattice.upkeep[store]:
                continue
            copies = [self.copies[copy] for copy in lattice.copies_of[store] if copy in self.copies]
            if len(copies) == 1:
                self.stores[store] = copies[0]
            else:
                self.stores[store] = model.add_column(0.0, integer=True)
                for copy in copies:
                    self._at_most([copy], [self.stores[store]])
            for node in lattice.upkeep[store]:
                self.upkeep_of.setdefault(node, []).append(self.stores[store])

    def flows_to(self, targets: tuple[int, ...], wanted: dict[int, tuple[int, ...]]) -> None:
        """Add a flow to each node: one unit to a target; to an upkeep node, as much as its store is open."""
        users: dict[int, int] = {}
        for edges in wanted.values():
            for edge in edges:
                users[edge] = users.get(edge, 0) + 1
        certain = set(targets)
        for node, edges in wanted.items():
            if edges:
                columns = self._flow_columns(node, edges, users)
                self._conserve(node, columns, certain=node in certain)
                self._probe_once(columns)

    def floor(self, nodes: tuple[int, ...], least: float) -> None:
        """Require that everything a query could use costs together at least as much as the query alone."""
        edges = {edge for options in reachable(self.lattice, nodes).values() for edge in options}
        copies = {copy for edge in edges for copy in self.lattice.serving(edge)}
        columns = [*(self.edges[edge] for edge in sorted(edges)), *(self.copies[copy] for copy in sorted(copies))]
        costs = [self.model.costs[column] for column in columns]
        self.model.add_row(columns, costs, low=least * self.scale * (1 - 1e-9), high=INFINITY)

    def _flow_columns(self, node: int, edges: tuple[int, ...], users: dict[int, int]) -> dict[int, int]:
        """Return the flow's column of each edge: the edge's own if no other flow uses it or all paths have one edge."""
        single = all(self.lattice.edges[edge].target == node for edge in edges)
        columns: dict[int, int] = {}
        for edge in edges:
            if single or users[edge] == 1:
                columns[edge] = self.edges[edge]
            else:
                columns[edge] = self.flows[node, edge] = self.model.add_column(0.0)
                self._at_most([columns[edge]], [self.edges[edge]])
        return columns

    def _conserve(self, node: int, columns: dict[int, int], *, certain: bool) -> None:
        arriving: dict[int, list[int]] = {}
        leaving: dict[int, list[int]] = {}
        for edge, column in columns.items():
            arriving.setdefault(self.lattice.edges[edge].target, []).append(column)
            leaving.setdefault(self.lattice.edges[edge].source, []).append(column)
        for reached, columns_in in arriving.items():
            if reached != node:
                self._at_most(leaving[reached], columns_in)
            elif certain:
                self.model.add_row(columns_in, [1.0] * len(columns_in), low=1.0, high=INFINITY)
            else:
                for store in self.upkeep_of[node]:
                    self._at_most([store], columns_in)

    def _probe_once(self, columns: dict[int, int]) -> None:
        by_copies: dict[tuple[int, ...], list[int]] = {}
        for edge, column in columns.items():
            by_copies.setdefault(self.lattice.serving(edge), []).append(column)
        for copies, together in by_copies.items():
            if len(together) > 1:
                self._at_most(together, [self.copies[copy] for copy in copies])

    def _binary(self, cost: float) -> int:
        return self.model.add_column(cost * self.scale, high=0.0 if cost > self.most else 1.0, integer=True)

    def _at_most(self, left: Sequence[int], right: Sequence[int]) -> None:
        """Add the row Σ left ≤ Σ right."""
        factors = [1.0] * len(left) + [-1.0] * len(right)
        self.model.add_row([*left, *right], factors, low=-INFINITY, high=0.0)
