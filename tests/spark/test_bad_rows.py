"""Rows that cannot be read are left out and counted, whoever evaluates the stream's queries."""

from __future__ import annotations

import pytest

import weft
from tests.spark.support import Place, rows, steps

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("opaque", [False, True], ids=["own", "opaque"])
def test_a_bad_row_is_left_out_and_counted(place: Place, opaque: bool) -> None:
    folder = place.root / "clicks"
    folder.mkdir()
    engine = place.engine()
    engine.stream("clicks", weft.files(folder, format="json", schema="ts timestamp, v int"), time="ts")
    condition = " WHERE length(trim(cast(v AS string))) > 0" if opaque else ""
    query = engine.create("SELECT v FROM clicks" + condition, name="all")
    (folder / "first.json").write_text('{"ts": "2020-01-01", "v": 1}\n{"ts": "2020-01-01", "v": "x"}\n')
    (summary,) = steps(engine)
    assert (summary.bad_rows, summary.streams["clicks"].bad_rows, summary.streams["clicks"].rows) == (1, 1, 1)
    assert len(list((place.state / "quarantine" / "clicks").glob("*.rows.jsonl"))) == 1
    (folder / "second.json").write_text('{"ts": "2020-01-01", "v": 2}\n')
    steps(engine)
    assert rows(query) == [(1,), (2,)]
