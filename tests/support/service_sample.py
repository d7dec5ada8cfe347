"""A service on a real state directory, with batches run by the stages themselves: all but Spark and HTTP is real."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from tests.support.engine_sample import run_batch, stream
from weft.engine.catalog import Catalog
from weft.engine.core import Core
from weft.plan.stream import Stream
from weft.service.config import Config, EngineSection, ServerSection, StreamSpec
from weft.service.health import Standing, State
from weft.service.observer import Observer
from weft.service.service import Service
from weft.service.tenancy.tenants import Tenants
from weft.storage.directory import Directory


class Here:
    """A host without Spark."""

    def __init__(self, path: Path) -> None:
        core = Core(Directory.open(path))
        for name in "ab":
            core.add_stream(stream(name))
        self.catalog = Catalog(core)
        self.catalog.is_running = lambda: True
        self.on_batch: Callable[[], None] = lambda: None
        self.observer = Observer(self.catalog, summaries=tuple, on_batch=lambda: self.on_batch())  # noqa: PLW0108 set later
        self.standing = Standing(State.RUNNING)
        self.added: list[StreamSpec] = []
        self.dropped: list[str] = []

    def add_stream(self, spec: StreamSpec) -> Stream:
        self.added.append(spec)
        return next(iter(self.catalog.declared_streams().values()))

    def drop_stream(self, name: str, *, cascade: bool) -> None:
        self.dropped.append(name)

    def start(self) -> None:
        self.observer.start()

    def stop(self) -> None:
        self.observer.stop()

    def batch(self, **inputs: pa.RecordBatch) -> None:
        found: Mapping[str, Sequence[pa.RecordBatch]] = {name: [rows] for name, rows in inputs.items()}
        run_batch(self.catalog.core, found)


def make_service(
    path: Path, tenants: Tenants | None = None, *, server: ServerSection | None = None
) -> tuple[Service, Here]:
    host = Here(path)
    config = Config(engine=EngineSection(path=path), server=server or ServerSection())
    return Service(config, host, tenants or Tenants({}, ())), host
