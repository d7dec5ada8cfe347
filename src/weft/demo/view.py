"""The live view: figures in, one screen out, whatever its size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from statistics import median

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from weft.demo.observe import Figures, QueryFigures

_WIDE = 100
_NEW = timedelta(seconds=3)
_BARS = "▁▂▃▄▅▆▇█"
_STYLES = {"pending": "yellow", "live": "green", "dropped": "dim", "failed": "red"}
_LINES_ABOVE_QUERIES = 12


class Screen:
    """The view of some figures; knows the size it is given only when it is drawn."""

    def __init__(self, figures: Figures, address: str = "") -> None:
        self._figures, self._address = figures, address

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = options.height or console.size.height
        shown = queries_that_fit(height)
        yield Group(
            _header(self._figures, options.max_width),
            Text(f"dashboard: {self._address}" if self._address else "", style="dim"),
            _streams(self._figures),
            Text(),
            _latency(self._figures, options.max_width),
            *_sharing(self._figures, options.max_width),
            Text(),
            _queries(self._figures.queries, shown, wide=options.max_width >= _WIDE),
        )


def queries_that_fit(height: int) -> int:
    """How many queries a screen of this height can show, one line being left for those that cannot be."""
    return max(1, height - _LINES_ABOVE_QUERIES - 2)


def _header(figures: Figures, width: int) -> RenderableType:
    seconds = int(figures.elapsed.total_seconds())
    line = Table.grid(padding=(0, 2), expand=False)
    for _ in range(4):
        line.add_column(no_wrap=True)
    total = figures.duration.total_seconds() if figures.duration is not None else None
    clock = f"{seconds} s" if total is None else f"{min(seconds, int(total))} of {int(total)} s"
    bar: RenderableType = Text("Ctrl-C to stop", style="dim")
    if total is not None:
        bar = ProgressBar(total=total, completed=min(figures.elapsed.total_seconds(), total), width=max(8, width // 4))
    counts = f"{figures.live} queries live, {figures.created} came, {figures.ended} left"
    line.add_row(Text("weft demo", style="bold cyan"), bar, Text(clock), Text(counts, style="bold"))
    return line


def _streams(figures: Figures) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("stream", no_wrap=True, style="cyan", min_width=10)
    for name in ("rows/s", "rows", "late"):
        table.add_column(name, justify="right", min_width=9)
    table.add_column("watermark", justify="right")
    for stream in figures.streams:
        table.add_row(
            stream.name,
            f"{stream.rows_per_second:,.0f}",
            f"{stream.rows:,}",
            f"{stream.late:,}",
            clock_text(stream.watermark),
        )
    return table


def _latency(figures: Figures, width: int) -> Text:
    latency = figures.latency
    text = Text("latency   ", style="dim", no_wrap=True, overflow="ellipsis")
    text.append(f"batch {seconds_text(latency.batches[-20:])} ", style="default not dim")
    text.append(sparkline(latency.batches[-max(8, (width - 70) // 2) :]), style="green not dim")
    text.append(f"  event to result {seconds_text(latency.events[-20:])}", style="default not dim")
    text.append(f"  create to live {seconds_text(latency.deployments)}", style="default not dim")
    return text


def _sharing(figures: Figures, width: int) -> Iterable[Text]:
    sharing = figures.sharing
    text = Text("sharing   ", style="dim", no_wrap=True, overflow="ellipsis")
    text.append(f"{short(sharing.rows_read)} rows read once", style="bold magenta not dim")
    text.append(f"; {short(sharing.rows_apart)} if each query ran apart", style="default not dim")
    if sharing.rows_read:
        text.append(f" ({sharing.rows_apart / sharing.rows_read:.1f} ×)", style="bold magenta not dim")
    yield text
    for title, parts in (("joins", sharing.joins), ("stores", sharing.stores)):
        yield Text.assemble((f"{title:<10}", "dim"), _parts(parts, width - 10), no_wrap=True, overflow="ellipsis")


def _parts(parts: Sequence[tuple[str, int]], width: int) -> str:
    """As many as fit, each with the number of queries it serves."""
    texts = [f"{count} × {name}" for name, count in parts]
    line = ""
    for number, text in enumerate(texts):
        more = f" · {len(texts) - number - 1} more" if number + 1 < len(texts) else ""
        joined = f"{line} · {text}" if line else text
        if line and len(joined) + len(more) > width:
            return f"{line} · {len(texts) - number} more"
        line = joined
    return line


def _queries(queries: Sequence[QueryFigures], shown: int, *, wide: bool) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", expand=True)
    table.add_column("query", no_wrap=True, min_width=9)
    table.add_column("state", no_wrap=True, min_width=7)
    table.add_column("since", justify="right", no_wrap=True, min_width=5)
    table.add_column("complete from" if wide else "complete", justify="right", no_wrap=True, min_width=8)
    table.add_column("rows", justify="right", no_wrap=True, min_width=7)
    if wide:
        table.add_column("rows/s", justify="right", no_wrap=True, min_width=7)
    table.add_column("asks for", no_wrap=True, overflow="ellipsis", ratio=1)
    for query in queries[:shown]:
        table.add_row(*_query_cells(query, wide=wide), style="dim" if query.state == "dropped" else "")
    hidden = len(queries) - shown
    return Group(table, Text(f"and {hidden} more that came earlier", style="dim")) if hidden > 0 else table


def _query_cells(query: QueryFigures, *, wide: bool) -> Iterable[Text]:
    new = query.state == "live" and query.age < _NEW
    yield Text(query.name, style="bold cyan" if new else "cyan")
    yield Text("new" if new else query.state, style="bold green" if new else _STYLES[query.state])
    yield Text(f"{query.age.total_seconds():.0f} s")
    yield Text(_complete_text(query))
    yield Text("" if query.rows is None else short(query.rows.rows), style="bold")
    if wide:
        yield Text("" if query.rows is None else f"{query.rows.per_second:,.0f}")
    yield Text(query.brief)


def _complete_text(query: QueryFigures) -> str:
    if query.state == "pending":
        return ""
    return clock_text(query.complete_from, fraction=False) if query.complete_from else "all"


def seconds_text(values: Sequence[float]) -> str:
    """The median of some durations in seconds."""
    return f"{median(values):.2f} s" if values else "–"


def sparkline(values: Sequence[float]) -> str:
    """A bar per value, the largest the highest."""
    top = max(values, default=0.0)
    return "".join(_BARS[min(len(_BARS) - 1, int(value / top * len(_BARS)))] for value in values) if top > 0 else ""


def clock_text(moment: datetime | None, *, fraction: bool = True) -> str:
    """A time of day, UTC."""
    if moment is None:
        return "–"
    return moment.strftime("%H:%M:%S") + (f".{moment.microsecond // 100_000}" if fraction else "")


def short(count: int) -> str:
    """A number in at most seven characters up to billions."""
    for unit, size in (("G", 10**9), ("M", 10**6)):
        if count >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count:,}"


def progress_line(figures: Figures) -> str:
    """The same in one line, for a log."""
    rate = sum(stream.rows_per_second for stream in figures.streams)
    late = sum(stream.late for stream in figures.streams)
    sharing = figures.sharing
    return (
        f"{figures.elapsed.total_seconds():4.0f} s  batch {figures.batch}  {rate:,.0f} rows/s  {late:,} late  "
        f"{figures.live} queries ({figures.created} came, {figures.ended} left)  "
        f"batch {seconds_text(figures.latency.batches[-20:])}  "
        f"event to result {seconds_text(figures.latency.events[-20:])}  "
        f"{short(sharing.rows_read)} rows read once, {short(sharing.rows_apart)} apart"
    )
