"""Window tables of a shared plan: one per join, with the windows of all its queries."""

from __future__ import annotations

from weft.kernels.join.window_table import WindowEntry, WindowTable, build_window_table
from weft.plan.changelog import LiveQuery
from weft.plan.probe_tree import Input
from weft.plan.shared import SharedJoin, SharedPlan
from weft.plan.strategy import EquiJoin


def join_windows(join: SharedJoin, plan: SharedPlan) -> WindowTable:
    """Return the window table of all queries of a join of two stores."""
    entries = [_window_entry(live) for live in plan.queries_in(join.slots)]
    return build_window_table(entries, plan.words)


def _window_entry(live: LiveQuery) -> WindowEntry:
    assert isinstance(live.strategy, EquiJoin)
    bounds = live.query.bounds.reversed() if live.strategy.swapped else live.query.bounds
    return WindowEntry(slot=live.slot, bounds=bounds, sliding=live.query.sliding, start=live.record.start)


def probe_windows(plan: SharedPlan) -> dict[tuple[Input, Input], WindowTable]:
    """Return a window table for each pair of a known input and an input that a probe step adds to it."""
    wanted = {(known, added) for probe in plan.probes.probes() for known in probe.members for added in probe.added}
    entries: dict[tuple[Input, Input], list[WindowEntry]] = {pair: [] for pair in sorted(wanted)}
    for span in plan.probes.spans:
        for pair, bounds in (
            ((span.first, span.second), span.bounds),
            ((span.second, span.first), span.bounds.reversed()),
        ):
            if pair in entries:
                entries[pair].append(WindowEntry(slot=span.slot, bounds=bounds, sliding=None, start=None))
    return {pair: build_window_table(pair_entries, plan.words) for pair, pair_entries in entries.items()}
