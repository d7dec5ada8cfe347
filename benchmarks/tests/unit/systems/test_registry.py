from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import weft_bench
from weft_bench.driver.messages import Failed, from_line
from weft_bench.experiments import Impossible, Options, Program
from weft_bench.systems import flink
from weft_bench.systems.limits import Limit
from weft_bench.systems.registry import CONTENDERS, run_limit, streams
from weft_bench.workloads.joins import sc1
from weft_bench.workloads.model import Dialect
from weft_bench.workloads.rules import rules

NAMES = [
    "weft",
    "weft-delivered",
    "weft-other",
    "spark",
    "spark-shared",
    "flink",
    "flink-jobs",
    "duckdb",
    "duckdb-shared",
    "polars",
]


def test_every_system_has_its_name() -> None:
    assert list(CONTENDERS) == NAMES
    assert [name for name in NAMES if not streams(name)] == ["duckdb", "duckdb-shared", "polars"]
    with pytest.raises(
        ValueError, match='no system is named "storm"; there are weft, weft-delivered, weft-other, spark'
    ):
        streams("storm")


@pytest.mark.parametrize(
    ("name", "dialect", "settings", "shares"),
    [
        ("weft", Dialect.WEFT, {}, True),
        ("weft-delivered", Dialect.WEFT, {"deliver": "all"}, True),
        ("spark", Dialect.SPARK, {"mode": "each"}, False),
        ("spark-shared", Dialect.SPARK, {"mode": "shared"}, True),
    ],
)
def test_our_programs_are_started_with_this_python(
    name: str, dialect: Dialect, settings: dict[str, str], shares: bool
) -> None:
    program = CONTENDERS[name](Options())
    assert isinstance(program, Program)
    assert (program.name, program.dialect, program.settings, program.shares) == (name, dialect, settings, shares)
    done = subprocess.run(
        program.command, env=os.environ | program.environment, input="", capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert from_line(done.stdout.strip()) == Failed("the first message was no order"), done.stderr


def with_benchmark(root: Path, package: str) -> Path:
    """A checkout whose weft only prints where it is."""
    program = root / package / "systems" / "weft.py"
    program.parent.mkdir(parents=True)
    program.write_text("import weft; print(__file__, weft.__file__)", encoding="utf-8")
    (root / "src" / "weft").mkdir(parents=True, exist_ok=True)
    (root / "src" / "weft" / "__init__.py").touch()
    return program


@pytest.mark.parametrize("package", ["benchmarks/weft_bench", "src/weft/bench"])
def test_another_checkout_runs_its_own_weft(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program_file = with_benchmark(tmp_path, package)
    monkeypatch.setenv("WEFT_OTHER", str(tmp_path))
    program = CONTENDERS["weft-other"](Options())
    assert isinstance(program, Program)
    assert (program.name, program.dialect, program.shares) == ("weft-other", Dialect.WEFT, True)
    done = subprocess.run(
        program.command,
        env=os.environ | program.environment,
        cwd=Path(weft_bench.__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [str(program_file), str(tmp_path / "src" / "weft" / "__init__.py")]


@pytest.mark.parametrize("root", [None, "", "{empty}"])
def test_without_another_checkout_it_is_impossible(
    root: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WEFT_OTHER", raising=False)
    if root is not None:
        monkeypatch.setenv("WEFT_OTHER", root.format(empty=tmp_path))
    with pytest.raises(Impossible, match="set WEFT_OTHER to the root of another checkout"):
        CONTENDERS["weft-other"](Options())


def test_flink_is_prepared_when_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(flink, "prepare", lambda tell: flink.FlinkHome(tmp_path))
    program = CONTENDERS["flink-jobs"](Options())
    assert isinstance(program, Program)
    assert program.command[0].startswith(str(tmp_path))
    assert (program.dialect, program.settings) == (Dialect.FLINK, {"mode": "jobs"})


def test_a_flink_that_cannot_be_had_is_impossible(monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(tell: object) -> flink.FlinkHome:
        raise flink.FlinkNotInstalled("no network")

    monkeypatch.setattr(flink, "prepare", prepare)
    with pytest.raises(Impossible, match="Flink cannot be had: no network"):
        CONTENDERS["flink"](Options())


def test_a_limit_is_a_cell() -> None:
    cell = run_limit(Limit.DUCKDB_SHARED, sc1(keys=100, rate=500), 3)
    assert (cell.system, cell.queries) == ("duckdb-shared", 3)
    assert cell.slowest is not None
    assert cell.overall == pytest.approx(3 * cell.slowest)
    assert "a limit" in cell.note


def test_a_limit_that_cannot_be_had_is_impossible() -> None:
    with pytest.raises(Impossible, match="no shared pass"):
        run_limit(Limit.DUCKDB_SHARED, rules(rate=500), 3)
