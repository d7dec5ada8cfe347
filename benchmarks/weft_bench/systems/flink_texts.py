"""What the program for Flink says to Flink: settings, SQL around the queries, and the rows of its print sink.

Part of `flink_program.py`: runs in Flink's own virtual environment, so it needs nothing but the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

SINK = "@row"
"""How lines of the print sink begin, followed by the number of the query."""
_TYPES = {
    "timestamp": "TIMESTAMP_LTZ(3)",  # an event time has milliseconds in Flink, not microseconds
    "bigint": "BIGINT",
    "int": "INT",
    "double": "DOUBLE",
    "string": "STRING",
    "boolean": "BOOLEAN",
}
_ROW = re.compile(rf"{SINK} (\d+)(?::\d+)?> \+[A-Z]+\[(.*)\]")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TEN_MILLISECONDS = 10_000
_JOBS = 128
"""Jobs that fit into the cluster at once."""
_MANAGED_MEGABYTES = 128
"""Buffers of window aggregates, of one core of one job; only what they fill is allocated."""


def stream_table(stream: Mapping[str, Any], folder: str, allowance: float) -> str:
    """The statement that makes a folder of Parquet files a stream whose watermark is `allowance` seconds behind."""
    columns = [f"`{name}` {_TYPES[kind]}" for name, kind in stream["columns"].items()]
    time = stream.get("time", "ts")
    watermark = f"WATERMARK FOR `{time}` AS `{time}` - INTERVAL '{allowance:.3f}' SECOND"
    options = {
        "connector": "filesystem",
        "path": f"file://{folder}",
        "format": "parquet",
        "parquet.utc-timezone": "true",
        "source.monitor-interval": "20 ms",
    }
    said = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    return f"CREATE TEMPORARY TABLE `{stream['name']}` ({', '.join([*columns, watermark])}) WITH ({said})"


def without_rowtimes(view: str, columns: Sequence[tuple[str, str]], rowtimes: Sequence[str]) -> str:
    """All of a view (columns as name and type), its event times as plain values: a sink takes at most one."""
    chosen = [f"CAST(`{name}` AS {kind}) AS `{name}`" if name in rowtimes else f"`{name}`" for name, kind in columns]
    return f"SELECT {', '.join(chosen)} FROM `{view}`"


def sampled(view: str, newest: Sequence[str], part: float) -> str:
    """The event times of a random part of a view's rows.

    A random filter is not pushed down, so that what is below it is the same plan as without it, and runs once.
    """
    chosen = ", ".join(f"CAST(`{name}` AS STRING) AS `{name}`" for name in newest)
    kept = "" if part >= 1 else f" WHERE RAND() < {part!r}"
    return f"SELECT {chosen} FROM `{view}`{kept}"


def to_row(line: str) -> tuple[int, int] | None:
    """Number of the query and event time (microseconds since 1970, to ten milliseconds) of a line of the print sink."""
    found = _ROW.match(line)
    if found is None:
        return None
    moments = [_micros(text) for text in found[2].split(", ") if text != "null"]
    return (int(found[1]), max(moments) // _TEN_MILLISECONDS * _TEN_MILLISECONDS) if moments else None


def _micros(text: str) -> int:
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    passed = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds


def allowance(order: Mapping[str, Any]) -> float:
    """How far the watermark is behind: what the workload asks for, and a little for rows of the same millisecond.

    No more is needed: each reader gets its files in order, and the watermark is that of the reader farthest behind.
    For the same reason no reader is ever taken for idle: one that is only slow would lose its rows.
    """
    return float(order.get("lateness", 0.0)) + float(order["settings"].get("slack", "0.1"))


def jvm_arguments(order: Mapping[str, Any]) -> str:
    """Arguments of the one JVM: client, job manager and task manager."""
    heap, collector = order["heap_gigabytes"], order["settings"].get("collector", "Parallel")
    return " ".join(
        [
            # All of it from the start: a heap that grows under load does so by full collections.
            f"-Xms{heap}g",
            f"-Xmx{heap}g",
            f"-XX:+Use{collector}GC",
            # A join's state is read at random: large pages gave Flink half as much throughput again.
            "-XX:+UseTransparentHugePages",
            "-XX:+AlwaysPreTouch",
            "-XX:+ExitOnOutOfMemoryError",
            # The standard class behind MBeanServer is not exported; py4j calls methods of that class.
            "--add-exports=java.management/com.sun.jmx.mbeanserver=ALL-UNNAMED",
        ]
    )


def cluster_settings(order: Mapping[str, Any]) -> dict[str, str]:
    """Settings of the cluster in the JVM, ours first, then what the order says by a key with a dot."""
    network = min(2048, max(256, order["heap_gigabytes"] * 128))
    ours = {
        "rest.address": "localhost",
        "rest.bind-address": "localhost",
        "rest.bind-port": "0",
        "web.refresh-interval": "50",
        "io.tmp.dirs": order["scratch"],
        "taskmanager.numberOfTaskSlots": str(order["cores"] * _JOBS),
        "taskmanager.memory.network.min": f"{network}mb",
        "taskmanager.memory.network.max": f"{network}mb",
        "taskmanager.memory.managed.size": f"{order['cores'] * _JOBS * _MANAGED_MEGABYTES}mb",
        "metrics.reporter.jmx.factory.class": "org.apache.flink.metrics.jmx.JMXReporterFactory",
        "metrics.reporter.jmx.filter.includes": (
            "*job.task.operator:numRecordsOut,numRecordsIn:counter;*job.task:numBytesOut:counter"
        ),
    }
    return ours | _said(order)


def job_settings(order: Mapping[str, Any], port: int) -> dict[str, str]:
    """Settings of every job, ours first, then what the order says by a key with a dot."""
    ours = {
        "execution.target": "remote",
        "rest.address": "localhost",
        "rest.port": str(port),
        "parallelism.default": str(order["cores"]),
        "pipeline.object-reuse": "true",
        "restart-strategy.type": "disable",
        "state.backend.type": "hashmap",
        # No checkpoints; a savepoint at the end tells the size of the state, and shall not end the job if it fails.
        "execution.checkpointing.storage": "filesystem",
        "execution.checkpointing.dir": f"file://{order['scratch']}/checkpoints",
        "execution.checkpointing.tolerable-failed-checkpoints": "1000",
        "table.local-time-zone": "UTC",
        "table.exec.mini-batch.enabled": "true",
        "table.exec.mini-batch.allow-latency": "100 ms",
        "table.exec.mini-batch.size": "5000",
        "table.optimizer.reuse-sub-plan-enabled": "true",
        "table.optimizer.reuse-source-enabled": "true",
    }
    return ours | _said(order)


def _said(order: Mapping[str, Any]) -> dict[str, str]:
    return {key: value for key, value in order["settings"].items() if "." in key}
