"""Systems in turns through an experiment, then a report: `weft-bench run sc1 --systems weft,spark,flink`.

After every cell (one system with one number of queries) the record is written, so that nothing is lost when the run is
interrupted; `--resume` goes on from there. A system that fails is recorded as such, and the run goes on.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from weft_bench.compare import CannotCompare, read
from weft_bench.driver.cell import run_cell
from weft_bench.driver.plan import Progress
from weft_bench.driver.session import CellFailed
from weft_bench.experiments import Impossible, Program, plan_cell, workload_of
from weft_bench.quick import machine
from weft_bench.record import Cell, Run, compact, to_json
from weft_bench.reports.markdown import to_markdown
from weft_bench.reports.plots import draw
from weft_bench.reports.progress import Display, display
from weft_bench.reports.ratios import Verdict, goals, has_failed
from weft_bench.run_options import Settings, parse
from weft_bench.systems.registry import CONTENDERS, Contender

INTERRUPTED = 130
"""The exit status of what was ended by Ctrl-C."""
_MAY_DIFFER = ("command", "systems", "queries", "rounds", "limit_minutes")
"""Settings that a run which goes on may have others of."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A cell that is to be measured."""

    round: int
    system: str
    queries: int

    def __str__(self) -> str:
        return f"{self.system} with {_counted(self.queries)}"


def _counted(queries: int) -> str:
    return f"{queries:,} {'query' if queries == 1 else 'queries'}"


def turns(systems: Sequence[str], queries: Iterable[int], rounds: int) -> tuple[Turn, ...]:
    """All cells: rounds, then numbers of queries from small to large, then systems; who is first changes by round."""
    return tuple(
        Turn(turn, systems[(turn + place) % len(systems)], number)
        for turn in range(rounds)
        for number in sorted(set(queries))
        for place in range(len(systems))
    )


def left_to_do(wanted: Iterable[Turn], cells: Iterable[Cell]) -> tuple[Turn, ...]:
    """The turns without a cell: a system's first cell with so many queries is that of its first round, and so on."""
    done: dict[tuple[str, int], int] = {}
    for cell in cells:
        done[cell.system, cell.queries] = done.get((cell.system, cell.queries), 0) + 1
    return tuple(turn for turn in wanted if turn.round >= done.get((turn.system, turn.queries), 0))


def why_not(turn: Turn, cells: Iterable[Cell]) -> str:
    """Why it is not worth trying: the system could not run fewer queries. Empty if it is."""
    failed = [cell.queries for cell in cells if cell.system == turn.system and has_failed(cell)]
    least = min(failed, default=turn.queries)
    return f"not tried: it could not run with {_counted(least)}" if least < turn.queries else ""


def begin(settings: Settings) -> Run:
    """The record to add cells to: a new one, or the one that is resumed; raises Impossible if that is another."""
    said = json.loads(json.dumps(settings.to_json()))
    experiment = settings.experiment
    if not settings.resume or not settings.json.exists():
        at = datetime.now(UTC).isoformat(timespec="seconds")
        return Run(experiment.name, experiment.title, at, machine=describe_machine(), settings=said, cells=())
    try:
        old = read(settings.json)
    except CannotCompare as error:
        raise Impossible(f"argument --resume: {error}") from error
    if old.experiment != experiment.name:
        raise Impossible(f'argument --resume: "{settings.json}" is a record of "{old.experiment}"')
    for name in said:
        if name not in _MAY_DIFFER and said[name] != old.settings.get(name):
            raise Impossible(
                f'argument --resume: "{settings.json}" was measured with {name} = {old.settings.get(name)}, '
                f"not {said[name]}; give the same options, or another file"
            )
    earlier = [*old.settings.get("earlier", ()), old.settings["command"]]
    return replace(old, settings=said | {"earlier": earlier})


def describe_machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {"processor": _processor(), "system": platform.platform(), **machine()}


def _processor() -> str:
    """Its name as Linux knows it; elsewhere what Python knows."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def write(run: Run, path: Path) -> None:
    """The record as JSON, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.write_text(json.dumps(to_json(run), indent=1), encoding="utf-8")
    os.replace(new, path)


