"""`weft query`: create, list, show, explain, drop, read and follow queries."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from weft.cli import show
from weft.cli.backend import Options, open_backend
from weft.cli.command import CommandSession, shared, write_json
from weft.cli.failures import note
from weft.cli.statements import read_statements
from weft.errors import QueryFailed

if TYPE_CHECKING:
    from weft.service.client import NewQuery
    from weft.service.http.shapes import Column, Page

app = typer.Typer(name="query", help="Queries: create, list, show, explain, drop, follow.", no_args_is_help=True)


def _complete(context: typer.Context, incomplete: str) -> Iterator[str]:
    """Yield the names of queries for completion in a shell, which must not see errors."""
    try:
        params = {**context.find_root().params, **{k: v for k, v in context.params.items() if v}}
        options = Options(params.get("server"), params.get("path"), params.get("token_file"))
        backend = open_backend(options)
        try:
            yield from (query["name"] for query in backend.queries("all") if query["name"].startswith(incomplete))
        finally:
            backend.close()
    except Exception:
        return


Name = Annotated[str, typer.Argument(help="The query's name.", autocompletion=_complete)]
Names = Annotated[list[str], typer.Argument(metavar="NAME…", help="Names of queries.", autocompletion=_complete)]


@app.command()
@shared
def create(
    session: CommandSession,
    sql: Annotated[list[str], typer.Argument(metavar="SQL…", help="SQL; @FILE reads a file, - reads stdin.")],
    name: Annotated[list[str] | None, typer.Option("--name", help="Its name; once for each of several.")] = None,
    deliver: Annotated[bool, typer.Option("--deliver", help="Write its rows to the service's sinks too.")] = False,
) -> None:
    """Create queries; several, also of one file with semicolons, are created together, all or none."""
    statements, names = read_statements(sql), name or []
    if not statements:
        raise typer.BadParameter("there is no SQL")
    if names and len(names) != len(statements):
        raise typer.BadParameter(f"{len(statements)} queries and {len(names)} names: give each a name, or none")
    if len(statements) == 1:
        query = session.backend.create(statements[0], name=names[0] if names else None, deliver=deliver)
        session.answer(query, lambda: show.created([query]))
        return
    if deliver:
        raise typer.BadParameter("--deliver is for one query at a time")
    new_queries: list[NewQuery] = [{"sql": text} for text in statements]
    if names:
        new_queries = [{"sql": text, "name": query_name} for text, query_name in zip(statements, names, strict=True)]
    queries = session.backend.create_many(new_queries)
    session.answer({"queries": queries}, lambda: show.created(queries))


@app.command("list")
@shared
def list_queries(
    session: CommandSession,
    everything: Annotated[bool, typer.Option("--all", help="Those that have ended too.")] = False,
) -> None:
    """Queries that are live or waiting to be."""
    queries = session.backend.queries("all" if everything else "live")
    session.answer({"queries": queries}, lambda: show.query_table(queries))


@app.command("show")
@shared
def show_query(session: CommandSession, name: Name) -> None:
    """All that is known about a query."""
    query = session.backend.query(name)
    session.answer(query, lambda: show.query_details(query))


@app.command("resume-sink")
@shared
def resume_sink(session: CommandSession, name: Name) -> None:
    """Let a sink that has failed go on with the rows that are kept; those that are gone are noted as a gap."""
    query = session.backend.resume_sink(name)
    session.answer(query, lambda: show.query_details(query))


@app.command()
@shared
def explain(
    session: CommandSession,
    name: Annotated[str | None, typer.Argument(help="The query's name.", autocompletion=_complete)] = None,
    sql: Annotated[str | None, typer.Option("--sql", help="A query that is not there: what would it add?")] = None,
) -> None:
    """A query's part of the shared plan: what it shares with whom."""
    if (name is None) == (sql is None):
        raise typer.BadParameter("give the name of a query, or --sql with one that is not there")
    if name is not None:
        explained = session.backend.explain(name)
        session.answer(explained, lambda: Text(explained["text"]))
        return
    statements = read_statements([sql or ""])
    if len(statements) != 1:
        raise typer.BadParameter(f"--sql takes one query, not {len(statements)}")
    added = session.backend.what_if(statements[0])
    session.answer(added, lambda: show.what_if(added))


@app.command()
@shared
def drop(session: CommandSession, names: Names) -> None:
    """End queries; their committed rows stay readable."""
    dropped = []
    try:
        for name in names:
            dropped += [session.backend.drop(name)]  # one by one, to show what was dropped before an error
    finally:
        if dropped:
            session.answer(dropped[0] if len(names) == 1 else {"queries": dropped}, lambda: show.dropped(dropped))


@app.command()
@shared
def results(
    session: CommandSession,
    name: Name,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many rows.")] = 100,
    after: Annotated[str, typer.Option("--after", metavar="CURSOR", help="Only rows after a cursor.")] = "",
) -> None:
    """Committed rows, the oldest first."""
    page = _pages(session, name, after=after, limit=limit)
    session.answer(page, lambda: show.page(page))


def _pages(session: CommandSession, name: str, *, after: str, limit: int) -> Page:
    """Return up to `limit` rows as one page, from as many pages of the service as necessary."""
    page = session.backend.results(name, after=after, limit=limit)
    while page["more"] and len(page["rows"]) < limit:
        following = session.backend.results(name, after=page["cursor"], limit=limit - len(page["rows"]))
        page = {**following, "rows": page["rows"] + following["rows"]}
    return page


@app.command()
@shared
def tail(
    session: CommandSession,
    name: Name,
    start: Annotated[str, typer.Option("--from", metavar="now|start|CURSOR", help="Where to begin.")] = "now",
    rows: Annotated[int | None, typer.Option("--rows", min=1, help="End after so many rows.")] = None,
) -> None:
    """Rows as they are committed; Ctrl-C ends it."""
    lines, cursor, left = _Lines(as_json=session.json), "", rows
    try:
        for event in session.backend.follow(name, after="" if start == "start" else start):
            match event.kind:
                case "columns":
                    lines.columns = event.data
                case "rows":
                    left = lines.write(event.data["rows"], left)
                    if left == 0:
                        return
                    cursor = event.cursor or cursor
                case "gap" | "throttled":
                    note(event.data["message"])
                case "end" if event.data["state"] == "failed":
                    raise QueryFailed(f'query "{name}" failed', detail=event.data["error"])
                case "end":
                    note(f'query "{name}": {event.data["error"] or event.data["state"]}')
                case _:
                    pass
    except KeyboardInterrupt:
        if cursor:
            note(f"go on with: --from {cursor}")
        raise


class _Lines:
    """A writer of rows to stdout as they come, as a table or as JSON."""

    def __init__(self, *, as_json: bool) -> None:
        self.columns: list[Column] = []
        self._json = as_json
        self._rows: show.Rows | None = None

    def write(self, rows: list[list[Any]], most: int | None) -> int | None:
        """Write at most `most` rows, and return how many more may be written (None: any number)."""
        shown = rows[:most]
        if self._json:
            for row in shown:
                write_json(show.by_name(self.columns, row))
        elif shown:
            first = self._rows is None
            self._rows = self._rows or show.Rows(self.columns)
            lines = self._rows.add(shown)
            sys.stdout.write("\n".join([self._rows.header()] * first + lines) + "\n")
            sys.stdout.flush()
        return None if most is None else most - len(shown)
