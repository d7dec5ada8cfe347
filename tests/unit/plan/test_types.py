"""Schemas: found by name whatever the case, written as Spark reads them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.plan.types import BIGINT, DataType, Field, Kind, Schema
from weft.sql import parse_schema

TYPES = st.sampled_from([BIGINT, DataType(Kind.DECIMAL, 10, 2), DataType(Kind.OTHER, text="array<struct<a:int>>")])
FIELDS = st.lists(
    st.builds(Field, st.text(st.sampled_from("aB`., é"), min_size=1, max_size=4), TYPES),
    min_size=1,
    max_size=4,
    unique_by=lambda field: field.name.lower(),
)


@given(FIELDS)
def test_a_schema_is_written_as_it_is_read(fields: list[Field]) -> None:
    schema = Schema(tuple(fields))
    assert parse_schema(schema.ddl()) == schema
    assert schema.names() == tuple(field.name for field in schema)


@given(FIELDS)
def test_columns_are_found_whatever_the_case(fields: list[Field]) -> None:
    schema = Schema(tuple(fields))
    for field in fields:
        assert schema.find(field.name) == schema.find(field.name.upper()) == schema.find(field.name.lower()) == field
    assert schema.find("none of them") is None
