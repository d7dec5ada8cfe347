"""What driver and generator say to each other: one JSON object per line on the generator's standard streams."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from weft_bench.driver.profile import Constant, Profile
from weft_bench.driver.profile import from_json as profile_from_json
from weft_bench.driver.profile import to_json as profile_to_json
from weft_bench.workloads.model import Workload


@dataclass(frozen=True, slots=True)
class Factory:
    """Where a workload comes from, so that another process can make the same: `module:function` and its arguments."""

    path: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def load(self) -> Workload:
        """The workload; raises ValueError where there is none."""
        module, _, name = self.path.partition(":")
        workload = getattr(importlib.import_module(module), name)(**self.parameters)
        if not isinstance(workload, Workload):
            raise ValueError(f"{self.path} gives {type(workload).__name__}, not a workload")
        return workload


@dataclass(frozen=True, slots=True)
class GeneratorOrder:
    """What a generator is started with."""

    workload: Factory
    feed: str
    """The folder with one folder per stream."""
    interval: float = 0.25
    """Seconds from file to file."""
    profile: Profile = field(default_factory=Constant)


@dataclass(frozen=True, slots=True)
class Rate:
    """From now on `rate` rows of all streams together are due per second; the profile begins again."""

    rate: float


@dataclass(frozen=True, slots=True)
class Hold:
    """Nothing is due any more; event time stands still."""


@dataclass(frozen=True, slots=True)
class Saturate:
    """Whatever the clock says, have `ahead` rows waiting, in files of `file` rows."""

    ahead: float
    file: float


@dataclass(frozen=True, slots=True)
class Passed:
    """How many rows the slowest reader has passed since the beginning."""

    rows: int


@dataclass(frozen=True, slots=True)
class End:
    """End in good order."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Rows can be made now."""


@dataclass(frozen=True, slots=True)
class Released:
    """A file of every stream is where systems find it. Moments are seconds since 1970."""

    number: int
    rows: Mapping[str, tuple[int, int]]
    """By stream: the number of its first row, and of the first that is not in it."""
    event: tuple[int, int]
    """Event times (microseconds since 1970): the first that may be in it, and the first of the next file."""
    due: tuple[float, float]
    """When its first event time was due, and when its last: linear between them."""
    at: float
    late: float
    """Seconds after the tick of the clock that it was for: more than a second, and the generator cannot keep up."""


Command = Rate | Hold | Saturate | Passed | End
Answer = Prepared | Released
_KINDS: Mapping[str, type[Any]] = {
    kind.__name__.lower(): kind for kind in (Rate, Hold, Saturate, Passed, End, Prepared, Released)
}


def to_line(message: Command | Answer) -> str:
    """A message as a line, without its end."""
    return json.dumps({"say": type(message).__name__.lower()} | asdict(message))


def from_line(line: str) -> Command | Answer:
    """The inverse of `to_line`; raises ValueError for what is no message."""
    value = json.loads(line)
    kind = _KINDS.get(value.pop("say", "")) if isinstance(value, dict) else None
    if kind is None:
        raise ValueError(f"no such message: {line[:200]}")
    if kind is Released:
        value["rows"] = {name: (first, last) for name, (first, last) in value["rows"].items()}
        value |= {"event": tuple(value["event"]), "due": tuple(value["due"])}
    message: Command | Answer = kind(**value)
    return message


def order_to_line(order: GeneratorOrder) -> str:
    """An order as a line, without its end."""
    return json.dumps(asdict(order) | {"profile": profile_to_json(order.profile)})


def order_from_line(line: str) -> GeneratorOrder:
    """The inverse of `order_to_line`."""
    value = json.loads(line)
    made = {"workload": Factory(**value["workload"]), "profile": profile_from_json(value["profile"])}
    return GeneratorOrder(**(value | made))
