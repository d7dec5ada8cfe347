from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from weft.sql import parse_schema
from weft_bench.data import (
    SCHEMA,
    START,
    STREAMS,
    Load,
    file_of,
    generate,
    link_files,
    rows_between,
    second_table,
    write_prelude,
)

LOAD = Load(rate=500, keys=40)


def test_a_second_holds_its_own_event_time_in_order() -> None:
    times = second_table(LOAD, 0, 3)["ts"].cast(pa.int64()).to_numpy()
    begin = int(START.timestamp() + 3) * 1_000_000
    assert (times[:-1] <= times[1:]).all()
    assert begin <= times[0] <= times[-1] < begin + 1_000_000


def test_columns_are_those_of_the_declared_schema() -> None:
    table = second_table(LOAD, 0, 0)
    assert tuple(table.column_names) == parse_schema(SCHEMA).names()
    assert [str(field.type) for field in table.schema] == ["timestamp[us, tz=UTC]", "int64", *["int32"] * 5]
    assert table.num_rows == LOAD.rate


def test_values_lie_in_their_domains() -> None:
    table = second_table(Load(rate=5_000, keys=40), 1, 0)
    assert pc.min_max(table["k"]).as_py() == {"min": 0, "max": 39}
    assert pc.min_max(table["f4"]).as_py() == {"min": 0, "max": 499}


def test_streams_and_seconds_differ_and_repeat() -> None:
    assert second_table(LOAD, 0, 1).equals(second_table(LOAD, 0, 1))
    assert not second_table(LOAD, 0, 1).equals(second_table(LOAD, 1, 1))
    assert not second_table(LOAD, 0, 1)["k"].equals(second_table(LOAD, 0, 2)["k"])


def test_files_are_read_in_the_order_of_event_time(tmp_path: Path) -> None:
    generate(tmp_path, LOAD, 3)
    for name in STREAMS:
        paths = sorted((tmp_path / name).iterdir(), key=lambda path: path.stat().st_mtime)
        assert paths == [file_of(tmp_path, name, second) for second in range(3)]
    assert pq.read_table(file_of(tmp_path, "B", 2)).equals(second_table(LOAD, 1, 2))


def test_links_are_a_prefix_with_the_same_order(tmp_path: Path) -> None:
    generate(tmp_path / "all", LOAD, 3)
    link_files(tmp_path / "all", tmp_path / "some", 2)
    for name in STREAMS:
        linked = sorted((tmp_path / "some" / name).iterdir())
        assert linked == [file_of(tmp_path / "some", name, second) for second in range(2)]
        assert linked[1].samefile(file_of(tmp_path / "all", name, 1))


def test_one_stream_alone(tmp_path: Path) -> None:
    generate(tmp_path / "all", LOAD, 1, streams=["A"])
    link_files(tmp_path / "all", tmp_path / "some", 1, streams=["A"])
    for folder in ("all", "some"):
        assert [path.name for path in (tmp_path / folder).iterdir()] == ["A"]


def test_rows_lie_between_two_moments_in_order() -> None:
    times = rows_between(np.random.default_rng(0), LOAD, 1_000, 1_500)["ts"].cast(pa.int64()).to_numpy()
    assert len(times) == LOAD.rate
    assert 1_000 <= times[0] <= times[-1] < 1_500
    assert (times[:-1] <= times[1:]).all()


def test_the_prelude_comes_first_and_joins_with_nothing(tmp_path: Path) -> None:
    write_prelude(tmp_path, 10)
    generate(tmp_path, LOAD, 1)
    keys = []
    for name in STREAMS:
        first, second = sorted((tmp_path / name).iterdir(), key=lambda path: path.stat().st_mtime)
        table = pq.read_table(first)
        assert first.name == "prelude.parquet"
        assert table.schema == pq.read_schema(second)
        assert pc.max(table["ts"]).as_py() < START
        keys.append(set(table["k"].to_pylist()))
    assert not keys[0] & keys[1]
    assert max(keys[0] | keys[1]) < 0
