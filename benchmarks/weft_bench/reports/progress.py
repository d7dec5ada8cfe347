"""How a run goes, while it goes: bars on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Column

from weft_bench.driver.plan import Progress as CellProgress
from weft_bench.record import Cell
from weft_bench.reports.markdown import in_bytes, in_rows, in_seconds
from weft_bench.reports.ratios import is_one_pass

_OFTEN = 15.0
"""Seconds between lines of one phase."""


class Display(Protocol):
    """What a run tells its progress to."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def begin(self, what: str) -> None:
        """A cell begins."""

    def tell(self, progress: CellProgress) -> None:
        """A cell goes on."""

    def end(self, what: str, cell: Cell) -> None:
        """A cell has ended."""


def display(console: Console, cells: int) -> Display:
    """Bars if the console is a terminal, else lines."""
    return Bars(console, cells) if console.is_terminal else Lines(console, cells)


def describe(progress: CellProgress) -> str:
    """A moment of a cell in a few words."""
    latency = "–" if progress.latency is None else in_seconds(progress.latency)
    return (
        f"{progress.queries:,} live, {in_rows(progress.rate)} rows/s in, {in_rows(progress.pulled)} passed, "
        f"{in_rows(float(progress.waiting))} waiting, latency {latency}, {in_bytes(progress.memory)}"
    )


def summary(cell: Cell) -> str:
    """A cell's main figures in a few words."""
    parts = [f"sustains {in_rows(cell.sustainable)} rows/s"] if cell.sustainable is not None else []
    if cell.sustainable is None and cell.slowest is not None:
        parts.append(f"{in_rows(cell.slowest)} rows/s {'in one pass' if is_one_pass(cell) else 'when saturated'}")
    latency = cell.event_latency or cell.latency_during
    parts += [f"latency p99 {in_seconds(latency.p99)}"] if latency is not None else []
    parts += [f"deployment p99 {in_seconds(cell.deployment.p99)}"] if cell.deployment is not None else []
    parts += [f"FAILED: {' '.join(cell.failure.split())}"] if cell.failure else []
    return ", ".join(parts) or "nothing was measured"


class Lines:
    """One line per phase, and one every so often within a long one."""

    def __init__(self, console: Console, cells: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._console, self._cells, self._clock = console, cells, clock
        self._number = 0
        self._phase = ""
        self._said = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begin(self, what: str) -> None:
        """Say which cell."""
        self._number += 1
        self._phase = ""
        self._say(f"[{self._number}/{self._cells}] {what}")

    def tell(self, progress: CellProgress) -> None:
        """Say how it goes, not too often."""
        now = self._clock()
        if progress.phase != self._phase or now >= self._said + _OFTEN:
            self._phase, self._said = progress.phase, now
            self._say(f"  {progress.phase}: {describe(progress)}")

    def end(self, what: str, cell: Cell) -> None:
        """Say what it gave."""
        self._say(f"  {what}: {summary(cell)}")

    def _say(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class Bars:
    """A bar for the run and one for the phase of the cell; what cells gave stays above them."""

    def __init__(self, console: Console, cells: int) -> None:
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24, table_column=Column(min_width=24)),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[now]}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
            console=console,
            expand=True,
        )
        self._run = self._bars.add_task("cells", total=cells, now="")
        self._phase = self._bars.add_task("", total=1.0, now="", visible=False)
        self._name = ""

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def begin(self, what: str) -> None:
        """Name the cell beside the bar of the run."""
        self._name = ""
        self._bars.update(self._run, now=what)
        self._bars.update(self._phase, visible=True, description="begin", completed=0.0, now="")

    def tell(self, progress: CellProgress) -> None:
        """Move the bar of the phase; a new phase begins a new bar."""
        if progress.phase != self._name:
            self._name = progress.phase
            self._bars.reset(self._phase, description=progress.phase)
        self._bars.update(self._phase, completed=progress.share, now=describe(progress))

    def end(self, what: str, cell: Cell) -> None:
        """Move the bar of the run."""
        self._bars.console.print(f"{what}: {summary(cell)}", markup=False, highlight=False)
        self._bars.update(self._phase, visible=False)
        self._bars.advance(self._run)
