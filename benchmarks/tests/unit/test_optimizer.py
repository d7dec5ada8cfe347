from __future__ import annotations

import json
from pathlib import Path

from weft_bench.optimizer import Case, Verdict, environment, main, make_queries, measure, measure_adding, verdicts


def test_environments_and_queries_are_the_same_for_a_seed() -> None:
    case = Case(10, 20, 3)
    predicates, _ = environment(10, 3)
    assert environment(10, 3)[0] == predicates
    queries = make_queries(case, predicates, 3)
    assert queries == make_queries(case, predicates, 3)
    assert len({frozenset(each.predicates) for each in queries}) == 20
    assert all(len(each.inputs) == 3 for each in queries)


def test_sharing_saves_and_is_proven() -> None:
    line = measure(Case(10, 15, 3), rounds=1)
    assert 0 < line.saved < 1
    assert line.gap <= 1e-6
    assert line.greedy >= 1 - 1e-9
    assert line.columns > 0


def test_adding_is_close_to_planning_again() -> None:
    adding = measure_adding(Case(10, 5, 3))
    assert 1 - 1e-9 <= adding.cost < 1.5
    assert verdicts([], [adding]) == []


def test_bars_of_savings_are_from_below() -> None:
    assert Verdict("saved of the probe cost", 0.5, 0.45).met
    assert not Verdict("seconds", 0.5, 0.45).met


def test_everything_runs(tmp_path: Path) -> None:
    assert main(["--quick-check", "--rounds", "1", "--out", str(tmp_path)]) == 0
    document = json.loads((tmp_path / "optimizer.json").read_text(encoding="utf-8"))
    assert set(document) == {"cost_model", "rounds", "figures", "adding", "bars"}
    assert (tmp_path / "optimizer.png").stat().st_size > 10_000
