"""Rows as JSON, and places in them."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from weft.errors import InvalidRequest
from weft.service.rows import Cursor, Rows, parse_cursor, plain, to_json_rows


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


@pytest.mark.parametrize("cursor", [Cursor(0), Cursor(17), Cursor(17, 3)])
def test_a_cursor_comes_back_as_it_went(cursor: Cursor) -> None:
    assert parse_cursor(str(cursor)) == cursor


@pytest.mark.parametrize("text", ["", "x", "-1", "1.x", "1.2.3", "9" * 20, "1 ", "١"])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_cursor(text)


def test_pieces_end_with_the_cursor_behind_them() -> None:
    rows = Rows(4, tuple(map(str, range(4500))))
    found = list(rows.pieces(100))
    assert [str(cursor) for cursor, _ in found] == ["4.2100", "4.4100", "5"]
    assert [text for _, texts in found for text in texts] == list(map(str, range(100, 4500)))


def test_a_cursor_skips_rows_of_its_own_batch_only() -> None:
    assert Cursor(4, 7).skip_in(4) == 7
    assert Cursor(4, 7).skip_in(5) == 0
