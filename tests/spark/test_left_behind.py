"""Nothing of a program or of a batch stays in Spark's temporary folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.spark.support import Place, rows
from weft.spark import broadcast as sent

pytestmark = pytest.mark.spark
BUCKETS = "SELECT x.v, y.v FROM a [RANGE 99 SECONDS] x JOIN a [RANGE 99 SECONDS] y ON x.k = y.k"


def files(place: Place) -> int:
    folder = place.spark.sparkContext._temp_dir
    assert folder is not None
    return len(os.listdir(folder))


def test_programs(place: Place) -> None:
    engine = place.engine()
    place.streams(engine, "a")
    counts = []
    for number in range(6):
        engine.create(f"SELECT v FROM a WHERE v > {number}")
        place.put("a", (number, 1, 9))
        engine.step()
        counts.append(files(place))
    assert counts[-1] <= counts[0], counts
    engine.stop()
    assert files(place) < counts[0], "the last program is taken back"


@pytest.mark.parametrize("most", [0, 1 << 30])
def test_tasks(place: Place, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(sent, "_INLINE", most)
    engine = place.engine()
    place.streams(engine, "a")
    query = engine.create(BUCKETS)
    counts = []
    for number in range(5):
        place.put("a", (number, 1, number))
        engine.step()
        counts.append(files(place))
    assert len(rows(query)) == 25
    assert counts[-1] <= counts[0], counts


def test_a_failed_batch(place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sent, "_INLINE", 0)
    engine = place.engine()
    place.streams(engine, "a", on_bad_file="fail")
    engine.create("SELECT v FROM a")
    place.put("a", (0, 1, 1))
    engine.step()
    before = files(place)
    (place.root / "a" / "bad.parquet").write_text("no")
    for _ in range(3):
        with pytest.raises(Exception, match="bad_file"):
            engine.step()
    assert files(place) == before
