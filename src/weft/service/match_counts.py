"""Result rows of a tenant's queries in one batch, where the observer did not count them.

The rows of an operator are divided among the queries that use it only if all of them belong to one tenant. A share of
rows for several tenants says nothing about a single query, so the rows of that query are counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.engine.catalog import Catalog
from weft.engine.results.counts import count_rows
from weft.engine.views.plan_graph import PlanNode, plan_graph, query_node
from weft.errors import ResultsGone
from weft.execution.results.read import Reading
from weft.plan.changelog import LiveQuery, QueryId
from weft.plan.slots import slot_set
from weft.service.observer import Counted
from weft.service.tenancy.tenants import Tenant


@dataclass(frozen=True, slots=True)
class Matches:
    """The result rows of a batch, as far as they are known without counting again."""

    counted: Counted
    live: Mapping[QueryId, LiveQuery]
    sources: Mapping[str, Sequence[PlanNode]]
    """The operators that produce the rows of each query, by the id of the query's node."""

    @classmethod
    def of(cls, catalog: Catalog, counted: Counted) -> Matches:
        """Return what is known of a batch, with the queries that are live now."""
        if all(count is not None for count in counted.queries.values()):
            return cls(counted, catalog.live_queries(), {})
        graph = plan_graph(catalog.plan, catalog.declared_streams())
        return cls(counted, catalog.live_queries(), graph.sources())

    def known(self, tenant: Tenant) -> tuple[dict[QueryId, float], list[QueryId]]:
        """Return the known matches of a tenant's queries, and the queries whose matches are not known.

        Known matches were counted, or are a share of the rows of operators that only this tenant uses.
        """
        own = slot_set(live.slot for live in self.live.values() if tenant.sees(live.record.name))
        counts, missing = dict[QueryId, float](), list[QueryId]()
        for query, count in self.counted.queries.items():
            live = self.live.get(query)
            if live is None or not tenant.sees(live.record.name):
                continue
            sources = self._sources(live)
            if count is not None:
                counts[query] = float(count)
            elif sources and not any(source.slots & ~own for source in sources):
                counts[query] = sum(self._made(source) / source.slots.bit_count() for source in sources)
            else:
                missing.append(query)
        return counts, missing

    def at_most(self, query: QueryId, reading: Reading) -> float:
        """Return an upper bound of a query's rows: all rows of its operators, also those for other queries."""
        if reading.sliding is not None:  # a row may lie in several windows
            return math.inf
        return sum(map(self._made, self._sources(self.live[query])))

    def _sources(self, live: LiveQuery) -> Sequence[PlanNode]:
        return self.sources.get(query_node(live.record.name), ())

    def _made(self, node: PlanNode) -> int:
        return self.counted.through.get(node.id, 0)


def matches_of(catalog: Catalog, matches: Matches, tenant: Tenant, limit: int) -> dict[QueryId, float] | None:
    """Return the result rows of a tenant's queries in a batch; None if rows that must be counted are not kept.

    Unknown rows are counted only if all rows together may exceed `limit`. With HAVING, the rows before it count.
    """
    known, missing = matches.known(tenant)
    if not missing:
        return known
    commits = catalog.commits_from(matches.counted.batch)
    with commits.lease:
        readings = catalog.readings(matches.counted.batch, {query: matches.live[query] for query in missing})
        most = sum(matches.at_most(query, reading) for query, reading in readings.items())
        if sum(known.values()) + most <= limit:
            return known
        manifest = next(iter(commits.manifests), None)
        if manifest is None or manifest.batch != matches.counted.batch:
            return None
        try:
            counts = count_rows(manifest, readings)
        except ResultsGone:
            return None
    return known | {query: float(counts[query]) for query in readings}
