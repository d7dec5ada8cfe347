"""The shared plan as each tenant may see it, made once for every plan."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from weft.engine.views.graph import Graph, Node, plan_graph
from weft.engine.views.part import part_of
from weft.plan.shared import SharedPlan
from weft.plan.slots import Slots, slot_set
from weft.plan.stream import Stream
from weft.service.tenancy.tenants import Tenant


@dataclass(frozen=True, slots=True)
class Sight:
    """A graph as a tenant sees it, with the slots that use its operators in the whole plan."""

    graph: Graph
    all_users: Mapping[str, Slots]
    names: Mapping[int, str]
    """Queries by slot, under their names in the engine."""

    def users(self, node: Node) -> Slots:
        """Who uses an operator."""
        return self.all_users.get(node.id, node.slots)


class Graphs:
    """The last graph of every tenant; safe to call from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[str, tuple[SharedPlan, Mapping[str, Stream], Sight]] = {}

    def of(self, tenant: Tenant, plan: SharedPlan, streams: Mapping[str, Stream]) -> Sight:
        """The graph of a plan for a tenant: an administrator sees all of it, others what serves their own queries.

        Details are then of their own queries' expressions, also where an operator serves others too.
        """
        with self._lock:
            made = self._made.get(tenant.name)
        if made is not None and made[0] is plan and made[1] == streams:
            return made[2]
        sight = _sight(tenant, plan, streams)
        with self._lock:
            self._made[tenant.name] = (plan, streams, sight)
        return sight


def _sight(tenant: Tenant, plan: SharedPlan, streams: Mapping[str, Stream]) -> Sight:
    whole = plan_graph(plan, streams)
    names = {live.slot: live.record.name for live in plan.queries}
    users = {node.id: node.slots for node in whole.nodes.values()}
    if tenant.admin:
        return Sight(whole, users, names)
    own = slot_set(slot for slot, name in names.items() if tenant.sees(name))
    # Queries from before a grant was taken away still need their streams to be drawn.
    needed = {relation.stream for live in plan.queries if own >> live.slot & 1 for relation in live.query.relations}
    shown = {name: stream for name, stream in streams.items() if tenant.may_read(name) or name in needed}
    return Sight(plan_graph(part_of(plan, streams, own), shown), users, names)
