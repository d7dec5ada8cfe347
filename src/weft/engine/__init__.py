"""The engine: the only owner of mutable state, and what its users hold."""

from weft.engine.engine import BatchSummary, Engine
from weft.engine.query import Query

__all__ = ["BatchSummary", "Engine", "Query"]
