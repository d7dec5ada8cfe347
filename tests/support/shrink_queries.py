"""A failing schedule made smaller, its queries as well: fewer relations, conditions and predicates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from time import monotonic

from tests.support.generators.columns import relations_in, renumbered
from tests.support.generators.workload import Create, Schedule
from tests.support.shrink import Fails, shrink
from tests.support.spec import Col, OutputColumn, QuerySpec, Style
from weft.plan.types import TIMESTAMP
from weft.sql.names.connection import linked_groups

_PLAIN = Style(predicates_in_on=False, unqualified=False, star=False, aliased=False)


def shrink_all(schedule: Schedule, fails: Fails, *, seconds: float) -> Schedule:
    """A schedule that fails, first with fewer parts, then with simpler queries, then with fewer parts again."""
    until = monotonic() + seconds
    best = shrink(schedule, fails, seconds=seconds / 2)
    simpler = _simplify(best, fails, until=monotonic() + seconds / 4)
    return simpler if simpler is best else shrink(simpler, fails, seconds=max(0.0, until - monotonic()))


def _simplify(schedule: Schedule, fails: Fails, *, until: float) -> Schedule:
    best, progress = schedule, True
    while progress and monotonic() < until:
        progress = False
        for simpler in _simpler_schedules(best):
            if monotonic() < until and fails(simpler):
                best, progress = simpler, True
                break
    return best


def _simpler_schedules(schedule: Schedule) -> Iterator[Schedule]:
    for at, step in enumerate(schedule.steps):
        if not isinstance(step, Create):
            continue
        for number, query in enumerate(step.queries):
            for simpler in _simpler_queries(query):
                if query.conditions and not _connected(simpler):
                    continue
                queries = (*step.queries[:number], simpler, *step.queries[number + 1 :])
                steps = (*schedule.steps[:at], replace(step, queries=queries), *schedule.steps[at + 1 :])
                yield replace(schedule, steps=steps)


def _simpler_queries(query: QuerySpec) -> Iterator[QuerySpec]:
    """Each leaves something out; whether an engine takes what is left shows when it is played."""
    if query.conditions and len(query.relations) > 2:
        yield from (_without_relation(query, number) for number in range(len(query.relations)))
    for number in range(len(query.conditions) if len(query.conditions) > 1 else 0):
        yield replace(query, conditions=(*query.conditions[:number], *query.conditions[number + 1 :]))
    for number, relation in enumerate(query.relations):
        if relation.predicate is not None:
            bare = replace(relation, predicate=None)
            yield replace(query, relations=(*query.relations[:number], bare, *query.relations[number + 1 :]))
    if query.style != _PLAIN:
        yield replace(query, style=_PLAIN)
    if query.conditions and len(query.outputs) > 1:
        for number in range(len(query.outputs)):
            yield replace(query, outputs=(*query.outputs[:number], *query.outputs[number + 1 :]), style=_PLAIN)


def _connected(query: QuerySpec) -> bool:
    links = [sorted(relations_in(condition)) for condition in query.conditions]
    return len(linked_groups(len(query.relations), links)) == 1


def _without_relation(query: QuerySpec, gone: int) -> QuerySpec:
    kept = [number for number in range(len(query.relations)) if number != gone]
    numbers = {old: new for new, old in enumerate(kept)}
    outputs: list[OutputColumn] = [
        renumbered(output, numbers) if isinstance(output, Col) else output
        for output in query.outputs
        if not isinstance(output, Col) or output.relation != gone
    ]
    relations = tuple(
        relation
        if relation.predicate is None
        else replace(relation, predicate=renumbered(relation.predicate, {old: new}))
        for old, new in numbers.items()
        for relation in (query.relations[old],)
    )
    return replace(
        query,
        relations=relations,
        conditions=tuple(renumbered(each, numbers) for each in query.conditions if gone not in relations_in(each)),
        outputs=tuple(outputs) or (Col(0, relations[0].time, TIMESTAMP),),
        style=_PLAIN,
    )
