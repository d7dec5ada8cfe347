"""Text to bound query: the SQL front end. sqlglot stays inside this package."""

from weft.sql.bind import bind
from weft.sql.syntax.duration import parse_duration
from weft.sql.syntax.schema import parse_schema

__all__ = ["bind", "parse_duration", "parse_schema"]
