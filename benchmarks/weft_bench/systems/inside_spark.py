"""Spark as ordered, and what it knows of itself: files that a streaming query has passed, bytes shuffled."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from weft.spark.session import local_session
from weft_bench.driver.messages import Order, StreamOrder


def ordered_session(order: Order) -> Any:
    """A local session with the ordered cores and heap, whose files lie where the driver wants them.

    The heap cannot be changed once the JVM runs. What `--driver-memory` says wins over the session's own setting, whose
    name in the configuration keeps its old value.
    """
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-memory {order.heap_gigabytes}g pyspark-shell"
    # As Flink has it: throughput before pauses, and large pages.
    os.environ["JDK_JAVA_OPTIONS"] = "-XX:+UseParallelGC -XX:+UseTransparentHugePages"
    os.environ["SPARK_LOCAL_DIRS"] = str(Path(order.scratch) / "spark")
    return local_session(order.cores)


@dataclass(frozen=True, slots=True)
class Passed:
    """Files of each stream behind a batch, since the beginning, and when the batch began (seconds since 1970)."""

    files: Mapping[str, int]
    began: float


class PassedFiles:
    """Follows a streaming query's batches through its checkpoint.

    Neither rows nor offsets count files: Spark does not count pages it skips, and an offset of a file source stands
    for as many files as were there. The source's own log names them.
    """

    def __init__(self, checkpoint: Path, streams: Sequence[StreamOrder], *, before: Mapping[str, int]) -> None:
        """`before`: files of each stream that the query never looks at."""
        self._checkpoint = checkpoint
        self._names = {Path(stream.folder).absolute(): stream.name for stream in streams}
        self._before = before
        self._sources: dict[str, _Source] = {}

    def after(self, batch: int) -> Passed:
        """What is behind a batch; batches are asked for in their order, soon after they end."""
        began, offsets = read_offsets((self._checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8"))
        for name, end in offsets.items():
            self._sources.setdefault(name, _Source()).advance(self._checkpoint / "sources" / name, end)
        return Passed(self._files(), began)

    def _files(self) -> dict[str, int]:
        """A stream that is read twice is passed as far as the slower reader; one that is not read, with the others."""
        found: dict[str, int] = {}
        for source in self._sources.values():
            if source.folder is not None:
                name = self._names[source.folder]
                found[name] = min(found.get(name, source.count), source.count)
        passed = {name: count + self._before.get(name, 0) for name, count in found.items()}
        rest = min(passed.values(), default=0)
        return {name: passed.get(name, rest) for name in self._names.values()}


class _Source:
    """A file source: how far its log was read, how many files that are, and where they lie."""

    def __init__(self) -> None:
        self.count = 0
        self.folder: Path | None = None
        self._next = 0

    def advance(self, log: Path, end: int) -> None:
        for entry in range(self._next, end + 1):
            for path in _logged(log, entry):
                self.folder = path.parent
                self.count += 1
        self._next = max(self._next, end + 1)


def read_offsets(text: str) -> tuple[float, dict[str, int]]:
    """When a batch began and up to where each source was read by it, from an entry of the offset log.

    Sources have names (version 2) or stand in order (version 1); one without data is not there.
    """
    version, metadata, *lines = text.splitlines()
    named = (
        [line.partition(":")[::2] for line in lines] if version == "v2" else [(str(n), t) for n, t in enumerate(lines)]
    )
    offsets = {name: int(json.loads(end)["logOffset"]) for name, end in named if end.startswith("{")}
    return json.loads(metadata)["batchTimestampMs"] / 1000, offsets


def _logged(log: Path, entry: int) -> Iterator[Path]:
    """Files of an entry of a source's log; every tenth also repeats all entries before it."""
    plain, compact = log / str(entry), log / f"{entry}.compact"
    for line in (plain if plain.exists() else compact).read_text(encoding="utf-8").splitlines()[1:]:
        value = json.loads(line)
        if value["batchId"] == entry:
            yield Path(unquote(urlparse(value["path"]).path))


def bytes_shuffled(spark: Any) -> int:
    """Bytes that all tasks of a session's application have written for others to read."""
    executors = spark.sparkContext._jsc.sc().statusStore().executorList(False)
    return sum(int(executors.apply(number).totalShuffleWrite()) for number in range(executors.size()))


def schema_of(stream: StreamOrder) -> str:
    """The columns of a stream as Spark writes a schema."""
    return ", ".join(f"`{name}` {type_}" for name, type_ in stream.columns.items())
