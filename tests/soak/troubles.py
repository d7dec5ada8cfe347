"""Those who cause trouble in a soak: streams that come and go, queries that fail, sinks that cannot be written to."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from tests.soak.clients import Worker
from tests.soak.site import ADMIN, Caller, Site

TROUBLED = "trouble"
"""In the names of all that fails on purpose: what the log says of it is no incident."""
_PERIOD = 10.0
"""Seconds between two rounds."""
_PATIENCE = 120.0
"""Seconds in which something happens, if it happens at all."""
_NAMES = 3
"""Streams have the names of some that were dropped before."""
_ROWS = 20


class Trouble(Worker):
    """Rounds of something, one after the other."""

    def __init__(self, site: Site, name: str, *tenants: str) -> None:
        super().__init__(site, name)
        self.callers = {tenant: Caller(site, tenant) for tenant in tenants}
        self.rounds = 0
        """How many there were from beginning to end."""

    def run(self) -> None:
        """Round after round, until it is stopped."""
        for number in count():
            if self.stopping.is_set():
                break
            if self.site.wait(1.0):
                generation = self.site.generation
                if self.round(number):
                    self.rounds += 1
                elif not self.stopping.is_set():
                    self.site.complain(generation, f"{type(self).__name__}: it did not happen: {self.missing}")
            self.stopping.wait(_PERIOD)
        for caller in self.callers.values():
            caller.close()

    missing = ""
    """What is waited for."""

    def round(self, number: int) -> bool:
        """One round; whether it went as it should."""
        raise NotImplementedError

    def wait_for(self, what: str, seen: Callable[[], Any]) -> bool:
        """Whether something is seen in good time."""
        self.missing, deadline = what, time.monotonic() + _PATIENCE
        while not (found := seen()) and time.monotonic() < deadline:
            if self.stopping.wait(0.5):
                break
            if self.site.has_no_input:  # most of what is waited for comes with rows
                deadline = time.monotonic() + _PATIENCE
        return bool(found)


class Streams(Trouble):
    """Declares a stream with rows, has a query over it, and drops both."""

    def __init__(self, site: Site, folder: Path) -> None:
        super().__init__(site, "streams", ADMIN, "shop")
        self._folder = folder

    def round(self, number: int) -> bool:
        """A stream, a query, its rows, and the end of both."""
        name = f"extra{number % _NAMES}"
        folder = self._folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        spec = {"name": name, "path": str(folder), "schema": "ts TIMESTAMP, v BIGINT", "time": "ts"}
        admin, shop = self.callers[ADMIN], self.callers["shop"]
        # A restart may have come between the declaration and the end of an earlier round.
        admin.ask("DELETE", f"/v1/streams/{name}", params={"cascade": "true"}, also=404)
        if admin.ask("POST", "/v1/streams", body=spec) is None:
            self.missing = "a stream is declared"
            return False
        query = f"of-{name}-{number}"
        shop.ask("POST", "/v1/queries", body={"sql": f"SELECT v FROM {name} WHERE v >= 0", "name": query})
        _put(folder)
        path = f"/v1/queries/{query}/results"
        came = self.wait_for("rows of a new stream", lambda: len((shop.ask("GET", path) or {"rows": ()})["rows"]))
        dropped = admin.ask("DELETE", f"/v1/streams/{name}", params={"cascade": "true"}, also=404)
        return came and dropped is not None


def _put(folder: Path) -> None:
    now = time.time_ns() // 1000
    times = pa.array([now + n for n in range(_ROWS)], pa.timestamp("us", "UTC"))
    pa.parquet.write_table(pa.table({"ts": times, "v": pa.array(range(_ROWS), pa.int64())}), folder / ".next")
    (folder / ".next").rename(folder / "rows.parquet")


class Failing(Trouble):
    """Creates queries that fail on some row, and reads what they say."""

    def __init__(self, site: Site) -> None:
        super().__init__(site, "failing", "ads")

    def round(self, number: int) -> bool:
        """One such query."""
        name, ads = f"{TROUBLED}-query{number}", self.callers["ads"]
        sql = f"SELECT user_id FROM orders WHERE 10 / (n - {number % 9}) > 0"
        ads.ask("POST", "/v1/queries", body={"sql": sql, "name": name})
        path = f"/v1/queries/{name}"
        failed = self.wait_for(
            "a query that divides by zero fails", lambda: (ads.ask("GET", path) or {}).get("state") == "failed"
        )
        # The results of a query that has waited through the time without input may not be kept any more.
        ads.ask("GET", f"{path}/results", also=410)
        return failed


class Sinks(Trouble):
    """Takes the folder of a query's sink away, waits until that is said, and drops the query."""

    def __init__(self, site: Site, out: Path) -> None:
        super().__init__(site, "sinks", "shop")
        self._out = out

    def round(self, number: int) -> bool:
        """One such query."""
        name, shop = f"{TROUBLED}-sink{number}", self.callers["shop"]
        shop.ask("POST", "/v1/queries", body={"sql": "SELECT user_id FROM orders", "name": name, "deliver": True})
        path = f"/v1/queries/{name}"
        found = list((self._out / "shop").glob(f"*{name}-q*"))
        for folder in found:
            shutil.rmtree(folder, ignore_errors=True)
            folder.write_text("not a folder")
        said = self.wait_for("a sink fails", lambda: (shop.ask("GET", path) or {}).get("sink_error"))
        shop.ask("DELETE", path)
        for folder in found:
            folder.unlink(missing_ok=True)
        return said
