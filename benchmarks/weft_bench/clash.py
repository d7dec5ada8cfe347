"""Overlapping joins of three and four relations, planned together, each alone, or not shared: `weft-bench clash`.

Queries are random connected parts of one graph of five relations and four joins, with a window and a selection each.
`together` is one engine that plans all of them; `alone` is one engine where each query has its own best orders and
equal steps are shared; `independent` is an engine per query. All get the same rows, a second of event time per batch,
each way in a process of its own, in turn. A batch of the independent engines takes as long as all of them together.
The number of rows of every query is compared among the three ways, that of the first with DuckDB too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from itertools import combinations
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from weft.engine import Engine
from weft.engine.inputs.declare import files
from weft.plan.changelog import QueryId
from weft.planner.joins.graph import Attribute, JoinInput, JoinQuery, Predicate, predicate_of
from weft.planner.joins.order_plan import ProbePlan
from weft.planner.joins.orders import plan_alone
from weft.planner.joins.planners import COSTS, Planner, plan_each_alone, plan_probes
from weft.planner.joins.statistics import Statistics
from weft.spark.session import local_session
from weft.spark.stream_frames import AVAILABLE_NOW
from weft.storage.bucket import Bucket
from weft_bench import optimizer
from weft_bench.paths import python_path
from weft_bench.weft_system import finished_batches

RELATIONS = 5
GRAPH = ((0, 1, 1, 0), (1, 1, 2, 0), (2, 1, 3, 0), (1, 2, 4, 0))
"""Joins there are, as in a schema of keys: relation and attribute on either side."""
WINDOW = 5
"""Seconds."""
ATTRIBUTES = optimizer.ATTRIBUTES
SCHEMA = f"ts timestamp, id bigint, {', '.join(f'a{at} bigint' for at in range(ATTRIBUTES))}, v int"
WAYS = ("together", "alone", "independent")
BAR_THROUGHPUT, BAR_MEMORY, BAR_PREDICTED = 2.6, 1 / 3, 0.20
WARM_UP = 0.25
"""Share of the batches that is not counted."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A run: how many queries, rows per second and stream, seconds of input."""

    queries: int
    rate: int
    seconds: int
    seed: int

    @property
    def keys(self) -> int:
        """So many that a tuple meets one partner in a window."""
        return self.rate * WINDOW


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one way has shown."""

    batch_seconds: float
    rows_per_second: float
    sent: float
    """Combinations sent to stores by the last second of input."""
    stored_rows: int
    stored_bytes: int
    counts: dict[str, int]
    """Rows of each query."""


def queries_of(setting: Setting) -> tuple[JoinQuery, ...]:
    """The workload: joins of three and of four relations in turn, connected parts of the graph; if there are more
    queries than parts, some differ only in their selection."""
    random = Random(setting.seed)
    inputs = [JoinInput(f"r{at:03}") for at in range(RELATIONS)]
    predicates = [
        predicate_of(Attribute(inputs[one], f"a{left}"), Attribute(inputs[other], f"a{right}"))
        for one, left, other, right in GRAPH
    ]
    parts = {size: [each for each in combinations(predicates, size - 1) if _is_connected(each)] for size in (3, 4)}
    for each in parts.values():
        random.shuffle(each)
    found = []
    for number in range(setting.queries):
        some = parts[3 + number % 2]
        chosen = some[number // 2 % len(some)]
        joined = sorted({side.input for p in chosen for side in (p.left, p.right)}, key=lambda each: each.text)
        found.append(JoinQuery(QueryId(f"q{number}"), tuple(joined), chosen))
    return tuple(found)


def _is_connected(predicates: Sequence[Predicate]) -> bool:
    """A tree of n joins connects n + 1 relations."""
    return len({side.input for each in predicates for side in (each.left, each.right)}) == len(predicates) + 1


def to_sql(query: JoinQuery, number: int) -> str:
    """As a user would write it; every query has a selection of its own."""
    names = {each: f"t{at}" for at, each in enumerate(query.inputs)}
    joined, text = {query.inputs[0]}, f"{query.inputs[0].stream} [RANGE {WINDOW} SECONDS] AS t0"
    left = list(query.predicates)
    while left:
        each = next(p for p in left if (p.left.input in joined) or (p.right.input in joined))
        left.remove(each)
        new = next((side.input for side in (each.left, each.right) if side.input not in joined), None)
        if new is None:
            text += f" AND {_condition(each, names)}"
            continue
        joined.add(new)
        text += f" JOIN {new.stream} [RANGE {WINDOW} SECONDS] AS {names[new]} ON {_condition(each, names)}"
    columns = ", ".join(f"{name}.id AS i{at}" for at, name in enumerate(names.values()))
    return f"SELECT {columns} FROM {text} WHERE t0.v < {95 - number % 5}"


def _condition(predicate: Predicate, names: dict[Any, str]) -> str:
    def side(each: Attribute) -> str:
        return f"{names[each.input]}.{each.name}"

    return f"{side(predicate.left)} = {side(predicate.right)}"


def generate(folder: Path, setting: Setting) -> None:
    """A file per stream and second."""
    random = np.random.default_rng(setting.seed)
    for relation in range(RELATIONS):
        where = folder / "data" / f"r{relation:03}"
        where.mkdir(parents=True)
        for second in range(setting.seconds):
            times = np.sort(random.integers(0, 1_000_000, setting.rate)) + second * 1_000_000
            columns: dict[str, Any] = {"ts": pa.array(times, pa.timestamp("us", "UTC"))}
            columns["id"] = np.arange(setting.rate) + second * setting.rate
            for at in range(ATTRIBUTES):
                columns[f"a{at}"] = random.integers(0, setting.keys, setting.rate)
            columns["v"] = random.integers(0, 100, setting.rate).astype(np.int32)
            pq.write_table(pa.table(columns), where / f"{second:05}.parquet")


def measure(setting: Setting, way: str, folder: Path) -> Outcome:
    """One way, in this process."""
    texts = [(f"q{at}", to_sql(query, at)) for at, query in enumerate(queries_of(setting))]
    groups = [[each] for each in texts] if way == "independent" else [texts]
    planner: Planner = plan_each_alone if way == "alone" else plan_probes
    spark = local_session()
    seconds, sent, buckets, counts = 0.0, 0, list[Bucket](), dict[str, int]()
    for at, group in enumerate(groups):
        with Engine(folder / f"state{at}", spark=spark, planner=planner) as engine:
            for relation in range(RELATIONS):
                name = f"r{relation:03}"
                if any(f"{name} [" in text for _, text in group):
                    source = files(folder / "data" / name, schema=SCHEMA, max_files_per_batch=1)
                    engine.stream(name, source, time="ts", lateness="0 seconds", max_ahead=None)
            engine.create_many(group)
            engine.start(AVAILABLE_NOW)
            engine.wait(1200)
            batches = finished_batches(engine)[round(WARM_UP * setting.seconds) :]
            seconds += median(batch.seconds for batch in batches)
            sent += sum(came for came, _ in engine.catalog.flows().values())
            buckets += engine.catalog.buckets()
            counts |= {query.name: sum(t.num_rows for t in query.tables(0, 1 << 62)) for query in engine.queries()}
    return Outcome(
        seconds,
        setting.rate * RELATIONS / seconds,
        sent,
        sum(bucket.rows for bucket in buckets),
        sum(bucket.bytes for bucket in buckets),
        counts,
    )


def predicted(setting: Setting) -> dict[str, float]:
    """Tuples sent per second of each way, as the optimizer sees it with the true statistics."""
    queries = queries_of(setting)
    inputs = {each for query in queries for each in query.inputs}
    true = Statistics(
        rates=dict.fromkeys(inputs, float(setting.rate)),
        selectivities={each: 1 / setting.keys for query in queries for each in query.predicates},
        kept=dict.fromkeys(inputs, timedelta(seconds=WINDOW)),
    )
    plans: dict[str, ProbePlan] = {
        "together": plan_probes(queries, true, None),
        "alone": plan_each_alone(queries, true, None),
    }
    found = {way: plan.probe_cost for way, plan in plans.items()}
    found["independent"] = sum(plan_alone(query, true, COSTS).probe_cost for query in queries)
    return found


def expected_count(setting: Setting, folder: Path, number: int) -> int:
    """Rows of one query, by DuckDB over all files."""
    query = queries_of(setting)[number]
    names = {each: f"t{at}" for at, each in enumerate(query.inputs)}
    tables = ", ".join(
        f"read_parquet('{folder / 'data' / each.stream}/*.parquet') AS {name}" for each, name in names.items()
    )
    conditions = [_condition(each, names) for each in query.predicates]
    times = ", ".join(f"{name}.ts" for name in names.values())
    conditions += [f"greatest({times}) - least({times}) < INTERVAL {WINDOW} SECONDS", f"t0.v < {95 - number % 5}"]
    row = duckdb.connect().execute(f"SELECT COUNT(*) FROM {tables} WHERE {' AND '.join(conditions)}").fetchone()
    assert row is not None
    return int(row[0])


@dataclass(frozen=True, slots=True)
class Report:
    """All ways of one setting."""

    setting: Setting
    ways: dict[str, Outcome]
    predicted: dict[str, float]
    equal: bool

    @property
    def throughput(self) -> float:
        """Together over independent."""
        return self.ways["together"].rows_per_second / self.ways["independent"].rows_per_second

    @property
    def memory(self) -> float:
        """Together over independent, in bytes of state."""
        return self.ways["together"].stored_bytes / self.ways["independent"].stored_bytes

    @property
    def sent(self) -> tuple[float, float]:
        """Tuples sent together over independent: measured and predicted."""
        return (
            self.ways["together"].sent / self.ways["independent"].sent,
            self.predicted["together"] / self.predicted["independent"],
        )

    @property
    def bars(self) -> dict[str, bool]:
        """What had to be shown, and whether it was."""
        measured, told = self.sent
        return {
            "all ways give the same rows, and DuckDB as many": self.equal,
            f"throughput ≥ {BAR_THROUGHPUT} × independent": self.throughput >= BAR_THROUGHPUT,
            "state ≤ 1/3 of independent": self.memory <= BAR_MEMORY,
            "tuples sent fall as predicted within 20 %": abs(measured / told - 1) <= BAR_PREDICTED,
        }


def run(setting: Setting, rounds: int, console: Console) -> Report:
    """All ways in turn, each in a process of its own; the median round of each."""
    found: dict[str, list[Outcome]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory(prefix="weft-clash-") as base:
        data = Path(base) / "data-of-all"
        generate(data, setting)
        for turn in range(rounds):
            for way in WAYS:
                outcome = _child(setting, way, Path(base) / f"{way}{turn}", data)
                found[way].append(outcome)
                what = f"{setting.queries} queries, round {turn + 1}, {way}"
                console.print(f"{what}: {outcome.batch_seconds * 1000:,.0f} ms per batch")
        counts = [outcome.counts for each in found.values() for outcome in each]
        equal = all(each == counts[0] for each in counts) and counts[0]["q0"] == expected_count(setting, data, 0)
    ways = {way: sorted(each, key=lambda one: one.batch_seconds)[len(each) // 2] for way, each in found.items()}
    return Report(setting, ways, predicted(setting), equal)


def _child(setting: Setting, way: str, folder: Path, data: Path) -> Outcome:
    folder.mkdir()
    (folder / "data").symlink_to(data / "data")
    asked = json.dumps({"setting": asdict(setting), "way": way, "folder": str(folder)})
    command = [sys.executable, "-m", "weft_bench.clash", "--child", asked]
    environment = os.environ | {"PYTHONPATH": python_path()}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise RuntimeError(f"{way} failed: {done.stderr[-2000:]}")
    return Outcome(**json.loads(done.stdout.splitlines()[-1]))


def to_table(report: Report) -> Table:
    """For the terminal."""
    setting = report.setting
    table = Table(title=f"{setting.queries} queries, {setting.rate:,} rows/s and stream, {RELATIONS} streams")
    for heading in ("way", "batch ms", "rows/s", "sent/s", "predicted", "stored rows", "state MB"):
        table.add_column(heading, justify="left" if heading == "way" else "right")
    for way, outcome in report.ways.items():
        table.add_row(
            way,
            f"{outcome.batch_seconds * 1000:,.0f}",
            f"{outcome.rows_per_second:,.0f}",
            f"{outcome.sent:,.0f}",
            f"{report.predicted[way]:,.0f}",
            f"{outcome.stored_rows:,}",
            f"{outcome.stored_bytes / (1 << 20):,.1f}",
        )
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 if all that had to be shown was."""
    parser = argparse.ArgumentParser(prog="weft-bench clash", description=__doc__)
    parser.add_argument("--queries", type=int, nargs="+", default=[5, 10])
    parser.add_argument("--rate", type=int, default=20_000, help="rows per second and stream")
    parser.add_argument("--seconds", type=int, default=16, help="of input, a second per batch")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, default=Path("bench-out/clash.json"))
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        asked = json.loads(options.child)
        outcome = measure(Setting(**asked["setting"]), asked["way"], Path(asked["folder"]))
        sys.stdout.write(json.dumps(asdict(outcome)) + "\n")
        return 0
    console = Console(width=120)
    reports = []
    for queries in options.queries:
        report = run(Setting(queries, options.rate, options.seconds, options.seed), options.rounds, console)
        reports.append(report)
        console.print(to_table(report))
        measured, told = report.sent
        console.print(
            f"together over independent: {report.throughput:.2f} × throughput, {report.memory:.2f} × state, "
            f"{measured:.2f} × tuples sent (predicted {told:.2f})"
        )
        for bar, met in report.bars.items():
            console.print(f"{'met   ' if met else 'MISSED'} {bar}")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps([asdict(report) | {"bars": report.bars} for report in reports], indent=2))
    return 0 if all(met for report in reports for met in report.bars.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
