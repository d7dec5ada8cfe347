"""weft runs many ad-hoc streaming queries on Spark as one shared plan."""

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
    """Import a public name on first use: Spark's Python workers import weft too, but need only the kernels."""
    if name not in _HOMES:
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
