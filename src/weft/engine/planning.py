"""The plan in effect and what it is made from; made when it is asked for after something has changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from weft.engine.reports import flows_of, keys_of, rates_of
from weft.optimize.multiway import Measured, Planner, weave_probes
from weft.optimize.probe_plan import ProbePlan
from weft.optimize.weave import probed_stores, weave
from weft.plan.changelog import NO_SLOTS, LiveQuery, Slots, slots_of
from weft.plan.key import StoreId
from weft.plan.shared import SharedPlan
from weft.plan.stream import Stream
from weft.runtime.task import Program, compile_program
from weft.state.journal import Manifest

REPLANNED = frozenset(2 * 4**n for n in range(8))
"""Batches after a changelog when probe orders are chosen again: by then there are better statistics."""


class Planning:
    """Shared plan and program of the live queries; statistics do not outlive the process, and plans may then differ."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._plan: SharedPlan | None = None
        self._program: Program | None = None
        self._probe_plan: ProbePlan | None = None
        self._changed_at = 0
        self._keys: dict[str, tuple[int, int]] = {}
        self.flows: dict[str, tuple[int, int]] = {}
        """For each probe of the last batch: combinations that came to it, and those it made."""

    def forget(self) -> None:
        """Something has changed that plans depend on."""
        self._plan = self._program = None

    def changed(self, batch: int) -> None:
        """Queries came or went at the boundary before a batch."""
        self.forget()
        self._changed_at = batch

    def learn(self, batch: int, reports: Sequence[Mapping[str, Any]]) -> None:
        """What a batch has shown; probe orders are chosen again from time to time."""
        self.flows = flows_of(reports)
        self._keys |= keys_of(reports)
        if self._probe_plan is not None and batch - self._changed_at in REPLANNED:
            self.forget()

    def plan(
        self, live: Iterable[LiveQuery], streams: Mapping[str, Stream], results: Sequence[Manifest]
    ) -> SharedPlan:  # fmt: skip
        """The shared plan in effect."""
        if self._plan is None:
            self._plan, self._probe_plan = self._weave(sorted(live, key=lambda each: each.slot), streams, results)
        return self._plan

    def imagine(
        self, live: Iterable[LiveQuery], streams: Mapping[str, Stream], results: Sequence[Manifest]
    ) -> SharedPlan:  # fmt: skip
        """The plan there would be of these queries."""
        return self._weave(sorted(live, key=lambda each: each.slot), streams, results)[0]

    def _weave(
        self, queries: Sequence[LiveQuery], streams: Mapping[str, Stream], results: Sequence[Manifest]
    ) -> tuple[SharedPlan, ProbePlan | None]:
        measured = Measured(rates_of(results), self._keys)
        forest, chosen = weave_probes(
            queries, probed_stores(queries), measured, planner=self._planner, before=self._probe_plan
        )
        return weave(queries, streams, probes=forest), chosen

    def program(self, plan: SharedPlan, streams: Mapping[str, Stream]) -> Program:
        """The plan in effect, compiled."""
        if self._program is None:
            self._program = compile_program(plan, streams)
        return self._program


def to_rebuild(plan: SharedPlan, complete: Mapping[StoreId, Slots], batch: int) -> frozenset[StoreId]:
    """Stores of intermediate results that lack some for a query that is to use them: new queries have no past."""
    new = slots_of(live.slot for live in plan.queries if live.record.created == batch)
    return frozenset(
        stored.id for stored in plan.probes.stored if stored.slots & ~new & ~complete.get(stored.id, NO_SLOTS)
    )
