"""`weft stream`: declare, list and drop streams, and set watermarks back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import show
from weft.cli.command import CommandSession, shared
from weft.plan.paths import has_scheme

if TYPE_CHECKING:
    from weft.service.client import NewStream

app = typer.Typer(name="stream", help="Streams: declare, list and drop.", no_args_is_help=True)


@app.command("list")
@shared
def list_streams(session: CommandSession) -> None:
    """Streams that queries can name."""
    streams = session.backend.streams()
    session.answer({"streams": streams}, lambda: show.stream_table(streams))


@app.command()
@shared
def add(  # noqa: PLR0913 each is an option of the command
    session: CommandSession,
    name: Annotated[str, typer.Argument(help="What queries call it.")],
    *,
    time: Annotated[str, typer.Option("--time", metavar="COLUMN", help="The column with the event time.")],
    format: Annotated[str, typer.Option("--format", help="parquet, json, csv, arrow, or one of Spark's.")] = "parquet",
    path: Annotated[
        str | None,
        typer.Option("--path", help="Where its files are. (A state directory's --path goes before the command.)"),
    ] = None,
    schema: Annotated[
        str | None, typer.Option("--schema", help='"ts timestamp, price double"; default: as in the files.')
    ] = None,
    lateness: Annotated[str, typer.Option("--lateness", help="How late rows may come.")] = "0 seconds",
    max_ahead: Annotated[
        str | None, typer.Option("--max-ahead", help='Rows farther ahead of the clock are set aside, or "unlimited".')
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", metavar="KEY=VALUE", help="An option of the format.")
    ] = None,
) -> None:
    """Declare a stream."""
    new_stream: NewStream = {"name": name, "format": format, "time": time, "lateness": lateness}
    if path is not None:
        # A service on another machine has other directories.
        local = not has_scheme(path) and session.backend.is_here
        new_stream["path"] = os.path.abspath(path) if local else path
    if schema is not None:
        new_stream["schema"] = schema
    if max_ahead is not None:
        new_stream["max_ahead"] = max_ahead
    if option:
        new_stream["options"] = _pairs(option)
    stream = session.backend.add_stream(new_stream)
    session.answer(stream, lambda: show.declared(stream))


@app.command("set-watermark")
@shared
def set_watermark(
    session: CommandSession,
    name: Annotated[str, typer.Argument(help="The stream.")],
    time: Annotated[str, typer.Argument(help="An earlier event time, like 2026-01-31T12:00:00Z.")],
) -> None:
    """Set a watermark back that a row with a wrong time has moved too far; queries of the stream begin anew."""
    stream = session.backend.set_watermark(name, time)
    session.answer(stream, lambda: show.stream_table([stream]))


@app.command()
@shared
def drop(
    session: CommandSession,
    name: Annotated[str, typer.Argument(help="The stream.")],
    *,
    cascade: Annotated[bool, typer.Option("--cascade", help="Drop the queries that read it, too.")] = False,
) -> None:
    """Remove a stream for good; for administrators."""
    stream = session.backend.drop_stream(name, cascade=cascade)
    session.answer(stream, lambda: show.stream_table([stream]))


def _pairs(options: list[str]) -> dict[str, str]:
    pairs = {}
    for text in options:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f'--option takes KEY=VALUE, not "{text}"')
        pairs[key] = value
    return pairs
