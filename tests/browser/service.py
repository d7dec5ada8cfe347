"""A real service on a real Spark, with two streams that are fed while it runs."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

ROOT = Path(__file__).parents[2]
PATIENCE = 180.0
_USERS = 40
_SCHEMAS = {
    "purchases": pa.schema([("ts", pa.timestamp("us", "UTC")), ("user_id", pa.int64()), ("price", pa.float64())]),
    "ads": pa.schema([("ts", pa.timestamp("us", "UTC")), ("user_id", pa.int64()), ("length", pa.int32())]),
}
_CONFIG = """
[server]
port = {port}

[engine]
path = "state"
trigger = "500 milliseconds"
partitions = 2

[spark]
master = "local[2]"
log = "spark.log"

[[streams]]
name = "purchases"
format = "parquet"
path = "in/purchases"
schema = "ts TIMESTAMP, user_id BIGINT, price DOUBLE"
time = "ts"
lateness = "1 second"

[[streams]]
name = "ads"
format = "parquet"
path = "in/ads"
schema = "ts TIMESTAMP, user_id BIGINT, length INT"
time = "ts"
lateness = "1 second"
"""
_TENANT = """
[[tenants]]
name = "{name}"
token = "{token}"
"""


@dataclass(frozen=True, slots=True)
class Service:
    """Where the service is, and what tests ask of it behind the browser's back."""

    url: str
    token: str = ""

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """The answer to a request; raises urllib's HTTPError."""
        headers = {"Content-Type": "application/json"} | (
            {"Authorization": f"Bearer {self.token}"} if self.token else {}
        )
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def names(self) -> list[str]:
        """Of the queries that are live or pending."""
        return [query["name"] for query in self.ask("GET", "/v1/queries")["queries"]]

    def have(self, queries: Mapping[str, str]) -> None:
        """Wait until exactly these queries, texts by name, are live."""
        for name in set(self.names()) - set(queries):
            self.ask("DELETE", f"/v1/queries/{name}")
        missing = [{"name": name, "sql": queries[name]} for name in queries if name not in self.names()]
        if missing:
            self.ask("POST", "/v1/queries/many", {"queries": missing})
        wait_for(lambda: sorted(self._live()) == sorted(queries), "the queries to be live, and no others")
        wait_for(lambda: sorted(self._planned()) == sorted(queries), "the plan to be theirs")

    def _live(self) -> Sequence[str]:
        queries = self.ask("GET", "/v1/queries")["queries"]
        return [query["name"] if query["state"] == "live" else "" for query in queries]

    def _planned(self) -> Sequence[str]:
        return [node["title"] for node in self.ask("GET", "/v1/plan")["nodes"] if node["kind"] == "query"]


def wait_for(condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Wait until something holds; fail with its name otherwise."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:.0f} seconds for {what}")
        time.sleep(0.1)


@contextmanager
def serve(folder: Path, tenants: Mapping[str, str] | None = None) -> Iterator[Service]:
    """Run a service in a folder of its own until the end of the block; `tenants` are tokens by name."""
    port = _free_port()
    text = _CONFIG.format(port=port)
    text += "".join(_TENANT.format(name=name, token=token) for name, token in (tenants or {}).items())
    (folder / "weft.toml").write_text(text, encoding="utf-8")
    program = shutil.which("weft", path=str(Path(sys.executable).parent))
    assert program is not None, "the command weft is installed with the package"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with _fed(folder / "in"), (folder / "service.log").open("wb") as log:
        command = [program, "serve", "--config", str(folder / "weft.toml")]
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment, cwd=folder)
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(lambda: _is_ready(url, process, folder), "the service to be ready")
            yield Service(url)
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _is_ready(url: str, process: subprocess.Popen[bytes], folder: Path) -> bool:
    if process.poll() is not None:
        said = (folder / "service.log").read_text(encoding="utf-8", errors="replace")
        raise AssertionError(f"the service ended with status {process.returncode}:\n{said[-4000:]}")
    try:
        with urllib.request.urlopen(f"{url}/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:  # not there yet, or 503
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _fed(folder: Path) -> Iterator[None]:
    """Small files for both streams, twice a second; one row of the ads is a year ahead."""
    stop = threading.Event()

    def feed() -> None:
        chance = random.Random(7)
        number = 0
        while not stop.is_set():
            for name in _SCHEMAS:
                table = _rows(name, chance)
                if name == "ads" and not number:
                    table = pa.concat_tables([table, _rows(name, chance, 1, ahead=timedelta(days=365))])
                _put(folder / name, number, table)
            number += 1
            stop.wait(0.5)

    for name in _SCHEMAS:
        (folder / name).mkdir(parents=True)
    thread = threading.Thread(target=feed, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _rows(stream: str, chance: random.Random, number: int = 60, ahead: timedelta = timedelta(0)) -> pa.Table:
    now = datetime.now(UTC) + ahead
    values = (lambda: chance.uniform(0, 100)) if stream == "purchases" else (lambda: chance.randint(1, 30))
    columns = [
        [now - timedelta(milliseconds=chance.randint(0, 500)) for _ in range(number)],
        [chance.randint(1, _USERS) for _ in range(number)],
        [values() for _ in range(number)],
    ]
    schema = _SCHEMAS[stream]
    return pa.table([pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)], schema)


def _put(folder: Path, number: int, table: pa.Table) -> None:
    """Written aside and renamed: a file is there whole or not at all."""
    hidden = folder / f".{number:06d}"
    pa.parquet.write_table(table, hidden)
    hidden.rename(folder / f"{number:06d}.parquet")
