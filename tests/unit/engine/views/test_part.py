"""A part of the shared plan: the same operators as in the whole, described by the queries in the part only."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.engine_sample import open_core, rows
from tests.support.harness import CoreHarness
from tests.unit.engine.views.test_graph import QUERIES, RANGE, TUMBLE
from weft.engine.views.part import part_of
from weft.engine.views.plan_graph import NodeKind, plan_graph
from weft.engine.views.what_if import what_if
from weft.plan.slots import Slots
from weft.sql import bind

SECRET = "4711"
OTHERS = {
    "selection": f"SELECT x, s FROM a WHERE x > {SECRET} AND s = 'secret'",
    "join": f"SELECT p.x AS px, q.s AS qs FROM a {RANGE} p JOIN b {RANGE} q ON p.k = q.k AND p.j + {SECRET} = q.j",
    "grouped": f"SELECT k, SUM(CASE WHEN j = {SECRET} THEN x END) AS n FROM a {TUMBLE} GROUP BY k",
    "three": (
        f"SELECT p.x, r.s FROM a {RANGE} p JOIN b {RANGE} q ON p.k = q.k JOIN c {RANGE} r ON q.k = r.k "
        f"AND p.x + {SECRET} < r.x"
    ),
}


@pytest.fixture
def harness(tmp_path: Path) -> CoreHarness:
    return open_core(tmp_path / "state")


def created(harness: CoreHarness) -> Slots:
    """Queries of two users; the slots of the first."""
    for name, sql in OTHERS.items():
        harness.create(sql, f"other.{name}")
    for name, sql in QUERIES.items():
        harness.create(sql, f"mine.{name}")
    mask = 0
    for live in harness.core.plan.queries:
        mask |= (1 << live.slot) * live.record.name.startswith("mine.")
    return Slots(mask)


def test_its_operators_are_operators_of_the_whole(harness: CoreHarness) -> None:
    mine = created(harness)
    plan, streams = harness.core.plan, harness.core.streams
    whole, part = plan_graph(plan, streams), plan_graph(part_of(plan, streams, mine), streams)
    assert set(part.nodes) <= set(whole.nodes)
    assert set(part.edges) <= set(whole.edges)
    for live in plan.queries:
        if mine >> live.slot & 1:
            assert {node.id for node in part.of(live.slot)} == {node.id for node in whole.of(live.slot)}
    assert {node.title for node in part.nodes.values() if node.kind is NodeKind.QUERY} == {f"mine.{n}" for n in QUERIES}


def test_nothing_in_it_is_of_anybody_else(harness: CoreHarness) -> None:
    mine = created(harness)
    plan, streams = harness.core.plan, harness.core.streams
    texts = "\n".join(f"{n.title}: {n.detail}" for n in plan_graph(plan, streams).nodes.values())
    assert SECRET in texts
    nodes = plan_graph(part_of(plan, streams, mine), streams).nodes.values()
    shown = "\n".join(f"{node.title}: {node.detail}" for node in nodes if node.kind is not NodeKind.STREAM)
    assert SECRET not in shown
    assert ", s" not in shown, "a column that only others read"


def test_asking_does_not_tell_which_constants_others_have(harness: CoreHarness) -> None:
    """What others' queries have is new to whoever asks, unless it is said with columns alone."""
    guess = f"SELECT x + {SECRET} AS g, COUNT(*) AS n FROM a {TUMBLE} GROUP BY x + {SECRET}"
    harness.create(guess, "other.guessed")
    harness.create(f"SELECT p.x FROM a {RANGE} p JOIN b {RANGE} q ON p.x + {SECRET} = q.x", "other.join")
    for second in range(3):
        harness.batch({"a": [rows((second, 1, 5))], "b": [rows((second, 1, 5))]})
    both = f"SELECT p.x FROM a {RANGE} p JOIN b {RANGE} q ON p.k = q.k AND p.x + %s = q.x"
    for text in (guess, both % SECRET):
        right = what_if(harness.core, bind(text, harness.core.streams), sees=lambda name: name.startswith("mine."))
        wrong = what_if(
            harness.core,
            bind(text.replace(SECRET, "4712"), harness.core.streams),
            sees=lambda name: name.startswith("mine."),
        )
        # Operators are in the order of their ids, which are made of what they are.
        assert sorted(right.text.replace(SECRET, "4712").splitlines()) == sorted(wrong.text.splitlines())
        assert len(right.new) == len(wrong.new)
        assert sorted(right.takes.values()) == sorted(wrong.takes.values())
    whole = what_if(harness.core, bind(guess, harness.core.streams))
    assert not whole.new, "whoever sees all is told that it is there"


def test_what_is_said_with_columns_alone_is_told(harness: CoreHarness) -> None:
    harness.create(QUERIES["grouped"], "other.grouped")
    found = what_if(harness.core, bind(QUERIES["grouped"], harness.core.streams), sees=lambda _: False)
    assert not found.new
    assert all(node.slots for node in found.nodes)
