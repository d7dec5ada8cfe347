"""Values that Python's `datetime` cannot hold are read as text, wherever they are."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa

from weft.kernels.python_values import python_values
from weft.plan.time import TIME_MAX, TIME_MIN

LATEST, EARLIEST = "+294247-01-10T04:00:54.775807Z", "-290308-12-21T19:59:05.224192Z"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STAMP = pa.timestamp("us", "UTC")


def test_ordinary_columns_are_as_arrow_gives_them() -> None:
    assert python_values(pa.chunked_array([[1, None], [3]])) == [1, None, 3]
    assert python_values(pa.array([0, None], pa.int64()).cast(STAMP)) == [EPOCH, None]


def test_timestamps_beyond_pythons_years_are_text() -> None:
    column = pa.array([0, TIME_MAX, None, TIME_MIN], pa.int64())
    assert python_values(column.cast(STAMP)) == [EPOCH, LATEST, None, EARLIEST]
    assert python_values(column.cast(pa.timestamp("us"))) == [
        EPOCH.replace(tzinfo=None), LATEST.removesuffix("Z"), None, EARLIEST.removesuffix("Z")
    ]  # fmt: skip
    assert python_values(pa.array([2**31 - 1], pa.int32()).cast(pa.date32())) == ["+5881580-07-11"]


def test_also_inside_of_lists_maps_and_structs() -> None:
    plain = pa.struct([("t", pa.int64()), ("l", pa.list_(pa.int64())), ("m", pa.map_(pa.string(), pa.int64()))])
    stamped = pa.struct([("t", STAMP), ("l", pa.list_(STAMP)), ("m", pa.map_(pa.string(), STAMP))])
    rows = [{"t": 0, "l": [TIME_MAX, None], "m": [("x", TIME_MIN)]}, None, {"t": TIME_MAX, "l": None, "m": []}]
    column = pa.array(rows, plain).cast(stamped)
    wanted = [{"t": EPOCH, "l": [LATEST, None], "m": [("x", EARLIEST)]}, None, {"t": LATEST, "l": None, "m": []}]
    assert python_values(column) == wanted
    assert python_values(pa.chunked_array([column.slice(1), column.slice(0, 1)])) == [*wanted[1:], wanted[0]]
