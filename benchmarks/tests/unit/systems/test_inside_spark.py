from __future__ import annotations

import fnmatch
import json
import re
from pathlib import Path

from weft_bench.driver.messages import StreamOrder
from weft_bench.systems.inside_spark import PassedFiles, read_offsets, schema_of
from weft_bench.systems.spark_parts import files_so_far, from_number


class Checkpoint:
    """A checkpoint as Spark writes it, for two streams A and B below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.streams = tuple(StreamOrder(name, str(folder / "in" / name), {"ts": "timestamp"}) for name in "AB")
        self._logged: dict[str, list[str]] = {}

    def log(self, source: str, entry: int, stream: str, *names: str) -> None:
        lines = [
            json.dumps({"path": f"file://{self.folder}/in/{stream}/{name}", "timestamp": 1, "batchId": entry})
            for name in names
        ]
        self._logged.setdefault(source, []).extend(lines)
        compact = entry % 10 == 9
        path = self.folder / "sources" / source / f"{entry}{'.compact' if compact else ''}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(["v1", *(self._logged[source] if compact else lines)]), encoding="utf-8")

    def batch(self, number: int, *offsets: str, version: str = "v1") -> None:
        path = self.folder / "offsets" / str(number)
        path.parent.mkdir(exist_ok=True)
        metadata = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1_700_000_000_250 + number})
        path.write_text("\n".join([version, metadata, *offsets]), encoding="utf-8")


def test_files_are_counted_by_the_sources_logs(tmp_path: Path) -> None:
    spark = Checkpoint(tmp_path)
    spark.log("0", 0, "B", "00000000.parquet")
    spark.log("1", 0, "A", "00000000.parquet", "00000001.parquet")
    spark.batch(0, '{"logOffset":0}', '{"logOffset":0}')
    spark.log("1", 1, "A", "00000002.parquet")
    spark.log("1", 2, "A", "00000003.parquet")
    spark.batch(1, '{"logOffset":0}', '{"logOffset":2}')
    passed = PassedFiles(tmp_path, spark.streams, before={})
    first, second = passed.after(0), passed.after(1)
    assert (first.files, first.began) == ({"A": 2, "B": 1}, 1_700_000_000.25)
    assert second.files == {"A": 4, "B": 1}


def test_files_before_a_query_count_as_passed_and_so_do_streams_it_does_not_read(tmp_path: Path) -> None:
    spark = Checkpoint(tmp_path)
    spark.log("0", 0, "A", "00000007.parquet")
    spark.batch(0, '{"logOffset":0}')
    passed = PassedFiles(tmp_path, spark.streams, before={"A": 7, "B": 6})
    assert passed.after(0).files == {"A": 8, "B": 8}


def test_a_stream_that_is_read_twice_is_passed_by_the_slower_reader(tmp_path: Path) -> None:
    spark = Checkpoint(tmp_path)
    spark.log("0", 0, "A", "00000000.parquet", "00000001.parquet")
    spark.log("1", 0, "A", "00000000.parquet")
    spark.batch(0, '{"logOffset":0}', '{"logOffset":0}')
    assert PassedFiles(tmp_path, spark.streams, before={}).after(0).files == {"A": 1, "B": 1}


def test_a_compacted_log_repeats_what_was_counted(tmp_path: Path) -> None:
    spark = Checkpoint(tmp_path)
    for entry in range(12):
        spark.log("weft_A", entry, "A", f"{entry:08d}.parquet")
        spark.batch(entry, f'weft_A:{{"logOffset":{entry}}}', version="v2")
    passed = PassedFiles(tmp_path, spark.streams, before={})
    assert [passed.after(batch).files["A"] for batch in range(12)] == list(range(1, 13))


def test_a_source_without_data_has_no_offset() -> None:
    text = 'v1\n{"batchTimestampMs":1500}\n-\n{"logOffset":4}'
    assert read_offsets(text) == (1.5, {"1": 4})
    assert read_offsets('v2\n{"batchTimestampMs":1500}\nweft_A:{"logOffset":4}') == (1.5, {"weft_A": 4})


def test_folders_with_unusual_names_are_found(tmp_path: Path) -> None:
    spark = Checkpoint(tmp_path / "a b")
    spark.folder.mkdir()
    spark.log("0", 0, "A", "00000000.parquet")
    log = spark.folder / "sources" / "0" / "0"
    log.write_text(log.read_text(encoding="utf-8").replace("a b", "a%20b"), encoding="utf-8")
    spark.batch(0, '{"logOffset":0}')
    assert PassedFiles(spark.folder, spark.streams, before={}).after(0).files["A"] == 1


def matches(pattern: str, number: int) -> bool:
    inner = pattern.removeprefix("{").removesuffix("}.parquet")
    return any(re.fullmatch(fnmatch.translate(each), f"{number:08d}") for each in inner.split(","))


def test_a_pattern_takes_this_number_and_all_larger_ones() -> None:
    for first in (1, 9, 10, 99, 100, 12_345_678, 99_999_999):
        pattern = from_number(first)
        for number in {first - 1, first, first + 1, first * 2, first // 2, 0, 99_999_999, 10**7}:
            if number < 10**8:
                assert matches(pattern, number) == (number >= first), (first, number)


def test_files_so_far_counts_those_that_are_gone(tmp_path: Path) -> None:
    assert files_so_far(tmp_path) == 0
    for name in ("00000004.parquet", "00000005.parquet", ".00000006.parquet", "other.txt"):
        (tmp_path / name).touch()
    assert files_so_far(tmp_path) == 6


def test_a_schema_is_quoted() -> None:
    assert schema_of(StreamOrder("A", "a", {"ts": "timestamp", "k": "bigint"})) == "`ts` timestamp, `k` bigint"
