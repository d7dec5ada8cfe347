"""Streams that came over HTTP, as they were asked for: what Spark reads cannot be had again from the engine."""

from __future__ import annotations

import logging
import os

from weft.service.config import StreamSpec
from weft.service.tenancy.secrets import looks_secret
from weft.storage.directory import Directory

_log = logging.getLogger("weft.service")
_FILE = "added-streams.json"


def read_added(directory: Directory) -> list[StreamSpec]:
    """The streams that were added, the oldest first."""
    return [StreamSpec.model_validate(each) for each in directory.read_json(_FILE) or []]


def write_added(directory: Directory, specs: list[StreamSpec]) -> None:
    """Keep the streams that were added; secrets among their options are references."""
    directory.write_json([spec.model_dump(by_alias=True) for spec in specs], _FILE)
    _make_private(directory)


def check_added(directory: Directory) -> None:
    """Warn of secrets that an earlier release kept as they were given."""
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
