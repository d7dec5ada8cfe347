"""A soak as one picture: a panel for each kind of figure, restarts and warm-up marked.

Drawn without pyplot: nothing global, no window. Colours are those of Okabe and Ito, told apart by everyone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.soak.report import Report
from tests.soak.series import Samples, Unit, describe, ordered
from tests.soak.verdict import Point, State

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C4A73", "#00573F")
_MOST_LINES = 9
_DOTS = 110


@dataclass(frozen=True, slots=True)
class Panel:
    """Series of one unit in one picture."""

    title: str
    prefixes: tuple[str, ...]
    measures: tuple[str, ...]

    def chosen(self, names: Sequence[str]) -> list[str]:
        """Its series among those that were measured."""
        return [name for name in names if self._has(name)]

    def _has(self, name: str) -> bool:
        what, _, measure = name.rpartition(".")
        return measure in self.measures and what.split("/")[0] in self.prefixes


_PROCESSES = ("driver", "java", "workers", "process", "opened")
PANELS = (
    Panel("memory", _PROCESSES, ("rss", "heap")),
    Panel("threads", _PROCESSES, ("threads",)),
    Panel("open files", _PROCESSES, ("fds",)),
    Panel("files in the state directory", ("state",), ("files",)),
    Panel("bytes in the state directory", ("state", "checkpoint"), ("bytes",)),
    Panel("files in other folders", ("spark", "tmp", "out", "in"), ("files",)),
    Panel("bytes in other folders", ("spark", "tmp", "out", "in", "logs"), ("bytes",)),
    Panel("durations", ("batch", "create", "reopen", "step"), ("seconds", "latency")),
)


def draw(report: Report, samples: Samples, path: Path) -> None:
    """Write the picture."""
    from matplotlib.figure import Figure

    names = ordered(name for name in samples.names if not samples.is_empty(name))
    panels = [(panel, chosen) for panel in PANELS if (chosen := panel.chosen(names))]
    rows = max(1, -(-len(panels) // 2))
    figure = Figure(figsize=(15, 3.6 * rows), layout="constrained")
    axes = figure.subplots(rows, 2, squeeze=False).flat
    growing = {each.series.name for each in report.judged if each.verdict.state is State.GROWS}
    for axis, (panel, chosen) in zip(axes, panels, strict=False):
        _panel(axis, panel, _largest(samples, chosen), samples, growing)
        _mark(axis, samples, report.rule.warm_up)
    for axis in list(axes)[len(panels) :]:
        axis.set_axis_off()
    figure.suptitle(f"{report.title}\n(grey: not judged, dashed: restart, thick: grows)", fontsize=12)
    figure.savefig(path, dpi=_DOTS)


def _largest(samples: Samples, names: Sequence[str]) -> list[str]:
    """The series with most in the end; the rest would only cover them."""
    last = {name: samples.points(name)[-1].value for name in names}
    kept = sorted(names, key=lambda name: -last[name])[:_MOST_LINES]
    return [name for name in names if name in kept]


def _panel(axis: Axes, panel: Panel, names: Sequence[str], samples: Samples, growing: set[str]) -> None:
    for name, colour in zip(names, _COLOURS, strict=False):
        unit, points = describe(name).unit, samples.points(name)
        at, values = _line(points, samples, unit)
        what, _, measure = name.rpartition(".")
        label = f"{what} {measure}" if measure in ("heap", "latency") else what
        axis.plot(
            at,
            values,
            color=colour,
            linewidth=2.6 if name in growing else 1.1,
            marker="." if len(points) < 40 else "",
            label=f"{label} (grows)" if name in growing else label,
        )
    unit = describe(names[0]).unit
    axis.set_title(f"{panel.title}{f', {unit.text}' if unit.text else ''}", fontsize=10)
    axis.set_ylim(0, 1.3 * axis.get_ylim()[1])  # room for the legend
    axis.set_xlabel("minutes" if samples.axis == "seconds" else samples.axis, fontsize=8)
    axis.grid(visible=True, linewidth=0.3)
    axis.legend(fontsize=7, loc="upper left", framealpha=0.6, ncols=2)


def _line(points: Sequence[Point], samples: Samples, unit: Unit) -> tuple[list[float], list[float]]:
    """The line of a series, broken where a new process begins."""
    at, values = list[float](), list[float]()
    for before, point in zip([None, *points], points, strict=False):
        if before is not None and before.segment != point.segment:
            at.append(_across(samples, point.at))
            values.append(float("nan"))
        at.append(_across(samples, point.at))
        values.append(point.value / unit.size)
    return at, values


def _across(samples: Samples, at: float) -> float:
    return at / 60 if samples.axis == "seconds" else at


def _mark(axis: Axes, samples: Samples, warm_up: float) -> None:
    """Restarts, and what is not judged: pauses, and the first part of each segment."""
    for begin, end in samples.pauses:
        axis.axvspan(_across(samples, begin), _across(samples, end), color="#DDDDDD", alpha=0.4, linewidth=0)
    for restart in samples.restarts:
        axis.axvline(_across(samples, restart), color="#777777", linestyle="--", linewidth=0.8)
    times: dict[int, list[float]] = {}
    for row in samples.rows:
        times.setdefault(int(row["segment"]), []).append(row["at"])
    for each in times.values():
        until = each[0] + warm_up * (each[-1] - each[0])
        axis.axvspan(_across(samples, each[0]), _across(samples, until), color="#DDDDDD", alpha=0.4, linewidth=0)
