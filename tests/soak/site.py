"""The service of a soak: its configuration, when it is down on purpose, and what its clients complain of."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from tests.service.conftest import Service
from tests.soak.streams import LATENESS_SECONDS, STREAMS

KEEP_RESULTS = "1 minute"
SINK_PATIENCE = "2 minutes"
"""Some sinks fail on purpose: results that are kept for them must not pile up."""
TOKENS = {"shop": "soak-shop-token", "ads": "soak-ads-token", "ops": "soak-ops-token"}
ADMIN = "ops"
_NAMES = re.compile(r"(?<=guest)\d+|(?<=trouble-query)\d+|(?<=trouble-sink)\d+|(?<=extra)\d+(-\d+)?")
_TIMEOUT = 60.0
_CONFIG = """
[server]
sinks = "out"
inputs = ["in"]
[engine]
path = "state"
trigger = "500 milliseconds"
partitions = 2
keep_results = "{keep_results}"
sink_patience = "{sink_patience}"
[spark]
master = "local[2]"
log = "logs/spark.log"
[spark.settings]
"spark.driver.memory" = "1g"
"spark.local.dir" = "{folder}/spark"
"spark.driver.defaultJavaOptions" = "-Djava.io.tmpdir={folder}/tmp"
[limits]
live_queries = 1000
creates_per_minute = 6000
"""
_TENANT = """[[tenants]]
name = "{name}"
token = "{token}"
admin = {admin}
"""
_STREAM = """[[streams]]
name = "{name}"
format = "{format}"
path = "in/{name}"
schema = "{schema}"
time = "ts"
lateness = "{lateness} seconds"
"""


@dataclass
class SoakService(Service):
    """A service with tenants and four streams, whose temporary files have folders of their own."""

    def __post_init__(self) -> None:
        for name in ("spark", "tmp", "logs", "out", *(f"in/{stream.name}" for stream in STREAMS)):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.log_name = "logs/service.log"
        self.environment = {"TMPDIR": str(self.folder / "tmp"), "SPARK_LOCAL_DIRS": str(self.folder / "spark")}

    def configure(self) -> Path:
        path = self.folder / "weft.toml"
        text = _CONFIG.format(folder=self.folder, keep_results=KEEP_RESULTS, sink_patience=SINK_PATIENCE)
        for name, token in TOKENS.items():
            text += _TENANT.format(name=name, token=token, admin=str(name == ADMIN).lower())
        for each in STREAMS:
            text += _STREAM.format(
                name=each.name, format=each.format, schema=each.ddl, lateness=LATENESS_SECONDS
            )  # fmt: skip
        path.write_text(text, encoding="utf-8")
        return path


@dataclass(slots=True)
class Incidents:
    """What must not happen, and when it did."""

    began: float = field(default_factory=time.monotonic)
    found: dict[str, list[float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, text: str) -> None:
        """Something happened; numbers of guests are left out, so that what is the same is counted as the same."""
        with self._lock:
            known = _NAMES.sub("…", text)[:300]
            self.found.setdefault(known, []).append(time.monotonic() - self.began)

    @property
    def count(self) -> int:
        """How many there were."""
        with self._lock:
            return sum(map(len, self.found.values()))


class Site:
    """Where the service is. While it is restarted, clients wait, and what fails then is no incident."""

    def __init__(self, incidents: Incidents) -> None:
        self.incidents = incidents
        self.address = ""
        self.generation = 0
        self.has_no_input = False
        """Whether no rows are written at the moment."""
        self._up = threading.Event()

    def opened(self, address: str) -> None:
        """The service is ready."""
        self.address = address
        self.generation += 1
        self._up.set()

    def closing(self) -> None:
        """The service will be stopped."""
        self._up.clear()

    def wait(self, seconds: float) -> bool:
        """Whether it is up, at the latest after so many seconds."""
        return self._up.wait(seconds)

    def is_excused(self, generation: int) -> bool:
        """Whether a request that began in this generation may have failed."""
        return not self._up.is_set() or generation != self.generation

    def complain(self, generation: int, text: str) -> None:
        """A request has failed."""
        if not self.is_excused(generation):
            self.incidents.note(text)


class Caller:
    """Requests of one tenant by one thread; what the service answers wrongly is noted."""

    def __init__(self, site: Site, tenant: str) -> None:
        self._site = site
        self.headers = {"Authorization": f"Bearer {TOKENS[tenant]}"}
        self._client: httpx2.Client | None = None
        self._generation = 0

    def ask(
        self, method: str, path: str, *, body: Any = None, params: Mapping[str, Any] | None = None, also: int = 0
    ) -> Any:
        """The answer as a value, or None if there is none; `also` is another status that is expected."""
        if not self._site.wait(_TIMEOUT):
            return None
        generation, client = self._connected()
        try:
            answer = client.request(method, path, json=body, params=dict(params or {}))
        except httpx2.HTTPError as error:
            self._site.complain(generation, f"{method} {path}: {type(error).__name__} {error}")
            return None
        if answer.is_success:
            json = answer.headers.get("content-type", "").startswith("application/json")
            return answer.json() if json else answer.text
        if answer.status_code != also:
            self._site.complain(generation, f"{method} {path}: status {answer.status_code}: {answer.text[:200]}")
        return None

    def _connected(self) -> tuple[int, httpx2.Client]:
        if self._client is None or self._generation != self._site.generation:
            self.close()
            self._generation = self._site.generation
            self._client = httpx2.Client(base_url=self._site.address, headers=self.headers, timeout=_TIMEOUT)
        return self._generation, self._client

    def close(self) -> None:
        """Give the connection up."""
        if self._client is not None:
            self._client.close()
            self._client = None
