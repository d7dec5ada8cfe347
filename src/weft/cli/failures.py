"""Errors as a command line tells them: on stderr, with an exit code by their class."""

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
"""By class; a class that is not here has the code of the class above it."""


def exit_code(error: WeftError) -> int:
    """What a command ends with after an error."""
    return next(EXIT_CODES[kind] for kind in type(error).__mro__ if kind in EXIT_CODES)


@contextmanager
def reported(*, as_json: bool = False) -> Iterator[None]:
    """Tell errors on stderr instead of raising them, and end with their exit code; Ctrl-C ends without a word."""
    try:
        yield
    except WeftError as error:
        tell(error, as_json=as_json)
        raise typer.Exit(exit_code(error)) from error
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def tell(error: WeftError, *, as_json: bool) -> None:
    """An error on stderr, so that stdout holds answers only: as one line of JSON, or in words."""
    if as_json:
        sys.stderr.write(json.dumps(error.to_dict(), ensure_ascii=False) + "\n")
        return
    text = Text.assemble(("error: ", "bold red"), error.message, (f" [{error.code}]", "dim"))
    for title, sentence in (("detail", error.detail), ("hint", error.hint)):
        if sentence:
            text.append(f"\n  {title}: ", "bold").append(sentence)
    Console(stderr=True, highlight=False, soft_wrap=True).print(text)


def note(sentence: str) -> None:
    """Something worth knowing, on stderr."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(Text(sentence, style="dim"))
