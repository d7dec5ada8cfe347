"""What happened, when it is over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from weft.demo.check import Verdict
from weft.demo.observe import Figures, typical

_TITLE = 11


def summary(figures: Figures, verdicts: Sequence[Verdict]) -> RenderableType:
    """The figures of a run and whether three queries agree with themselves run alone."""
    return Group(
        Text(f"weft demo: {figures.elapsed.total_seconds():.0f} s, {figures.batch + 1} batches", style="bold cyan"),
        *_figures(figures),
        Text(),
        *(_verdict(verdict) for verdict in verdicts),
        conclusion(verdicts),
    )


def _figures(figures: Figures) -> Iterable[RenderableType]:
    latency, sharing = figures.latency, figures.sharing
    for stream in figures.streams:
        yield _entry(stream.name, f"{stream.rows:,} rows, of them {stream.late:,} late")
    yield _entry("queries", f"{figures.created} came, {figures.ended} left, {figures.live} live at the end")
    yield _entry(
        "latency",
        f"batch {typical(latency.batches):.2f} s (at most {max(latency.batches, default=0):.2f} s), "
        f"event to result {typical(latency.events):.2f} s, create to live {typical(latency.deployments):.2f} s",
    )
    ratio = f", {sharing.rows_apart / sharing.rows_read:.1f} × as many" if sharing.rows_read else ""
    yield _entry(
        "sharing",
        f"{sharing.rows_read:,} rows read once; {sharing.rows_apart:,} if each query ran apart{ratio}; "
        f"at the end {figures.live} queries on {len(sharing.stores)} stores and {len(sharing.joins)} joins",
    )


def _entry(title: str, text: str) -> RenderableType:
    line = Text(text)
    line.pad_left(0)
    return _hanging(Text(f"  {title:<{_TITLE - 2}}", style="dim"), line)


def _hanging(title: Text, text: Text) -> RenderableType:
    """A title, and a text that keeps to its right when it is long."""
    from rich.table import Table

    grid = Table.grid(padding=0)
    grid.add_column(no_wrap=True, min_width=_TITLE)
    grid.add_column()
    grid.add_row(title, text)
    return grid


def _verdict(verdict: Verdict) -> RenderableType:
    mark = Text("  ✓ ", style="bold green") if verdict.agrees else Text("  ✗ ", style="bold red")
    mark.append(f"{verdict.query.name}: ", style="cyan")
    mark.append(f"{verdict.rows:,} rows, DuckDB alone {verdict.expected:,}")
    if not verdict.agrees:
        start = "" if verdict.start_agrees else ", complete_from differs"
        mark.append(f"; {verdict.missing:,} missing, {verdict.surplus:,} too many{start}", style="bold red")
    return Group(mark, Padding(Text(verdict.query.sql, style="dim"), (0, 0, 0, 6)))


def conclusion(verdicts: Sequence[Verdict]) -> Text:
    """One sentence."""
    wrong = sum(not verdict.agrees for verdict in verdicts)
    if not verdicts:
        return Text("no query has results yet, so there is nothing to compare", style="yellow")
    if wrong:
        return Text(f"{wrong} of {len(verdicts)} queries do NOT agree with DuckDB running each alone", style="bold red")
    many = "1 random query agrees" if len(verdicts) == 1 else f"{len(verdicts)} random queries agree"
    return Text(f"{many} row for row with DuckDB running each alone", style="bold green")
