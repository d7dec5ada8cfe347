"""Files are handed to batches by counting rows."""

from __future__ import annotations

from collections import deque
from pathlib import Path

import pytest

from weft.demo.generate import Written
from weft.demo.ledger import Ledger
from weft.errors import InternalError


def written(folder: Path, stream: str, *sizes: int) -> deque[Written]:
    files: deque[Written] = deque()
    for number, rows in enumerate(sizes):
        path = folder / f"{stream}-{number}"
        path.touch()
        files.append(Written(stream, path, rows))
    return files


def batches(ledger: Ledger) -> dict[str, int]:
    return {arrival.file.path.name: arrival.batch for arrival in ledger.arrivals}


def test_a_batch_takes_whole_files_in_order(tmp_path: Path) -> None:
    files = written(tmp_path, "ads", 3, 4, 5)
    files.extend(written(tmp_path, "purchases", 10, 10))
    ledger = Ledger(files)
    ledger.note(0, {"ads": 7, "purchases": 10})
    ledger.note(1, {"ads": 0})
    ledger.note(2, {"ads": 5, "purchases": 10})
    assert batches(ledger) == {"ads-0": 0, "ads-1": 0, "purchases-0": 0, "ads-2": 2, "purchases-1": 2}


def test_files_may_come_later(tmp_path: Path) -> None:
    files = written(tmp_path, "ads", 3)
    ledger = Ledger(files)
    ledger.note(0, {"ads": 3})
    files.append(Written("ads", tmp_path / "more", 2))
    ledger.note(1, {"ads": 2})
    assert batches(ledger) == {"ads-0": 0, "more": 1}


@pytest.mark.parametrize("rows", [2, 4, 100])
def test_rows_that_are_no_whole_files_are_an_error(tmp_path: Path, rows: int) -> None:
    ledger = Ledger(written(tmp_path, "ads", 3, 3))
    with pytest.raises(InternalError, match='stream "ads"'):
        ledger.note(0, {"ads": rows})


def test_a_stream_nobody_writes_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InternalError, match="batch 7"):
        Ledger(written(tmp_path, "ads", 3)).note(7, {"clicks": 1})


def test_old_files_are_removed(tmp_path: Path) -> None:
    ledger = Ledger(written(tmp_path, "ads", 1, 1, 1))
    for batch in range(3):
        ledger.note(batch, {"ads": 1})
    assert ledger.complete_from == 0
    ledger.forget(2)
    assert batches(ledger) == {"ads-2": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["ads-2"]
    assert ledger.complete_from > ledger.kept_from == 2
