"""What is measured, and what growth of it does not matter: names, titles, units, floors."""

from __future__ import annotations

import csv
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from tests.soak.verdict import Point

_MEGA = 1 << 20


class Unit(Enum):
    """How a number is shown (text, divisor, decimals), and what growth within the judged time is nothing."""

    MEMORY = ("MB", _MEGA, 1, 4 * _MEGA)
    BYTES = ("kB", 1024, 0, _MEGA / 16)
    FILES = ("", 1, 0, 20)
    THREADS = ("", 1, 0, 3)
    HANDLES = ("", 1, 0, 5)
    SECONDS = ("s", 1, 3, 0.05)
    NUMBER = ("", 1, 1, 0)

    @property
    def floor(self) -> float:
        """Growth that does not matter."""
        return float(self.value[3])

    @property
    def text(self) -> str:
        """Behind a number."""
        return str(self.value[0])

    @property
    def size(self) -> float:
        """What a number is divided by."""
        return float(self.value[1])

    def show(self, number: float) -> str:
        """A number with its unit."""
        text, size, decimals, _ = self.value
        return f"{number / size:,.{decimals}f}" + (f" {text}" if text else "")


@dataclass(frozen=True, slots=True)
class Series:
    """Something that is measured again and again."""

    name: str
    title: str
    unit: Unit
    exempt: str = ""
    """Why it may grow; empty if it may not."""


_MEASURES = {
    "rss": ("memory (RSS)", Unit.MEMORY),
    "own": ("memory without mapped files", Unit.MEMORY),
    "heap": ("heap after a collection", Unit.MEMORY),
    "threads": ("threads", Unit.THREADS),
    "fds": ("open files", Unit.HANDLES),
    "files": ("files", Unit.FILES),
    "bytes": ("bytes", Unit.BYTES),
}
_ENDINGS = {
    "batch.seconds": ("duration of a batch", Unit.SECONDS, ""),
    "batch.latency": ("latency, event time to commit", Unit.SECONDS, ""),
    "create.seconds": ("duration of a create, median", Unit.SECONDS, ""),
    "reopen.seconds": ("opening the state directory", Unit.SECONDS, ""),
    "step.seconds": ("duration of a step, mean", Unit.SECONDS, ""),
    "checkpoint.bytes": ("bytes of the newest checkpoint", Unit.BYTES, ""),
    "batches": ("batches", Unit.NUMBER, "a count"),
    "creates": ("queries created", Unit.NUMBER, "a count"),
    "drops": ("queries dropped", Unit.NUMBER, "a count"),
    "live": ("live queries", Unit.NUMBER, ""),
    "incidents": ("incidents", Unit.NUMBER, "a count"),
}
_EXEMPT = {
    "out": "rows of the queries that are compared in the end stay; folders of dropped queries are removed",
    "logs": "what the service and Spark print, which an operator rotates",
    "state/inputs": "names of input files are kept for a week after the file is gone (decision 0016)",
}


def describe(name: str) -> Series:
    """The series of this name: `<what>.<measure>`, or one of the few others."""
    if name in _ENDINGS:
        title, unit, exempt = _ENDINGS[name]
        return Series(name, title, unit, exempt)
    what, _, measure = name.rpartition(".")
    title, unit = _MEASURES[measure]
    return Series(name, f"{what}: {title}", unit, _EXEMPT.get(what, ""))


@dataclass(slots=True)
class Samples:
    """Measurements in the order in which they were made; safe to add to from any thread."""

    axis: str
    """What `at` counts: "seconds", "batches" or "queries"."""
    rows: list[dict[str, float]] = field(default_factory=list)
    restarts: list[float] = field(default_factory=list)
    """When a segment began, but for the first."""
    pauses: list[tuple[float, float]] = field(default_factory=list)
    """From when to when the load was another one: that time is shown, and not judged."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, at: float, values: Mapping[str, float]) -> None:
        """What was measured at a time; not everything is each time."""
        with self._lock:
            self.rows.append({"at": at, "segment": len(self.restarts), **values})

    def restart(self, at: float) -> None:
        """From here on it is another process."""
        with self._lock:
            self.restarts.append(at)

    @property
    def names(self) -> list[str]:
        """All series, in the order in which they came up."""
        with self._lock:
            return [
                name for name in dict.fromkeys(n for row in self.rows for n in row) if name not in ("at", "segment")
            ]

    def is_empty(self, name: str) -> bool:
        """Whether there was never anything of it."""
        return not any(point.value for point in self.points(name))

    def points(self, name: str) -> list[Point]:
        """One series."""
        with self._lock:
            return [Point(row["at"], row[name], int(row["segment"])) for row in self.rows if name in row]

    def judged_points(self, name: str) -> list[Point]:
        """One series without the pauses."""
        return [point for point in self.points(name) if not any(begin <= point.at <= end for begin, end in self.pauses)]

    def write_csv(self, path: Path) -> None:
        """All of it, a line for each time."""
        names = ["at", "segment", *self.names]
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(names)
            with self._lock:
                writer.writerows([_compact(row.get(name)) for name in names] for row in self.rows)


def _compact(number: float | None) -> str:
    if number is None:
        return ""
    return str(int(number)) if float(number).is_integer() else f"{number:.4g}" if number < 1000 else f"{number:.0f}"


def of_folders(prefix: str, sizes: Mapping[str, tuple[int, int]]) -> dict[str, float]:
    """Files and bytes of folders as values of series."""
    found: dict[str, float] = {}
    for name, (files, size) in sizes.items():
        found |= {f"{prefix}{name}.files": float(files), f"{prefix}{name}.bytes": float(size)}
    return found


def ordered(names: Iterable[str]) -> list[str]:
    """Processes first, then folders, then times and counts."""
    rank = ("driver", "java", "workers", "process", "opened", "state", "spark", "tmp", "out", "in", "logs")
    return sorted(names, key=lambda name: (_rank(name, rank), name))


def _rank(name: str, rank: tuple[str, ...]) -> int:
    what = name.rpartition(".")[0].split("/")[0].split(" ")[0]
    return rank.index(what) if what in rank else len(rank)
