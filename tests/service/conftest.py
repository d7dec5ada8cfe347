"""A real service in a process of its own, on a real Spark, with two streams that tests put rows into."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pyarrow as pa
import pyarrow.parquet
import pytest

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
WITHIN = 120.0
"""Seconds in which a service that works does anything; only what hangs takes longer."""
_SCHEMA = "ts TIMESTAMP, k BIGINT, v BIGINT"
_ADDRESS = re.compile(r'"address": "(http://[^"]+)"')


def wait_for(what: Callable[[], Any], within: float = WITHIN) -> Any:
    """Until something is true; what it is."""
    deadline = time.monotonic() + within
    while not (found := what()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)
    return found


@dataclass
class Service:
    """A service process and its folder."""

    folder: Path
    more: str = ""
    """What else the configuration says."""
    engine: str = ""
    """What else its section for the engine says."""
    address: str = ""
    written: int = 0
    process: subprocess.Popen[str] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    log_name: str = "service.log"
    clients: list[httpx2.Client] = field(default_factory=list)

    def configure(self) -> Path:
        path = self.folder / "weft.toml"
        streams = "".join(
            f'[[streams]]\nname = "{name}"\npath = "in/{name}"\nschema = "{_SCHEMA}"\ntime = "ts"\n'
            for name in ("a", "b")
        )
        path.write_text(
            f'[engine]\npath = "state"\ntrigger = "100 milliseconds"\n{self.engine}[spark]\nlog = "spark.log"\n'
            f"{self.more}\n{streams}",
            encoding="utf-8",
        )
        return path

    def start(self) -> None:
        log = open(self.folder / self.log_name, "a", encoding="utf-8")  # noqa: SIM115 the process has it
        self.process = subprocess.Popen(
            [sys.executable, "-m", "weft", "serve", "--config", str(self.configure()), "--port", "0"],
            stderr=log,
            stdout=log,
            text=True,
            env={**os.environ, **self.environment},
        )
        log.close()
        before = self.address
        self.address = wait_for(lambda: self._said(before))
        wait_for(self.ready)

    def _said(self, before: str) -> str:
        assert self.running, self.log()
        found = _ADDRESS.findall(self.log())
        return found[-1] if found and found[-1] != before else ""

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def ready(self) -> bool:
        assert self.running, self.log()
        try:
            return httpx2.get(f"{self.address}/ready", timeout=10).status_code == 200
        except httpx2.TransportError:
            return False

    def log(self) -> str:
        return (self.folder / self.log_name).read_text(encoding="utf-8")

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(how)
        try:
            return self.process.wait(WITHIN)
        finally:
            while self.clients:
                self.clients.pop().close()

    def put(self, stream: str, *rows: tuple[int, int], **columns: Any) -> None:
        """Rows (k, v), one second after the other, in one file; with more columns, or others in place of those."""
        folder = self.folder / "in" / stream
        folder.mkdir(parents=True, exist_ok=True)
        times = [BEGIN + timedelta(seconds=self.written + n) for n in range(len(rows))]
        self.written += len(rows)
        table = pa.table(
            {
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
                "k": pa.array([k for k, _ in rows], pa.int64()),
                "v": pa.array([v for _, v in rows], pa.int64()),
                **columns,
            }
        )
        hidden = folder / f".{self.written:09d}.tmp"
        pa.parquet.write_table(table, hidden)
        hidden.rename(folder / f"{self.written:09d}.parquet")

    def client(self, token: str = "") -> Client:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.clients.append(httpx2.Client(base_url=self.address, headers=headers, timeout=60))
        return Client(self.clients[-1])


@dataclass
class Client:
    """Requests, answered as expected or the test fails with the answer."""

    http: httpx2.Client

    def get(self, path: str, *, expect: int = 200, **query: Any) -> Any:
        return self._checked(self.http.get(path, params=query), expect)

    def post(self, path: str, body: Any, *, expect: int = 201) -> Any:
        return self._checked(self.http.post(path, json=body), expect)

    def delete(self, path: str, *, expect: int = 200) -> Any:
        return self._checked(self.http.delete(path), expect)

    def _checked(self, answer: httpx2.Response, expect: int) -> Any:
        assert answer.status_code == expect, (answer.status_code, answer.text)
        return answer.json()

    def create(self, sql: str, name: str | None = None) -> str:
        body = {"sql": sql} | ({"name": name} if name else {})
        return str(self.post("/v1/queries", body)["name"])

    def rows(self, name: str, count: int) -> list[list[Any]]:
        """All rows of a query, once there are so many."""
        return sorted(wait_for(lambda: self._rows(name, count)))

    def _rows(self, name: str, count: int) -> Sequence[list[Any]]:
        rows, cursor, more = list[list[Any]](), "0", True
        while more:
            page = self.get(f"/v1/queries/{name}/results", after=cursor)
            rows, cursor, more = rows + page["rows"], page["cursor"], page["more"]
        assert len(rows) <= count, rows
        return rows if len(rows) == count else []


def events(response: httpx2.Response) -> Iterator[tuple[str, str, Any]]:
    """Server-sent events as (kind, id, data)."""
    kind = id_ = data = ""
    for line in response.iter_lines():
        if line.startswith("event: "):
            kind = line[7:]
        elif line.startswith("id: "):
            id_ = line[4:]
        elif line.startswith("data: "):
            data = line[6:]
        elif not line and kind:
            yield kind, id_, json.loads(data)
            kind = id_ = data = ""
        elif not line:  # a heartbeat: a comment and an id
            id_ = ""


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service without tenants that tests share: their queries have names of their own."""
    made = Service(tmp_path_factory.mktemp("service"), more='[server]\nsinks = "out"')
    made.start()
    yield made
    made.stop()


@pytest.fixture
def client(service: Service) -> Client:
    return service.client()


@pytest.fixture
def own_service(tmp_path: Path) -> Iterator[Callable[..., Service]]:
    """Makes services that a test has for itself."""
    made: list[Service] = []

    def make(more: str = "", *, engine: str = "", **environment: str) -> Service:
        service = Service(tmp_path, more=more, engine=engine, environment=environment)
        made.append(service)
        service.start()
        return service

    yield make
    for each in made:
        if each.running:
            each.stop()
