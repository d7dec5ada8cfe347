"""Probe trees and stores of intermediate results as text: the way of new tuples, what was seen on it, for whom."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from weft.plan.changelog import QueryRecord
from weft.plan.expression import to_sql
from weft.plan.key import key_text
from weft.plan.probe_tree import Equality, Input, Probe, StoredJoin
from weft.plan.shared import SharedPlan
from weft.plan.slots import Slots

Flows = Mapping[str, tuple[int, int]]
"""For each probe: combinations that came to it in the last batch, and those it made."""
Names = Callable[[Slots], str]


def explain_probes(plan: SharedPlan, flows: Flows, names: Names) -> Iterator[str]:
    """All probe trees and stores of intermediate results, with the queries they serve."""
    for stored in plan.probes.stored:
        yield f"  stored join {stored.id}: {_joined(stored.inputs)}{_keys(stored)}"
        yield f"    serves {names(stored.slots)}"
    start: Input | None = None
    for tree in plan.probes.trees:
        if tree.start != start:
            start = tree.start
            yield f"  new tuples of {start.text}"
        yield from _tree(tree, flows, names, depth=2)


def explain_probed(record: QueryRecord, source: str, plan: SharedPlan, *, others: Names) -> Iterator[str]:
    """The ways to one query's combinations, and who shares each step."""
    mine = 1 << record.slot
    for probe in (each for tree in plan.probes.trees for each in tree.walk()):
        if probe.result == source and probe.result_slots & mine:
            yield f"  from {probe.start.text}: {' → '.join(_way(plan, probe))}"
    for stored in plan.probes.stored:
        if stored.slots & mine:
            yield f"  stored join {stored.id}: {_joined(stored.inputs)}; shared with {others(stored.slots)}"
    for tree in plan.probes.trees:
        for probe in tree.walk():
            if probe.slots & mine:
                step = f"probe of {_joined(probe.added)} by {_joined(probe.members)}"
                yield f"  {step}: shared with {others(probe.slots)}"


def _tree(probe: Probe, flows: Flows, names: Names, *, depth: int) -> Iterator[str]:
    indent = "  " * depth
    seen = flows.get(probe.id)
    rates = "" if seen is None else f", last batch {seen[0]:,} in, {seen[1]:,} out"
    yield f"{indent}→ {_joined(probe.added)} on {_condition(probe)} (stage {probe.stage}{rates}): {names(probe.slots)}"
    if probe.keep is not None:
        yield f"{indent}  kept in stored join {probe.keep}"
    if probe.result:
        yield f"{indent}  results of {names(probe.result_slots)}"
    for then in probe.then:
        yield from _tree(then, flows, names, depth=depth + 1)


def _way(plan: SharedPlan, last: Probe) -> list[str]:
    """The stores on the way to a probe's results."""

    def search(probe: Probe, before: list[str]) -> list[str]:
        way = [*before, _joined(probe.added)]
        if probe is last:
            return way
        return next((found for then in probe.then if (found := search(then, way))), [])

    return next((found for tree in plan.probes.trees if (found := search(tree, []))), [])


def _condition(probe: Probe) -> str:
    equalities: Sequence[Equality] = (*(() if probe.route is None else (probe.route,)), *probe.equalities)
    texts = [
        f"{each.left.text}.({key_text(each.left_index.key)}) = {each.right.text}.({key_text(each.right_index.key)})"
        for each in equalities
    ]
    texts += [to_sql(each.expression) for each in probe.comparisons]
    return " AND ".join(texts) + ("" if probe.route is not None else ", by all tasks")


def _keys(stored: StoredJoin) -> str:
    keys = [f"{owner.text}.({key_text(index.key)})" for owner, index in stored.indexes]
    return f", indexed by {' and by '.join(keys)}" if keys else ""


def _joined(inputs: Sequence[Input]) -> str:
    return " ⋈ ".join(each.text for each in inputs)
