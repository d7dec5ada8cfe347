"""Streams that were declared over HTTP, stored as requested: the engine cannot reopen sources that Spark reads."""

from __future__ import annotations

import logging
import os

from weft.service.config import StreamSpec
from weft.service.tenancy.secrets import looks_secret
from weft.storage.directory import Directory

_log = logging.getLogger("weft.service")
_FILE = "added-streams.json"


def read_added(directory: Directory) -> list[StreamSpec]:
    """Return the streams that were declared over HTTP, the oldest first."""
    return [StreamSpec.model_validate(spec) for spec in directory.read_json(_FILE) or []]


def write_added(directory: Directory, specs: list[StreamSpec]) -> None:
    """Store the streams that were declared over HTTP. Secrets among their options are references."""
    directory.write_json([spec.model_dump(by_alias=True) for spec in specs], _FILE)
    _make_private(directory)


def check_added(directory: Directory) -> None:
    """Make the file private, and warn of secrets that an earlier release stored in clear text."""
    specs = read_added(directory)
    if specs:
        _make_private(directory)
    for spec in specs:
        for key, value in spec.options.items():
            if looks_secret(key, value):
                _log.warning(
                    f'stream "{spec.name}": the state directory holds option {key} in clear text; drop the stream and '
                    "declare it again with a reference (env:NAME or file:/path)",
                    extra={"stream": spec.name, "option": key},
                )


def _make_private(directory: Directory) -> None:
    os.chmod(directory.path(_FILE), 0o600)
