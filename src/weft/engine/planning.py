"""The plan in effect and what it is made from; made when it is asked for after something has changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.engine.batches.reports import flows_of, keys_of, rates_of
from weft.execution.program import Program, compile_program
from weft.plan.changelog import LiveQuery
from weft.plan.key import StoreId
from weft.plan.shared import SharedPlan
from weft.plan.slots import NO_SLOTS, Slots, slot_set
from weft.plan.stream import Stream
from weft.planner.joins.order_plan import ProbePlan
from weft.planner.joins.plan_joins import Measured, Planner, plan_joins
from weft.planner.stores import plan_stores, probed_stores
from weft.storage.journal import Manifest

REPLANNED = frozenset(2 * 4**n for n in range(8))
"""Batches after a changelog when probe orders are chosen again: by then there are better statistics."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A shared plan, its compiled form, and the probe orders in it that the next plan begins with."""

    plan: SharedPlan
    program: Program
    probe_plan: ProbePlan | None


class Planning:
    """Shared plan and program of the live queries; statistics do not outlive the process, and plans may then differ.

    Plans are made outside of the core's lock, which guards everything else here: `version` tells whether something has
    changed meanwhile.
    """

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self.current: Planned | None = None
        """The plan in effect; None after something has changed."""
        self.version = 0
        self._probe_plan: ProbePlan | None = None
        self._changed_at = 0
        self._keys: dict[str, tuple[int, int]] = {}
        self.flows: dict[str, tuple[int, int]] = {}
        """For each probe of the last batch: combinations that came to it, and those it made."""

    def forget(self) -> None:
        """Something has changed that plans depend on."""
        self.current = None
        self.version += 1

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

    def make(
        self, live: Iterable[LiveQuery], streams: Mapping[str, Stream], results: Sequence[Manifest]
    ) -> Planned:  # fmt: skip
        """Plan and compile; takes a while and changes nothing."""
        plan, chosen = self._plan(sorted(live, key=lambda each: each.slot), streams, results)
        return Planned(plan, compile_program(plan, streams), chosen)

    def adopt(self, made: Planned) -> Planned:
        """Put what was made into effect; what was measured of stores that are not in it is not kept."""
        stores = {store.id for store in made.plan.stores}
        self._keys = {place: seen for place, seen in self._keys.items() if place.partition("/")[0] in stores}
        self.current, self._probe_plan = made, made.probe_plan
        return made

    def imagine(
        self, live: Iterable[LiveQuery], streams: Mapping[str, Stream], results: Sequence[Manifest]
    ) -> SharedPlan:  # fmt: skip
        """The plan there would be of these queries."""
        return self._plan(sorted(live, key=lambda each: each.slot), streams, results)[0]

    def _plan(
        self, queries: Sequence[LiveQuery], streams: Mapping[str, Stream], results: Sequence[Manifest]
    ) -> tuple[SharedPlan, ProbePlan | None]:
        measured = Measured(rates_of(results), dict(self._keys))
        forest, chosen = plan_joins(
            queries, probed_stores(queries), measured, planner=self._planner, before=self._probe_plan
        )
        return plan_stores(queries, streams, probes=forest), chosen


def to_rebuild(plan: SharedPlan, complete: Mapping[StoreId, Slots], batch: int) -> frozenset[StoreId]:
    """Stores of intermediate results that lack some for a query that is to use them: new queries have no past."""
    new = slot_set(live.slot for live in plan.queries if live.record.created == batch)
    return frozenset(
        stored.id for stored in plan.probes.stored if stored.slots & ~new & ~complete.get(stored.id, NO_SLOTS)
    )
