"""Aggregations over joins of several relations: a join that was drawn becomes the same join with GROUP BY on top."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from tests.support.generators.aggregates import draw_group_keys, draw_product, with_results
from tests.support.generators.data import World
from tests.support.generators.features import Features
from tests.support.generators.parts import columns_of, draw_sliding
from tests.support.spec import Call, Grouping, QuerySpec
from tests.support.text import weft_sql
from weft.errors import WeftError
from weft.plan.stream import Stream
from weft.sql import bind


def aggregated(random: Random, spec: QuerySpec, streams: Sequence[Stream], world: World) -> QuerySpec:
    """The join with one window for all its relations, aggregated; the join itself where weft refuses that."""
    by_name = {stream.name: stream for stream in streams}
    mine = tuple(by_name[relation.stream] for relation in spec.relations)
    window = spec.sliding or spec.session or draw_sliding(random, world.clock, Features())
    grouped = replace(
        spec,
        relations=tuple(replace(relation, window=window) for relation in spec.relations),
        style=replace(spec.style, star=False),
        grouping=Grouping(draw_group_keys(random, mine, world), None, False),
    )
    grouped = with_results(random, grouped, mine, world, Features())
    if len(mine) > 1 and random.random() < 0.3:
        grouped = replace(grouped, outputs=(*grouped.outputs, _product(random, mine, world)))
    try:
        bind(weft_sql(grouped), by_name)
    except WeftError:
        return spec
    return grouped


def _product(random: Random, streams: tuple[Stream, ...], world: World) -> Call:
    first, second = sorted(random.sample(range(len(streams)), 2))
    return draw_product(random, columns_of(first, streams[first]), columns_of(second, streams[second]), world)
