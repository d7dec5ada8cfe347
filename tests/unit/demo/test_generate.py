"""The generated data: schema, order, what is late, and files that appear whole."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weft.demo.generate import DEAREST_CENTS, GEM_PACKS, LATENESS, SCHEMAS, Generator, ads, event_times, purchases
from weft.kernels.arrow_types import arrow_type
from weft.sql import parse_schema

START = 1_700_000_000.0


def random() -> np.random.Generator:
    return np.random.default_rng(3)


@pytest.mark.parametrize("stream", SCHEMAS)
def test_files_have_the_declared_schema(tmp_path: Path, stream: str) -> None:
    generator = Generator(tmp_path / "in", rate=1_000, seed=1)
    generator.write(START, START + 0.5)
    (written,) = [file for file in generator.written if file.stream == stream]
    declared = parse_schema(SCHEMAS[stream])
    found = pq.read_schema(written.path)
    assert found.names == list(declared.names())
    assert found.types == [arrow_type(field.type) for field in declared]


def test_files_appear_whole_and_in_order(tmp_path: Path) -> None:
    generator = Generator(tmp_path / "in", rate=1_000, seed=1)
    for tick in range(3):
        generator.write(START + tick, START + tick + 1)
    assert not list((tmp_path / "in" / "aside").iterdir())
    for stream in SCHEMAS:
        paths = [file.path for file in generator.written if file.stream == stream]
        assert paths == sorted(generator.folder_of(stream).iterdir())
        assert [pq.read_metadata(path).num_rows for path in paths] == [1_000] * 3
    assert generator.rows == 6_000


def test_a_file_is_noted_before_it_appears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the engine could read rows that the ledger has never heard of."""
    generator = Generator(tmp_path / "in", rate=100, seed=1)
    noted = []
    monkeypatch.setattr("os.replace", lambda _, target: noted.append(generator.written[-1].path == target))
    generator.write(START, START + 1)
    assert noted == [True, True]


def test_the_same_seed_gives_the_same_data(tmp_path: Path) -> None:
    tables = []
    for name in ("a", "b"):
        generator = Generator(tmp_path / name, rate=500, seed=9)
        generator.write(START, START + 1)
        tables.append([pq.read_table(file.path) for file in generator.written])
    assert tables[0] == tables[1]


def test_some_rows_are_delayed_and_few_are_late() -> None:
    times = event_times(random(), 100_000, start=START, end=START + 0.5) / 1_000_000
    lateness = LATENESS.total_seconds()
    assert times.max() < START + 0.5
    late = (times < START - lateness).mean()
    delayed = (times < START).mean() - late
    assert 0.0001 < late < 0.002
    assert 0.01 < delayed < 0.05
    assert times.min() > START - 10


def test_values_are_in_range() -> None:
    times = event_times(random(), 20_000, start=START, end=START + 1)
    bought, shown = purchases(random(), times, 500), ads(random(), times, 500)
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
    table = purchases(random(), np.zeros(1_000, np.int64), 10)
    assert table.column("price").type == pa.decimal128(7, 2)
    assert all(value == value.quantize(Decimal("0.01")) for value in table.column("price").to_pylist())


def test_an_error_of_the_thread_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = Generator(tmp_path / "in", rate=10, seed=1)

    def fail(start: float, end: float) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(generator, "write", fail)
    generator.start()
    generator._thread.join(30)
    assert str(generator.error) == "disk full"
    generator.stop()


def test_stopping_what_never_started_is_harmless(tmp_path: Path) -> None:
    Generator(tmp_path / "in", rate=10, seed=1).stop()
