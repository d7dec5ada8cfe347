from __future__ import annotations

from pathlib import Path

import pytest

from weft_bench.case import Kind, System
from weft_bench.cases import AGGREGATE_LOAD, trial_cases
from weft_bench.data import Load
from weft_bench.quick import machine, parse


def test_the_default_run_covers_both_kinds() -> None:
    settings = parse([])
    assert {case.kind for case in settings.cases} == {Kind.JOINS, Kind.AGGREGATES}
    assert {case.load for case in settings.cases if case.kind is Kind.JOINS} == {Load(200_000, 100_000)}
    assert {case.load for case in settings.cases if case.kind is Kind.AGGREGATES} == {AGGREGATE_LOAD}
    assert len(set(settings.cases)) == len(settings.cases)


@pytest.mark.parametrize("only", ["joins", "aggregates"])
def test_one_part_alone(only: str) -> None:
    every = parse([]).cases
    assert parse(["--only", only]).cases == tuple(case for case in every if case.kind == only)
    assert parse(["--only", only, "--quick-check"]).cases == tuple(c for c in trial_cases() if c.kind == only)


def test_every_case_has_whole_batches() -> None:
    assert all(case.seconds % case.files == 0 for case in (*parse([]).cases, *trial_cases()))


def test_all_cases_of_a_kind_have_the_same_load() -> None:
    for cases in (parse([]).cases, parse(["--rate", "1000"]).cases, trial_cases()):
        assert len({(case.kind, case.load) for case in cases}) == len({case.kind for case in cases})


def test_numbers_of_queries_and_rows_as_asked() -> None:
    cases = parse(["--rate", "1000", "--weft", "20", "500", "--spark", "5"]).cases
    assert {(c.kind, c.system, c.queries) for c in cases} == {
        (Kind.JOINS, System.WEFT, 20),
        (Kind.JOINS, System.WEFT, 500),
        (Kind.JOINS, System.SPARK, 5),
        (Kind.AGGREGATES, System.WEFT, 20),
    }
    assert {(c.kind, c.load) for c in cases} == {
        (Kind.JOINS, Load(1000, 100_000)),
        (Kind.AGGREGATES, Load(1000, 1000)),
    }


def test_the_spike_runs_beside_only_if_asked() -> None:
    assert System.SPIKE not in {case.system for case in parse([]).cases}
    settings = parse(["--spike", "spike.py", "--weft", "1", "20", "--spark"])
    assert [c.queries for c in settings.cases if c.system is System.SPIKE] == [1, 20]
    assert settings.spike == Path("spike.py")
    assert System.SPARK not in {case.system for case in settings.cases}


def test_the_trial_is_small_and_has_both_systems() -> None:
    settings = parse(["--quick-check"])
    assert settings.cases == trial_cases()
    assert all(case.load.rate <= 2_000 for case in settings.cases)
    for kind in (Kind.JOINS, Kind.AGGREGATES):
        assert {case.system for case in settings.cases if case.kind is kind} == {System.WEFT, System.SPARK}


def test_the_machine_is_named() -> None:
    assert set(machine()) == {"cores", "memory", "python", "pyspark", "pyarrow", "numpy", "numba"}
