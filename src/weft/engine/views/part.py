"""The part of the shared plan that serves only some of its queries.

Operators are named by what they do, so they have the same ids in the part and in the full plan. Columns, indexes and
accumulated expressions come only from the queries in the part, which therefore reveals nothing about other queries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.plan.probe_tree import Probe, ProbeForest
from weft.plan.shared import SharedPlan
from weft.plan.slots import Slots
from weft.plan.stream import Stream
from weft.planner.plan import assemble


def part_of(plan: SharedPlan, streams: Mapping[str, Stream], slots: Slots) -> SharedPlan:
    """Return the part of a plan that serves the queries in some slots."""
    queries = plan.queries_in(slots)
    return assemble(queries, streams, _forest(plan.probes, slots))


def _forest(forest: ProbeForest, slots: Slots) -> ProbeForest:
    stored = tuple(
        replace(join, slots=Slots(join.slots & slots), indexes=()) for join in forest.stored if join.slots & slots
    )
    kept = {join.id for join in stored}

    def cut(probe: Probe) -> Probe:
        results = Slots(probe.result_slots & slots)
        return replace(
            probe,
            slots=Slots(probe.slots & slots),
            then=tuple(cut(step) for step in probe.then if step.slots & slots),
            result=probe.result if results else "",
            result_slots=results,
            keep=probe.keep if probe.keep in kept else None,
        )

    return ProbeForest(
        trees=tuple(cut(tree) for tree in forest.trees if tree.slots & slots),
        stored=stored,
        filters=tuple(condition for condition in forest.filters if slots >> condition.slot & 1),
        spans=tuple(span for span in forest.spans if slots >> span.slot & 1),
    )
