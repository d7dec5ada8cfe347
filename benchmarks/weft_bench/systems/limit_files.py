"""The files of a batch, and the stretches of event time in which their rows are joined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from weft_bench.driver.rows import Rows
from weft_bench.systems.shared_pass import MICROS
from weft_bench.workloads.model import Workload


def write_files(workload: Workload, folder: Path, *, seconds: int, seed: int = 0) -> None:
    """The rows of so many seconds of event time, a file for each second and stream."""
    for stream in workload.streams:
        (folder / stream.name).mkdir(parents=True, exist_ok=True)
        rate = workload.rows_per_second * stream.share
        rows = Rows(stream, seed=seed, rows_per_second=rate)
        for second in range(seconds):
            table = rows.between(round(second * rate), round((second + 1) * rate))
            pq.write_table(table, folder / stream.name / f"{second:08d}.parquet", compression="none")


@dataclass(frozen=True, slots=True)
class RowFile:
    """A file of a stream: how many rows, from which event time to which (microseconds since 1970)."""

    path: str
    rows: int
    first: int
    last: int


def files_of(folder: Path, stream: str, time: str = "ts") -> list[RowFile]:
    """The files of a stream that have rows, in the order of their names, which is that of their event times."""
    found = []
    for path in sorted((folder / stream).glob("*.parquet")):
        metadata = pq.read_metadata(path)
        if metadata.num_rows:
            column = metadata.schema.to_arrow_schema().get_field_index(time)
            groups = [metadata.row_group(number).column(column).statistics for number in range(metadata.num_row_groups)]
            first, last = min(each.min_raw for each in groups), max(each.max_raw for each in groups)
            found.append(RowFile(str(path), metadata.num_rows, first, last))
    return found


@dataclass(frozen=True, slots=True)
class Chunk:
    """Files of the first stream, and all of the second that may have partners for their rows."""

    left: tuple[str, ...]
    right: tuple[str, ...]


def chunks(left: Sequence[RowFile], right: Sequence[RowFile], reach: int) -> Iterator[Chunk]:
    """All rows of the first stream once, in stretches as long as the reach (seconds) if files are not longer.

    Longer stretches would join rows that are far apart, shorter ones read the second stream more often.
    """
    micros, rest = reach * MICROS, list(left)
    while rest:
        begin = rest[0].first
        count = next((number for number, each in enumerate(rest) if each.last >= begin + micros), len(rest))
        taken, rest = rest[: max(count, 1)], rest[max(count, 1) :]
        end = max(each.last for each in taken)
        near = [each.path for each in right if each.last > begin - micros and each.first < end + micros]
        yield Chunk(tuple(each.path for each in taken), tuple(near))
