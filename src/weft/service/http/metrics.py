"""Metrics for Prometheus: health, the last batch, streams, queries, tenants and operators."""

from __future__ import annotations

import time
from collections.abc import Iterator

from prometheus_client.core import CollectorRegistry, CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from weft.service.health import State
from weft.service.service import Service
from weft.service.tenancy.tenants import Tenant

CONTENT_TYPE = CONTENT_TYPE_LATEST


class _Collected:
    """A collector of a registry for metrics that are computed already."""

    def __init__(self, metrics: Iterator[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> Iterator[Metric]:
        yield from self._metrics


def exposition(service: Service, tenant: Tenant, *, followers: int) -> bytes:
    """Return all metrics that a tenant may see, in the text format of Prometheus."""
    registry = CollectorRegistry()
    registry.register(_Collected(_metrics(service, tenant, followers)))
    return generate_latest(registry)


def _metrics(service: Service, tenant: Tenant, followers: int) -> Iterator[Metric]:
    yield from _health(service)
    yield _gauge("weft_followers", "Connections that follow a query or the engine", followers)
    yield from _batch(service)
    yield from _streams(service, tenant)
    yield from _queries(service, tenant)
    yield from _tenants(service, tenant)
    yield from _operators(service, tenant)


def _health(service: Service) -> Iterator[Metric]:
    standing, now = service.standing, time.monotonic()
    running_for = 0.0 if standing.batch_began is None else max(0.0, now - standing.batch_began)
    yield _gauge("weft_up", "1 while the engine runs", float(standing.ready))
    yield _gauge("weft_engine_stuck", "1 while a batch takes longer than it may", float(standing.state is State.STUCK))
    yield _gauge("weft_engine_failures", "Failures in a row, without a commit between them", standing.failures)
    yield _gauge("weft_batch_running_seconds", "For how long a batch has been running", running_for)


def _gauge(name: str, help_: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help_, value=value)


def _batch(service: Service) -> Iterator[Metric]:
    batches = service.observer.batches()
    number = CounterMetricFamily("weft_batches", "Committed batches")
    number.add_metric([], service.catalog.next_batch)
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


def _streams(service: Service, tenant: Tenant) -> Iterator[Metric]:
    rows = CounterMetricFamily("weft_stream_rows", "Input rows since the service started", labels=["stream"])
    late = CounterMetricFamily("weft_stream_late_rows", "Rows that came too late", labels=["stream"])
    ahead = CounterMetricFamily("weft_stream_ahead_rows", "Rows too far ahead of the clock", labels=["stream"])
    missed = CounterMetricFamily(
        "weft_stream_missed_rows", "Rows that joins or windows over other streams did not wait for", labels=["stream"]
    )
    bad = CounterMetricFamily("weft_stream_bad_files", "Files that were set aside", labels=["stream"])
    bad_rows = CounterMetricFamily("weft_stream_bad_rows", "Rows that were set aside", labels=["stream"])
    watermark = GaugeMetricFamily("weft_stream_watermark_seconds", "Watermark, seconds since 1970", labels=["stream"])
    watermarks = service.catalog.watermarks()
    for stream in (stream for stream in service.catalog.declared_streams().values() if tenant.may_read(stream.name)):
        seen = service.observer.stream(stream.name)
        rows.add_metric([stream.name], seen.rows)
        late.add_metric([stream.name], seen.late)
        ahead.add_metric([stream.name], seen.ahead)
        missed.add_metric([stream.name], seen.missed)
        bad.add_metric([stream.name], seen.bad_files)
        bad_rows.add_metric([stream.name], seen.bad_rows)
        if stream.name in watermarks:
            watermark.add_metric([stream.name], watermarks[stream.name] / 1e6)
    yield from (rows, late, ahead, missed, bad, bad_rows, watermark)


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
        if query.sink_error:
            sinks.add_metric(labels, 1)
    for state, number in counts.items():
        states.add_metric([state], number)
    yield from (states, rows, latency, sinks)


def _tenants(service: Service, tenant: Tenant) -> Iterator[Metric]:
    state_bytes = GaugeMetricFamily("weft_tenant_state_bytes", "State that its queries need", labels=["tenant"])
    for other in service.tenants:
        used = service.budgets.bytes_of(other)
        if used is not None and (tenant.admin or other.name == tenant.name):
            state_bytes.add_metric([other.name], used)
    yield state_bytes


def _operators(service: Service, tenant: Tenant) -> Iterator[Metric]:
    rows = GaugeMetricFamily("weft_operator_rows_per_second", "Rows through an operator", labels=["operator"])
    for node, rate in sorted(service.views(tenant).rates().items()):
        rows.add_metric([node], rate)
    yield rows
