"""What happened, when it is over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import wrap

from rich.console import Group
from rich.text import Text

from weft.demo.check import Verdict
from weft.demo.observe import Figures
from weft.demo.view import seconds_text

_TITLE = 13


def summary(figures: Figures, verdicts: Sequence[Verdict], width: int) -> Group:
    """The figures of a run and whether some queries agree with themselves run alone, in lines of at most `width`."""
    title = f"weft demo: {figures.elapsed.total_seconds():.0f} s, {figures.batch + 1} batches"
    return Group(
        Text(title, style="bold cyan"),
        *(_entry(name, text, width) for name, text in _figures(figures)),
        Text(),
        *(_verdict(verdict, width) for verdict in verdicts),
        conclusion(verdicts),
    )


def _figures(figures: Figures) -> Iterable[tuple[str, str]]:
    latency, sharing = figures.latency, figures.sharing
    for stream in figures.streams:
        yield (stream.name, f"{stream.rows:,} rows, of them {stream.late:,} late")
    rows = "" if figures.result_rows is None else f", {figures.result_rows:,} result rows"
    yield ("queries", f"{figures.created} came, {figures.ended} left, {figures.live} live at the end{rows}")
    yield (
        "latency",
        f"batch {seconds_text(latency.batches)} (at most {max(latency.batches, default=0):.2f} s), "
        f"event to result {seconds_text(latency.events)}, create to live {seconds_text(latency.deployments)}",
    )
    ratio = f", {sharing.rows_apart / sharing.rows_read:.1f} × as many" if sharing.rows_read else ""
    yield (
        "sharing",
        f"{sharing.rows_read:,} rows read once; {sharing.rows_apart:,} if each query ran apart{ratio}; "
        f"at the end {figures.live} queries on {len(sharing.stores)} stores and {len(sharing.joins)} joins",
    )


def _entry(name: str, text: str, width: int) -> Text:
    return Text.assemble((f"  {name:<{_TITLE - 2}}", "dim"), _hanging(text, _TITLE, width))


def _hanging(text: str, indent: int, width: int) -> str:
    """The text in lines that all begin at column `indent`."""
    return f"\n{' ' * indent}".join(wrap(text, max(20, width - indent)))


def _verdict(verdict: Verdict, width: int) -> Text:
    text = Text("  ✓ " if verdict.agrees else "  ✗ ", style="bold green" if verdict.agrees else "bold red")
    text.append(f"{verdict.query.name}: ", style="cyan not bold")
    text.append(f"{verdict.rows:,} rows, DuckDB alone {verdict.expected:,}", style="default not bold")
    if not verdict.agrees:
        start = "" if verdict.start_agrees else ", complete_from differs"
        text.append(f"; {verdict.missing:,} missing, {verdict.surplus:,} too many{start}")
    text.append(f"\n    {_hanging(verdict.query.sql, 4, width)}", style="default not bold dim")
    return text


def conclusion(verdicts: Sequence[Verdict]) -> Text:
    """One sentence."""
    wrong = sum(not verdict.agrees for verdict in verdicts)
    if not verdicts:
        return Text("no query has results yet, so there is nothing to compare", style="yellow")
    if wrong:
        return Text(f"{wrong} of {len(verdicts)} queries do NOT agree with DuckDB running each alone", style="bold red")
    many = "1 random query agrees" if len(verdicts) == 1 else f"{len(verdicts)} random queries agree"
    return Text(f"{many} row for row with DuckDB running each alone", style="bold green")
