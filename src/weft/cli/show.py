"""Answers as people read them."""

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
# What a terminal would obey instead of showing it; values of rows can be anything.
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {9: "\\t", 10: "\\n", 13: "\\r"}


def query_table(queries: Sequence[Query]) -> RenderableType:
    """Queries, one in a line."""
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
    """All that is known about a query."""
    columns = ", ".join(f"{each['name']} {each['type']}".strip() for each in query["columns"])
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
    """Queries that have come: what they are called, and what to know about them."""
    lines = []
    for query in queries:
        line = Text.assemble((query["name"], "cyan"), " ", (query["state"], STYLES.get(query["state"], "")))
        if query["complete_from"]:
            line.append(f", complete from {query['complete_from']}")
        lines += [line, *_notices(query["notices"])]
    return Group(*lines)


def dropped(queries: Sequence[Query]) -> RenderableType:
    """Queries that go: at once, or with the end of the batch that runs."""
    return Group(*(Text.assemble((query["name"], "cyan"), " dropped") for query in queries))


def _notices(notices: Iterable[str]) -> list[Text]:
    return [Text(f"  notice: {visible(notice)}", style="yellow") for notice in notices]


def stream_table(streams: Sequence[Stream]) -> RenderableType:
    """Streams, one in a line."""
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
            Text(", ".join(f"{each['name']} {each['type']}" for each in stream["columns"])),
        )
    return table


def declared(stream: Stream) -> RenderableType:
    """A stream that was declared just now, and what to know about it."""
    return Group(stream_table([stream]), *_notices(stream["notices"]))


def what_if(found: WhatIf) -> RenderableType:
    """What creating a query would add."""
    return Group(Text(found["text"]), *_notices(found["notices"]))


def plan(found: Plan) -> RenderableType:
    """The shared plan; a tenant that may not see all of it gets its operators."""
    if found["text"]:
        return Text(found["text"])
    table = grid("kind", right=("queries", "rows/s"), last="operator")
    for node in found["nodes"]:
        users = len(node["queries"]) + node["others"]
        table.add_row(node["kind"], count(users), count(node["rows_per_second"]), Text(visible(node["title"])))
    return table


def page(found: Page) -> RenderableType:
    """Committed rows as a table."""
    lines = Rows(found["columns"])
    texts = [Text(line) for line in lines.add(found["rows"])]
    more = [Text(f"there are more: --after {found['cursor']}", style="dim")] if found["more"] else []
    return Group(Text(lines.header(), style="bold"), *texts, *more)


class Rows:
    """Rows as lines under one another; columns become as wide as the widest value there was."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._names = [visible(each["name"]) for each in columns]
        self._right = [each["type"].partition("(")[0] in _NUMBERS for each in columns]
        self._widths = [len(name) for name in self._names]

    def header(self) -> str:
        """The names of the columns."""
        return self._line(self._names)

    def add(self, rows: Iterable[Sequence[Any]]) -> list[str]:
        """Lines of some rows; call it before `header` if that is to fit them."""
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
    """A row as an object; a column whose name is taken gets a number."""
    found: dict[str, Any] = {}
    for column, value in zip(columns, row, strict=True):
        name, number = column["name"], 1
        while name in found:
            number += 1
            name = f"{column['name']}_{number}"
        found[name] = value
    return found


def grid(*left: str, right: Sequence[str] = (), last: str = "") -> Table:
    """A table without lines: columns to the left, numbers to the right, and one that takes what is left."""
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
    """A value of a row in one line."""
    match value:
        case None:
            return "NULL"
        case bool() | list() | dict():
            return visible(json.dumps(value, ensure_ascii=False))
        case _:
            return visible(str(value))


def visible(text: str) -> str:
    """Text without anything that a terminal would obey."""
    return text.translate(_CONTROLS)


def one_line(sql: str) -> Text:
    """SQL without its line ends."""
    return Text(visible(" ".join(sql.split())))


def count(number: float | None) -> str:
    """A number of rows; a rate below ten has a digit more."""
    if number is None:
        return "–"
    return f"{number:,.1f}" if 0 < number < 10 and number != int(number) else f"{number:,.0f}"


def seconds(number: float | None) -> str:
    """A duration."""
    if number is None:
        return "–"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if abs(number) >= 2 * size:
            return f"{number / size:.0f} {unit}"
    return f"{number:.2f} s"


def sparkline(values: Sequence[float | None]) -> str:
    """A bar per value, the largest the highest; a gap where there is none."""
    top = max((value for value in values if value is not None), default=0.0)
    if top <= 0:
        return ""
    scale = (len(_BARS) - 1) / top
    return "".join(" " if value is None else _BARS[round(max(value, 0.0) * scale)] for value in values)
