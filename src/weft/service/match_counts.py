"""Result rows of a tenant's queries in one batch, where the observer did not count them.

What an operator has made is divided among its users only if all of these are of one tenant. A share of what others made
says nothing about a query of one's own, so there its rows are counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from weft.engine import Engine
from weft.engine.results.counts import count_rows
from weft.engine.views.graph import Graph, Node, plan_graph, query_node
from weft.errors import ResultsGone
from weft.execution.results.read import Reading, plan_reading
from weft.plan.changelog import LiveQuery, QueryId
from weft.plan.slots import Slots
from weft.plan.stream import Stream
from weft.service.observer import Counted
from weft.service.tenancy.tenants import Tenant


@dataclass(frozen=True, slots=True)
class Matches:
    """What is known of a batch without counting again."""

    counted: Counted
    live: Mapping[QueryId, LiveQuery]
    streams: dict[str, Stream]
    graph: Graph

    @classmethod
    def of(cls, engine: Engine, counted: Counted) -> Matches:
        """Of a batch of an engine, with the queries that are live now."""
        core = engine.core
        plan = core.plan
        with core.lock:
            streams, live = dict(core.streams), dict(core.roster.live)
        complete = all(count is not None for count in counted.queries.values())
        return cls(counted, live, streams, Graph({}, ()) if complete else plan_graph(plan, streams))

    def known(self, tenant: Tenant) -> tuple[dict[QueryId, float], list[QueryId]]:
        """Matches of a tenant's queries, counted or as a share of what was made for this tenant alone; and the queries
        of which neither is known."""
        mine = Slots(sum(1 << each.slot for each in self.live.values() if tenant.sees(each.record.name)))
        found, missing = dict[QueryId, float](), list[QueryId]()
        for query, count in self.counted.queries.items():
            each = self.live.get(query)
            if each is None or not tenant.sees(each.record.name):
                continue
            sources = self._sources(each)
            if count is not None:
                found[query] = float(count)
            elif sources and not any(source.slots & ~mine for source in sources):
                found[query] = sum(self._made(source) / source.slots.bit_count() for source in sources)
            else:
                missing.append(query)
        return found, missing

    def at_most(self, query: QueryId, reading: Reading) -> float:
        """As many rows as a query can have: what its operators made for everybody, once each."""
        if reading.sliding is not None:  # a row is in several windows
            return math.inf
        return sum(map(self._made, self._sources(self.live[query])))

    def _sources(self, live: LiveQuery) -> list[Node]:
        mine = query_node(live.record.name)
        return [self.graph.nodes[source] for source, node in self.graph.edges if node == mine]

    def _made(self, node: Node) -> int:
        return self.counted.through.get(node.id, 0)


def matches_of(engine: Engine, matches: Matches, tenant: Tenant, limit: int) -> dict[QueryId, float] | None:
    """Rows of a tenant's queries in a batch. Those that are not known otherwise are counted, of a query with HAVING
    those before it, if there can be more than `limit` of all together. None if they are not kept any more."""
    found, missing = matches.known(tenant)
    if not missing:
        return found
    core, batch = engine.core, matches.counted.batch
    with core.lock:
        data = str(core.directory.path("data"))
        manifests = list(core.inventory.results_of(batch, batch + 1))
        lease = core.leases.take(batch)
    with lease:
        readings: dict[str, Reading] = {}
        for query in missing:
            each = matches.live[query]
            readings[query] = plan_reading(each.record, each.query, each.strategy, matches.streams, data=data)
        most = sum(matches.at_most(query, readings[query]) for query in missing)
        if sum(found.values()) + most <= limit:
            return found
        if not manifests:
            return None
        try:
            counts = count_rows(manifests[0], readings)
        except ResultsGone:
            return None
    return found | {query: float(counts[query]) for query in missing}
