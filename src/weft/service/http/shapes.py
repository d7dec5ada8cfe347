"""The types of responses, as in docs/reference/rest.md. The OpenAPI document is generated from them."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict  # pydantic rejects typing.TypedDict on Python 3.11


class Error(TypedDict):
    """An error."""

    ok: bool
    code: str
    message: str
    detail: str
    hint: str


class Ready(TypedDict):
    """The state of the engine: failures in a row, seconds until it is started again, seconds that the running batch has
    taken, and for administrators the streams that cannot be read now."""

    ok: bool
    state: str
    error: str
    failures: int
    retry_seconds: float | None
    batch_seconds: float | None
    failing_streams: list[str]


class Column(TypedDict):
    """A column and its type as Spark writes it; the type is empty if it is known only when rows are read."""

    name: str
    type: str


class Stream(TypedDict):
    """A stream, with counts since the service started and its recent rate."""

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
    """Result rows since the service first saw the query (null if not all were counted), recent rate and latency."""

    rows: int | None
    rows_per_second: float
    latency_seconds: float | None


class QueryPoint(TypedDict):
    """The rate and latency of a query in one batch."""

    at: float
    rows_per_second: float
    latency_seconds: float | None


Gap = TypedDict("Gap", {"from": int, "until": int, "reason": str})
"""Batches whose rows a sink never received."""


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
    """A list of queries."""

    queries: list[Query]


class QueryPage(Queries):
    """A page of queries, the cursor after them, and whether there are more."""

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
    """A text that is a valid query."""

    ok: bool
    columns: list[Column]
    notices: list[str]


class Page(TypedDict):
    """Rows of a query, and the cursor after them."""

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
    """The limits of a tenant; null means unlimited."""

    live_queries: int | None
    creates_per_minute: int | None
    result_rows_per_second: int | None
    what_if_per_minute: int | None
    connections: int | None
    state_bytes: int | None
    matches_per_batch: int | None


class Summary(TypedDict):
    """The state of the service as one tenant sees it."""

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
    """The state of the service as one tenant sees it, with the last batches."""

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
    """The state of the service after a batch, with figures of queries, operators and streams."""

    status: Summary
    batch: Batch | None
    queries: dict[str, QueryTick]
    operators: dict[str, float]
    streams: dict[str, StreamTick]
