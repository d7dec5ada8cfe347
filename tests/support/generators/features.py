"""Which parts of the language schedules use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Features:
    """Parts of the language a schedule may use; all are promised, each can be left out to look at the rest."""

    joins: bool = True
    intervals: bool = True
    gaps: bool = True
    mixed_keys: bool = True
    stars: bool = True
    aggregations: bool = True
    """Everything that waits for the watermark; the four below say what of it."""
    sessions: bool = True
    session_joins: bool = True
    aggregated_joins: bool = True
    sketches: bool = True
    aggregated_many: bool = False
    """Aggregations over joins of several relations, of which only schedules of such joins know."""
    sessions_of_many: bool = False
    """Session windows over joins of several relations; the same."""
