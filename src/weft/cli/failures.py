"""Errors of commands: written to stderr, with an exit code that follows from the class."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.text import Text

from weft import errors
from weft.errors import WeftError

UNEXPECTED = 1
INTERRUPTED = 130

EXIT_CODES: Mapping[type[WeftError], int] = {
    WeftError: UNEXPECTED,
    errors.QueryError: 3,
    errors.QueryFailed: 3,
    errors.InvalidName: 3,
    errors.InvalidStream: 3,
    errors.InvalidSetting: 3,
    errors.InvalidRequest: 3,
    errors.BadFile: 3,
    errors.StateVersion: 3,
    errors.UnknownQuery: 4,
    errors.ResultsGone: 4,
    errors.DuplicateQuery: 5,
    errors.DuplicateStream: 5,
    errors.Unauthorized: 6,
    errors.Forbidden: 6,
    errors.QuotaExceeded: 7,
    errors.ServiceUnreachable: 8,
    errors.EngineStopped: 8,
    errors.StateLocked: 8,
}
"""Exit codes by class. A class that is not listed has the code of its base class."""


def exit_code(error: WeftError) -> int:
    """Return the exit code of a command that ends with an error."""
    return next(EXIT_CODES[kind] for kind in type(error).__mro__ if kind in EXIT_CODES)


@contextmanager
def reported(*, as_json: bool = False) -> Iterator[None]:
    """Write errors to stderr and exit with their code instead of raising them; Ctrl-C exits without a message."""
    try:
        yield
    except WeftError as error:
        tell(error, as_json=as_json)
        raise typer.Exit(exit_code(error)) from error
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def tell(error: WeftError, *, as_json: bool) -> None:
    """Write an error to stderr, as one line of JSON or as text. So stdout holds only answers."""
    if as_json:
        sys.stderr.write(json.dumps(error.to_dict(), ensure_ascii=False) + "\n")
        return
    text = Text.assemble(("error: ", "bold red"), error.message, (f" [{error.code}]", "dim"))
    for title, sentence in (("detail", error.detail), ("hint", error.hint)):
        if sentence:
            text.append(f"\n  {title}: ", "bold").append(sentence)
    Console(stderr=True, highlight=False, soft_wrap=True).print(text)


def note(sentence: str) -> None:
    """Write a remark to stderr."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(Text(sentence, style="dim"))
