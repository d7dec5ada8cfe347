"""Secrets of streams: options that refer to an environment variable (`env:NAME`) or a file (`file:/path`).

What is stored and shown is the reference. The value is looked up when a source is opened, and goes to Spark only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, MutableMapping
from pathlib import Path

from weft.errors import InvalidStream, keep_secret

_ENV, _FILE = "env:", "file:"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LARGEST = 1 << 16
_SHORTEST_HIDDEN = 4
"""Shorter values are not looked for in error messages: they would be found in ordinary words."""
_SECRET_KEY = re.compile(r"secret|passw|token|access.?key|credential|private.?key|jaas|\bsas\b|signatur", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"://[^/@\s]*:[^/@\s]+@|password\s*=", re.IGNORECASE)
"""An address with a password in it, or a setting of one."""


def is_reference(value: str) -> bool:
    """Whether an option's value says where the value is."""
    if value.startswith(_ENV):
        return _NAME.fullmatch(value[len(_ENV) :]) is not None
    return value.startswith(_FILE + "/") and not value.startswith(_FILE + "//")


def references(options: Mapping[str, str]) -> list[str]:
    """The references among some options."""
    return [value for value in options.values() if is_reference(value)]


def looks_secret(key: str, value: str) -> bool:
    """Whether an option is one that nobody else should read, given as it is."""
    if not value or is_reference(value):
        return False
    return _SECRET_KEY.search(key) is not None or _SECRET_VALUE.search(value) is not None


class Secrets:
    """What references mean. Variables are taken from the environment, where Spark's processes would inherit them."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values = dict(values or {})
        self._used: set[str] = set()

    @classmethod
    def take(cls, wanted: Iterable[str], environment: MutableMapping[str, str] = os.environ) -> Secrets:
        """The variables that these references name, which the environment then has no more."""
        names = {each[len(_ENV) :] for each in wanted if each.startswith(_ENV)}
        found = {name: environment.pop(name) for name in names if name in environment}
        return cls(found)

    @property
    def names(self) -> frozenset[str]:
        """The variables it has taken."""
        return frozenset(self._values)

    def resolved(self, stream: str, options: Mapping[str, str]) -> dict[str, str]:
        """Options of a stream with the values that they refer to; raises InvalidStream."""
        return {key: self._value(stream, key, value) for key, value in options.items()}

    def hide(self, text: str) -> str:
        """A text of somebody else's, such as Spark's error, without the values that were looked up: also short ones,
        which are not hidden everywhere (`weft.errors.keep_secret`)."""
        for value in sorted(self._used, key=len, reverse=True):
            text = text.replace(value, "***")
        return text

    def _value(self, stream: str, key: str, value: str) -> str:
        if not is_reference(value):
            return value
        found = self._variable(value) if value.startswith(_ENV) else _content(stream, key, Path(value[len(_FILE) :]))
        if found is None:
            raise InvalidStream(
                f'stream "{stream}": option {key} refers to {value}, which is not there',
                hint="Set the variable for the service's process and start it again.",
            )
        if len(found) >= _SHORTEST_HIDDEN:
            self._used.add(found)
        keep_secret(found)  # its source may fail at any time later, and say so in many places
        return found

    def _variable(self, reference: str) -> str | None:
        name = reference[len(_ENV) :]
        return self._values.get(name, os.environ.get(name))


def _content(stream: str, key: str, path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(_LARGEST + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InvalidStream(f'stream "{stream}": option {key} refers to a file that cannot be read: {reason}') from None
    if len(text) > _LARGEST:
        raise InvalidStream(f'stream "{stream}": option {key} refers to a file of more than {_LARGEST} characters')
    return text.removesuffix("\n")
