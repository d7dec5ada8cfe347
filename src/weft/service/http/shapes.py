"""The shapes of answers: docs/reference/rest.md in types, from which the OpenAPI document is made."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict  # the one that pydantic reads on Python 3.11


class Error(TypedDict):
    """Whatever went wrong."""

    ok: bool
    code: str
    message: str
    detail: str
    hint: str


class Ready(TypedDict):
    """How the engine is: failures in a row, seconds until it is tried again, seconds that a batch has been running, and
    for administrators the streams that cannot be read now."""

    ok: bool
    state: str
    error: str
    failures: int
    retry_seconds: float | None
    batch_seconds: float | None
    failing_streams: list[str]


class Column(TypedDict):
    """A column and its type as Spark writes it; empty where that is known only when rows are read."""

    name: str
    type: str


class Stream(TypedDict):
    """A stream, since the service started and lately."""

    name: str
    columns: list[Column]
    time: str
    lateness_seconds: float
    format: str
    rows: int
    rows_per_second: float
    late_rows: int
    ahead_rows: int
    missed_rows: int
    bad_files: int
    bad_rows: int
    watermark: str | None
    error: str
    notices: list[str]


class Streams(TypedDict):
    """All streams."""

    streams: list[Stream]


class QueryFigures(TypedDict):
    """Result rows since the service saw the query first (null: not all were counted), and lately."""

    rows: int | None
    rows_per_second: float
    latency_seconds: float | None


class QueryPoint(TypedDict):
    """A query in one batch."""

    at: float
    rows_per_second: float
    latency_seconds: float | None


Gap = TypedDict("Gap", {"from": int, "until": int, "reason": str})
"""Batches whose rows a sink never had."""


class Query(QueryFigures):
    """A query."""

    name: str
    tenant: str
    sql: str
    state: str
    error: str
    notices: list[str]
    columns: list[Column]
    streams: list[str]
    complete_from: str | None
    deployment_ms: float | None
    sink_state: str
    sink_error: str
    sink_gaps: list[Gap]
    history: list[QueryPoint]


class Queries(TypedDict):
    """Some queries."""

    queries: list[Query]


class QueryPage(Queries):
    """Some queries; `cursor` is behind them, and whether there are more."""

    cursor: int
    more: bool


class Operator(TypedDict):
    """A part of the shared plan; `others` counts queries of other tenants."""

    id: str
    kind: str
    title: str
    detail: str
    queries: list[str]
    others: int
    rows_per_second: float | None


class Explained(TypedDict):
    """How a query is run."""

    text: str
    operators: list[Operator]


class Plan(TypedDict):
    """The shared plan as a graph, and as text for administrators."""

    nodes: list[Operator]
    edges: list[tuple[str, str]]
    text: str


class Imagined(Operator):
    """An operator that a query would use."""

    new: bool
    takes: float


class WhatIf(TypedDict):
    """What creating a query would add."""

    columns: list[Column]
    notices: list[str]
    operators: list[Imagined]
    rows_per_second: float
    cost_alone: float
    cost_added: float
    text: str


class Valid(TypedDict):
    """A text that is a query."""

    ok: bool
    columns: list[Column]
    notices: list[str]


class Page(TypedDict):
    """Rows of a query; `cursor` is behind them."""

    columns: list[Column]
    rows: list[list[Any]]
    cursor: str
    more: bool
    state: str
    error: str


class Batch(TypedDict):
    """A committed batch."""

    batch: int
    at: float
    rows: int
    seconds: float
    phases: dict[str, float]
    rows_per_second: float
    latency_seconds: float | None
    queries: int


class LimitsOfTenant(TypedDict):
    """Quotas; null where there is none."""

    live_queries: int | None
    creates_per_minute: int | None
    result_rows_per_second: int | None
    what_if_per_minute: int | None
    connections: int | None
    state_bytes: int | None
    matches_per_batch: int | None


class Summary(TypedDict):
    """How it goes, for one tenant."""

    state: str
    error: str
    version: str
    tenant: str
    admin: bool
    batch: int
    live: int
    pending: int
    failed: int
    rows_per_second: float
    latency_seconds: float | None
    limits: LimitsOfTenant


class Status(Summary):
    """How it goes, with the last batches."""

    history: list[Batch]


class QueryTick(QueryFigures):
    """A query in a tick."""

    state: str
    error: str


class StreamTick(TypedDict):
    """A stream in a tick."""

    rows: int
    rows_per_second: float


class Tick(TypedDict):
    """What has changed with a batch."""

    status: Summary
    batch: Batch | None
    queries: dict[str, QueryTick]
    operators: dict[str, float]
    streams: dict[str, StreamTick]
