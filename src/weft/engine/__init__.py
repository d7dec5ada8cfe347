"""The engine: the only owner of mutable state, and what its users hold."""

from weft.engine.batches.summary import BatchSummary
from weft.engine.engine import Engine
from weft.engine.query import Query

__all__ = ["BatchSummary", "Engine", "Query"]
