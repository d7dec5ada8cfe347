"""A run that never was, with all that reports have to show: winners and losers, limits, failures, rounds."""

from __future__ import annotations

import math
from dataclasses import replace

from weft_bench.record import Attempt, Cell, Run, Sample, Spread

GIGABYTE = 1 << 30
SPEEDS = {
    "weft": {1: 1_900_000.0, 5: 1_750_000.0, 20: 1_400_000.0, 100: 900_000.0, 1000: 150_000.0},
    "spark": {1: 110_000.0, 5: 40_000.0, 20: 8_000.0},
    "flink": {1: 980_000.0, 5: 190_000.0, 20: 30_000.0},
}
LIMITS = {1: 9_000_000.0, 5: 4_000_000.0, 20: 2_500_000.0, 100: 1_200_000.0}


def spread(middle: float, *, count: float = 1000.0) -> Spread:
    return Spread(
        count=count,
        average=middle * 1.1,
        least=middle * 0.3,
        p50=middle,
        p90=middle * 1.6,
        p95=middle * 1.9,
        p99=middle * 2.6,
        most=middle * 4.0,
    )


def samples(rate: float, middle: float) -> tuple[Sample, ...]:
    def sample(second: int) -> Sample:
        searching = 30 <= second < 90
        now = rate * (0.1 if second < 30 else 1.2 if second % 30 < 15 and searching else 0.9)
        late = middle * (1 + 0.3 * math.sin(second / 3)) + (2 * (second % 30) / 15 if searching else 0)
        return Sample(
            at=float(second),
            rate=now,
            pulled=min(now, rate),
            queries=min(second, 20),
            latency=late if second % 7 else None,
            waiting=int(now - min(now, rate)),
            memory=2 * GIGABYTE,
            cores=1.8,
        )

    return tuple(sample(second) for second in range(120))


def cell(system: str, queries: int, rate: float, *, middle: float = 0.4) -> Cell:
    attempts = (
        Attempt(rate * 1.25, rate, 0.4, spread(3 * middle), sustained=False, why="latency grows by 0.4 s per second"),
        Attempt(rate, rate, 0.001, spread(middle), sustained=True),
    )
    return Cell(
        system=system,
        queries=queries,
        sustainable=rate,
        overall=rate * queries * 1.05,
        slowest=rate * 1.05,
        attempts=attempts,
        event_latency=spread(middle),
        processing_latency=spread(middle / 2),
        deployment=spread(middle * 0.7, count=queries),
        removal=spread(middle * 0.5, count=queries),
        query_throughput=min(100.0, queries * 1.5),
        latency_before=spread(middle * 0.9),
        latency_during=spread(middle * 1.3),
        cores=1.7,
        peak_memory=int(GIGABYTE * (1.2 + math.log10(queries))),
        bytes_shuffled=123_456_789,
        state_bytes=45_678,
        samples=samples(rate, middle),
    )


def limit(system: str, queries: int, rate: float) -> Cell:
    return Cell(system, queries, overall=rate * queries, slowest=rate, peak_memory=GIGABYTE, note="one pass, 2 M rows")


def cells() -> tuple[Cell, ...]:
    middles = {"weft": 0.4, "spark": 1.5, "flink": 0.12}
    found = [
        cell(system, queries, rate, middle=middles[system] * (1 + queries / 100))
        for system, speeds in SPEEDS.items()
        for queries, rate in speeds.items()
    ]
    failed = [
        Cell("flink", 100, failure="Java heap space", peak_memory=8 * GIGABYTE),
        Cell("spark", 100, failure="could not keep up with 1,000 rows/s"),
        Cell("flink", 1000, failure="not tried: it failed with 100 queries"),
        Cell("spark", 1000, failure="not tried: it failed with 100 queries"),
    ]
    return (*found, *failed, *(limit("duckdb", queries, rate) for queries, rate in LIMITS.items()))


def run() -> Run:
    return Run(
        experiment="sc1",
        title="SC1: queries come until so many are live, then stay",
        at="2025-01-02T03:04:05+00:00",
        machine={"cores": 2, "memory": 24 * GIGABYTE, "python": "3.11.9", "pyspark": "4.0.1"},
        settings={
            "command": ["weft-bench", "run", "sc1", "--systems", "weft,spark,flink"],
            "systems": ["weft", "spark", "flink", "duckdb"],
            "creates_per_second": 100.0,
            "parameters": {"keys": "1000"},
            "base_rate": None,
        },
        cells=cells(),
    )


def with_cells(*chosen: Cell, **settings: object) -> Run:
    return replace(run(), cells=chosen, settings=dict(run().settings) | settings)
