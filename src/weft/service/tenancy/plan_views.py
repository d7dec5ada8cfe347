"""The shared plan as each tenant may see it, computed once per plan and tenant."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from weft.engine.views.part import part_of
from weft.engine.views.plan_graph import Graph, PlanNode, plan_graph
from weft.plan.shared import SharedPlan
from weft.plan.slots import Slots, slot_set
from weft.plan.stream import Stream
from weft.service.tenancy.tenants import Tenant


@dataclass(frozen=True, slots=True)
class TenantGraph:
    """The graph that a tenant sees, with the slots that use its operators in the complete plan."""

    graph: Graph
    all_users: Mapping[str, Slots]
    names: Mapping[int, str]
    """The engine's names of queries, by slot."""

    def users(self, node: PlanNode) -> Slots:
        """Return the slots of all queries that use an operator, including those of other tenants."""
        return self.all_users.get(node.id, node.slots)


class GraphCache:
    """A cache with the last graph of every tenant; safe to call from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[str, tuple[SharedPlan, Mapping[str, Stream], TenantGraph]] = {}

    def of(self, tenant: Tenant, plan: SharedPlan, streams: Mapping[str, Stream]) -> TenantGraph:
        """Return the graph of a plan for a tenant: all of it for an administrator, else the part of its own queries.

        Details show expressions of the tenant's own queries only, even if an operator also serves other tenants.
        """
        with self._lock:
            cached = self._made.get(tenant.name)
        if cached is not None and cached[0] is plan and cached[1] == streams:
            return cached[2]
        sight = _sight(tenant, plan, streams)
        with self._lock:
            self._made[tenant.name] = (plan, streams, sight)
        return sight


def _sight(tenant: Tenant, plan: SharedPlan, streams: Mapping[str, Stream]) -> TenantGraph:
    graph = plan_graph(plan, streams)
    names = {live.slot: live.record.name for live in plan.queries}
    users = {node.id: node.slots for node in graph.nodes.values()}
    if tenant.admin:
        return TenantGraph(graph, users, names)
    own = slot_set(slot for slot, name in names.items() if tenant.sees(name))
    # A grant may have been revoked: live queries that were created before still read the stream.
    needed = {relation.stream for live in plan.queries if own >> live.slot & 1 for relation in live.query.relations}
    shown = {name: stream for name, stream in streams.items() if tenant.may_read(name) or name in needed}
    return TenantGraph(plan_graph(part_of(plan, streams, own), shown), users, names)
