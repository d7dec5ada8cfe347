"""SQL arguments of commands: text, files or stdin, with one or several statements."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

import typer

# Texts and comments, whose semicolons end no statement, and the semicolons that end one.
_PIECE = re.compile(
    r"""(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`)|(?P<comment>--[^\n]*|/\*.*?\*/)|(?P<end>;)""", re.DOTALL
)


def read_statements(arguments: Iterable[str]) -> list[str]:
    """Return the statements of SQL texts, files (@file) and stdin (-), in order."""
    return [statement for argument in arguments for statement in split(_text(argument))]


def split(text: str) -> list[str]:
    """Return the statements between semicolons, without empty ones."""
    ends = [piece.start() for piece in _PIECE.finditer(text) if piece["end"]]
    starts = [0, *(end + 1 for end in ends)]
    statements = (text[start:end].strip() for start, end in zip(starts, [*ends, len(text)], strict=True))
    return [statement for statement in statements if _without_comments(statement)]


def _without_comments(text: str) -> str:
    return _PIECE.sub(lambda piece: "" if piece["comment"] else piece[0], text).strip()


def _text(argument: str) -> str:
    try:
        if argument == "-":
            return sys.stdin.read()
        return Path(argument[1:]).read_text(encoding="utf-8") if argument.startswith("@") else argument
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f'"{argument}" cannot be read: {error}') from error
