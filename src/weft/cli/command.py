"""What all commands share: the backend, the output and the common options."""

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
"""Width of output that does not go to a terminal, so that no line is cut off for a program."""

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


class CommandSession:
    """The backend of one command, opened on first use, and its output."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._backend: Backend | None = None

    def __enter__(self) -> CommandSession:
        return self

    def __exit__(self, *_: object) -> None:
        if self._backend is not None:
            self._backend.close()

    @property
    def backend(self) -> Backend:
        """The service or state directory that the options name."""
        if self._backend is None:
            self._backend = open_backend(self.options)
        return self._backend

    @property
    def json(self) -> bool:
        """Whether answers are JSON."""
        return self.options.json

    def answer(self, value: object, show: Callable[[], RenderableType]) -> None:
        """Print a value: as JSON, or as `show` renders it."""
        if self.json:
            write_json(value)
        else:
            screen().print(show())


def write_json(value: object) -> None:
    """Write a value to stdout as one line of JSON, and flush."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def screen() -> Console:
    """Return a console for stdout, which is `_WIDE` columns wide if stdout is not a terminal."""
    return Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else _WIDE)


def shared(command: Callable[..., None]) -> Callable[..., None]:
    """Turn a function (session, …) into a command that also has the common options and reports errors.

    Common options may also precede the name of the command; one whose name the command itself uses must do so.
    """
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    added = {name: option for name, option in _SHARED.items() if name not in {parameter.name for parameter in own}}

    @functools.wraps(command)
    def run(context: typer.Context, **arguments: Any) -> None:
        options = Options(**{name: arguments.pop(name) for name in added}).over(context.obj)
        with reported(as_json=options.json), CommandSession(options) as session:
            command(session, **arguments)

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter("context", keyword, annotation=typer.Context),
        *(parameter.replace(kind=keyword) for parameter in own),
        *(inspect.Parameter(name, keyword, annotation=kind, default=value) for name, (kind, value) in added.items()),
    ]
    run.__dict__["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
