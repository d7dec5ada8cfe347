"""A chain of four relations on weft, and as cascaded joins in plain Structured Streaming: `weft-bench chain`.

a ⋈ b ⋈ c ⋈ d, all within a window, one query. Both systems get the same files, one per stream and batch, and run in
turn, each in a process of its own. Then late materialization: the bytes that a chain of three with a fan-out of 100
sends from one probe stage to the next as matched lists, and what they would be as rows; that needs no Spark.
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
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from weft.engine import Engine
from weft.engine.core import Core
from weft.engine.inputs.declare import files
from weft.engine.inputs.stream_store import save_stream
from weft.execution.join.row_references import RowParts
from weft.execution.stages import run_here
from weft.plan.stream import FrameSource, Stream
from weft.spark.session import local_session, own_session
from weft.spark.stream_frames import AVAILABLE_NOW
from weft.sql import bind, parse_schema
from weft.storage.combinations import Member, open_combinations
from weft.storage.directory import Directory
from weft_bench.measure import rate_alone, to_batch
from weft_bench.paths import python_path
from weft_bench.run import largest_heap
from weft_bench.weft_system import finished_batches

STREAMS = ("a", "b", "c", "d")
SCHEMA = "ts timestamp, k bigint, j bigint, v int, note string"
NOTE = "what a row carries beside its keys: forty bytes"[:40]
BAR_SPEED, BAR_BYTES = 5.0, 3.0
FAN_OUT = 100
_CONDITIONS = ("a.k = b.k", "b.j = c.j", "c.k = d.k")
_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"


@dataclass(frozen=True, slots=True)
class Setting:
    """A run: rows per second and stream, seconds of input (a file each), seconds of the window."""

    rate: int
    seconds: int
    window: int
    fan_out: float
    """Rows of a stream that a tuple meets in a window."""

    @property
    def keys(self) -> int:
        """So many that the fan-out comes about."""
        return max(1, round(self.rate * self.window / self.fan_out))


@dataclass(frozen=True, slots=True)
class Speed:
    """What a system has shown; `rows` is how many results it had."""

    rows_per_second: float
    batch_seconds: float
    batches: int
    note: str
    rows: int


def weft_sql(window: int, streams: Sequence[str] = STREAMS) -> str:
    """The query as weft has it."""
    w = f"[RANGE {window} SECONDS]"
    columns = ", ".join(f"{name}.v AS {name}v, {name}.note AS {name}n" for name in streams)
    joins = [f"{name} {w} ON {condition}" for name, condition in zip(streams[1:], _CONDITIONS, strict=False)]
    return f"SELECT {columns} FROM {streams[0]} {w} JOIN {' JOIN '.join(joins)}"


def rows_of(random: np.random.Generator, setting: Setting, second: int) -> pa.Table:
    """A second of one stream."""
    times = np.sort(random.integers(0, 1_000_000, setting.rate)) + second * 1_000_000
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "k": random.integers(0, setting.keys, setting.rate),
            "j": random.integers(0, setting.keys, setting.rate),
            "v": pa.array(random.integers(0, 1000, setting.rate), pa.int32()),
            "note": pa.array([NOTE] * setting.rate),
        }
    )


def generate(folder: Path, setting: Setting) -> None:
    """A file per stream and second."""
    random = np.random.default_rng(1)
    for name in STREAMS:
        (folder / name).mkdir(parents=True)
        for second in range(setting.seconds):
            pq.write_table(rows_of(random, setting, second), folder / name / f"{second:05}.parquet")


def run_weft(setting: Setting, data: Path, folder: Path) -> Speed:
    """weft, everything that is there, a second per batch."""
    with Engine(folder / "state") as engine:
        for name in STREAMS:
            source = files(data / name, schema=SCHEMA, max_files_per_batch=1)
            engine.stream(name, source, time="ts", lateness="0 seconds", max_ahead=None)
        query = engine.create(weft_sql(setting.window))
        engine.start(AVAILABLE_NOW)
        engine.wait(600)
        outcome = rate_alone(finished_batches(engine), setting.rate * len(STREAMS))
        rows = sum(table.num_rows for table in query.tables(0, 1 << 62))
    return Speed(outcome.rows_per_second, outcome.batch_seconds, outcome.batches, outcome.note, rows)


def run_spark(setting: Setting, data: Path, folder: Path) -> Speed:
    """The same as three stream-stream joins one after the other, with Spark's best settings for it."""
    spark = own_session(local_session())
    w = f"INTERVAL {setting.window} SECONDS"
    for key, value in {
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
        "spark.sql.streaming.stateStore.providerClass": _STATE_STORE,
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.queryEvolution.enableSourceEvolution": "false",
    }.items():
        spark.conf.set(key, value)
    frames = {}
    for name in STREAMS:
        rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(data / name))
        rows = rows.withWatermark("ts", "0 seconds")
        frames[name] = rows.selectExpr(*(f"{column} AS {name}_{column}" for column in rows.columns))

    from pyspark.sql import functions as F  # noqa: N812

    joined = frames["a"]
    for name, condition in zip(STREAMS[1:], ("a_k = b_k", "b_j = c_j", "c_k = d_k"), strict=True):
        # Spark wants one event-time column: that of a, by which it forgets; the others are plain numbers.
        known = [column[:-3] for column in joined.columns if column.endswith("_us")]
        near = [f"a_ts > {name}_ts - {w} AND a_ts < {name}_ts + {w}"]
        near += [f"abs({each}_us - unix_micros({name}_ts)) < {setting.window * 1_000_000}" for each in known]
        joined = joined.join(frames[name], F.expr(" AND ".join([condition, *near])))
        joined = joined.withColumn(f"{name}_us", F.unix_micros(f"{name}_ts")).drop(f"{name}_ts")
    result = joined.select(*(f"{name}_{column}" for name in STREAMS for column in ("v", "note")))
    query = (
        result.observe("rows", F.count(F.lit(1)).alias("n"))
        .writeStream.format("noop")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(1200)
    batches = [to_batch(progress) for progress in query.recentProgress]
    outcome = rate_alone(batches, setting.rate * len(STREAMS))
    observed = [progress.observedMetrics.get("rows") for progress in query.recentProgress]
    count = sum(int(each.n) for each in observed if each is not None)
    note = outcome.note or ("stopped before it was done" if query.isActive else "")
    return Speed(outcome.rows_per_second, outcome.batch_seconds, outcome.batches, note, count)


# ---- late materialization


@dataclass(frozen=True, slots=True)
class Bytes:
    """What goes from stage to stage in all batches: as matched lists, and as rows."""

    lists: int
    rows: int
    combinations: int


def count_bytes(setting: Setting, folder: Path) -> Bytes:
    """Run the stages of some batches in this process and look at every file between two of them."""
    directory = Directory.open(folder)
    for name in STREAMS:
        save_stream(directory, Stream(name, parse_schema(SCHEMA), "ts", timedelta(0), None, FrameSource()))
    core = Core(directory)
    core.submit(create=[("chain", bind(weft_sql(setting.window, STREAMS[:3]), core.streams))])
    random = np.random.default_rng(1)
    lists = rows = combinations = 0
    for second in range(setting.seconds):
        begun = core.begin(core.next_batch, partitions=2)
        assert begun is not None
        tables = ((name, rows_of(random, setting, second), ()) for name in STREAMS[:3])
        reports = run_here(*begun, tables)
        for path in sorted(Path(begun[1].data).glob(f"{begun[1].batch:012d}/w*.arrow")):
            file = open_combinations(path)
            lists += path.stat().st_size
            combinations += file.batch.num_rows
            rows += _as_rows(file, RowParts(begun[1].data))
        core.commit(core.next_batch, reports)
    directory.close()
    return Bytes(lists, rows, combinations)


def _as_rows(file: Any, parts: RowParts) -> int:
    """The bytes of the same combinations with the columns that the rest of the way needs: outputs, keys and times."""
    numbers = parts.numbers(file.refs)
    total = 0
    for at in range(file.members):
        part, row = file.rows(at)
        member = Member(numbers[part], row, row)
        total += sum(int(parts.column(member, name).nbytes) for name in ("v", "note"))
        total += len(row) * 8 * 3  # event time and two keys
    return total + int(file.batch.num_rows) * 8 * int(file.words)


# ---- the run


def run(setting: Setting, rounds: int, console: Console) -> dict[str, Speed]:
    """Both systems in turn; the median round of each."""
    found: dict[str, list[Speed]] = {"weft": [], "spark": []}
    with tempfile.TemporaryDirectory(prefix="weft-chain-") as base:
        data = Path(base) / "data"
        generate(data, setting)
        for turn in range(rounds):
            for system, speeds in found.items():
                folder = Path(base) / f"{system}{turn}"
                folder.mkdir()
                asked = {"setting": asdict(setting), "system": system, "data": str(data), "folder": str(folder)}
                speeds.append(_child(asked))
                console.print(f"round {turn + 1}, {system}: {speeds[-1].batch_seconds * 1000:,.0f} ms per batch "
                              f"{speeds[-1].note}")  # fmt: skip
    return {system: sorted(each, key=lambda one: one.batch_seconds)[len(each) // 2] for system, each in found.items()}


def _child(asked: dict[str, Any]) -> Speed:
    heap = largest_heap() if asked["system"] == "spark" else {}
    environment = os.environ | heap | {"PYTHONPATH": python_path()}
    command = [sys.executable, "-m", "weft_bench.chain", "--child", json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        return Speed(0.0, 0.0, 0, f"failed: {done.stderr.strip().splitlines()[-1][:200]}", 0)
    return Speed(**json.loads(done.stdout.splitlines()[-1]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 if all that had to be shown was."""
    parser = argparse.ArgumentParser(prog="weft-bench chain", description=__doc__)
    parser.add_argument("--rate", type=int, default=40_000, help="rows per second and stream")
    parser.add_argument("--seconds", type=int, default=12, help="of input, a second per batch")
    parser.add_argument("--window", type=int, default=5, help="seconds")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", type=Path, default=Path("bench-out/chain.json"))
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        asked = json.loads(options.child)
        measure = run_weft if asked["system"] == "weft" else run_spark
        speed = measure(Setting(**asked["setting"]), Path(asked["data"]), Path(asked["folder"]))
        sys.stdout.write(json.dumps(asdict(speed)) + "\n")
        return 0
    console = Console(width=120)
    speeds = run(Setting(options.rate, options.seconds, options.window, 1.0), options.rounds, console)
    with tempfile.TemporaryDirectory(prefix="weft-chain-") as base:
        sent = count_bytes(Setting(20, 12, 5, FAN_OUT), Path(base) / "state")
    ratio = speeds["weft"].rows_per_second / max(1.0, speeds["spark"].rows_per_second)
    fewer = sent.rows / max(1, sent.lists)
    for system, speed in speeds.items():
        console.print(f"{system}: {speed.rows_per_second:,.0f} rows/s, {speed.batch_seconds * 1000:,.0f} ms per batch, "
                      f"{speed.rows:,} results")  # fmt: skip
    console.print(f"sent between stages, fan-out {FAN_OUT}: {sent.combinations:,} combinations, "
                  f"{sent.lists:,} bytes as lists, {sent.rows:,} as rows")  # fmt: skip
    bars = {
        "both give as many rows": speeds["weft"].rows == speeds["spark"].rows,
        f"weft ≥ {BAR_SPEED:g} × Spark ({ratio:.1f})": ratio >= BAR_SPEED,
        f"≥ {BAR_BYTES:g} × fewer bytes as lists ({fewer:.1f})": fewer >= BAR_BYTES,
    }
    for bar, met in bars.items():
        console.print(f"{'met   ' if met else 'MISSED'} {bar}")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    figures = {"speeds": {system: asdict(each) for system, each in speeds.items()}, "bytes": asdict(sent), "bars": bars}
    options.json.write_text(json.dumps(figures, indent=2))
    return 0 if all(bars.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
