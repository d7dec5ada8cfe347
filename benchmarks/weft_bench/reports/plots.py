"""A run as pictures: throughput, latencies, deployment, memory and processor use by number of queries, and over time.

Figures are drawn without pyplot: nothing global, no window. Colours are those of Okabe and Ito, told apart by everyone;
every system has its own mark as well, so that a grey print can be read too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weft_bench.record import Cell, Run
from weft_bench.reports.ratios import FIGURES, SPEED, Place, of_spread, places
from weft_bench.reports.ratios import Figure as Number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STYLES: Mapping[str, tuple[str, str]] = {
    "weft": ("#0072B2", "o"),
    "weft-delivered": ("#56B4E9", "p"),
    "weft-other": ("#999999", "d"),
    "spark": ("#D55E00", "s"),
    "spark-shared": ("#E69F00", "D"),
    "flink": ("#CC79A7", "^"),
    "flink-jobs": ("#8C4A73", "v"),
    "duckdb": ("#009E73", "P"),
    "duckdb-shared": ("#00573F", "X"),
    "polars": ("#555555", "*"),
}
"""Colour and mark of each system, the same in all pictures."""
_OTHER = ("#000000", "h")
_DOTS = 130
_GREY = "#777777"
_GIGABYTE = 1 << 30
_PERCENTILES = ("p50", "p90", "p95", "p99")


def draw(run: Run, folder: Path) -> dict[str, str]:
    """Write the pictures there is something to show in; titles by name of file."""
    here = places(run.cells)
    drawn: dict[str, str] = {}
    for name, title, picture in (
        ("throughput.png", "Throughput by number of queries", _throughput(here)),
        ("latency.png", "Latency at 90 % of the sustainable rate", _latency(here)),
        ("latency-over-time.png", "Event-time latency and rate over time", _over_time(run.cells)),
        ("deployment.png", "Deployment of queries, and what the old ones feel of it", _deployment(here)),
        ("resources.png", "Memory and processor use", _resources(here)),
    ):
        if picture is not None:
            picture.suptitle(f"{run.title}\n{title}", fontsize=12)
            picture.savefig(folder / name, dpi=_DOTS)
            drawn[name] = title
    return drawn


def style(system: str) -> tuple[str, str]:
    """Colour and mark of a system."""
    return _STYLES.get(system, _OTHER)


def _figure(rows: int, columns: int, *, size: tuple[float, float]) -> tuple[Figure, list[list[Axes]]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    return figure, [list(row) for row in axes]


def _rows_tick(value: float) -> str:
    """A round number of rows, as short as it goes."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g} {letter}"
    return f"{value:g}"


def _seconds_tick(value: float) -> str:
    return f"{value * 1000:g} ms" if value < 1 else f"{value:g} s"


def _systems(here: Iterable[Place]) -> list[str]:
    return list(dict.fromkeys(place.system for place in here))


def _numbers(here: Iterable[Place]) -> list[int]:
    return sorted({place.queries for place in here})


def _throughput(here: Sequence[Place]) -> Figure | None:
    """Input rows per second, and times queries; a cross at the bottom where a system could not run."""
    panels = {
        SPEED: (_kind(here), "input rows per second"),
        FIGURES["overall"]: ("overall throughput, the queue never empty", "input rows × queries per second"),
    }
    shown = [figure for figure in panels if any(place.figure(figure) for place in here)]
    if not shown:
        return None
    figure, (row,) = _figure(1, len(shown), size=(max(6.5, 5.5 * len(shown)), 5))
    for axes, each in zip(row, shown, strict=True):
        title, label = panels[each]
        _lines(axes, here, each)
        axes.set_title(title, fontsize=10)
        axes.set_ylabel(label)
        _logarithmic(axes, _rows_tick)
    _mark_failures(row[0], here)
    _legend(figure, row[0], here)
    return figure


def _kind(here: Iterable[Place]) -> str:
    searched = any(place.figure(FIGURES["sustainable"]) is not None for place in here)
    return "sustainable throughput" if searched else "slowest throughput, the queue never empty"


def _resources(here: Sequence[Place]) -> Figure | None:
    """What the systems took of the machine."""
    memory, cores = FIGURES["peak_memory"], FIGURES["cores"]
    shown = [figure for figure in (memory, cores) if any(place.figure(figure) is not None for place in here)]
    if not shown:
        return None
    figure, (row,) = _figure(1, len(shown), size=(max(6.5, 5.5 * len(shown)), 5))
    for axes, each in zip(row, shown, strict=True):
        size = _GIGABYTE if each is memory else 1
        _lines(axes, here, each, size=size)
        axes.set_ylabel("peak memory, GiB (shared pages counted once)" if each is memory else "cores used")
        axes.set_ylim(bottom=0)
    _legend(figure, row[0], here)
    return figure


