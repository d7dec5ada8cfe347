"""The plan in effect and the statistics behind it. After a change, the plan is made when it is next needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from weft.engine.batches.reports import flows_of, keys_of, rates_of
from weft.execution.compile import compile_program
from weft.execution.items import BatchReport
from weft.execution.program import Program
from weft.plan.changelog import LiveQuery
from weft.plan.key import StoreId
from weft.plan.shared import SharedPlan
from weft.plan.slots import NO_SLOTS, Slots, slot_set
from weft.plan.stream import Stream
from weft.planner.joins.order_plan import ProbePlan
from weft.planner.joins.planners import Measured, Planner
from weft.planner.plan import PlanTrace, plan_queries
from weft.storage.journal import Manifest

REPLANNED = frozenset(2 * 4**n for n in range(8))
"""After these numbers of batches since a changelog, probe orders are chosen again, from better statistics."""


@dataclass(frozen=True, slots=True)
class Planned:
    """The decisions of planning and the compiled program.

    The program is not part of the trace, because the planner is pure and does not know the kernels.
    """

    trace: PlanTrace
    program: Program

    @property
    def plan(self) -> SharedPlan:
        """The shared plan."""
        return self.trace.plan


class Planning:
    """The shared plan and the program of the live queries.

    Plans are made without the core's lock, which guards everything else here; `version` tells whether something has
    changed meanwhile. Statistics are only in memory, so the plan may differ after a restart.
    """

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self.current: Planned | None = None
        """The plan in effect; None after a change."""
        self.version = 0
        self._orders: ProbePlan | None = None
        self._changed_at = 0
        self._keys: dict[str, tuple[int, int]] = {}
        self.flows: dict[str, tuple[int, int]] = {}
        """By probe step of the last batch: the combinations that came to it, and the combinations that it produced."""

    def forget(self) -> None:
        """Discard the plan, because something that it depends on has changed."""
        self.current = None
        self.version += 1

    def changed(self, batch: int) -> None:
        """Discard the plan, because queries began or ended at the boundary before a batch."""
        self.forget()
        self._changed_at = batch

    def learn(self, batch: int, reports: Sequence[BatchReport]) -> None:
        """Take in the statistics of a batch; after one of the `REPLANNED` numbers of batches, discard the plan."""
        self.flows = flows_of(reports)
        self._keys |= keys_of(reports)
        if self._orders is not None and batch - self._changed_at in REPLANNED:
            self.forget()

    def make(
        self, live: Iterable[LiveQuery], streams: Mapping[str, Stream], results: Sequence[Manifest]
    ) -> Planned:  # fmt: skip
        """Return a new compiled plan. This is slow and changes nothing."""
        trace = self.trace_of(live, streams, results)
        return Planned(trace, compile_program(trace.plan, streams))

    def adopt(self, made: Planned) -> Planned:
        """Put a plan into effect and forget the statistics of stores that it does not contain."""
        stores = {store.id for store in made.plan.stores}
        self._keys = {place: counts for place, counts in self._keys.items() if place.partition("/")[0] in stores}
        self.current, self._orders = made, made.trace.orders
        return made

    def trace_of(
        self, live: Iterable[LiveQuery], streams: Mapping[str, Stream], results: Sequence[Manifest]
    ) -> PlanTrace:  # fmt: skip
        """Plan these queries and return the trace; nothing is put into effect."""
        measured = Measured(rates_of(results), dict(self._keys))
        return plan_queries(live, streams, measured, planner=self._planner, before=self._orders)


def to_rebuild(plan: SharedPlan, complete: Mapping[StoreId, Slots], batch: int) -> frozenset[StoreId]:
    """Return the stored joins that lack combinations for one of their queries; queries new in `batch` need none."""
    new = slot_set(live.slot for live in plan.queries if live.record.created == batch)
    return frozenset(
        stored.id for stored in plan.probes.stored if stored.slots & ~new & ~complete.get(stored.id, NO_SLOTS)
    )
