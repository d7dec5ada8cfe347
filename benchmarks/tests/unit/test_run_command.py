"""The command that runs an experiment: turns, what is left out, resuming, and what is said about wrong options."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.tests.unit.reports.made_up import cell, limit
from weft_bench.compare import read
from weft_bench.driver.plan import CellPlan, Progress
from weft_bench.driver.session import CellFailed
from weft_bench.experiments import EXPERIMENTS, Impossible, Options, Program
from weft_bench.list_command import SYSTEMS
from weft_bench.list_command import main as list_everything
from weft_bench.paths import python_path
from weft_bench.record import Cell, Run, compact, from_json
from weft_bench.run_command import INTERRUPTED, Means, Turn, left_to_do, main, turns, why_not
from weft_bench.run_options import parameter
from weft_bench.systems.registry import CONTENDERS
from weft_bench.workloads.catalogue import WORKLOADS
from weft_bench.workloads.model import Dialect, Workload

Answers = dict[tuple[str, int], Cell | BaseException]
SMALL = ("sc1", "--systems", "weft,flink", "--queries", "1,5")


class Fake:
    """Cells without measuring: good ones, unless another answer is given."""

    def __init__(self, answers: Answers | None = None) -> None:
        self.answers = answers or {}
        self.plans: list[CellPlan] = []

    def run_cell(self, plan: CellPlan, *, tell: Callable[[Progress], None]) -> Cell:
        assert plan.queries is not None
        self.plans.append(plan)
        plan.folder.mkdir()
        (plan.folder / "system.log").write_text("what it said", encoding="utf-8")
        for share in (0.0, 1.0):
            tell(Progress(plan.system, "saturate", share, 1e6, 9e5, 12345, plan.queries, 0.5, 1 << 30))
        answer = self.answers.get((plan.system, plan.queries))
        if isinstance(answer, BaseException):
            raise answer
        return answer or Cell(plan.system, plan.queries, sustainable=1000.0)

    def means(self) -> Means:
        def program(name: str, dialect: Dialect) -> Callable[[Options], Program]:
            return lambda _: Program(name, dialect, (name,))

        return Means(
            contenders={
                "weft": program("weft", Dialect.WEFT),
                "flink": program("flink", Dialect.FLINK),
                "duckdb": lambda _: one_pass,
                "broken": broken,
            },
            run_cell=self.run_cell,
        )

    @property
    def ran(self) -> list[tuple[str, int | None]]:
        return [(plan.system, plan.queries) for plan in self.plans]


def one_pass(workload: Workload, queries: int) -> Cell:
    return limit("duckdb", queries, float(workload.rows_per_second))


def broken(_: Options) -> Program:
    raise Impossible("it cannot be installed")


def record(folder: Path) -> Run:
    return from_json(json.loads((folder / "out.json").read_text(encoding="utf-8")))


def run(fake: Fake, folder: Path, *arguments: str) -> int:
    return main(
        [*arguments, "--json", str(folder / "out.json"), "--report", str(folder / "report")], means=fake.means()
    )


def test_systems_take_turns_at_every_number_of_queries() -> None:
    found = turns(["a", "b"], [5, 1], 2)
    assert [(turn.round, turn.queries, turn.system) for turn in found] == [
        (0, 1, "a"),
        (0, 1, "b"),
        (0, 5, "a"),
        (0, 5, "b"),
        (1, 1, "b"),
        (1, 1, "a"),
        (1, 5, "b"),
        (1, 5, "a"),
    ]


def test_what_is_left_to_do() -> None:
    wanted = turns(["a"], [1, 2], 2)
    assert left_to_do(wanted, []) == wanted
    assert left_to_do(wanted, [Cell("a", 1), Cell("a", 2), Cell("b", 1)]) == (Turn(1, "a", 1), Turn(1, "a", 2))
    assert left_to_do(wanted, [Cell("a", 1)] * 2 + [Cell("a", 2)] * 2) == ()


def test_more_queries_than_were_too_many_are_not_tried() -> None:
    cells = [Cell("a", 5, failure="died"), Cell("a", 20, failure="not tried: it could not run with 5 queries")]
    assert why_not(Turn(0, "a", 100), cells) == "not tried: it could not run with 5 queries"
    assert why_not(Turn(1, "a", 5), cells) == ""
    assert why_not(Turn(0, "b", 100), cells) == ""
    late = replace(cell("a", 5, 1.0), failure="died when it was told to stop")
    assert why_not(Turn(0, "a", 100), [late]) == ""


def test_a_run_gives_a_record_and_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fake = Fake({("weft", 1): cell("weft", 1, 1000.0)})
    assert run(fake, tmp_path, *SMALL, "--systems", "weft,flink,duckdb") == 0
    assert fake.ran == [("weft", 1), ("flink", 1), ("weft", 5), ("flink", 5)]
    found = record(tmp_path)
    assert [(cell.system, cell.queries) for cell in found.cells] == [
        (system, queries) for queries in (1, 5) for system in ("weft", "flink", "duckdb")
    ]
    assert found.settings["command"][:3] == ["weft-bench", "run", "sc1"]
    assert found.settings["creates_per_second"] == 100.0
    assert {path.name for path in (tmp_path / "report").iterdir()} > {"report.md", "record.json", "throughput.png"}
    published = read(tmp_path / "report" / "record.json")
    assert published == compact(found)
    assert not any(cell.samples for cell in published.cells)
    said = capsys.readouterr().out
    assert "[1/6] weft with 1 query\n  saturate: 1 live, 1.00 M rows/s in, 900 k passed" in said
    assert "flink with 5 queries: sustains 1.00 k rows/s" in said
    assert "N = 1: at least 1.3 × Flink: 1 ×: MISSED" in said


def test_a_run_goes_on_when_a_system_fails(tmp_path: Path) -> None:
    fake = Fake({("flink", 5): Cell("flink", 5, failure="no heap")})
    assert run(fake, tmp_path, *SMALL, "--queries", "1,5,20", "--systems", "broken,flink,weft") == 0
    assert ("flink", 20) not in fake.ran
    failures = {(cell.system, cell.queries): cell.failure for cell in record(tmp_path).cells if cell.failure}
    assert failures == {
        ("broken", 1): "it cannot be installed",
        ("broken", 5): "not tried: it could not run with 1 query",
        ("broken", 20): "not tried: it could not run with 1 query",
        ("flink", 5): "no heap",
        ("flink", 20): "not tried: it could not run with 5 queries",
    }
    assert (tmp_path / "report" / "logs" / "flink-5-1" / "system.log").read_text(encoding="utf-8") == "what it said"
    assert not (tmp_path / "report" / "logs" / "weft-1-1").exists()


def test_an_interrupted_run_is_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Fake({("weft", 5): KeyboardInterrupt()}), tmp_path, *SMALL) == INTERRUPTED
    assert "--resume" in capsys.readouterr().out
    assert [(cell.system, cell.queries) for cell in record(tmp_path).cells] == [("weft", 1), ("flink", 1)]
    assert (tmp_path / "report" / "report.md").exists()
    began, fake = record(tmp_path).at, Fake()
    assert run(fake, tmp_path, *SMALL, "--resume", "--rounds", "2") == 0
    assert fake.ran == [("weft", 5), ("flink", 5), ("flink", 1), ("weft", 1), ("flink", 5), ("weft", 5)]
    assert (len(record(tmp_path).cells), record(tmp_path).at) == (8, began)
    report = (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    assert report.count("weft-bench run sc1") == 2, "all commands that the record is of"


def test_an_interrupt_before_the_first_cell_leaves_an_older_record_alone(tmp_path: Path) -> None:
    assert run(Fake(), tmp_path, *SMALL) == 0
    before = replace(record(tmp_path), at="long ago")
    (tmp_path / "out.json").write_text(json.dumps({**json.loads((tmp_path / "out.json").read_text()), "at": before.at}))
    (tmp_path / "report" / "report.md").unlink()
    assert run(Fake({("weft", 1): KeyboardInterrupt()}), tmp_path, *SMALL) == INTERRUPTED
    assert record(tmp_path) == before
    assert not (tmp_path / "report" / "report.md").exists()


def test_only_the_same_run_is_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Fake(), tmp_path, *SMALL, "--resume") == 0
    for arguments, words in (
        (("sc2", *SMALL[1:]), 'is a record of "sc1"'),
        ((*SMALL, "--seconds", "3"), "was measured with seconds = 15.0, not 3.0"),
    ):
        assert run(Fake(), tmp_path, *arguments, "--resume") == 2
        assert words in capsys.readouterr().err
    (tmp_path / "out.json").write_text("{", encoding="utf-8")
    assert run(Fake(), tmp_path, *SMALL, "--resume") == 2
    assert "is no record of a benchmark" in capsys.readouterr().err


def test_a_cell_has_a_time_limit(tmp_path: Path) -> None:
    def run_cell(plan: CellPlan, *, tell: Callable[[Progress], None]) -> Cell:
        try:
            Fake().run_cell(plan, tell=tell)
        except CellFailed as error:
            return Cell(plan.system, 1, failure=str(error))
        raise AssertionError("it should have ended before")

    options = ("sc1", "--systems", "weft", "--queries", "1", "--limit-minutes", "1e-9")
    means = replace(Fake().means(), run_cell=run_cell)
    assert main([*options, "--json", str(tmp_path / "out.json")], means=means) == 0
    assert record(tmp_path).cells[0].failure == "not done within 1e-09 minutes"
    assert (tmp_path / "out" / "report.md").exists()


def test_a_check_is_small_and_fails_if_something_failed(tmp_path: Path) -> None:
    fake = Fake()
    assert run(fake, tmp_path, "sc1", "--systems", "weft", "--quick-check") == 0
    assert fake.ran == [("weft", 1), ("weft", 3)]
    assert max(phase.seconds for phase in fake.plans[0].phases) < 15
    assert run(Fake({("weft", 3): Cell("weft", 3, failure="died")}), tmp_path, "sc1", "--systems", "weft",
               "--quick-check") == 1  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing"], "argument EXPERIMENT: invalid choice: 'nothing'"),
        (["sc1", "--systems", "weft,storm"], "argument --systems: no such system: storm; there are weft, flink,"),
        (["sc1", "--systems", ","], "argument --systems: no system is named"),
        (["sc1", "--queries", "1,two"], "argument --queries: 'two' is no count; give a whole number from 1"),
        (["sc1", "--queries", "0"], "argument --queries: '0' is no count"),
        (["sc1", "--rounds", "-1"], "argument --rounds"),
        (["sc1", "--attempts", "0"], "argument --attempts: '0' is no count; give a whole number from 1"),
        (["sc1", "--seconds", "0"], "argument --seconds: '0' is not allowed; give a number above 0"),
        (["sc1", "--base-rate", "inf"], "argument --base-rate: 'inf' is not allowed"),
        (["sc1", "--batch-interval", "-1"], "argument --batch-interval"),
        (["ajoin", "--similarity", "2"], "argument --similarity: '2' is not allowed; give a number from 0 to 1"),
        (["sc1", "--parameter", "keys"], "argument --parameter: 'keys' is no parameter; give KEY=VALUE"),
        (["sc1", "--parameter", "colour=red"], 'workload "sc1" has no parameter colour; it has seed, keys'),
        (["sc1", "--similarity", "1"], 'workload "sc1" has no parameter similarity'),
        (["sc1", "--json", "same", "--report", "same"], "argument --json, --report"),
    ],
)
def test_wrong_options_are_named(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*arguments, *(["--systems", "weft"] if "--systems" not in arguments else [])], means=Fake().means())
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_options_reach_the_workload(tmp_path: Path) -> None:
    fake = Fake()
    options = ("--similarity", "0.25", "--parameter", "ways=3", "--queries", "1", "--systems", "weft")
    assert run(fake, tmp_path, "ajoin", *options) == 0
    assert fake.plans[0].workload.parameters == {"name": "ajoin", "ways": 3, "similarity": 0.25}
    assert record(tmp_path).settings["parameters"] == {"ways": 3, "similarity": 0.25}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("3.0", 3.0),
        ("1e-3", 0.001),
        ("true", True),
        ("false", False),
        ("q1,q2", "q1,q2"),
    ],
)
def test_values_of_parameters(text: str, value: object) -> None:
    assert parameter(f"seed={text}") == ("seed", value)


def test_a_limit_that_breaks_is_a_failure(tmp_path: Path) -> None:
    def breaks(workload: Workload, queries: int) -> Cell:
        raise MemoryError(f"{queries} over {workload.name}")

    means = Means(contenders={"duckdb": lambda _: breaks})
    where = ("--json", str(tmp_path / "out.json"))
    assert main(["sc1", "--systems", "duckdb", "--queries", "1", *where], means=means) == 0
    assert record(tmp_path).cells[0].failure == "MemoryError: 1 over sc1"


def test_everything_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert list_everything([]) == 0
    said = capsys.readouterr().out
    for name in (*EXPERIMENTS, *WORKLOADS, *CONTENDERS):
        assert f"\n  {name} " in said
    assert set(SYSTEMS) == set(CONTENDERS)


def test_a_real_run_with_the_system_of_the_tests(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "weft_bench.systems.fake")
    environment, settings = {"PYTHONPATH": python_path()}, {"capacity": "20000", "delay": "0.1"}
    means = Means(contenders={"fake": lambda _: Program("fake", Dialect.DUCKDB, command, environment, settings)})
    options = ("--systems", "fake", "--queries", "2", "--quick-check", "--seconds", "1")
    assert main(["sc1", *options, "--json", str(tmp_path / "out.json")], means=means) == 0
    (found,) = record(tmp_path).cells
    assert (found.failure, found.queries, found.refused) == ("", 2, 0)
    assert found.sustainable is not None
    assert found.sustainable > 0
    assert found.samples
    assert (tmp_path / "out" / "throughput.png").exists()
