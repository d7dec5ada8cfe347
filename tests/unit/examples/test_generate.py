"""The generated data: schema, order, what is late, and files that appear whole."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from examples.ads.generate import (
    DEAREST_CENTS,
    GEM_PACKS,
    LATENESS_SECONDS,
    SCHEMAS,
    Generator,
    event_times,
    make_rows,
)
from weft.kernels.arrow_types import arrow_type
from weft.sql import parse_schema

START = 1_700_000_000.0


def random() -> np.random.Generator:
    return np.random.default_rng(3)


def generator(folder: Path, *, rate: int = 1_000, seed: int = 1) -> Generator:
    return Generator(folder / "in", rate=rate, seed=seed, start=START)


@pytest.mark.parametrize("stream", SCHEMAS)
def test_files_have_the_declared_schema(tmp_path: Path, stream: str) -> None:
    generator(tmp_path).write(START + 0.5)
    (path,) = (tmp_path / "in" / stream).iterdir()
    declared = parse_schema(SCHEMAS[stream])
    found = pq.read_schema(path)
    assert found.names == list(declared.names())
    assert found.types == [arrow_type(field.type) for field in declared]


def test_files_appear_whole_and_in_order(tmp_path: Path) -> None:
    writer = generator(tmp_path)
    for tick in range(3):
        writer.write(START + tick + 1)
    assert not list((tmp_path / "in" / "aside").iterdir())
    for stream in SCHEMAS:
        paths = sorted((writer.folder / stream).iterdir())
        assert [pq.read_metadata(path).num_rows for path in paths] == [1_000] * 3
        newest = [max(pq.read_table(path).column("ts").to_pylist()).timestamp() for path in paths]
        assert [int(moment - START) for moment in newest] == [0, 1, 2]
    assert writer.rows == dict.fromkeys(SCHEMAS, 3_000)


def test_a_machine_that_slept_does_not_make_up_for_it(tmp_path: Path) -> None:
    writer = generator(tmp_path)
    writer.write(START + 3_600)
    assert writer.rows == dict.fromkeys(SCHEMAS, 2_000)


def test_the_same_seed_gives_the_same_data(tmp_path: Path) -> None:
    tables = []
    for name in ("a", "b"):
        generator(tmp_path / name, seed=9).write(START + 1)
        tables.append([pq.read_table(path) for path in sorted((tmp_path / name).rglob("*.parquet"))])
    assert len(tables[0]) == 2
    assert tables[0] == tables[1]


def test_some_rows_are_delayed_and_few_are_late() -> None:
    times = event_times(random(), 100_000, start=START, end=START + 0.5) / 1_000_000
    assert times.max() < START + 0.5
    late = (times < START - LATENESS_SECONDS).mean()
    delayed = (times < START).mean() - late
    assert 0.0001 < late < 0.002
    assert 0.01 < delayed < 0.05
    assert times.min() > START - 10


def test_values_are_in_range() -> None:
    times = event_times(random(), 20_000, start=START, end=START + 1)
    bought, shown = (make_rows(random(), stream, times, users=500) for stream in ("purchases", "ads"))
    for table in (bought, shown):
        packs = table.column("gemPack").to_numpy()
        assert (packs.min(), packs.max()) == (1, GEM_PACKS)
        users = table.column("userID").drop_null().to_numpy()
        assert users.min() >= 0
        assert users.max() < 500
    prices = bought.column("price").to_pylist()
    assert min(prices) >= Decimal("0.99")
    assert max(prices) <= Decimal(DEAREST_CENTS) / 100
    assert 0 < bought.column("userID").null_count < 1_000
    assert shown.column("userID").null_count == 0


def test_decimals_are_exact() -> None:
    table = make_rows(random(), "purchases", np.zeros(1_000, np.int64), users=10)
    assert table.column("price").type == pa.decimal128(7, 2)
    assert all(value == value.quantize(Decimal("0.01")) for value in table.column("price").to_pylist())
