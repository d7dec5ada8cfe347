"""weft: many ad-hoc streaming queries, one shared plan, on Spark."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.engine import BatchSummary, Engine, Query
    from weft.engine.inputs.declare import files
    from weft.engine.sinks.sinks import callback, parquet
    from weft.errors import WeftError

__version__ = "0.1.0"
__all__ = ["BatchSummary", "Engine", "Query", "WeftError", "callback", "files", "parquet"]

_HOMES = {
    "BatchSummary": "weft.engine",
    "Engine": "weft.engine",
    "Query": "weft.engine",
    "WeftError": "weft.errors",
    "callback": "weft.engine.sinks.sinks",
    "files": "weft.engine.inputs.declare",
    "parquet": "weft.engine.sinks.sinks",
}


def __getattr__(name: str) -> Any:
    """Load the engine when it is first asked for: Spark's Python workers import weft too, and need only kernels."""
    if name not in _HOMES:
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
