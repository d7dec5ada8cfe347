"""The SQL front end: from query text to bound query. Only this package uses sqlglot."""

from weft.sql.bind import bind
from weft.sql.syntax.duration import parse_duration
from weft.sql.syntax.schema import parse_schema

__all__ = ["bind", "parse_duration", "parse_schema"]
