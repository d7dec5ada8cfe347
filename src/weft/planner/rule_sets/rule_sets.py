"""Chosen probe orders as what workers do (CLASH V-B, algorithm 3, fig. 4): probe trees and rule sets.

The orders from one relation are merged by their common beginnings into a tree. Each edge of a tree has a label of its
own; a worker that gets a tuple looks up, by the label it came with, whether to store it or what to probe it with and
where to send what it finds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NewType

from weft.plan.changelog import QueryId
from weft.planner.joins.graph import bits
from weft.planner.joins.lattice import Node
from weft.planner.joins.order_plan import ProbePlan

Label = NewType("Label", str)
StoreName = NewType("StoreName", str)


@dataclass(frozen=True, slots=True)
class ProbeTree:
    """Partial results at a node: where they go next, whose results they are, which stores keep them.

    `label` is that of the edge leading here, `store` the copy it probes; both are the relation's name at the root.
    """

    label: Label
    store: StoreName
    branches: tuple[ProbeTree, ...]
    results: tuple[QueryId, ...]
    kept_in: tuple[StoreName, ...]


@dataclass(frozen=True, slots=True)
class StoreRule:
    """Add the tuple to the store."""


@dataclass(frozen=True, slots=True)
class ProbeRule:
    """Probe with these predicates; send what is found along labels, to queries and to stores."""

    predicates: tuple[str, ...]
    send: tuple[Label, ...]
    results: tuple[QueryId, ...]
    keep: tuple[Label, ...]


Rule = StoreRule | ProbeRule
RuleSet = Mapping[Label, tuple[Rule, ...]]


def probe_trees(plan: ProbePlan) -> tuple[ProbeTree, ...]:
    """One tree for each relation that some query joins."""
    return _Forest(plan).trees()


def rule_sets(plan: ProbePlan) -> Mapping[StoreName, RuleSet]:
    """Algorithm 3: for each copy of a store its rules by the label a tuple arrives with."""
    forest = _Forest(plan)
    rules: dict[StoreName, dict[Label, tuple[Rule, ...]]] = {}
    for copy in sorted(plan.copies):
        name = _store_name(plan, copy)
        rules[name] = {_keep_label(name): (StoreRule(),)}
    for tree in forest.trees():
        _add_rules(tree, forest, rules)
    return rules


class _Forest:
    """The plan's edges by where they start, and what is wanted at each node."""

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
            held = lattice.stores[store]
            nodes = lattice.upkeep[store] or (lattice.node_numbers[Node(_only(held.inputs), held.inputs, 0)],)
            for node in nodes:
                self.kept_in.setdefault(node, []).append(_store_name(plan, copy))
        self.edge_of: dict[Label, int] = {}

    def trees(self) -> tuple[ProbeTree, ...]:
        """One from each start, in the order of their numbers."""
        nodes = self.plan.lattice.nodes
        starts = sorted({nodes[node].start for node in self.plan.paths})
        return tuple(self.grown(self.plan.lattice.node_numbers[Node(start, 1 << start, 0)], "") for start in starts)

    def grown(self, node: int, label: str, store: StoreName | None = None) -> ProbeTree:
        """The tree from this node on; labels are the way from the root, so that they are unique."""
        name = self.plan.lattice.graph.inputs[self.plan.lattice.nodes[node].start].text
        here = Label(label or name)
        branches = []
        for edge in self.leaving.get(node, ()):
            probed = _store_name(self.plan, self.plan.edge_copy[edge])
            way = Label(f"{here} → {probed}")
            self.edge_of[way] = edge
            branches.append(self.grown(self.plan.lattice.edges[edge].target, way, probed))
        return ProbeTree(
            here,
            store or StoreName(name),
            tuple(branches),
            tuple(self.results.get(node, ())),
            tuple(self.kept_in.get(node, ())),
        )

    def predicates(self, label: Label) -> tuple[str, ...]:
        """What a probe along this edge tests: the predicates between what arrives and what is stored."""
        lattice = self.plan.lattice
        edge = lattice.edges[self.edge_of[label]]
        known = lattice.nodes[edge.source].predicates | lattice.stores[edge.store].predicates
        between = lattice.nodes[edge.target].predicates & ~known
        return tuple(lattice.graph.predicates[number].text for number in bits(between))


def _add_rules(tree: ProbeTree, forest: _Forest, rules: dict[StoreName, dict[Label, tuple[Rule, ...]]]) -> None:
    for branch in tree.branches:
        rule = ProbeRule(
            forest.predicates(branch.label),
            tuple(each.label for each in branch.branches),
            branch.results,
            tuple(_keep_label(name) for name in branch.kept_in),
        )
        rules[branch.store][branch.label] = (rule,)
        _add_rules(branch, forest, rules)


def _store_name(plan: ProbePlan, copy: int) -> StoreName:
    """Its relations, and the attribute it is partitioned by."""
    each = plan.lattice.copies[copy]
    held = plan.lattice.stores[each.store]
    names = " ⋈ ".join(plan.lattice.graph.names(held.inputs))
    if each.attribute is None:
        return StoreName(f"{names}[]")
    return StoreName(f"{names}[{each.attribute.text if held.is_intermediate else each.attribute.name}]")


def _keep_label(store: StoreName) -> Label:
    return Label(f"keep in {store}")


def _only(inputs: int) -> int:
    return inputs.bit_length() - 1
