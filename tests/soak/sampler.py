"""Measures a service every few seconds: its processes, its folders, its batches."""

from __future__ import annotations

import json
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.soak.clients import Churn, Worker
from tests.soak.measures import java_heap, processes, size_of, state_sizes
from tests.soak.series import Samples, of_folders
from tests.soak.site import ADMIN, Caller, Incidents, Site, SoakService
from tests.soak.streams import LATENESS_SECONDS, Feeder
from tests.soak.troubles import TROUBLED


class Sampler(Worker):
    """Adds a sample every `interval` seconds, and has input files removed that were read.

    Java's heap is measured every `heap_every` seconds only, because its garbage is collected for that.
    """

    def __init__(
        self, site: Site, service: SoakService, *, feeder: Feeder, churn: Churn, interval: float, heap_every: float
    ) -> None:
        super().__init__(site, "sampler")
        self._service, self._feeder, self._churn = service, feeder, churn
        self._interval, self._heap_every = interval, heap_every
        self._caller = Caller(site, ADMIN)
        self._heap_due = 0.0
        self._seen = -1
        self.samples = Samples("seconds")
        self.paused = False
        """Whether nothing is to be measured: the load is not the usual one."""
        self.batches = 0

    def run(self) -> None:
        """Measure until it is stopped; nothing is measured while the service is restarted."""
        due = time.monotonic()
        while not self.stopping.is_set():
            if self.site.wait(1.0) and not self.paused:
                self._sample()
            due = max(due + self._interval, time.monotonic())
            self.stopping.wait(due - time.monotonic())
        self._caller.close()

    def _sample(self) -> None:
        generation = self.site.generation
        values = self._of_batches(self._caller.ask("GET", "/v1/status"))
        values |= self._of_machine()
        self._tidy(self._caller.ask("GET", "/v1/streams"))
        if not self.paused and not self.site.is_excused(generation):
            self.samples.add(time.monotonic() - self.site.incidents.began, values)

    def _of_machine(self) -> dict[str, float]:
        assert self._service.process is not None
        pid, folder = self._service.process.pid, self._service.folder
        values = processes(pid)
        if time.monotonic() >= self._heap_due:
            values |= java_heap(pid)
            self._heap_due = time.monotonic() + self._heap_every
        values |= of_folders("", state_sizes(folder / "state"))
        return values | of_folders("", {name: size_of(folder / name) for name in ("spark", "tmp", "out", "in", "logs")})

    def _of_batches(self, status: Any) -> dict[str, float]:
        values = {
            "creates": float(self._churn.created),
            "drops": float(self._churn.dropped),
            "incidents": float(self.site.incidents.count),
        }
        if (duration := self._churn.take_durations()) is not None:
            values["create.seconds"] = duration
        if status is None:
            return values
        new = [batch for batch in status["history"] if batch["batch"] > self._seen]
        if new:
            self._seen = new[-1]["batch"]
            values["batch.seconds"] = sum(batch["seconds"] for batch in new) / len(new)
            late = [batch["latency_seconds"] for batch in new if batch["latency_seconds"] is not None]
            values |= {"batch.latency": sum(late) / len(late)} if late else {}
        self.batches = self._seen + 1
        return values | {"batches": float(self.batches), "live": float(status["live"])}

    def _tidy(self, answer: Any) -> None:
        if answer is not None:
            self._feeder.tidy(read_until(answer))


def read_until(answer: Any) -> dict[str, int]:
    """Up to which event time each stream is committed, in microseconds, from what the service says of its streams."""
    found = {}
    for stream in answer["streams"]:
        if stream["watermark"] is not None:
            moment = datetime.fromisoformat(stream["watermark"])
            micros = round(moment.timestamp() * 1_000_000)
            found[stream["name"]] = micros + LATENESS_SECONDS * 1_000_000
    return found


_SLOW = ("a query of it was dropped", "timeout graceful shutdown exceeded")
"""In errors that say no more than that the machine is slow: a batch was repeated because a drop had waited for ten
seconds, or a request had not ended five seconds after the service was told to stop."""


def scan_log(path: Path, incidents: Incidents) -> list[str]:
    """Errors in the log of the service are incidents, unless the machine is slow; returns the rest, counted."""
    rest: dict[str, int] = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
            level, event = record["level"], str(record["event"])
        except (ValueError, KeyError, TypeError):
            incidents.note(f"the log has a line that is not JSON: {line[:150]}")
            continue
        reason = f"{event.strip()} {record.get('error', '')}".strip()[:250]
        is_slow = any(text in event or text in str(record.get("trace", "")) for text in _SLOW)
        if TROUBLED in line:
            continue  # it fails on purpose
        if level in ("error", "critical") and not is_slow:
            incidents.note(f"the log has an error: {reason}")
        elif level not in ("debug", "info"):
            rest[f"{level} in the log: {reason}"] = rest.get(f"{level} in the log: {reason}", 0) + 1
    return [f"{number} ×, {text}" for text, number in rest.items()]
