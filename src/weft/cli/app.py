"""All commands, and the options that may precede them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from weft import __version__
from weft.cli import queries, show, streams
from weft.cli.backend import Options
from weft.cli.command import CommandSession, Json, Server, StatePath, TokenFile, shared
from weft.cli.failures import reported
from weft.cli.top import top
from weft.extras import extra

app = typer.Typer(
    name="weft",
    help="Many ad-hoc streaming SQL queries in one shared job on Spark.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(queries.app)
app.add_typer(streams.app)
app.command()(top)


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"weft {__version__}")
        raise typer.Exit()


@app.callback()
def weft(
    context: typer.Context,
    *,
    server: Server = None,
    path: StatePath = None,
    token_file: TokenFile = None,
    json: Json = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Many ad-hoc streaming SQL queries in one shared job on Spark."""
    context.obj = Options(server=server, path=path, token_file=token_file, json=json)


@app.command()
@shared
def plan(session: CommandSession) -> None:
    """The shared plan: who shares what with whom."""
    shared_plan = session.backend.plan()
    session.answer(shared_plan, lambda: show.plan(shared_plan))


@app.command()
def serve(
    context: typer.Context,
    config: Annotated[Path, typer.Option("--config", metavar="FILE", help="The configuration, weft.toml.")],
    host: Annotated[str | None, typer.Option("--host", help="Instead of the configuration's.")] = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="Instead of the configuration's.")
    ] = None,
) -> None:
    """Run the service: one engine for a team, over HTTP."""
    with reported(as_json=context.obj.json):
        with extra("service"):
            run = import_module("weft.service.run")
        code: int = run.serve(config, host=host, port=port)
    raise typer.Exit(code)


def main() -> int:
    """Run the command that the command line names, and end the process with its exit code."""
    app(prog_name="weft")
    return 0
