"""Column types and schemas, with the names that Spark uses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The kind of a type. weft computes with all kinds but `OTHER` (nested and rare types), which it only passes on."""

    BOOLEAN = "boolean"
    TINYINT = "tinyint"
    SMALLINT = "smallint"
    INT = "int"
    BIGINT = "bigint"
    FLOAT = "float"
    DOUBLE = "double"
    DECIMAL = "decimal"
    STRING = "string"
    BINARY = "binary"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMP_NTZ = "timestamp_ntz"
    NULL = "void"
    OTHER = "other"


INTEGERS = (Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT)
FLOATS = (Kind.FLOAT, Kind.DOUBLE)
NUMBERS = (*INTEGERS, Kind.DECIMAL, *FLOATS)


@dataclass(frozen=True, slots=True)
class DataType:
    """A Spark SQL type; decimals have `precision` and `scale`, `OTHER` has the `text` of the type."""

    kind: Kind
    precision: int = 0
    scale: int = 0
    text: str = ""

    def ddl(self) -> str:
        """Return the type as Spark writes it in a schema string."""
        if self.kind is Kind.DECIMAL:
            return f"decimal({self.precision},{self.scale})"
        return self.text if self.kind is Kind.OTHER else self.kind.value


BOOLEAN = DataType(Kind.BOOLEAN)
INT = DataType(Kind.INT)
BIGINT = DataType(Kind.BIGINT)
DOUBLE = DataType(Kind.DOUBLE)
STRING = DataType(Kind.STRING)
DATE = DataType(Kind.DATE)
TIMESTAMP = DataType(Kind.TIMESTAMP)
NULL = DataType(Kind.NULL)


def bounded_decimal(precision: int, scale: int) -> DataType:
    """Return the decimal type of a result; beyond 38 digits, reduce the scale like Spark, but keep up to six digits."""
    if precision <= 38:
        return DataType(Kind.DECIMAL, precision, scale)
    return DataType(Kind.DECIMAL, 38, max(38 - (precision - scale), min(scale, 6)))


@dataclass(frozen=True, slots=True)
class Field:
    """One named column of a schema."""

    name: str
    type: DataType


@dataclass(frozen=True, slots=True)
class Schema:
    """An ordered list of columns. As in Spark, lookups by name ignore case."""

    fields: tuple[Field, ...]

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def find(self, name: str) -> Field | None:
        """Return the column of this name, or None."""
        lowered = name.lower()
        return next((field for field in self.fields if field.name.lower() == lowered), None)

    def names(self) -> tuple[str, ...]:
        """Return the names of the columns in order."""
        return tuple(field.name for field in self.fields)

    def ddl(self) -> str:
        """Return the schema as a schema string for Spark."""
        names = [field.name.replace("`", "``") for field in self.fields]
        return ", ".join(f"`{name}` {field.type.ddl()}" for name, field in zip(names, self.fields, strict=True))
