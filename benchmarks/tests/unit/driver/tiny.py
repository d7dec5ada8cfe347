"""A workload so small that only the driver is measured, and plans for it with a system whose figures are known."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from weft_bench.driver.messages import QueryOrder
from weft_bench.driver.plan import CellPlan, Limits
from weft_bench.driver.releases import Factory
from weft_bench.driver.schedule import all_at_once
from weft_bench.paths import python_path
from weft_bench.workloads.model import StreamSpec, Workload

FACTORY = Factory("benchmarks.tests.unit.driver.tiny:workload")
COLUMNS = {"ts": "timestamp", "k": "bigint", "v": "int"}
FAKE = (sys.executable, "-m", "weft_bench.systems.fake")


def make(rng: np.random.Generator, numbers: np.ndarray) -> Mapping[str, pa.Array]:
    return {
        "k": pa.array(rng.integers(0, 100, len(numbers))),
        "v": pa.array(rng.integers(0, 10, len(numbers)).astype(np.int32)),
    }


def make_numbered(rng: np.random.Generator, numbers: np.ndarray) -> Mapping[str, pa.Array]:
    return {"k": pa.array(numbers), "v": pa.array(rng.integers(0, 10, len(numbers)).astype(np.int32))}


make_numbered.live = True  # type: ignore[attr-defined]


def workload(rows_per_second: int = 20_000, shares: tuple[float, ...] = (0.25, 0.75)) -> Workload:
    streams = tuple(StreamSpec(name, COLUMNS, make, share) for name, share in zip("AB", shares, strict=True))
    return Workload("tiny", "two streams", streams, queries=lambda _: (), rows_per_second=rows_per_second)


def query(name: str, *, observed: bool = False) -> QueryOrder:
    return QueryOrder(name, "SELECT 1", observed=observed, newest=("ts",))


def plan(folder: Path, *, queries: int = 1, settings: Mapping[str, str], **more: Any) -> CellPlan:
    names = [query(f"q{number}", observed=number == 0) for number in range(queries)]
    whole: dict[str, Any] = {
        "system": "fake",
        "command": FAKE,
        "workload": FACTORY,
        "opening": all_at_once(names),
        "folder": folder,
        "guess": 20_000.0,
        "base": 2_000.0,
        "settings": settings,
        "environment": {"PYTHONPATH": python_path()},
        "limits": Limits(start=60.0, request=10.0, opening=60.0),
    }
    return CellPlan(**(whole | more))