def _lines(axes: Axes, here: Sequence[Place], number: Number, *, size: int = 1) -> None:
    """A line per system over the numbers of queries, evenly spaced by their logarithms."""
    for system in _systems(here):
        colour, mark = style(system)
        points = [
            (place.queries, value / size)
            for place in here
            if place.system == system and (value := place.figure(number)) is not None
        ]
        one_pass = any(place.is_limit for place in here if place.system == system)
        axes.plot(
            [queries for queries, _ in points],
            [value for _, value in points],
            color=colour,
            marker=mark,
            markersize=7,
            linewidth=2.4 if system == "weft" else 1.6,
            linestyle="--" if one_pass else "-",
            label=f"{system} (one pass)" if one_pass else system,
        )
    _query_axis(axes, _numbers(here))


def _query_axis(axes: Axes, numbers: Sequence[int]) -> None:
    axes.set_xscale("log")
    axes.set_xticks(numbers, [f"{number:,}" for number in numbers])
    axes.minorticks_off()
    axes.set_xlim(numbers[0] / 1.4, numbers[-1] * 1.4)
    axes.set_xlabel("live queries")
    _tidy(axes)


def _tidy(axes: Axes) -> None:
    axes.grid(visible=True, alpha=0.25, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _logarithmic(axes: Axes, to_text: Callable[[float], str]) -> None:
    """Decades, and twos and fives between them where there are few."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 200 else (1.0,)))
    axes.yaxis.set_major_formatter(lambda value, _: to_text(value))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _mark_failures(axes: Axes, here: Sequence[Place]) -> None:
    """Crosses along the foot of the picture, side by side where several systems failed."""
    failed = [place for place in here if place.failure and place.figure(SPEED) is None]
    for place in failed:
        beside = [other.system for other in failed if other.queries == place.queries]
        shift = beside.index(place.system) - (len(beside) - 1) / 2
        axes.plot(
            [place.queries * 1.12**shift],
            [0.03],
            marker="x",
            markersize=8,
            markeredgewidth=2.2,
            color=style(place.system)[0],
            linestyle="",
            transform=axes.get_xaxis_transform(),
        )
    if failed:
        low, high = axes.get_ylim()
        axes.set_ylim(low / (high / low) ** 0.12, high)
        axes.text(
            1.0,
            0.07,
            "× could not run",
            transform=axes.transAxes,
            ha="right",
            fontsize=8,
            color="#444444",
        )


def _legend(figure: Figure, axes: Axes, here: Sequence[Place]) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(_systems(here)), 8), frameon=False)


def _latency(here: Sequence[Place]) -> Figure | None:
    """Percentiles of event-time and processing-time latency."""
    parts = {"event_latency": "event time", "processing_latency": "processing time"}
    return _spreads(here, {part: title for part, title in parts.items() if _has(here, part)})


def _deployment(here: Sequence[Place]) -> Figure | None:
    """Percentiles of deployment and removal, and of the oldest query's latency before and during requests."""
    parts = {
        "deployment": "create request until live",
        "removal": "drop request until gone",
        "latency_before": "oldest query, no requests",
        "latency_during": "oldest query, requests coming",
    }
    shown = {part: title for part, title in parts.items() if _has(here, part)}
    if "latency_during" not in shown:
        shown.pop("latency_before", None)  # of the warm-up
    return _spreads(here, shown)


def _has(here: Iterable[Place], *parts: str) -> bool:
    return any(place.median(of_spread(part, "p50")) is not None for place in here for part in parts)


def _spreads(here: Sequence[Place], parts: Mapping[str, str]) -> Figure | None:
    """A panel per part, all with the same scale: from least to most thin, from the median to p99 thick."""
    if not parts:
        return None
    rows = 1 if len(parts) < 4 else 2
    columns = len(parts) // rows
    figure, panels = _figure(rows, columns, size=(max(6.5, 5.2 * columns), 1.2 + 3.8 * rows))
    shown = [place for place in here if _has([place], *parts)]
    for axes, (part, title) in zip((axes for row in panels for axes in row), parts.items(), strict=True):
        _spread_panel(axes, shown, part)
        axes.set_title(title, fontsize=10)
        axes.set_ylim(_least(shown, parts) / 1.5, _most(shown, parts) * 1.3)
        _logarithmic(axes, _seconds_tick)
    for row in panels:
        row[0].set_ylabel("latency")
    _spread_legend(figure, _systems(shown))
    return figure


def _spread_panel(axes: Axes, shown: Sequence[Place], part: str) -> None:
    """Systems side by side over each number of queries."""
    systems, numbers = _systems(shown), _numbers(shown)
    apart = 0.8 / max(len(systems), 3)
    for place in shown:
        offset = (systems.index(place.system) - (len(systems) - 1) / 2) * apart
        _spread(axes, place, part, at=numbers.index(place.queries) + offset)
    axes.set_xticks(range(len(numbers)), [f"{number:,}" for number in numbers])
    axes.set_xlim(-0.6, len(numbers) - 0.4)
    axes.set_xlabel("live queries")
    _tidy(axes)
    axes.grid(visible=False, axis="x")


def _least(here: Iterable[Place], parts: Iterable[str]) -> float:
    """The smallest duration above zero: an axis of logarithms begins there."""
    found = (place.median(of_spread(part, value)) for place in here for part in parts for value in ("least", "p50"))
    return min((value for value in found if value), default=0.001)


def _most(here: Iterable[Place], parts: Iterable[str]) -> float:
    found = (place.median(of_spread(part, "most")) for place in here for part in parts)
    return max((value for value in found if value), default=1.0)


def _spread(axes: Axes, place: Place, part: str, *, at: float) -> None:
    read = {name: place.median(of_spread(part, name)) for name in ("least", *_PERCENTILES, "most")}
    values = {name: max(value, 1e-4) for name, value in read.items() if value is not None}
    if not values:
        return
    colour, mark = style(place.system)
    axes.vlines(at, values["least"], values["most"], color=colour, linewidth=1)
    axes.vlines(at, values["p50"], values["p99"], color=colour, linewidth=7, alpha=0.45)
    axes.plot([at], [values["p50"]], marker=mark, color=colour, markersize=7)
    axes.plot([at] * 2, [values["p90"], values["p95"]], marker="_", color=colour, markersize=7, linestyle="")
    axes.plot([at], [values["p99"]], marker="_", color=colour, markersize=12, markeredgewidth=2.4)


def _spread_legend(figure: Figure, systems: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=style(name)[0], marker=style(name)[1], linestyle="", label=name) for name in systems
    ]
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=min(len(systems), 8),
        frameon=False,
        title="mark: median; ticks: p90, p95; wide tick: p99; thin line: least to most",
        title_fontsize=8,
    )


