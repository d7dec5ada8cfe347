"""Conversions between Spark's and Arrow's types, as Spark maps them when it exports Arrow data."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from weft.plan.expression import quote
from weft.plan.types import DataType, Field, Kind, Schema

_ARROW = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.TINYINT: pa.int8(),
    Kind.SMALLINT: pa.int16(),
    Kind.INT: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.BINARY: pa.binary(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us", "UTC"),
    Kind.TIMESTAMP_NTZ: pa.timestamp("us"),
    Kind.NULL: pa.null(),
}

# Arrow types without a Spark equivalent map to the smallest Spark type that holds every value.
_SPARK = {
    **{arrow: kind for kind, arrow in _ARROW.items()},
    pa.uint8(): Kind.SMALLINT,
    pa.uint16(): Kind.INT,
    pa.uint32(): Kind.BIGINT,
    pa.float16(): Kind.FLOAT,
    pa.large_string(): Kind.STRING,
    pa.string_view(): Kind.STRING,
    pa.large_binary(): Kind.BINARY,
    pa.binary_view(): Kind.BINARY,
    pa.date64(): Kind.DATE,
}


def arrow_type(type_: DataType) -> pa.DataType:
    """Return the Arrow type of a Spark type; raise ValueError for `OTHER`, a payload type that is never converted."""
    if type_.kind is Kind.DECIMAL:
        return pa.decimal128(type_.precision, type_.scale)
    if type_.kind is Kind.OTHER:
        raise ValueError(f"type {type_.ddl()} is payload only: weft does not compute with it")
    return _ARROW[type_.kind]


def from_arrow(type_: pa.DataType) -> DataType:
    """Return the Spark type of an Arrow type; nested and rare types become `OTHER` with their Spark DDL."""
    if pt.is_dictionary(type_):
        return from_arrow(type_.value_type)
    if type_ in _SPARK:
        return DataType(_SPARK[type_])
    if pt.is_timestamp(type_):
        return DataType(Kind.TIMESTAMP_NTZ if type_.tz is None else Kind.TIMESTAMP)
    if pt.is_decimal(type_) and 0 <= type_.scale <= type_.precision <= 38:
        return DataType(Kind.DECIMAL, type_.precision, type_.scale)
    if pt.is_fixed_size_binary(type_):
        return DataType(Kind.BINARY)
    return DataType(Kind.OTHER, text=_nested_text(type_))


def arrow_schema(schema: Schema) -> pa.Schema:
    """Return the Arrow schema of a Spark schema; raise ValueError that names a column of type `OTHER`."""
    return pa.schema([pa.field(field.name, _field_type(field)) for field in schema])


def _field_type(field: Field) -> pa.DataType:
    try:
        return arrow_type(field.type)
    except ValueError as error:
        raise ValueError(f'column "{field.name}": {error}') from None


def _nested_text(type_: pa.DataType) -> str:
    if pt.is_list(type_) or pt.is_large_list(type_) or pt.is_fixed_size_list(type_):
        return f"array<{from_arrow(type_.value_type).ddl()}>"
    if pt.is_map(type_):
        return f"map<{from_arrow(type_.key_type).ddl()},{from_arrow(type_.item_type).ddl()}>"
    if pt.is_struct(type_):
        return "struct<" + ",".join(f"{quote(field.name)}:{from_arrow(field.type).ddl()}" for field in type_) + ">"
    if type_ == pa.uint64():
        return "decimal(20,0)"
    return str(type_)
