"""Figures for Prometheus: per stream, query and operator, and phases of batches."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CollectorRegistry, CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from weft.service.service import Service
from weft.service.tenants import Tenant

CONTENT_TYPE = CONTENT_TYPE_LATEST


class _Collected:
    """A registry's collector over metrics that are made already."""

    def __init__(self, metrics: Iterator[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> Iterator[Metric]:
        yield from self._metrics


def exposition(service: Service, tenant: Tenant, *, followers: int) -> bytes:
    """All figures that a tenant may see, as Prometheus reads them."""
    registry = CollectorRegistry()
    registry.register(_Collected(_metrics(service, tenant, followers)))
    return generate_latest(registry)


def _metrics(service: Service, tenant: Tenant, followers: int) -> Iterator[Metric]:
    yield _gauge("weft_up", "1 while the engine runs", float(service.state[0] == "running"))
    yield _gauge("weft_followers", "Clients that follow a query", followers)
    yield from _batch(service)
    yield from _streams(service)
    yield from _queries(service, tenant)
    yield from _operators(service)


def _gauge(name: str, help_: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help_, value=value)


def _batch(service: Service) -> Iterator[Metric]:
    batches = service.observer.batches()
    number = CounterMetricFamily("weft_batches", "Committed batches")
    number.add_metric([], service.engine.core.next_batch)
    yield number
    if not batches:
        return
    last = batches[-1]
    yield _gauge("weft_batch_seconds", "Duration of the last batch", last.seconds)
    yield _gauge("weft_batch_rows", "Input rows of the last batch", last.rows)
    phases = GaugeMetricFamily("weft_batch_phase_seconds", "Phases of the last batch", labels=["phase"])
    for phase, seconds in last.phases.items():
        phases.add_metric([phase], seconds)
    yield phases
    if last.latency is not None:
        yield _gauge("weft_latency_seconds", "From event time to commit, newest rows of the last batch", last.latency)


def _streams(service: Service) -> Iterator[Metric]:
    rows = CounterMetricFamily("weft_stream_rows", "Input rows since the service started", labels=["stream"])
    late = CounterMetricFamily("weft_stream_late_rows", "Rows that came too late", labels=["stream"])
    bad = CounterMetricFamily("weft_stream_bad_files", "Files that were set aside", labels=["stream"])
    watermark = GaugeMetricFamily("weft_stream_watermark_seconds", "Watermark, seconds since 1970", labels=["stream"])
    watermarks = service.engine.core.watermarks()
    for stream in service.engine.streams():
        seen = service.observer.stream(stream.name)
        rows.add_metric([stream.name], seen.rows)
        late.add_metric([stream.name], seen.late)
        bad.add_metric([stream.name], seen.bad_files)
        if stream.name in watermarks:
            watermark.add_metric([stream.name], watermarks[stream.name] / 1e6)
    yield from (rows, late, bad, watermark)


def _queries(service: Service, tenant: Tenant) -> Iterator[Metric]:
    states = GaugeMetricFamily("weft_queries", "Queries by state", labels=["state"])
    rows = GaugeMetricFamily("weft_query_rows_per_second", "Result rows", labels=["query", "tenant"])
    latency = GaugeMetricFamily("weft_query_latency_seconds", "From event time to commit", labels=["query", "tenant"])
    sinks = GaugeMetricFamily("weft_query_sink_failing", "1 while its sink fails", labels=["query", "tenant"])
    live = service.queries(tenant)
    counts = {"live": 0, "pending": 0}
    for query in live:
        counts[query.state] = counts.get(query.state, 0) + 1
        labels = [tenant.local(query.name), service.tenants.owner(query.name)]
        seen = service.observer.query(query.id)
        rows.add_metric(labels, seen.rows_per_second)
        if seen.latency is not None:
            latency.add_metric(labels, seen.latency)
        if service.engine.deliveries.error_of(query.id):
            sinks.add_metric(labels, 1)
    for state, number in counts.items():
        states.add_metric([state], number)
    yield from (states, rows, latency, sinks)


def _operators(service: Service) -> Iterator[Metric]:
    rows = GaugeMetricFamily("weft_operator_rows_per_second", "Rows through an operator", labels=["operator"])
    for node, rate in sorted(service.observer.rates().items()):
        if not node.startswith("stream:"):
            rows.add_metric([node], rate)
    yield rows
