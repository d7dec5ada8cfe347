"""Answers of commands as tables and text for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from weft.service.http.shapes import Column, Page, Plan, Query, Stream, WhatIf

STYLES = {"pending": "yellow", "live": "green", "dropped": "dim", "failed": "red"}
_BARS = "▁▂▃▄▅▆▇█"
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
# Control characters, which a terminal would obey. Values of rows may contain them.
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {9: "\\t", 10: "\\n", 13: "\\r"}


def query_table(queries: Sequence[Query]) -> RenderableType:
    """Return a table of queries, one per line."""
    if not queries:
        return Text("no queries", style="dim")
    table = grid("query", "state", right=("rows", "rows/s", "latency"), last="asks for")
    for query in queries:
        table.add_row(
            Text(query["name"], style="cyan"),
            Text(query["state"], style=STYLES.get(query["state"], "")),
            count(query["rows"]),
            count(query["rows_per_second"]),
            seconds(query["latency_seconds"]),
            Text(visible(query["error"]), style="red") if query["error"] else one_line(query["sql"]),
        )
    return table


def query_details(query: Query) -> RenderableType:
    """Return all that is known about a query."""
    columns = ", ".join(f"{column['name']} {column['type']}".strip() for column in query["columns"])
    deployment = query["deployment_ms"]
    lines = {
        "state": query["state"],
        "error": query["error"],
        "tenant": query["tenant"],
        "asks for": query["sql"].strip(),
        "columns": columns,
        "streams": ", ".join(query["streams"]),
        "complete from": query["complete_from"] or "the beginning",
        "created in": "" if deployment is None else f"{deployment:,.0f} ms",
        "rows": count(query["rows"]),
        "rows/s": count(query["rows_per_second"]),
        "latency": seconds(query["latency_seconds"]),
        "sink": query["sink_error"],
        "sink missed": ", ".join(f"batches {gap['from']} to {gap['until'] - 1}" for gap in query["sink_gaps"]),
        "notice": "\n".join(query["notices"]),
    }
    return Group(Text(query["name"], style="bold cyan"), _facts(lines))


def created(queries: Sequence[Query]) -> RenderableType:
    """Return the names and notices of created queries."""
    lines = []
    for query in queries:
        line = Text.assemble((query["name"], "cyan"), " ", (query["state"], STYLES.get(query["state"], "")))
        if query["complete_from"]:
            line.append(f", complete from {query['complete_from']}")
        lines += [line, *_notices(query["notices"])]
    return Group(*lines)


def dropped(queries: Sequence[Query]) -> RenderableType:
    """Return the names of dropped queries. They end at once, or after the batch that runs."""
    return Group(*(Text.assemble((query["name"], "cyan"), " dropped") for query in queries))


def _notices(notices: Iterable[str]) -> list[Text]:
    return [Text(f"  notice: {visible(notice)}", style="yellow") for notice in notices]


def stream_table(streams: Sequence[Stream]) -> RenderableType:
    """Return a table of streams, one per line."""
    if not streams:
        return Text("no streams", style="dim")
    figures = ("rows", "rows/s", "late", "ahead", "missed", "bad files", "bad rows")
    table = grid("stream", "format", "time", right=figures, last="columns")
    for stream in streams:
        table.add_row(
            Text(stream["name"], style="cyan"),
            stream["format"],
            Text(stream["time"]),
            count(stream["rows"]),
            count(stream["rows_per_second"]),
            count(stream["late_rows"]),
            count(stream["ahead_rows"]),
            count(stream["missed_rows"]),
            count(stream["bad_files"]),
            count(stream["bad_rows"]),
            Text(", ".join(f"{column['name']} {column['type']}" for column in stream["columns"])),
        )
    return table


def declared(stream: Stream) -> RenderableType:
    """Return a newly declared stream, with its notices."""
    return Group(stream_table([stream]), *_notices(stream["notices"]))


def what_if(found: WhatIf) -> RenderableType:
    """Return what creating a query would add."""
    return Group(Text(found["text"]), *_notices(found["notices"]))


def plan(found: Plan) -> RenderableType:
    """Return the shared plan: its text for an administrator, else a table of the operators that the tenant sees."""
    if found["text"]:
        return Text(found["text"])
    table = grid("kind", right=("queries", "rows/s"), last="operator")
    for node in found["nodes"]:
        users = len(node["queries"]) + node["others"]
        table.add_row(node["kind"], count(users), count(node["rows_per_second"]), Text(visible(node["title"])))
    return table


def page(found: Page) -> RenderableType:
    """Return committed rows as a table."""
    lines = Rows(found["columns"])
    texts = [Text(line) for line in lines.add(found["rows"])]
    more = [Text(f"there are more: --after {found['cursor']}", style="dim")] if found["more"] else []
    return Group(Text(lines.header(), style="bold"), *texts, *more)


class Rows:
    """Rows as aligned lines. A column is as wide as the widest value so far."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._names = [visible(column["name"]) for column in columns]
        self._right = [column["type"].partition("(")[0] in _NUMBERS for column in columns]
        self._widths = [len(name) for name in self._names]

    def header(self) -> str:
        """Return the line with the names of the columns."""
        return self._line(self._names)

    def add(self, rows: Iterable[Sequence[Any]]) -> list[str]:
        """Return the lines of rows, and widen the columns. Call it before `header`, so that the header fits."""
        cells = [[cell(value) for value in row] for row in rows]
        for row in cells:
            self._widths = [max(width, len(text)) for width, text in zip(self._widths, row, strict=True)]
        return [self._line(row) for row in cells]

    def _line(self, row: Sequence[str]) -> str:
        return "  ".join(self._aligned(row)).rstrip()

    def _aligned(self, row: Sequence[str]) -> Iterator[str]:
        for text, width, right in zip(row, self._widths, self._right, strict=True):
            yield text.rjust(width) if right else text.ljust(width)


