from __future__ import annotations

from pathlib import Path

from weft.bench.case import System, Variant
from weft.bench.data import Load
from weft.bench.quick import alternate, machine, parse, spark_cases, trial_cases, weft_cases


def test_the_default_run_covers_what_is_to_be_shown() -> None:
    settings = parse([])
    plain = {(c.system, c.queries) for c in settings.cases if c.variant is Variant.PLAIN and c.files == 1}
    assert plain == {(System.WEFT, n) for n in (1, 20, 100, 500, 1000)} | {(System.SPARK, n) for n in (1, 5, 20)}
    assert {c.queries for c in settings.cases if c.variant is Variant.ROWS} == {1, 100}
    assert {c.queries for c in settings.cases if c.system is System.WEFT and c.files == 4} == {1, 20, 100}
    assert [c.queries for c in settings.cases if c.variant is Variant.DELIVERED] == [20]
    assert {c.queries for c in settings.cases if c.system is System.SPARK and c.files == 4} == {1, 20}
    assert settings.load == Load(200_000, 100_000)
    assert len(set(settings.cases)) == len(settings.cases)


def test_systems_alternate() -> None:
    load = Load()
    order = [case.system for case in alternate(weft_cases([20, 500], load), spark_cases([5, 20], load))]
    assert order == [System.WEFT, System.SPARK, System.WEFT, System.SPARK, System.WEFT, System.SPARK, System.WEFT]


def test_every_case_has_whole_batches() -> None:
    assert all(case.seconds % case.files == 0 for case in (*parse([]).cases, *trial_cases()))


def test_the_spike_runs_beside_only_if_asked() -> None:
    assert System.SPIKE not in {case.system for case in parse([]).cases}
    settings = parse(["--spike", "spike.py", "--weft", "1", "20", "--spark"])
    assert [c.queries for c in settings.cases if c.system is System.SPIKE] == [1, 20]
    assert settings.spike == Path("spike.py")
    assert System.SPARK not in {case.system for case in settings.cases}


def test_the_trial_is_small_and_has_both_systems() -> None:
    settings = parse(["--quick-check"])
    assert settings.cases == trial_cases()
    assert settings.load.rate <= 2_000
    assert {case.system for case in settings.cases} == {System.WEFT, System.SPARK}
    assert {case.load for case in settings.cases} == {settings.load}


def test_the_machine_is_named() -> None:
    assert set(machine()) == {"cores", "memory", "python", "pyspark", "pyarrow", "numpy", "numba"}
