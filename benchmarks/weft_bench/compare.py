"""Two records of the same experiment, cell by cell: `weft-bench compare before.json after.json`."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, assert_never

from rich.console import Console
from rich.table import Table
from rich.text import Text

from weft_bench.record import Run, from_json
from weft_bench.reports.markdown import NOTHING, said
from weft_bench.reports.ratios import FIGURES, Better, Figure, Place, Unit, places

_NARROWEST = 100
"""Columns of a terminal that the table needs."""
_WITHOUT_EFFECT = ("command", "earlier", "report", "rounds", "queries", "systems", "limit_minutes")
"""Settings that may differ: they say what was measured, not how."""


class Change(StrEnum):
    """How a figure went, above noise."""

    BETTER = "better"
    WORSE = "WORSE"
    OTHER = "changed"
    SAME = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A figure in both records."""

    system: str
    queries: int
    title: str
    unit: Unit
    before: float | None
    after: float | None
    change: Change

    @property
    def ratio(self) -> float | None:
        """The second over the first; None if either is missing."""
        return None if self.before is None or self.after is None else ratio(self.before, self.after)


class CannotCompare(Exception):
    """Records that say nothing about each other, or are none."""


def read(path: Path) -> Run:
    """A record from its file."""
    try:
        return from_json(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise CannotCompare(f'cannot read "{path}": {error.strerror}') from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CannotCompare(f'"{path}" is no record of a benchmark: {error}') from error


def compare(before: Run, after: Run, *, threshold: float) -> tuple[Line, ...]:
    """All figures of all cells that both have; changes by more than `threshold` (0.1: ten percent) are marked."""
    if before.experiment != after.experiment:
        raise CannotCompare(
            f'different experiments cannot be compared: "{before.experiment}" and "{after.experiment}"; '
            f"give two records of the same one"
        )
    later = {(place.system, place.queries): place for place in places(after.cells)}
    both = [(place, later.get((place.system, place.queries))) for place in places(before.cells)]
    return tuple(line for one, other in both if other is not None for line in _lines(one, other, threshold))


def _lines(before: Place, after: Place, threshold: float) -> Iterator[Line]:
    failed = float(before.has_failed), float(after.has_failed)
    if any(failed):
        change = Change.SAME if failed[0] == failed[1] else Change.WORSE if failed[1] else Change.BETTER
        yield Line(before.system, before.queries, "failed", Unit.COUNT, *failed, change)
        return
    for figure in FIGURES.values():
        one, other = before.figure(figure), after.figure(figure)
        if one is not None or other is not None:
            change = _change(figure, one, other, threshold=threshold)
            yield Line(before.system, before.queries, figure.title, figure.unit, one, other, change)


def ratio(before: float, after: float) -> float:
    """The second over the first, where nothing over nothing is one."""
    return after / before if before else 1.0 if not after else math.inf


def _change(figure: Figure, before: float | None, after: float | None, *, threshold: float) -> Change:
    """Twice as fast and half as fast are equally far apart: the bound for less is one over that for more."""
    if before is None or after is None:
        return Change.OTHER
    moved = ratio(before, after)
    if 1 / (1 + threshold) <= moved <= 1 + threshold:
        return Change.SAME
    match figure.better:
        case Better.MORE:
            return Change.BETTER if moved > 1 else Change.WORSE
        case Better.LESS:
            return Change.WORSE if moved > 1 else Change.BETTER
        case Better.NEITHER:
            return Change.OTHER
        case _:
            assert_never(figure.better)


def warnings(before: Run, after: Run) -> Iterator[str]:
    """What speaks against comparing: other machines, other settings, cells without a counterpart."""
    yield from _differences("machine", before.machine, after.machine)
    kept = [{k: v for k, v in run.settings.items() if k not in _WITHOUT_EFFECT} for run in (before, after)]
    yield from _differences("setting", *kept)
    cells = [{(cell.system, cell.queries): None for cell in run.cells} for run in (before, after)]
    for here, there, which in ((cells[0], cells[1], "first"), (cells[1], cells[0], "second")):
        alone = [f"{system} with N = {queries}" for system, queries in here if (system, queries) not in there]
        if alone:
            yield f"only in the {which} record: {', '.join(alone)}"


def _differences(what: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys((*before, *after)):
        one, other = before.get(name), after.get(name)
        if one != other:
            yield f"{what} differs: {name} was {one}, is {other}"


def to_table(lines: Sequence[Line]) -> Table:
    """For the terminal; a cell's number and system are said once."""
    table = Table("N", "system", "figure", "before", "after", "after/before", "", box=None, pad_edge=False)
    for column in (0, 3, 4, 5):
        table.columns[column].justify = "right"
    last: tuple[int, str] | None = None
    for line in lines:
        place = (line.queries, line.system)
        named = ("", "") if place == last else (str(line.queries), line.system)
        change = NOTHING if line.ratio is None else f"{line.ratio:.2f}"
        values = (said(line.before, line.unit), said(line.after, line.unit))
        table.add_row(*named, line.title, *values, change, Text(line.change, style=_style(line.change)))
        last = place
    return table


def _style(change: Change) -> str:
    return {Change.WORSE: "bold red", Change.BETTER: "green"}.get(change, "")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="weft-bench compare", description=__doc__)
    parser.add_argument("before", type=Path, help="the record of `weft-bench run` to compare with")
    parser.add_argument("after", type=Path, help="the record that is compared")
    parser.add_argument(
        "--threshold", type=_share, default=0.1, metavar="SHARE", help="changes up to it are noise (default 0.1: 10 %%)"
    )
    parser.add_argument("--changed", action="store_true", help="show only what changed")
    parser.add_argument("--fail-on-worse", action="store_true", help="exit with 1 if something got worse")
    return parser


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no share; give a number from 0, such as 0.1 for 10 %")
    return value


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the comparison; 1 if something got worse and that was asked for, 2 if there is nothing to compare."""
    asked = _parser().parse_args(sys.argv[1:] if arguments is None else arguments)
    try:
        before, after = read(asked.before), read(asked.after)
        lines = compare(before, after, threshold=asked.threshold)
    except CannotCompare as error:
        sys.stderr.write(f"weft-bench compare: {error}\n")
        return 2
    for warning in warnings(before, after):
        sys.stderr.write(f"warning: {warning}\n")
    console = Console(width=max(_NARROWEST, Console().width), highlight=False)
    console.print(f"{before.title}: {before.at} and {after.at}", markup=False)
    console.print(to_table([line for line in lines if line.change or not asked.changed]))
    counts = {change: sum(line.change is change for line in lines) for change in (Change.BETTER, Change.WORSE)}
    console.print(f"{counts[Change.BETTER]} better, {counts[Change.WORSE]} worse, of {len(lines)} figures")
    return 1 if asked.fail_on_worse and counts[Change.WORSE] else 0


if __name__ == "__main__":
    sys.exit(main())