def by_name(columns: Sequence[Column], row: Sequence[Any]) -> dict[str, Any]:
    """Return a row as a dictionary. Further columns of the same name get a number."""
    named: dict[str, Any] = {}
    for column, value in zip(columns, row, strict=True):
        name, number = column["name"], 1
        while name in named:
            number += 1
            name = f"{column['name']}_{number}"
        named[name] = value
    return named


def grid(*left: str, right: Sequence[str] = (), last: str = "") -> Table:
    """Return a table without borders: left-aligned columns, right-aligned ones, and a last one that may be cut off."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in left:
        table.add_column(name, no_wrap=True)
    for name in right:
        table.add_column(name, no_wrap=True, justify="right")
    if last:
        table.add_column(last, no_wrap=True, overflow="ellipsis")
    return table


def _facts(lines: Mapping[str, str]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for name, text in lines.items():
        if text:
            table.add_row(Text(name, style="dim"), Text("\n".join(visible(line) for line in text.splitlines())))
    return table


def cell(value: Any) -> str:
    """Return a value of a row as text in one line."""
    match value:
        case None:
            return "NULL"
        case bool() | list() | dict():
            return visible(json.dumps(value, ensure_ascii=False))
        case _:
            return visible(str(value))


def visible(text: str) -> str:
    """Return text with its control characters escaped."""
    return text.translate(_CONTROLS)


def one_line(sql: str) -> Text:
    """Return SQL in one line."""
    return Text(visible(" ".join(sql.split())))


def count(number: float | None) -> str:
    """Return a number of rows as text; a rate below ten has a decimal."""
    if number is None:
        return "–"
    return f"{number:,.1f}" if 0 < number < 10 and number != int(number) else f"{number:,.0f}"


def seconds(number: float | None) -> str:
    """Return a duration as text in a suitable unit."""
    if number is None:
        return "–"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if abs(number) >= 2 * size:
            return f"{number / size:.0f} {unit}"
    return f"{number:.2f} s"


def sparkline(values: Sequence[float | None]) -> str:
    """Return one bar per value, relative to the largest; a space for None."""
    top = max((value for value in values if value is not None), default=0.0)
    if top <= 0:
        return ""
    scale = (len(_BARS) - 1) / top
    return "".join(" " if value is None else _BARS[round(max(value, 0.0) * scale)] for value in values)
