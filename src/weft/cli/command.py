"""One run of a command: where it works, how it answers, and the options that every command has."""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType

from weft.cli.backend import Backend, Options, open_backend
from weft.cli.failures import reported

_WIDE = 1000
"""Columns of what is no terminal: nothing is cut off for a program that reads it."""

Server = Annotated[
    str | None,
    typer.Option("--server", metavar="URL", help="A service (env WEFT_SERVER, default http://127.0.0.1:8080)."),
]
StatePath = Annotated[
    Path | None,
    typer.Option("--path", metavar="DIR", help="A state directory instead of a service (env WEFT_PATH)."),
]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", metavar="FILE", help="A file with the token (default: env WEFT_TOKEN).")
]
Json = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]
_SHARED = {"server": (Server, None), "path": (StatePath, None), "token_file": (TokenFile, None), "json": (Json, False)}


class Session:
    """Where a command works, opened when it is first asked for, and how it answers."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._backend: Backend | None = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        if self._backend is not None:
            self._backend.close()

    @property
    def backend(self) -> Backend:
        """The service or state directory that the options mean."""
        if self._backend is None:
            self._backend = open_backend(self.options)
        return self._backend

    @property
    def json(self) -> bool:
        """Whether answers are JSON."""
        return self.options.json

    def answer(self, value: object, show: Callable[[], RenderableType]) -> None:
        """A value as JSON, or what shows it to a reader."""
        if self.json:
            write_json(value)
        else:
            screen().print(show())


def write_json(value: object) -> None:
    """One line of JSON on stdout, at once."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def screen() -> Console:
    """Stdout; what is no terminal is as wide as it takes."""
    return Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else _WIDE)


def shared(command: Callable[..., None]) -> Callable[..., None]:
    """A function (session, …) as a command that has the options of all commands too, and tells its errors.

    They may stand before the command's name as well. One that the command has for itself has to.
    """
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    added = {name: option for name, option in _SHARED.items() if name not in {each.name for each in own}}

    @functools.wraps(command)
    def run(context: typer.Context, **given: Any) -> None:
        options = Options(**{name: given.pop(name) for name in added}).over(context.obj)
        with reported(as_json=options.json), Session(options) as session:
            command(session, **given)

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter("context", keyword, annotation=typer.Context),
        *(each.replace(kind=keyword) for each in own),
        *(inspect.Parameter(name, keyword, annotation=kind, default=no) for name, (kind, no) in added.items()),
    ]
    run.__dict__["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run