def write_report(run: Run, folder: Path) -> None:
    """Write the report, its plots, and a compact record, with which other runs can be compared."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.md").write_text(to_markdown(run, draw(run, folder)), encoding="utf-8")
    (folder / "record.json").write_text(json.dumps(to_json(compact(run)), indent=1) + "\n", encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Means:
    """What cells are measured with."""

    contenders: Mapping[str, Contender] = field(default_factory=lambda: CONTENDERS)
    run_cell: Callable[..., Cell] = run_cell


def measure(settings: Settings, turn: Turn, folder: Path, *, means: Means, tell: Callable[[Progress], None]) -> Cell:
    """The cell of a turn; whatever goes wrong is its failure. The logs of one that failed are kept with the report."""
    options, experiment = settings.options, settings.experiment
    try:
        match means.contenders[turn.system](options):
            case Program() as program:
                plan = plan_cell(experiment, options, system=program, queries=turn.queries, folder=folder)
                with _feed(settings.feed) as feed:
                    cell = means.run_cell(replace(plan, feed=feed), tell=_within(options.limit_minutes, tell))
            case one_pass:
                cell = one_pass(workload_of(experiment, options), turn.queries)
    except Impossible as error:
        return Cell(turn.system, turn.queries, failure=str(error))
    except Exception as error:
        return Cell(turn.system, turn.queries, failure=f"{type(error).__name__}: {error}")
    if cell.failure:
        _keep_logs(folder, settings.report / "logs" / folder.name)
    return cell


@contextmanager
def _feed(root: Path | None) -> Iterator[Path | None]:
    """A folder of its own for the files of a cell, if they are not to be with the rest."""
    if root is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="weft-feed-", dir=root, ignore_cleanup_errors=True) as folder:
        yield Path(folder) / "feed"


def _within(minutes: float, tell: Callable[[Progress], None]) -> Callable[[Progress], None]:
    """Tells progress until the time is up; then the cell fails, with what it has found."""
    end = time.monotonic() + minutes * 60

    def tell_in_time(progress: Progress) -> None:
        tell(progress)
        if time.monotonic() > end:
            raise CellFailed(f"not done within {minutes:g} minutes")

    return tell_in_time


def _keep_logs(folder: Path, kept: Path) -> None:
    for log in folder.glob("*.log"):
        kept.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(log, kept / log.name)


def run_turns(settings: Settings, run: Run, *, means: Means, shown: Display) -> Run:
    """The record with all cells in it; written after each of them."""
    with tempfile.TemporaryDirectory(prefix="weft-bench-", ignore_cleanup_errors=True) as scratch:
        for turn in left_to_do(turns(settings.systems, settings.queries, settings.rounds), run.cells):
            shown.begin(str(turn))
            reason = why_not(turn, run.cells)
            folder = Path(scratch) / f"{turn.system}-{turn.queries}-{turn.round + 1}"
            if reason:
                cell = Cell(turn.system, turn.queries, failure=reason)
            else:
                cell = measure(settings, turn, folder, means=means, tell=shown.tell)
            shown.end(str(turn), cell)
            run = replace(run, cells=(*run.cells, cell))
            write(run, settings.json)
    return run


def main(arguments: Sequence[str] | None = None, *, means: Means | None = None) -> int:
    """Measure, write and report; 1 if this was a check and something failed, 2 if nothing could be done."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    means = means or Means()
    settings = parse(given, description=__doc__ or "", systems=means.contenders)
    console = Console(highlight=False, soft_wrap=True)
    try:
        run = begin(settings)
    except Impossible as error:
        sys.stderr.write(f"weft-bench run: {error}\n")
        return 2
    todo = left_to_do(turns(settings.systems, settings.queries, settings.rounds), run.cells)
    console.print(f"{run.title}: {len(todo)} cells to measure", markup=False)
    try:
        with display(console, len(todo)) as shown:
            run = run_turns(settings, run, means=means, shown=shown)
    except KeyboardInterrupt:
        return _interrupted(settings, run, console)
    _conclude(settings, run, console)
    return 1 if settings.check and any(cell.failure for cell in run.cells) else 0


def _interrupted(settings: Settings, begun: Run, console: Console) -> int:
    """Report what was measured until now, if anything: the file may be an older run's."""
    if settings.json.exists() and (written := read(settings.json)).at == begun.at:
        _conclude(settings, written, console)
        console.print("interrupted: the same command with --resume goes on", markup=False)
    return INTERRUPTED


def _conclude(settings: Settings, run: Run, console: Console) -> None:
    write_report(run, settings.report)
    for goal in goals(run):
        if goal.verdict is not Verdict.UNKNOWN:
            console.print(f"{goal.what}: {goal.measured}: {goal.verdict}", markup=False)
    console.print(f"record: {settings.json}, report: {settings.report / 'report.md'}", markup=False)


if __name__ == "__main__":
    sys.exit(main())
