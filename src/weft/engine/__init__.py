"""The engine: the only owner of mutable state, and what its users hold."""

from weft.engine.engine import Engine
from weft.engine.query import Query
from weft.engine.summary import BatchSummary

__all__ = ["BatchSummary", "Engine", "Query"]
