"""A part of the shared plan: what it would be of some of its queries only.

Operators are named by what they do, so they have the same ids in the part as in the whole. Columns, indexes and
accumulated expressions are those of the queries in the part: nothing in it comes from anybody else's.
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
    """The plan as far as it serves the queries of some slots."""
    queries = [live for live in plan.queries if slots >> live.slot & 1]
    return assemble(queries, streams, _forest(plan.probes, slots))


def _forest(forest: ProbeForest, slots: Slots) -> ProbeForest:
    stored = tuple(
        replace(each, slots=Slots(each.slots & slots), indexes=()) for each in forest.stored if each.slots & slots
    )
    kept = {each.id for each in stored}

    def cut(probe: Probe) -> Probe:
        results = Slots(probe.result_slots & slots)
        return replace(
            probe,
            slots=Slots(probe.slots & slots),
            then=tuple(cut(each) for each in probe.then if each.slots & slots),
            result=probe.result if results else "",
            result_slots=results,
            keep=probe.keep if probe.keep in kept else None,
        )

    return ProbeForest(
        trees=tuple(cut(tree) for tree in forest.trees if tree.slots & slots),
        stored=stored,
        filters=tuple(each for each in forest.filters if slots >> each.slot & 1),
        spans=tuple(each for each in forest.spans if slots >> each.slot & 1),
    )
