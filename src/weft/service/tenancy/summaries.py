"""How an engine goes, in figures, as one tenant may see it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import cast

import weft
from weft.engine import Engine, Query
from weft.service.http import shapes
from weft.service.observer import RECENT, BatchFigures, Observer, QueryFigures
from weft.service.tenancy.messages import query_error
from weft.service.tenancy.plan_views import Graphs
from weft.service.tenancy.tenants import Tenant, Tenants


class Summaries(ABC):
    """Figures of batches, streams and queries."""

    def __init__(
        self, engine: Engine, observer: Observer, tenants: Tenants, *, tenant: Tenant, graphs: Graphs | None = None
    ) -> None:
        self._engine, self._observer = engine, observer
        self._tenants, self._tenant = tenants, tenant
        self._graphs = graphs or Graphs()

    @abstractmethod
    def rates(self) -> dict[str, float]:
        """Rows per second through the operators that this tenant sees, by their ids."""

    def summary(self, state: str, error: str) -> shapes.Summary:
        """How it goes; `state` and `error` are those of the engine."""
        core, tenant = self._engine.core, self._tenant
        with core.lock:
            live = sum(tenant.sees(each.record.name) for each in core.roster.live.values())
            pending = sum(tenant.sees(name) for request in core.roster.pending for _, name, _ in request.created)
            failed = core.roster.records.failed_lately(tenant.prefix)
            batch = core.next_batch - 1
        failed += core.roster.ended.failed(tenant.prefix)
        batches = self._observer.batches()
        recent = batches[-RECENT:]
        return {
            "state": state,
            "error": error,
            "version": weft.__version__,
            "tenant": tenant.name,
            "admin": tenant.admin,
            "batch": batch,
            "live": live,
            "pending": pending,
            "failed": failed,
            "rows_per_second": sum(each.rows_per_second for each in recent) / len(recent) if recent else 0.0,
            "latency_seconds": batches[-1].latency if batches else None,
            "limits": cast("shapes.LimitsOfTenant", tenant.limits.model_dump()),
        }

    def status(self, state: str, error: str) -> shapes.Status:
        """How it goes, with the last batches."""
        return {**self.summary(state, error), "history": [batch_figures(each) for each in self._observer.batches()]}

    def tick(self, state: str, error: str, queries: Iterable[Query]) -> shapes.Tick:
        """What has changed."""
        batches = self._observer.batches()
        names = [stream.name for stream in self._engine.streams() if self._tenant.may_read(stream.name)]
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
    """The figures of a query."""
    return {"rows": seen.rows, "rows_per_second": seen.rows_per_second, "latency_seconds": seen.latency}


def batch_figures(seen: BatchFigures) -> shapes.Batch:
    """A batch."""
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
