"""Weft beside its peers, and the goals, by values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.tests.unit.reports.made_up import cell, limit, run, spread, with_cells
from weft_bench.record import Cell, Run
from weft_bench.reports.ratios import (
    FIGURES,
    OURS,
    SPEED,
    Goal,
    Verdict,
    goals,
    has_failed,
    is_one_pass,
    places,
    ratios,
    speed,
)


def goal(found: Run, words: str) -> Goal:
    (one,) = [goal for goal in goals(found) if words in goal.what]
    return one


def test_places_are_ordered_by_queries_then_by_first_appearance() -> None:
    cells = (cell("weft", 20, 1.0), cell("flink", 1, 1.0), cell("weft", 1, 1.0))
    assert [(place.queries, place.system) for place in places(cells)] == [(1, "weft"), (1, "flink"), (20, "weft")]


def test_a_figure_is_the_median_over_the_rounds_that_have_it() -> None:
    (place,) = places([cell("weft", 1, rate) for rate in (100.0, 900.0, 300.0)])
    assert place.figure(SPEED) == 300.0
    (place,) = places([cell("weft", 1, 100.0), Cell("weft", 1, failure="died")])
    assert place.figure(SPEED) == 100.0
    assert place.failure == "1 of 2 rounds: died"
    assert not place.has_failed


def test_a_reason_is_said_once() -> None:
    (place,) = places([Cell("flink", 1, failure="no heap"), Cell("flink", 1, failure="no heap")])
    assert (place.failure, place.has_failed, place.figure(SPEED)) == ("no heap", True, None)


def test_one_pass_is_told_from_streaming() -> None:
    assert is_one_pass(limit("duckdb", 1, 10.0))
    assert speed(limit("duckdb", 1, 10.0)) == 10.0
    assert not is_one_pass(cell("weft", 1, 10.0))
    assert not is_one_pass(Cell("spark", 1, failure="died"))


def test_what_was_not_searched_for_is_what_a_full_queue_gives() -> None:
    lost = replace(cell("weft", 1, 10.0), sustainable=None)
    assert (is_one_pass(lost), speed(lost)) == (False, None)
    fixed = replace(lost, attempts=())
    assert (is_one_pass(fixed), speed(fixed)) == (False, fixed.slowest)
    assert speed(replace(fixed, failure="died later")) is None


def test_a_cell_with_a_rate_has_not_failed() -> None:
    assert not has_failed(replace(cell("weft", 1, 10.0), failure="died when it was told to stop"))
    assert has_failed(Cell("weft", 1, failure="died"))
    assert not has_failed(Cell("weft", 1, event_latency=spread(1.0)))


def test_ratios_at_equal_numbers_of_queries_only() -> None:
    found = ratios((cell("weft", 1, 300.0), cell("flink", 1, 100.0), cell("flink", 5, 100.0)), [SPEED])
    assert [(ratio.peer, ratio.queries, ratio.factor, ratio.winner) for ratio in found] == [("flink", 1, 3.0, OURS)]


def test_less_latency_is_better() -> None:
    figure = FIGURES["event_latency_p99"]
    cells = (cell("weft", 1, 1.0, middle=0.4), cell("flink", 1, 1.0, middle=0.1))
    (ratio,) = ratios(cells, [figure])
    assert ratio.factor == pytest.approx(0.25)
    assert (ratio.winner, ratio.lead) == ("flink", pytest.approx(4.0))


def test_where_a_peer_wins_is_said() -> None:
    (ratio,) = ratios((cell("weft", 1, 100.0), cell("flink", 1, 250.0)), [SPEED])
    assert (ratio.winner, ratio.factor, ratio.lead) == ("flink", 0.4, 2.5)
    (ratio,) = ratios((Cell("weft", 1, failure="died"), cell("flink", 1, 250.0)), [SPEED])
    assert (ratio.winner, ratio.factor, ratio.lead) == ("flink", None, None)


def test_a_hair_is_no_lead() -> None:
    (ratio,) = ratios((cell("weft", 1, 1000.0), cell("flink", 1, 1001.0)), [SPEED])
    assert ratio.winner == ""


def test_a_peer_that_failed_lost_at_throughput_and_at_nothing_else() -> None:
    cells = (cell("weft", 1, 100.0), Cell("flink", 1, failure="no heap", peak_memory=1))
    (ratio,) = ratios(cells)
    assert (ratio.figure, ratio.winner, ratio.theirs) == (SPEED, OURS, None)


def test_nothing_to_compare_at_a_fixed_rate() -> None:
    fixed = [replace(cell(system, 1, 100.0), sustainable=None, slowest=None) for system in ("weft", "flink")]
    assert ratios(fixed, [SPEED]) == ()
    assert len(ratios(fixed)) == 3


@pytest.mark.parametrize(
    ("words", "verdict"),
    [
        ("1.3 × Flink", Verdict.MET),
        ("25 × Flink", Verdict.MET),
        ("100 × Spark", Verdict.MET),
        ("N = 1000: sustained", Verdict.MET),
        ("event-time latency", Verdict.MISSED),
        ("deployment latency", Verdict.MISSED),
        ("one-pass limit", Verdict.MET),
    ],
)
def test_goals_of_the_made_up_run(words: str, verdict: Verdict) -> None:
    assert goal(run(), words).verdict is verdict


def test_a_goal_over_a_peer() -> None:
    met = with_cells(cell("weft", 1, 130.0), cell("flink", 1, 100.0))
    assert goal(met, "1.3 × Flink") == Goal("N = 1: at least 1.3 × Flink", "1.3 ×", Verdict.MET)
    missed = with_cells(cell("weft", 1, 129.0), cell("flink", 1, 100.0))
    assert goal(missed, "1.3 × Flink").verdict is Verdict.MISSED


def test_the_best_variant_of_a_peer_counts() -> None:
    cells = (cell("weft", 1, 200.0), cell("flink", 1, 100.0), cell("flink-jobs", 1, 190.0))
    assert goal(with_cells(*cells), "1.3 × Flink").verdict is Verdict.MISSED


def test_a_goal_without_figures_is_neither_met_nor_missed() -> None:
    assert {goal.verdict for goal in goals(with_cells())} == {Verdict.UNKNOWN}
    assert goal(with_cells(cell("weft", 1, 1.0)), "1.3 × Flink").verdict is Verdict.UNKNOWN
    fixed = [replace(cell(system, 1, 100.0), sustainable=None) for system in ("weft", "flink")]
    assert goal(with_cells(*fixed), "1.3 × Flink").verdict is Verdict.UNKNOWN


def test_who_fails_misses_and_who_is_alone_wins() -> None:
    ours, theirs = cell("weft", 20, 9.0), Cell("flink", 20, failure="no heap")
    assert goal(with_cells(ours, theirs), "25 × Flink") == Goal(
        "N = 20: at least 25 × Flink", "flink sustained no rate", Verdict.MET
    )
    died = Cell("weft", 20, failure="died")
    assert goal(with_cells(died, theirs), "25 × Flink").verdict is Verdict.MISSED
    assert goal(with_cells(died, cell("flink", 20, 1.0)), "25 × Flink").verdict is Verdict.MISSED
    assert goal(with_cells(Cell("weft", 1000, failure="died")), "1000").verdict is Verdict.MISSED
    died = Cell("weft", 100, failure="died")
    assert goal(with_cells(died, limit("duckdb", 100, 1.0)), "one-pass limit").verdict is Verdict.MISSED


def test_the_worst_latency_counts() -> None:
    cells = (cell("weft", 1, 1.0, middle=0.1), cell("weft", 5, 1.0, middle=1.0), cell("flink", 5, 1.0, middle=9.0))
    assert goal(with_cells(*cells), "event-time").measured == "2.6 s at most, with N = 5"
    assert goal(with_cells(cells[0]), "event-time").verdict is Verdict.MET


def test_deployment_counts_only_at_the_rate_of_the_goal() -> None:
    ours = cell("weft", 100, 1.0, middle=0.1)
    assert goal(with_cells(ours, creates_per_second=100), "deployment").verdict is Verdict.MET
    slow = goal(with_cells(ours, creates_per_second=10), "deployment")
    assert (slow.measured, slow.verdict) == ("asked for at 10 creates/s", Verdict.UNKNOWN)
    assert goal(with_cells(ours, creates_per_second=None), "deployment").measured == ""


def test_the_faster_limit_counts() -> None:
    ours, slow, fast = cell("weft", 100, 100.0), limit("duckdb", 100, 200.0), limit("polars", 100, 400.0)
    assert goal(with_cells(ours, slow), "one-pass limit").verdict is Verdict.MET
    assert goal(with_cells(ours, slow, fast), "one-pass limit").measured == "0.25 of it"
    assert goal(with_cells(ours, slow, fast), "one-pass limit").verdict is Verdict.MISSED


def test_where_queries_come_and_go_throughputs_are_not_compared() -> None:
    found = replace(with_cells(cell("weft", 20, 1.0), cell("flink", 20, 1.0)), experiment="sc2")
    assert [each.what.split(" at most")[0] for each in goals(found)] == ["deployment latency p99"]
