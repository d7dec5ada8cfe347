"""Figures of the engine as one tenant may see them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import cast

import weft
from weft.engine import Query
from weft.engine.catalog import Catalog
from weft.service.http import shapes
from weft.service.observer import RECENT, BatchFigures, Observer, QueryFigures
from weft.service.tenancy.messages import query_error
from weft.service.tenancy.plan_views import GraphCache
from weft.service.tenancy.tenants import Tenant, Tenants


class Summaries(ABC):
    """Figures of batches, streams and queries for one tenant."""

    def __init__(
        self,
        catalog: Catalog,
        observer: Observer,
        tenants: Tenants,
        *,
        tenant: Tenant,
        graphs: GraphCache | None = None,
    ) -> None:
        self._catalog, self._observer = catalog, observer
        self._tenants, self._tenant = tenants, tenant
        self._graphs = graphs or GraphCache()

    @abstractmethod
    def rates(self) -> dict[str, float]:
        """Return the rows per second through each operator that the tenant sees, by operator id."""

    def summary(self, state: str, error: str) -> shapes.Summary:
        """Return the totals of the service; `state` and `error` are those of the engine."""
        tenant = self._tenant
        counts = self._catalog.count_queries(tenant.sees, tenant.prefix)
        batches = self._observer.batches()
        recent = batches[-RECENT:]
        return {
            "state": state,
            "error": error,
            "version": weft.__version__,
            "tenant": tenant.name,
            "admin": tenant.admin,
            "batch": self._catalog.next_batch - 1,
            "live": counts.live,
            "pending": counts.pending,
            "failed": counts.failed,
            "rows_per_second": sum(figures.rows_per_second for figures in recent) / len(recent) if recent else 0.0,
            "latency_seconds": batches[-1].latency if batches else None,
            "limits": cast("shapes.LimitsOfTenant", tenant.limits.model_dump()),
        }

    def status(self, state: str, error: str) -> shapes.Status:
        """Return the totals of the service, with the last batches."""
        return {**self.summary(state, error), "history": [batch_figures(batch) for batch in self._observer.batches()]}

    def tick(self, state: str, error: str, queries: Iterable[Query]) -> shapes.Tick:
        """Return what the dashboard shows after a batch: the totals, and figures of queries, operators and streams."""
        batches = self._observer.batches()
        names = [name for name in self._catalog.declared_streams() if self._tenant.may_read(name)]
        streams = {name: self._observer.stream(name) for name in names}
        return {
            "status": self.summary(state, error),
            "batch": batch_figures(batches[-1]) if batches else None,
            "queries": {
                self._tenant.local(query.name): {
                    "state": query.state,
                    "error": query_error(self._tenant, query.error),
                    **query_figures(self._observer.query(query.id)),
                }
                for query in queries
            },
            "operators": self.rates(),
            "streams": {
                name: {"rows": seen.rows, "rows_per_second": seen.rows_per_second} for name, seen in streams.items()
            },
        }


def query_figures(seen: QueryFigures) -> shapes.QueryFigures:
    """Return the figures of a query as the API has them."""
    return {"rows": seen.rows, "rows_per_second": seen.rows_per_second, "latency_seconds": seen.latency}


def batch_figures(seen: BatchFigures) -> shapes.Batch:
    """Return the figures of a batch as the API has them."""
    return {
        "batch": seen.batch,
        "at": seen.at,
        "rows": seen.rows,
        "seconds": seen.seconds,
        "phases": dict(seen.phases),
        "rows_per_second": seen.rows_per_second,
        "latency_seconds": seen.latency,
        "queries": seen.queries,
    }
