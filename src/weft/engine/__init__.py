"""The engine, which alone owns mutable state, and the objects that users hold."""

from weft.engine.batches.summary import BatchSummary
from weft.engine.engine import Engine
from weft.engine.query import Query

__all__ = ["BatchSummary", "Engine", "Query"]
