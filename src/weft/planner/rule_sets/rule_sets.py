"""Probe trees and rule sets from chosen probe orders (CLASH V-B, algorithm 3, fig. 4).

The orders of one relation are merged by common prefixes into a tree. Each edge of a tree has a unique label. By the
label of an incoming row, a worker looks up whether to store the row, or how to probe with it and where to send results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NewType

from weft.plan.changelog import QueryId
from weft.planner.joins.graph import bits
from weft.planner.joins.lattice import LatticeNode
from weft.planner.joins.order_plan import ProbePlan

Label = NewType("Label", str)
StoreName = NewType("StoreName", str)


@dataclass(frozen=True, slots=True)
class ProbeTree:
    """The combinations at a node: the next probes, the queries whose results they are, and the stores that keep them.

    `label` is the label of the edge to this node, and `store` the copy that this edge probes. At the root, both are
    the name of the relation.
    """

    label: Label
    store: StoreName
    branches: tuple[ProbeTree, ...]
    results: tuple[QueryId, ...]
    kept_in: tuple[StoreName, ...]


@dataclass(frozen=True, slots=True)
class StoreRule:
    """Add the row to the store."""


@dataclass(frozen=True, slots=True)
class ProbeRule:
    """Probe with these predicates, and send the combinations along labels, to queries and to stores."""

    predicates: tuple[str, ...]
    send: tuple[Label, ...]
    results: tuple[QueryId, ...]
    keep: tuple[Label, ...]


Rule = StoreRule | ProbeRule
RuleSet = Mapping[Label, tuple[Rule, ...]]


def probe_trees(plan: ProbePlan) -> tuple[ProbeTree, ...]:
    """Return one tree for each relation that some query joins."""
    return _Forest(plan).trees()


def rule_sets(plan: ProbePlan) -> Mapping[StoreName, RuleSet]:
    """Return the rules of each copy of a store, by the label of the incoming row (algorithm 3)."""
    forest = _Forest(plan)
    rules: dict[StoreName, dict[Label, tuple[Rule, ...]]] = {}
    for copy in sorted(plan.copies):
        name = _store_name(plan, copy)
        rules[name] = {_keep_label(name): (StoreRule(),)}
    for tree in forest.trees():
        _add_rules(tree, forest, rules)
    return rules


class _Forest:
    """The edges of a plan by source, with the queries and the stores that need the combinations at each node."""

    def __init__(self, plan: ProbePlan) -> None:
        self.plan = plan
        lattice = plan.lattice
        self.leaving: dict[int, list[int]] = {}
        for edge in sorted(plan.edge_copy):
            self.leaving.setdefault(lattice.edges[edge].source, []).append(edge)
        self.results: dict[int, list[QueryId]] = {}
        for query in plan.queries:
            for node in lattice.targets[query]:
                self.results.setdefault(node, []).append(query)
        self.kept_in: dict[int, list[StoreName]] = {}
        for copy in sorted(plan.copies):
            store = lattice.copies[copy].store
            stored = lattice.stores[store]
            nodes = lattice.upkeep[store] or (
                lattice.node_numbers[LatticeNode(_only(stored.inputs), stored.inputs, 0)],
            )
            for node in nodes:
                self.kept_in.setdefault(node, []).append(_store_name(plan, copy))
        self.edge_of: dict[Label, int] = {}

    def trees(self) -> tuple[ProbeTree, ...]:
        """Return one tree per start, in the order of their numbers."""
        nodes = self.plan.lattice.nodes
        starts = sorted({nodes[node].start for node in self.plan.paths})
        return tuple(
            self.grown(self.plan.lattice.node_numbers[LatticeNode(start, 1 << start, 0)], "") for start in starts
        )

    def grown(self, node: int, label: str, store: StoreName | None = None) -> ProbeTree:
        """Return the tree below a node. Labels are the path from the root, so they are unique."""
        name = self.plan.lattice.graph.inputs[self.plan.lattice.nodes[node].start].text
        here = Label(label or name)
        branches = []
        for edge in self.leaving.get(node, ()):
            probed = _store_name(self.plan, self.plan.edge_copy[edge])
            path = Label(f"{here} → {probed}")
            self.edge_of[path] = edge
            branches.append(self.grown(self.plan.lattice.edges[edge].target, path, probed))
        return ProbeTree(
            here,
            store or StoreName(name),
            tuple(branches),
            tuple(self.results.get(node, ())),
            tuple(self.kept_in.get(node, ())),
        )

    def predicates(self, label: Label) -> tuple[str, ...]:
        """Return the predicates that a probe along this edge tests, between the incoming and the stored rows."""
        lattice = self.plan.lattice
        edge = lattice.edges[self.edge_of[label]]
        known = lattice.nodes[edge.source].predicates | lattice.stores[edge.store].predicates
        between = lattice.nodes[edge.target].predicates & ~known
        return tuple(lattice.graph.predicates[number].text for number in bits(between))


def _add_rules(tree: ProbeTree, forest: _Forest, rules: dict[StoreName, dict[Label, tuple[Rule, ...]]]) -> None:
    for branch in tree.branches:
        rule = ProbeRule(
            forest.predicates(branch.label),
            tuple(child.label for child in branch.branches),
            branch.results,
            tuple(_keep_label(name) for name in branch.kept_in),
        )
        rules[branch.store][branch.label] = (rule,)
        _add_rules(branch, forest, rules)


def _store_name(plan: ProbePlan, copy: int) -> StoreName:
    """Return the name of a copy: its relations, and the attribute that partitions it."""
    stored = plan.lattice.copies[copy]
    content = plan.lattice.stores[stored.store]
    names = " ⋈ ".join(plan.lattice.graph.names(content.inputs))
    if stored.attribute is None:
        return StoreName(f"{names}[]")
    return StoreName(f"{names}[{stored.attribute.text if content.is_intermediate else stored.attribute.name}]")


def _keep_label(store: StoreName) -> Label:
    return Label(f"keep in {store}")


def _only(inputs: int) -> int:
    return inputs.bit_length() - 1
