from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weft_bench.systems.flink_gate import Gate, Reading, numbers


def put(folder: Path, number: int, rows: int) -> None:
    pq.write_table(pa.table({"k": list(range(rows))}), folder / f"{number:08d}.parquet")


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    for name in ("feed", "job"):
        (tmp_path / name).mkdir()
    return Gate(tmp_path / "feed", tmp_path / "job", following=0)


def handed(gate: Gate) -> list[str]:
    return sorted(path.name for path in gate.inside.iterdir())


def test_the_reader_that_emits_more_than_it_had_has_taken_the_waiting_file() -> None:
    reading = Reading.of(2).handed(0, 10).seen((0, 3))
    assert reading.taken == (-1, 0)
    assert reading.waiting == -1
    assert reading.passed(following=1) == 0


def test_a_file_is_passed_when_its_last_row_is_out() -> None:
    reading = Reading.of(2).handed(0, 10).seen((0, 3)).handed(1, 10).seen((4, 3))
    assert reading.taken == (1, 0)
    assert reading.passed(following=2) == 0
    assert reading.seen((4, 10)).passed(following=2) == 1
    assert reading.seen((10, 10)).passed(following=2) == 2


def test_a_waiting_file_is_not_passed() -> None:
    reading = Reading.of(1).handed(0, 10).seen((10,)).handed(1, 5)
    assert reading.passed(following=2) == 1
    assert reading.seen((10,)).passed(following=2) == 1


def test_files_passed_out_of_order_count_from_the_oldest() -> None:
    reading = Reading.of(2).handed(0, 10).seen((1, 0)).handed(1, 10).seen((1, 10))
    assert reading.passed(following=2) == 0


def test_two_files_never_wait() -> None:
    with pytest.raises(ValueError, match="file 1 is handed over while file 0 waits"):
        Reading.of(1).handed(0, 10).handed(1, 10)


def test_an_empty_file_is_not_waited_for() -> None:
    assert Reading.of(1).handed(0, 0).passed(following=1) == 1


def test_numbers_leaves_alone_what_is_no_file_of_the_stream(tmp_path: Path) -> None:
    for name in ("00000010.parquet", "00000002.parquet", ".00000003.parquet", "x.parquet", "00000004.tmp"):
        (tmp_path / name).touch()
    assert numbers(tmp_path) == [2, 10]


def test_files_are_handed_over_one_at_a_time_and_taken_away_when_passed(gate: Gate) -> None:
    for number in range(3):
        put(gate.folder, number, 4)
    gate.open({"source": 2})
    gate.hand_over(last=9)
    gate.hand_over(last=9)
    assert handed(gate) == ["00000000.parquet"]
    assert gate.passed({"source": [1, 0]}) == 0
    gate.hand_over(last=9)
    assert handed(gate) == ["00000000.parquet", "00000001.parquet"]
    assert gate.passed({"source": [4, 0]}) == 1
    assert handed(gate) == ["00000001.parquet"]
    assert gate.passed({"source": [8, 0]}) == 2
    gate.hand_over(last=9)
    assert gate.passed({"source": [12, 0]}) == 3
    assert handed(gate) == []


def test_the_slowest_of_several_sources_counts(gate: Gate) -> None:
    put(gate.folder, 0, 4)
    gate.open({"one": 1, "two": 1})
    gate.hand_over(last=9)
    assert gate.passed({"one": [4], "two": [0]}) == 0
    put(gate.folder, 1, 4)
    gate.hand_over(last=9)
    assert handed(gate) == ["00000000.parquet"]
    assert gate.passed({"one": [4], "two": [4]}) == 1


def test_a_stream_is_held_back(gate: Gate) -> None:
    put(gate.folder, 0, 4)
    gate.open({"source": 1})
    gate.hand_over(last=-1)
    assert handed(gate) == []
    gate.hand_over(last=0)
    assert handed(gate) == ["00000000.parquet"]


def test_files_that_are_gone_are_left_out(gate: Gate) -> None:
    put(gate.folder, 5, 4)
    gate.open({"source": 1})
    gate.hand_over(last=9)
    assert handed(gate) == ["00000005.parquet"]
    assert gate.passed({"source": [0]}) == 5


def test_a_file_stays_for_the_job_when_the_driver_removes_it(gate: Gate) -> None:
    put(gate.folder, 0, 4)
    gate.open({"source": 1})
    gate.hand_over(last=9)
    (gate.folder / "00000000.parquet").unlink()
    assert pq.read_metadata(gate.inside / "00000000.parquet").num_rows == 4


def test_a_stream_that_is_not_read_is_passed_as_it_comes(gate: Gate) -> None:
    gate.open({})
    assert gate.passed({}) == 0
    put(gate.folder, 0, 4)
    gate.hand_over(last=9)
    assert gate.passed({}) == 1
    assert handed(gate) == []


def test_a_file_is_begun_when_it_is_handed_over(gate: Gate) -> None:
    gate.handed = {0: 5.0, 1: 6.0, 2: 7.0}
    assert gate.begun(0, 2) == 5.0
    assert gate.begun(0, 2) is None
    assert gate.begun(2, 9) == 7.0
