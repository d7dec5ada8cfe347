"""Secrets of streams: options that refer to an environment variable (`env:NAME`) or a file (`file:/path`).

Only the reference is stored and shown. The value is looked up when a source is opened, and is given only to Spark.
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
"""Shorter values are not replaced in error messages, because they occur in ordinary words."""
_SECRET_KEY = re.compile(r"secret|passw|token|access.?key|credential|private.?key|jaas|\bsas\b|signatur", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"://[^/@\s]*:[^/@\s]+@|password\s*=", re.IGNORECASE)
"""An address that contains a password, or a setting of a password."""


def is_reference(value: str) -> bool:
    """Return whether the value of an option is a reference."""
    if value.startswith(_ENV):
        return _NAME.fullmatch(value[len(_ENV) :]) is not None
    return value.startswith(_FILE + "/") and not value.startswith(_FILE + "//")


def references(options: Mapping[str, str]) -> list[str]:
    """Return the references among the values of `options`."""
    return [value for value in options.values() if is_reference(value)]


def looks_secret(key: str, value: str) -> bool:
    """Return whether an option seems to hold a secret itself instead of a reference."""
    if not value or is_reference(value):
        return False
    return _SECRET_KEY.search(key) is not None or _SECRET_VALUE.search(value) is not None


class Secrets:
    """The values of references. Variables are removed from the environment, which Spark's processes inherit."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values = dict(values or {})
        self._used: set[str] = set()

    @classmethod
    def take(cls, wanted: Iterable[str], environment: MutableMapping[str, str] = os.environ) -> Secrets:
        """Remove the variables that `wanted` refers to from the environment, and keep their values."""
        names = {reference[len(_ENV) :] for reference in wanted if reference.startswith(_ENV)}
        values = {name: environment.pop(name) for name in names if name in environment}
        return cls(values)

    def resolved(self, stream: str, options: Mapping[str, str]) -> dict[str, str]:
        """Return the options of a stream with references replaced by their values; raises InvalidStream."""
        return {key: self._value(stream, key, value) for key, value in options.items()}

    def hide(self, text: str) -> str:
        """Return a foreign text, such as an error of Spark, without the values that were looked up.

        This includes values that are too short for `weft.errors.keep_secret`.
        """
        for value in sorted(self._used, key=len, reverse=True):
            text = text.replace(value, "***")
        return text

    def _value(self, stream: str, key: str, value: str) -> str:
        if not is_reference(value):
            return value
        secret = self._variable(value) if value.startswith(_ENV) else _content(stream, key, Path(value[len(_FILE) :]))
        if secret is None:
            raise InvalidStream(
                f'stream "{stream}": option {key} refers to {value}, which is not there',
                hint="Set the variable for the service's process and start it again.",
            )
        if len(secret) >= _SHORTEST_HIDDEN:
            self._used.add(secret)
        keep_secret(secret)  # the source may fail at any later time, and its error appears in many places
        return secret

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
