"""Nested Spark types as Arrow types, and which casts keep every value."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.kernels.arrow_types import from_arrow
from weft.kernels.payload_types import casts_safely, payload_type
from weft.plan.types import DataType, Kind
from weft.sql import parse_schema

SCALARS = st.sampled_from(
    [pa.bool_(), pa.int8(), pa.int64(), pa.float32(), pa.string(), pa.binary(), pa.date32(), pa.decimal128(38, 10),
     pa.timestamp("us", "UTC"), pa.timestamp("us")]
)  # fmt: skip
NAMES = st.text(st.sampled_from("ab`:,<>() é"), min_size=1, max_size=4)
TYPES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        inner.map(pa.list_),
        st.builds(pa.map_, SCALARS, inner),
        st.lists(st.tuples(NAMES, inner), max_size=3, unique_by=lambda pair: pair[0]).map(pa.struct),
    ),
    max_leaves=5,
)


@given(TYPES)
def test_every_arrow_type_comes_back_from_its_spark_text(type_: pa.DataType) -> None:
    assert payload_type(from_arrow(type_)) == type_


@pytest.mark.parametrize(
    ("ddl", "arrow"),
    [
        ("array<int>", pa.list_(pa.int32())),
        ("map<string,array<decimal(5,2)>>", pa.map_(pa.string(), pa.list_(pa.decimal128(5, 2)))),
        (
            "struct<a:int,`b c`:struct<d:timestamp>>",
            pa.struct([("a", pa.int32()), ("b c", pa.struct([("d", pa.timestamp("us", "UTC"))]))]),
        ),
        ("struct<>", pa.struct([])),
        ("bigint", pa.int64()),
    ],
)
def test_declared_types(ddl: str, arrow: pa.DataType) -> None:
    assert payload_type(parse_schema(f"v {ddl}").fields[0].type) == arrow


@pytest.mark.parametrize("text", ["variant", "interval day to second", "array<variant>", "other", "nonsense"])
def test_types_without_a_counterpart(text: str) -> None:
    with pytest.raises(ValueError, match="has no counterpart in Arrow"):
        payload_type(DataType(Kind.OTHER, text=text))


@given(TYPES)
def test_every_type_fits_itself_and_null_fits_all(type_: pa.DataType) -> None:
    assert casts_safely(type_, type_)
    assert casts_safely(pa.null(), type_)


def test_inner_types_decide() -> None:
    assert casts_safely(pa.list_(pa.int64()), pa.list_(pa.int32()))
    assert not casts_safely(pa.list_(pa.string()), pa.list_(pa.int32()))
    assert casts_safely(pa.map_(pa.string(), pa.int8()), pa.map_(pa.string(), pa.int64()))
    assert not casts_safely(pa.map_(pa.string(), pa.int8()), pa.map_(pa.int8(), pa.int64()))
    assert casts_safely(pa.struct([("a", pa.int8()), ("left out", pa.string())]), pa.struct([("a", pa.int64())]))
    assert not casts_safely(pa.struct([("a", pa.float64())]), pa.struct([("a", pa.float32())]))