def _over_time(cells: Sequence[Cell]) -> Figure | None:
    """A panel for each cell of the first round, a row for each number of queries."""
    shown = {(cell.queries, cell.system): cell for cell in reversed(cells) if cell.samples}
    if not shown:
        return None
    systems = [name for name in dict.fromkeys(cell.system for cell in cells) if any(name == at[1] for at in shown)]
    numbers = sorted({queries for queries, _ in shown})
    figure, panels = _figure(len(numbers), len(systems), size=(1.5 + 4.2 * len(systems), 1.5 + 2.4 * len(numbers)))
    for row, queries in zip(panels, numbers, strict=True):
        for axes, system in zip(row, systems, strict=True):
            cell = shown.get((queries, system))
            if cell is None:
                axes.set_visible(False)
            else:
                _course(axes, cell)
    _course_legend(figure)
    return figure


def _course_legend(figure: Figure) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles = [
        Line2D([], [], color=style("weft")[0], linewidth=1.5, label="event-time latency (left)"),
        Patch(color="#BBBBBB", alpha=0.35, linewidth=0, label="rows/s generated (right)"),
        Line2D([], [], color="#888888", linewidth=0.8, label="rows/s passed by the slowest reader (right)"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)


def _course(axes: Axes, cell: Cell) -> None:
    colour = style(cell.system)[0]
    moments = [sample.at for sample in cell.samples]
    behind = axes.twinx()
    behind.fill_between(moments, [sample.rate for sample in cell.samples], color="#BBBBBB", alpha=0.35, linewidth=0)
    behind.plot(moments, [sample.pulled for sample in cell.samples], color="#888888", linewidth=0.8)
    behind.set_ylim(bottom=0)
    behind.yaxis.set_major_formatter(lambda value, _: _rows_tick(value))
    behind.tick_params(labelsize=7, colors=_GREY)
    behind.set_ylabel("rows/s", fontsize=7, color=_GREY)
    behind.spines[["top", "left"]].set_visible(False)
    seen = [(sample.at, sample.latency) for sample in cell.samples if sample.latency is not None]
    axes.plot([at for at, _ in seen], [latency for _, latency in seen], color=colour, linewidth=1.5)
    axes.set_zorder(behind.get_zorder() + 1)
    axes.patch.set_visible(False)
    axes.set_ylim(bottom=0)
    axes.set_title(f"{cell.system}, N = {cell.queries:,}", fontsize=9)
    axes.set_ylabel("latency, s", fontsize=8, color=colour)
    axes.set_xlabel("seconds since the cell began", fontsize=8)
    axes.tick_params(labelsize=7)
    _tidy(axes)
