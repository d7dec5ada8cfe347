"""The backends of commands: a service, or a state directory that no engine has open, behind one interface."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import typer

from weft.errors import InvalidSetting, StateLocked
from weft.service.http.sockets import ADDRESS_FILE

if TYPE_CHECKING:
    from weft.service.client import Event, NewQuery, NewStream
    from weft.service.http.shapes import Explained, Page, Plan, Query, Stream, Tick, WhatIf

DEFAULT_SERVER = "http://127.0.0.1:8080"


class Backend(Protocol):
    """The interface of `weft.service.client.Client` and, as far as possible without Spark, `weft.cli.local.Local`."""

    @property
    def is_here(self) -> bool:
        """Whether paths mean the same to the backend as to the user."""

    def close(self) -> None:
        """Release everything that the backend holds."""

    def queries(self, state: str = "live") -> list[Query]:
        """Return the queries that are "live" (or pending), "ended", or "all"."""

    def query(self, name: str) -> Query:
        """Return the query of this name."""

    def create(self, sql: str, *, name: str | None = None, deliver: bool = False) -> Query:
        """Create a query."""

    def create_many(self, queries: Sequence[NewQuery]) -> list[Query]:
        """Create queries together, all or none."""

    def drop(self, name: str) -> Query:
        """End a query."""

    def resume_sink(self, name: str) -> Query:
        """Let a query's failed sink continue."""

    def explain(self, name: str) -> Explained:
        """Return a query's part of the shared plan."""

    def what_if(self, sql: str) -> WhatIf:
        """Return what creating a query would add."""

    def results(self, name: str, *, after: str = "", limit: int | None = None) -> Page:
        """Return committed rows after a cursor."""

    def follow(self, name: str, *, after: str = "") -> Iterator[Event]:
        """Yield events with rows as they are committed."""

    def streams(self) -> list[Stream]:
        """Return all streams."""

    def add_stream(self, stream: NewStream) -> Stream:
        """Declare a stream."""

    def drop_stream(self, name: str, *, cascade: bool = False) -> Stream:
        """Remove a stream, with `cascade` also the queries that read it."""

    def set_watermark(self, stream: str, time: str) -> Stream:
        """Set a stream's watermark back."""

    def plan(self) -> Plan:
        """Return the shared plan."""

    def ticks(self) -> Iterator[Tick]:
        """Yield a tick after every batch."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options that all commands share, as far as they were given."""

    server: str | None = None
    path: Path | None = None
    token_file: Path | None = None
    json: bool = False

    def over(self, before: Options) -> Options:
        """Return these options, with those of `before` where these are not given."""
        return Options(
            server=self.server or before.server,
            path=self.path or before.path,
            token_file=self.token_file or before.token_file,
            json=self.json or before.json,
        )

    def resolved(self, environment: Mapping[str, str] = os.environ) -> Options:
        """Return options with exactly one of server and path; the environment counts only if neither is given."""
        server, path = self.server, self.path
        if server is None and path is None:
            server = environment.get("WEFT_SERVER") or None
            path = Path(environment["WEFT_PATH"]) if environment.get("WEFT_PATH") else None
        if server is not None and path is not None:
            raise typer.BadParameter("a server and a path are given: which one is meant? (--server or --path)")
        return replace(self, server=None if path is not None else server or DEFAULT_SERVER, path=path)


def open_backend(options: Options) -> Backend:
    """Return the backend that the options name. A path that a service has open is reached through that service."""
    options = options.resolved()
    if options.path is None:
        assert options.server is not None, "there is a default"
        return _client(options.server, options)
    try:
        # Imported only here, because it imports the whole engine.
        backend: Backend = import_module("weft.cli.local").Local(options.path)
    except StateLocked as locked:
        address = served_at(options.path)
        if address is None:
            raise StateLocked(
                f'an engine is working on "{options.path}", and it has no service to talk to',
                detail=locked.detail,
                hint="Stop it to work on its path from here, or run it with: weft serve.",
            ) from locked
        return _client(address, options)
    return backend


def served_at(path: Path) -> str | None:
    """Return the address that a service has written to a state directory; None if there is none."""
    try:
        value = json.loads((path / ADDRESS_FILE).read_text(encoding="utf-8"))
        return str(value.get("value", value)["address"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def read_token(options: Options, environment: Mapping[str, str] = os.environ) -> str:
    """Return the token of the token file, else of the environment. The command line has none: others can read it."""
    if options.token_file is None:
        return environment.get("WEFT_TOKEN", "").strip()
    try:
        return options.token_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSetting(f'token file "{options.token_file}" cannot be read', detail=f"{error}.") from error


def _client(server: str, options: Options) -> Backend:
    client: Backend = import_module("weft.service.client").Client(server, token=read_token(options))
    return client
