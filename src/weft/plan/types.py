"""Column types and schemas, in Spark's names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The scalar types weft computes with; `OTHER` (nested and rare types) only travels as payload."""

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
    """A Spark SQL type; `precision` and `scale` for decimals, `text` for `OTHER`."""

    kind: Kind
    precision: int = 0
    scale: int = 0
    text: str = ""

    def ddl(self) -> str:
        """As Spark writes it in a schema string."""
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
    """The decimal type of a result: beyond 38 digits Spark gives up those after the point first, but keeps six."""
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
    """Ordered columns; names are looked up without regard to case, as Spark does."""

    fields: tuple[Field, ...]

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def find(self, name: str) -> Field | None:
        """The column of this name, or None."""
        lowered = name.lower()
        return next((field for field in self.fields if field.name.lower() == lowered), None)

    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(field.name for field in self.fields)

    def ddl(self) -> str:
        """The schema string Spark would take."""
        names = [field.name.replace("`", "``") for field in self.fields]
        return ", ".join(f"`{name}` {field.type.ddl()}" for name, field in zip(names, self.fields, strict=True))
