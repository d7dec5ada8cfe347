"""Joins of several relations: the schedules are worth playing, and the oracle is right by looking at it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import note

from tests.support.by_seed import by_seed
from tests.support.generators.cases import PLAIN, alone, col, lit, row, schedule
from tests.support.generators.columns import columns_in, relations_in, renumbered
from tests.support.generators.multiway import MOST_ROWS, MULTIWAY, draw_multiway_schedule, queries_of
from tests.support.generators.workload import Batch, Create, Schedule
from tests.support.oracles.multiway_reference import MultiwayReference
from tests.support.oracles.oracle import Lifetime, Oracle
from tests.support.oracles.reference import reference_for
from tests.support.run import play
from tests.support.spec import (
    Arith,
    Between,
    Compare,
    Mixed,
    OutputColumn,
    Predicate,
    QuerySpec,
    Range,
    RelationSpec,
    Shift,
    Sliding,
    Unbounded,
    Window,
    WindowEdge,
)
from tests.support.text import weft_sql
from weft.plan.expression import TRUE, Opaque
from weft.plan.query import BoundQuery
from weft.plan.types import INT
from weft.sql import bind
from weft.sql.names.connection import linked_groups

SEEDS = range(60)


@cache
def drawn() -> tuple[Schedule, ...]:
    return tuple(draw_multiway_schedule(seed) for seed in SEEDS)


def joins() -> Iterator[tuple[Schedule, QuerySpec]]:
    for each in drawn():
        yield from ((each, query) for query in queries_of(each) if query.conditions)


def bound(given_schedule: Schedule, query: QuerySpec) -> BoundQuery:
    return bind(weft_sql(query), {stream.name: stream for stream in given_schedule.streams})


# ---- the schedules


def test_every_query_binds_and_needs_no_spark() -> None:
    for each, query in joins():
        found = bound(each, query)
        assert len(found.relations) == len(query.relations), weft_sql(query)
        parts = [
            *(condition.expression for condition in found.conditions),
            *(side for key in found.keys for side in (key.left, key.right)),
            *(relation.predicate for relation in found.relations),
        ]
        assert not any(isinstance(part, Opaque) for part in parts), weft_sql(query)
        assert all(output.source for output in found.outputs), weft_sql(query)


def test_conditions_connect_all_relations() -> None:
    for _, query in joins():
        assert len(linked_groups(len(query.relations), [sorted(relations_in(each)) for each in query.conditions])) == 1


def test_all_kinds_of_joins_occur() -> None:
    seen: Counter[str] = Counter()
    for given_schedule, query in joins():
        found = bound(given_schedule, query)
        count = len(query.relations)
        links = {relations_in(condition) for condition in query.conditions}
        seen[f"{count} relations"] += 1
        seen["self-join"] += len(query.streams) < count
        seen["stream three times"] += max(Counter(r.stream for r in query.relations).values()) >= 3
        seen["cycle"] += sum(len(link) == 2 for link in links) >= count > 2
        seen["three at once"] += any(len(link) == 3 for link in links)
        seen["no equality"] += not found.keys
        seen["only equalities"] += not found.conditions
        seen["both"] += bool(found.keys) and bool(found.conditions)
        seen["several keys"] += len(found.keys) >= count
        seen["only times"] += any(each.expression == TRUE for each in found.conditions)
        seen["distance"] += "INTERVAL" in weft_sql(query)
        seen["sum"] += "Mixed" in repr(query.conditions)
        seen["between"] += any(isinstance(condition, Between) for condition in query.conditions)
        seen[windows_of(query)] += 1
    for kind in (
        "2 relations", "3 relations", "4 relations", "5 relations", "self-join", "stream three times", "cycle",
        "three at once", "no equality", "only equalities", "both", "several keys", "only times", "distance", "sum",
        "between", "sliding", "tumbling", "equal ranges", "different ranges", "unbounded", "no windows", "one bare",
    ):  # fmt: skip
        assert seen[kind] >= 3, (kind, seen)


def windows_of(query: QuerySpec) -> str:
    windows = [relation.window for relation in query.relations]
    if query.sliding is not None:
        return "tumbling" if query.sliding.size == query.sliding.slide else "sliding"
    if None in windows:
        return "no windows" if set(windows) == {None} else "one bare"
    if set(windows) == {Unbounded()}:
        return "unbounded"
    return "equal ranges" if len(set(windows)) == 1 else "different ranges"


def test_most_queries_have_rows_and_none_has_too_many() -> None:
    counts = [count for each in drawn() for count in rows_of_joins(each)]
    assert max(counts) <= MOST_ROWS
    assert sum(count > 0 for count in counts) > 0.6 * len(counts)
    assert sum(count > 20 for count in counts) > 0.2 * len(counts)


def rows_of_joins(each: Schedule) -> Iterator[int]:
    """How many rows each query has if it is never dropped."""
    batches = sum(isinstance(step, Batch) for step in each.steps)
    first = 0
    with Oracle(each) as oracle:
        for step in each.steps:
            first += isinstance(step, Batch)
            if isinstance(step, Create):
                for query in step.queries:
                    if query.conditions:
                        yield len(oracle.rows(query, Lifetime(first, batches)))


def test_queries_have_parts_in_common() -> None:
    several = [each for each in drawn() if sum(bool(query.conditions) for query in queries_of(each)) > 1]
    assert len(several) > len(SEEDS) / 2
    sharing = [each for each in several if have_links_in_common(queries_of(each))]
    assert len(sharing) > 0.5 * len(several)


def have_links_in_common(queries: Sequence[QuerySpec]) -> bool:
    return any(links_of(first) & links_of(second) for first, second in combinations(queries, 2))


def links_of(query: QuerySpec) -> set[tuple[tuple[str, ...], Predicate]]:
    """Each condition with its streams, whatever the numbers of the relations are."""
    links = set()
    for condition in query.conditions:
        order = list(dict.fromkeys(column.relation for column in columns_in(condition)))
        streams = tuple(query.relations[relation].stream for relation in order)
        links.add((streams, renumbered(condition, {relation: at for at, relation in enumerate(order)})))
    return links


def test_equal_seeds_give_equal_schedules() -> None:
    assert repr(draw_multiway_schedule(7)) == repr(draw_multiway_schedule(7))


def test_ways_to_write_one_join() -> None:
    for each, query in joins():
        ways = [
            replace(query.style, commas=commas, predicates_in_on=on) for commas in (False, True) for on in (False, True)
        ]
        found = [bound(each, replace(query, style=style)) for style in ways]
        # As text, because NaN is not equal to itself.
        assert len({repr((q.keys, sorted(map(repr, q.conditions)), q.pair_bounds, q.relations)) for q in found}) == 1


# ---- the oracle against the reference, and on cases small enough to be right by looking at them


@by_seed(60)
def test_reference_agrees_with_oracle(seed: int) -> None:
    options = "--plans reference --rows 20"
    note(f"play it again: python -m tests.property.fuzz_multiway {options} --count 1 --seed {seed}")
    each = draw_multiway_schedule(seed, replace(MULTIWAY, rows=20))
    play(each, reference_for(each, MultiwayReference), Path("in memory"))


K = [Compare("=", col(0, "k"), col(1, "k")), Compare("=", col(1, "k"), col(2, "k"))]


def join(windows: Sequence[Window | None], conditions: Sequence[Predicate], *, edges: bool = False) -> QuerySpec:
    """The `n` of every tuple; the last relation is of stream r, the others are of stream l."""
    streams = [*"l" * (len(windows) - 1), "r"]
    relations = tuple(
        RelationSpec(stream, "ts", alias, window, None)
        for stream, alias, window in zip(streams, "abcde", windows, strict=False)
    )
    outputs: list[OutputColumn] = [col(side, "n") for side in range(len(windows))]
    outputs += [WindowEdge("window_start")] if edges else []
    return QuerySpec("q", relations, (), None, tuple(outputs), PLAIN, conditions=tuple(conditions))


@pytest.mark.parametrize(
    ("ranges", "times", "meets"),
    [
        ((5, 5, 5), (0, 4, 4), True),
        ((5, 5, 5), (0, 4, 5), False),  # the first is too old for the last, though each is near its neighbour
        ((5, 5, 5), (5, 4, 0), False),
        ((6, 5, 5), (0, 4, 5), True),
        ((6, 2, 5), (0, 4, 5), True),
        ((6, 1, 5), (0, 4, 5), False),
        ((6, 1, 1), (0, 5, 5), True),
        ((1, 1, 9), (8, 8, 0), True),
        ((1, 1, 8), (8, 8, 0), False),
    ],
)
def test_ranges_count_from_the_latest_tuple(ranges: Sequence[int], times: Sequence[int], meets: bool) -> None:
    query = join([Range(size) for size in ranges], K)
    first, second, third = times
    rows = schedule({"l": [row(first, 1)], "r": [row(third, 3)]}, {"l": [row(second, 2)]})
    assert ((1, 2, 3) in alone(query, rows)) is meets


def test_window_none_and_unbounded_limit_nothing() -> None:
    rows = schedule({"l": [row(0, 1)], "r": [row(9, 2)]})
    assert alone(join([Unbounded(), None, Range(1)], K), rows) == [(1, 1, 2)]


def test_combination_is_in_the_windows_that_hold_all() -> None:
    query = join([Sliding(8, 2)] * 3, [*K, Compare("<", col(0, "n"), col(1, "n"))])
    rows = schedule({"l": [row(4, 1), row(5, 2)], "r": [row(7, 3)]})
    assert alone(query, rows) == [(1, 2, 3)] * 3  # starts 0, 2, 4
    late = schedule({"r": [row(1, 9)]}, {"l": [row(4, 1), row(5, 2)], "r": [row(7, 3)]})
    assert alone(query, late, first=1) == [(1, 2, 3)] * 2  # the window from 0 on began before the start


def test_row_in_every_role() -> None:
    rows = schedule({"l": [row(1, 1), row(2, 2)], "r": [row(1, 3)]})
    query = join([Unbounded()] * 3, K)
    assert alone(query, rows) == [(1, 1, 3), (1, 2, 3), (2, 1, 3), (2, 2, 3)]


def test_null_joins_nothing() -> None:
    rows = schedule({"l": [row(1, 1, k=None)], "r": [row(1, 2, k=None)]})
    assert alone(join([Unbounded()] * 3, K), rows) == []
    assert alone(join([Unbounded()] * 2, [Compare("<>", col(0, "k"), col(1, "i"))]), rows) == []
    assert alone(join([Unbounded()] * 2, [Compare("<=>", col(0, "k"), col(1, "k"))]), rows) == [(1, 2)]


@pytest.mark.parametrize(
    ("condition", "meets"),
    [
        (Compare(">", Mixed("+", col(0, "i"), col(1, "i")), lit(3, INT)), [(1, 5), (2, 4), (2, 5)]),
        (Compare("=", Mixed("-", col(1, "i"), col(0, "i")), lit(1, INT)), [(1, 4), (2, 5)]),
        (Between(col(1, "i"), col(0, "i"), Arith("+", col(0, "i"), lit(1, INT))), [(1, 3), (1, 4), (2, 4), (2, 5)]),
        (Compare("<=", col(1, "i"), col(0, "i")), [(1, 3), (2, 3), (2, 4)]),
        (Between(col(1, "ts"), col(0, "ts"), Shift(col(0, "ts"), 2)), [(1, 3), (1, 4), (2, 4)]),
        (Compare("<", col(1, "ts"), Shift(col(0, "ts"), 1)), [(1, 3), (2, 3), (2, 4)]),
        (Compare(">", Shift(col(1, "ts"), -2), col(0, "ts")), [(1, 5), (2, 5)]),
    ],
)
def test_theta(condition: Predicate, meets: list[tuple[int, int]]) -> None:
    rows = schedule({"l": [row(1, 1, i=1), row(2, 2, i=2)], "r": [row(1, 3, i=1), row(2, 4, i=2), row(5, 5, i=3)]})
    assert alone(join([Unbounded()] * 2, [condition]), rows) == meets


def test_condition_over_three_relations() -> None:
    rows = schedule({"l": [row(1, 1, i=1), row(1, 2, i=2)], "r": [row(1, 3, i=3), row(1, 4, i=4)]})
    total = Compare("=", Mixed("+", col(0, "i"), col(1, "i")), col(2, "i"))
    assert alone(join([Unbounded()] * 3, [total]), rows) == [(1, 2, 3), (2, 1, 3), (2, 2, 4)]
