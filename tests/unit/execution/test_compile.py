"""What the compiler hands to tasks."""

from __future__ import annotations

from tests.support.engine_sample import STREAMS, live
from weft.execution.compile import compile_program
from weft.plan.probe_tree import NO_PROBES
from weft.planner.plan import assemble

TEXT = "hash(s) % 2 = 0"


def test_a_key_that_is_another_querys_predicate_is_needed_on_every_row() -> None:
    """As it was: it was computed only where the query with the key wants rows, and the other query lost rows."""
    keyed = live(f"SELECT COUNT(*) AS n FROM a [TUMBLE 10 SECONDS] WHERE x > 1000 GROUP BY {TEXT}", 0)
    selecting = live(f"SELECT x FROM a WHERE {TEXT}", 1)
    guards = compile_program(assemble([keyed, selecting], STREAMS, NO_PROBES), STREAMS).streams["a"].guards
    ((text, needed),) = guards.items()
    assert "hash" in text
    assert [slot for slot, _ in needed] == [0, 1]
    assert needed[1][1] == "true"
    alone = compile_program(assemble([keyed], STREAMS, NO_PROBES), STREAMS).streams["a"].guards
    assert [slot for slot, _ in alone[text]] == [0]
