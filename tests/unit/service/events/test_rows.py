"""Rows as JSON, and places in them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, cast

import pyarrow as pa
import pytest

from weft.errors import InvalidRequest
from weft.service.events.rows import PIECE_BYTES, Cursor, RowReader, Rows, parse_cursor, plain, to_json_rows


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (5, 5),
        (2**53, str(2**53)),
        (-(2**60), str(-(2**60))),
        (1.5, 1.5),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (Decimal("1.20"), "1.20"),
        (Decimal("1E+3"), "1000"),
        ("tëxt", "tëxt"),
        (b"\x00\xff", "AP8="),
        (datetime(2026, 1, 2, 3, 4, 5, 600, UTC), "2026-01-02T03:04:05.000600Z"),
        (datetime(2026, 1, 2, 3, 4, 5), "2026-01-02T03:04:05"),  # noqa: DTZ001 a timestamp without a zone
        (date(2026, 1, 2), "2026-01-02"),
        (timedelta(seconds=1.5), 1.5),
        ([1, None, {"a": Decimal(2)}], [1, None, {"a": "2"}]),
    ],
)
def test_values_are_json_as_one_expects(value: Any, expected: Any) -> None:
    assert plain(value) == expected


def test_rows_are_lists() -> None:
    table = pa.table({"x": [1, 2], "s": ["a", None]})
    assert [json.loads(text) for text in to_json_rows(table)] == [[1, "a"], [2, None]]


def test_a_timestamp_of_any_year_is_text() -> None:
    times = pa.array([0, 253_402_300_800_000_000, 2**63 - 1, -(2**63)], pa.int64()).cast(pa.timestamp("us", "UTC"))
    assert [json.loads(text)[0] for text in to_json_rows(pa.table({"t": times}))] == [
        "1970-01-01T00:00:00Z",
        "+010000-01-01T00:00:00Z",
        "+294247-01-10T04:00:54.775807Z",
        "-290308-12-21T19:59:05.224192Z",
    ]


@pytest.mark.parametrize("cursor", [Cursor(0), Cursor(17), Cursor(17, 3)])
def test_a_cursor_comes_back_as_it_went(cursor: Cursor) -> None:
    assert parse_cursor(str(cursor)) == cursor


@pytest.mark.parametrize("text", ["", "x", "-1", "1.x", "1.2.3", "9" * 20, "1 ", "١"])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_cursor(text)


class Batch:
    """A query whose batch 4 has so many rows, each a number."""

    id = "q1"

    def __init__(self, rows: int, width: int = 1) -> None:
        self._texts = [str(number).zfill(width) for number in range(rows)]
        self.built = 0

    def rows(self, batch: int, *, skip: int, limit: int, most_bytes: int) -> Iterator[pa.Table]:
        assert batch == 4
        found = self._texts[skip : skip + limit]
        self.built += len(found)
        yield pa.table({"x": found})


def read_all(reader: RowReader, query: Any, at: Cursor, most: int) -> list[Rows]:
    found = []
    while at.batch == 4:
        found.append(reader.rows(query, at, most))
        at = found[-1].behind
    return found


def test_pieces_end_with_the_cursor_behind_them() -> None:
    found = read_all(RowReader(), Batch(4500), Cursor(4, 100), 2000)
    assert [str(rows.behind) for rows in found] == ["4.2100", "4.4100", "5"]
    assert [json.loads(text)[0] for rows in found for text in rows.texts] == [str(n) for n in range(100, 4500)]


def test_the_last_row_is_known_to_be_the_last() -> None:
    assert [str(rows.behind) for rows in read_all(RowReader(), Batch(4), Cursor(4), 2)] == ["4.2", "5"]


def test_no_more_rows_are_read_than_are_asked_for() -> None:
    query, reader = Batch(1_000_000), RowReader()
    assert reader.rows(cast(Any, query), Cursor(4, 500_000), 1).texts == ('["500000"]',)
    assert query.built == 2, "one more is looked for, to know whether the batch ends"
    reader.rows(cast(Any, query), Cursor(4, 500_000), 1)
    assert query.built == 2, "it was read just now"


def test_large_rows_go_out_in_smaller_pieces() -> None:
    found = read_all(RowReader(), Batch(20, width=PIECE_BYTES // 4), Cursor(4), 2000)
    assert [len(rows.texts) for rows in found] == [3] * 6 + [2]
    found = read_all(RowReader(), Batch(3, width=2 * PIECE_BYTES), Cursor(4), 2000)
    assert [len(rows.texts) for rows in found] == [1, 1, 1]


def test_what_is_kept_of_rows_is_bounded() -> None:
    reader = RowReader()
    read_all(reader, Batch(100, width=PIECE_BYTES // 4), Cursor(4), 2000)
    assert 0 < reader._kept.bytes <= 64 << 20
    assert 0 < len(reader._kept) < 30


def test_a_cursor_skips_rows_of_its_own_batch_only() -> None:
    assert Cursor(4, 7).skip_in(4) == 7
    assert Cursor(4, 7).skip_in(5) == 0
